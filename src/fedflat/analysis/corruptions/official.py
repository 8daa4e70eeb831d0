"""CIFAR-10-C and CIFAR-100-C as published, where their files are at hand: only those compare with
papers.

Hendrycks and Dietterich, ICLR 2019. A folder ``CIFAR-10-C`` or ``CIFAR-100-C`` holds one file for
each kind, such as ``fog.npy``: five times the test set, ``(50000, 32, 32, 3)`` of uint8, by
severities and, within each, in the order of the test set; and ``labels.npy`` with the label of
each. It is looked for where data sets are. Files are mapped, so that only the images that are asked
for are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedflat.analysis.corruptions.corruptions import KINDS
from fedflat.analysis.corruptions.kind import SEVERITIES, Bytes
from fedflat.data.examples import ClientData
from fedflat.data.files.paths import roots
from fedflat.data.sets.cifar10 import Cifar10
from fedflat.data.sets.cifar100 import FINE_TO_COARSE, Cifar100
from fedflat.errors import DataError

FOLDERS = {"cifar10": "CIFAR-10-C", "cifar100": "CIFAR-100-C"}


@dataclass(frozen=True)
class Official:
    """The published files in a folder."""

    folder: Path
    name: str
    """The name they were published under."""
    coarse: bool = False
    """Whether the model tells superclasses apart: the files name the classes."""

    @property
    def source(self) -> str:
        """What tables say."""
        return f"official {self.name}"

    def check(self, kinds: Sequence[str], data: ClientData) -> None:
        """Refuse files that are missing, or of other examples than the test set's."""
        missing = [f"{kind}.npy" for kind in kinds if not (self.folder / f"{kind}.npy").is_file()]
        if missing:
            there = [kind for kind in KINDS if (self.folder / f"{kind}.npy").is_file()]
            raise DataError(
                f"{self.folder} must have a file for each kind asked for, and is without {', '.join(missing)}. Name "
                f"kinds that are there ({', '.join(there) or 'none'}), complete the folder, or move it away to have "
                "corruptions drawn."
            )
        labels = self._labels()
        own = data.examples.labels.cpu().numpy()
        if not all(np.array_equal(part, own) for part in np.split(labels, len(SEVERITIES))):
            raise DataError(
                f"{self.folder / 'labels.npy'} must name the labels of the test set in its order, once for each of "
                f"{len(SEVERITIES)} severities, and does not: the images are of other examples, or in another order. "
                f"Fetch {self.name} and the data set again from their authors."
            )
        for kind in kinds:
            self._mapped(kind, len(labels))

    def images(self, kind: str, severity: int, data: ClientData) -> Bytes:
        """The images of a kind and severity that stand for these examples of the test set, ``(N, 3,
        32, 32)``."""
        count = len(data.examples)
        mapped = self._mapped(kind, count * len(SEVERITIES))
        places = data.index.cpu().numpy() + count * (severity - 1)
        return np.ascontiguousarray(mapped[places].transpose(0, 3, 1, 2))

    def _labels(self) -> NDArray[np.int64]:
        labels = _load(self.folder / "labels.npy")
        if (
            labels.ndim != 1
            or labels.dtype.kind not in "iu"
            or not len(labels)
            or len(labels) % len(SEVERITIES)
        ):
            raise DataError(
                f"{self.folder / 'labels.npy'} must hold whole numbers, once for each of {len(SEVERITIES)} severities, "
                f"found {labels.shape} of {labels.dtype}. Fetch {self.name} again."
            )
        whole: NDArray[np.int64] = labels.astype(np.int64)
        if self.coarse:
            if whole.min() < 0 or whole.max() >= len(FINE_TO_COARSE):
                raise DataError(
                    f"{self.folder / 'labels.npy'} names classes that {self.name} has not. Fetch it again."
                )
            whole = np.array(FINE_TO_COARSE)[whole]
        return whole

    def _mapped(self, kind: str, count: int) -> Bytes:
        path = self.folder / f"{kind}.npy"
        images: Bytes = _load(path)
        if images.shape != (count, 32, 32, 3) or images.dtype != np.uint8:
            raise DataError(
                f"{path} must hold {count:,} images, (32, 32, 3) of uint8, found {images.shape} of {images.dtype}. "
                f"Fetch {self.name} again."
            )
        return images


def official(on: object) -> Official | None:
    """The published corruptions of the test set of these data; None if there are none, or they are
    not at hand."""
    if not isinstance(on, Cifar10) or on.pool:  # pooled, the test set is another one
        return None
    name = FOLDERS[on.name]
    for root in roots():
        for folder in (root / name, *([root] if root.name == name else [])):
            if (folder / "labels.npy").is_file():
                return Official(folder, name, isinstance(on, Cifar100) and on.labels == "coarse")
    return None


def _load(path: Path) -> NDArray[Any]:
    """The array in a file, mapped; nothing is unpickled."""
    try:
        found: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} is damaged or no .npy file ({error}). Fetch it again.") from None
    return found
