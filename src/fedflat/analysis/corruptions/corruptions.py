"""The kinds of corruption of CIFAR-10-C and CIFAR-100-C: 15 of the benchmark and 4 extra ones.

Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common Corruptions and
Perturbations, ICLR 2019, arXiv:1903.12261. The settings of the five severities are those of the
released CIFAR images, made for 32x32 pixels. The code is our own, works on whole batches, and
samples its own random numbers. So results are close to those on the released files, not equal.
`frost` and the water of `spatter` differ most (see `fedflat.analysis.corruptions.digital`). Grey
images support all kinds except `saturate`.

Only the published files are comparable with papers. A folder `CIFAR-10-C` or `CIFAR-100-C` has one
file per kind, such as `fog.npy`: five times the test set, ``(50000, 32, 32, 3)`` of uint8, ordered
by severity and then as the test set; and `labels.npy` with the labels. The folder is searched where
data sets are. Files are memory-mapped, so that only the needed images are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedflat.analysis.corruptions.digital import (
    brightness,
    contrast,
    elastic_transform,
    fog,
    frost,
    jpeg_compression,
    pixelate,
    saturate,
    snow,
    spatter,
)
from fedflat.analysis.corruptions.noise_and_blur import (
    SEVERITIES,
    Bytes,
    Corruption,
    defocus_blur,
    gaussian_blur,
    gaussian_noise,
    glass_blur,
    impulse_noise,
    motion_blur,
    shot_noise,
    speckle_noise,
    zoom_blur,
)
from fedflat.data.examples import ClientData
from fedflat.data.files.paths import roots
from fedflat.data.sets.cifar import FINE_TO_COARSE, Cifar10, Cifar100
from fedflat.errors import DataError, SettingError, nearest

BENCHMARK: dict[str, Corruption] = {
    kind.__name__: kind
    for kind in (
        gaussian_noise,
        shot_noise,
        impulse_noise,
        defocus_blur,
        glass_blur,
        motion_blur,
        zoom_blur,
        snow,
        frost,
        fog,
        brightness,
        contrast,
        elastic_transform,
        pixelate,
        jpeg_compression,
    )
}
EXTRA: dict[str, Corruption] = {
    kind.__name__: kind for kind in (speckle_noise, gaussian_blur, spatter, saturate)
}
KINDS = BENCHMARK | EXTRA
COLOURED = ("saturate",)
"""Kinds that need colour images."""


def corrupt(x: Bytes, kind: str, severity: int, rng: np.random.Generator) -> Bytes:
    """Return uint8 images ``(N, 1 or 3, H, W)`` corrupted with a severity from 1 to 5.

    x
        The images.
    kind
        Name of the corruption, such as "fog".
    rng
        Random generator.

    >>> white = np.full((1, 3, 4, 4), 255, np.uint8)
    >>> int(corrupt(white, "fog", 5, np.random.default_rng(0)).max())
    255
    """
    return by_name(kind)(x, severity, rng)


def by_name(kind: str) -> Corruption:
    """Return the corruption of this name."""
    if kind not in KINDS:
        raise SettingError(
            f"unknown corruption {kind!r}.{nearest(kind, KINDS)} Choose one of {', '.join(KINDS)}."
        )
    return KINDS[kind]


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
