"""The published files of CIFAR-10-C and CIFAR-100-C. Only these are comparable with papers.

Hendrycks and Dietterich, ICLR 2019. A folder `CIFAR-10-C` or `CIFAR-100-C` has one file per kind,
such as `fog.npy`: five times the test set, ``(50000, 32, 32, 3)`` of uint8, ordered by severity and
then as the test set; and `labels.npy` with the labels. The folder is searched where data sets are.
Files are memory-mapped, so that only the needed images are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedflat.analysis.corruptions.corruptions import KINDS
from fedflat.analysis.corruptions.noise_and_blur import SEVERITIES, Bytes
from fedflat.data.examples import ClientData
from fedflat.data.files.paths import roots
from fedflat.data.sets.cifar import FINE_TO_COARSE, Cifar10, Cifar100
from fedflat.errors import DataError

FOLDERS = {"cifar10": "CIFAR-10-C", "cifar100": "CIFAR-100-C"}


@dataclass(frozen=True)
class Official:
    """The published files in a folder."""

    folder: Path
    name: str
    """The name of the published data set."""
    coarse: bool = False
    """True if the model predicts superclasses. The files have fine labels."""

    @property
    def source(self) -> str:
        """Source of the images, for tables."""
        return f"official {self.name}"

    def check(self, kinds: Sequence[str], data: ClientData) -> None:
        """Raise `DataError` if files are missing or have other labels than the test set."""
        missing = [f"{kind}.npy" for kind in kinds if not (self.folder / f"{kind}.npy").is_file()]
        if missing:
            there = [kind for kind in KINDS if (self.folder / f"{kind}.npy").is_file()]
            raise DataError(
                f"{self.folder} must have a file for each kind, and has no {', '.join(missing)}. "
                f"Choose from the existing kinds ({', '.join(there) or 'none'}), complete the "
                "folder, or move it away to generate corruptions."
            )
        labels = self._labels()
        own = data.examples.labels.cpu().numpy()
        if not all(np.array_equal(part, own) for part in np.split(labels, len(SEVERITIES))):
            raise DataError(
                f"{self.folder / 'labels.npy'} must have the labels of the test set in its order, "
                f"once for each of {len(SEVERITIES)} severities, and does not: the images are of "
                "other examples, or in another order. "
                f"Download {self.name} and the data set again from their authors."
            )
        for kind in kinds:
            self._mapped(kind, len(labels))

    def images(self, kind: str, severity: int, data: ClientData) -> Bytes:
        """Return the images ``(N, 3, 32, 32)`` of a kind and severity for these test examples."""
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
                f"{self.folder / 'labels.npy'} must have whole numbers, once for each of "
                f"{len(SEVERITIES)} severities, found {labels.shape} of {labels.dtype}. "
                f"Download {self.name} again."
            )
        whole: NDArray[np.int64] = labels.astype(np.int64)
        if self.coarse:
            if whole.min() < 0 or whole.max() >= len(FINE_TO_COARSE):
                raise DataError(
                    f"{self.folder / 'labels.npy'} has classes that {self.name} does not have. "
                    "Download it again."
                )
            whole = np.array(FINE_TO_COARSE)[whole]
        return whole

    def _mapped(self, kind: str, count: int) -> Bytes:
        path = self.folder / f"{kind}.npy"
        images: Bytes = _load(path)
        if images.shape != (count, 32, 32, 3) or images.dtype != np.uint8:
            raise DataError(
                f"{path} must have {count:,} images, (32, 32, 3) of uint8, found {images.shape} of "
                f"{images.dtype}. Download {self.name} again."
            )
        return images


def official(on: object) -> Official | None:
    """Return the published corruptions of the test set of these data, or None."""
    if not isinstance(on, Cifar10) or on.pool:  # with pooled data the test set differs
        return None
    name = FOLDERS[on.name]
    for root in roots():
        for folder in (root / name, *([root] if root.name == name else [])):
            if (folder / "labels.npy").is_file():
                return Official(folder, name, isinstance(on, Cifar100) and on.labels == "coarse")
    return None


def _load(path: Path) -> NDArray[Any]:
    """Return the memory-mapped array in a file. Nothing is unpickled."""
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(
            f"{path} is damaged or not a .npy file ({error}). Download it again."
        ) from None
    return array
