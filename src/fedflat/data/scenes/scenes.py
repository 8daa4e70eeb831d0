"""Scenes on disk as examples: read when needed, in advance, and cached within a budget."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedflat.data.domains import Domains
from fedflat.data.examples import AnyExamples, Augment, Batch, ClientData, Examples
from fedflat.data.federation import PartitionedFederation
from fedflat.data.files.pictures import opened
from fedflat.data.on_disk import BUDGET, Key, decoded
from fedflat.data.scenes.classes import IGNORE, Ids
from fedflat.data.skew import Skew
from fedflat.errors import MAX_PIXELS, DataError, SettingError

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class FrameFiles:
    """The height and width of scenes, and how images are fitted.

    An image is stretched to both (``keep=False``), or scaled to the width and then cropped or
    padded with black and ignored pixels, evenly above and below (``keep=True``).
    """

    height: int
    width: int
    keep: bool = False


def stat_of(path: Path) -> os.stat_result:
    """The result of ``os.stat``; a `DataError` if the file cannot be read."""
    try:
        return path.stat()
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}). Fetch it again.") from None


def read_scene(
    image: Path, mask: Path | None, ids: Ids, frame: FrameFiles, max_pixels: int | None = None
) -> tuple[Tensor, Tensor]:
    """The image as bytes ``(3, h, w)`` and its classes ``(h, w)``; without a mask all are ignored.

    ``max_pixels`` is that of `opened`.
    """
    x, size = read_image(image, frame, max_pixels)
    if mask is None:
        return x, torch.full((frame.height, frame.width), IGNORE, dtype=torch.uint8)
    with opened(mask, max_pixels) as picture:
        if picture.mode != ("P" if ids.palette else "L") and not (
            ids.palette and picture.mode == "L"
        ):
            raise DataError(
                f"{mask} must hold one class id a pixel in 8 bits of "
                f"grey{' or a palette' if ids.palette else ''}, found the mode {picture.mode}. Is "
                "it the coloured version of the mask?"
            )
        if ids.same_size and (picture.height, picture.width) != size:
            raise DataError(
                f"{mask} is {picture.width}x{picture.height}, but its image {image.name} is "
                f"{size[1]}x{size[0]}. They do not belong together: fetch both again."
            )
        y = np.asarray(_scale(picture, frame, "NEAREST"))
    return x, _tensor(_fit_rows(classes_of(y, ids, mask), frame, IGNORE))


def read_image(
    path: Path, frame: FrameFiles, max_pixels: int | None = None
) -> tuple[Tensor, tuple[int, int]]:
    """The image in a file as bytes ``(3, h, w)``, fitted to the frame, and its original size."""
    with opened(path, max_pixels) as picture:
        colours = picture.convert("RGB")
    x = _fit_rows(np.asarray(_scale(colours, frame, "BICUBIC")), frame, 0)
    return _tensor(x.transpose(2, 0, 1)), (colours.height, colours.width)


def unframed(mask: Bytes, frame: FrameFiles, size: tuple[int, int]) -> Bytes:
    """Undo the fitting of a mask for an image of this size; cropped parts are ignored."""
    from PIL import Image

    if frame.keep:
        mask = _fit_rows(mask, FrameFiles(_height(size, frame), frame.width), IGNORE)
    return np.asarray(Image.fromarray(mask).resize(size[::-1], Image.Resampling.NEAREST))


def classes_of(mask: Bytes, ids: Ids, path: Path) -> Bytes:
    """The class of each pixel; ids that the set does not have are refused."""
    classes = np.asarray(ids.table, np.int16)[mask]
    if (classes < 0).any():
        wrong = sorted(set(mask[classes < 0].tolist()))
        raise DataError(
            f"{path} has the ids "
            f"{', '.join(map(str, wrong[:5]))}{' ...' if len(wrong) > 5 else ''}, which this data "
            "set does not know. Is it of another version, or a mask of instances?"
        )
    return classes.astype(np.uint8)


def whole_mask(path: Path, ids: Ids) -> Bytes:
    """The classes of a mask in its original size."""
    with opened(path) as picture:
        if picture.mode != "L":
            raise DataError(
                f"{path} must hold one class id a pixel in 8 bits of grey, found the mode "
                f"{picture.mode}."
            )
        return classes_of(np.asarray(picture), ids, path)


def _scale(picture: Any, frame: FrameFiles, how: str) -> Any:
    from PIL import Image

    height = _height((picture.height, picture.width), frame) if frame.keep else frame.height
    if picture.size == (frame.width, height):
        return picture
    return picture.resize((frame.width, height), getattr(Image.Resampling, how))


def _height(size: tuple[int, int], frame: FrameFiles) -> int:
    """Rows of an image of this size after scaling to the frame's width."""
    return max(round(size[0] * frame.width / size[1]), 1)


def _fit_rows(x: Bytes, frame: FrameFiles, outside: int) -> Bytes:
    """Crop or pad rows evenly above and below, to the height of the frame."""
    more = frame.height - len(x)
    if more <= 0:
        return x[-more // 2 :][: frame.height]
    return np.pad(
        x, [(more // 2, more - more // 2), *[(0, 0)] * (x.ndim - 1)], constant_values=outside
    )


def _tensor(x: Bytes) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(x))


HALF = (0.5, 0.5, 0.5)
"""Mean and standard deviation of the colours, as in FedDrive and LADD."""
SAMPLED_SCENES = 2
"""Scenes per client that are read for statistics."""


@dataclass(frozen=True)
class Scene:
    """One image, its mask if there is one, and its domain."""

    image: Path
    mask: Path | None
    domain: str
    mirrored: bool = False


@dataclass(frozen=True)
class OneScene:
    """Reads an image and its mask, as bytes."""

    mask: Path | None
    mirrored: bool
    ids: Ids
    frame: FrameFiles
    max_pixels: int = MAX_PIXELS

    def __call__(self, path: str) -> tuple[Tensor, Tensor]:
        x, y = read_scene(Path(path), self.mask, self.ids, self.frame, self.max_pixels)
        return (x.flip(-1), y.flip(-1)) if self.mirrored else (x, y)


@dataclass(frozen=True)
class Scenes(AnyExamples):
    """Scenes in files, all resized to one height and width."""

    scenes: tuple[Scene, ...]
    ids: Ids
    frame: FrameFiles
    classes: int
    augment: Augment | None = field(default=None, compare=False)
    device: str = "cpu"
    facets: tuple[str, ...] = ("place",)
    """Names of the parts of a domain's name, which are separated by underscores."""
    look: int = 0
    """See `Domains.look`."""
    max_pixels: int = MAX_PIXELS
    """Images and masks with more pixels are refused."""

    def __len__(self) -> int:
        return len(self.scenes)

    @property
    def shape(self) -> tuple[int, ...]:
        """See `AnyExamples.shape`; batches in training have the shape of the crops."""
        return (3, self.frame.height, self.frame.width)

    @property
    def augments(self) -> bool:
        return self.augment is not None

    @cached_property
    def domains(self) -> Domains:  # type: ignore[override]
        several = len(self.facets) > 1
        each = [
            tuple(scene.domain.split("_")) if several else (scene.domain,) for scene in self.scenes
        ]
        return Domains(self.facets, tuple(each), self.look)

    @property
    def targets(self) -> Tensor:
        """All masks, read now: for small sets only."""
        return torch.stack(
            [decoded(BUDGET).take([self._key(place)])[0][1] for place in range(len(self))]
        )

    @property
    def has_classes(self) -> bool:
        """See `AnyExamples.has_classes`; no mask is read."""
        return False

    @property
    def labels(self) -> Tensor:
        """Always an error: a scene has a class per pixel, not one class."""
        raise SettingError(
            "these scenes have a class per pixel, not one class each, which is needed here. "
            "Partition them by their domains, as the data set does."
        )

    def batch(self, index: Tensor, dtype: torch.dtype, rng: torch.Generator | None = None) -> Batch:
        return self.raw(index).batch(torch.arange(len(index), device=self.device), dtype, rng)

    def raw(self, index: Tensor) -> Examples:
        images, masks = zip(
            *decoded(BUDGET).take([self._key(place) for place in index.tolist()]), strict=True
        )
        domains = self.domains.of(index.tolist())
        read = Examples(
            torch.stack(images), torch.stack(masks), self.classes, HALF, HALF, self.augment, domains
        )
        return read.to(self.device)

    def expect(self, index: Tensor) -> None:
        decoded(BUDGET).expect([self._key(place) for place in index.tolist()])

    def _key(self, place: int) -> Key:
        """The file that is read, and how."""
        scene = self.scenes[place]
        stat = stat_of(scene.image)
        reader = OneScene(scene.mask, scene.mirrored, self.ids, self.frame, self.max_pixels)
        return Key(reader, str(scene.image), stat.st_size, stat.st_mtime_ns)

    def plain(self) -> Scenes:
        return replace(self, augment=None)

    def part(self, where: slice) -> Scenes:
        return replace(self, scenes=self.scenes[where])

    def retargeted(self, targets: Tensor) -> Scenes:
        """Always an error: masks on disk cannot be replaced."""
        raise SettingError(
            "scenes are read from disk with their masks, which cannot be replaced. Use a data set "
            "in memory."
        )

    def with_blank_targets(self) -> Scenes:
        """See `AnyExamples.with_blank_targets`: the masks are not read."""
        return replace(self, scenes=tuple(replace(scene, mask=None) for scene in self.scenes))

    def to(self, device: str) -> Scenes:
        return replace(self, device=device)

    def like(self, inputs: Tensor) -> Examples:
        return Examples(
            inputs, torch.zeros(len(inputs), dtype=torch.long), self.classes, HALF, HALF
        )

    def traces(self) -> Sequence[Any]:
        """See `AnyExamples.traces`: names and lengths of the files, and how they are read."""
        files = [
            path for scene in self.scenes for path in (scene.image, scene.mask) if path is not None
        ]
        frame = [
            self.frame.height,
            self.frame.width,
            int(self.frame.keep),
            self.classes,
            *self.ids.table,
        ]
        return [*(f"{path.name} {stat_of(path).st_size}" for path in files), *frame]


@dataclass(frozen=True)
class DealtScenes(PartitionedFederation):
    """Scenes partitioned among clients of one or several domains."""

    def skew(self) -> Skew:
        """See `Federation.skew`: by pixels per class in two scenes per client; without masks by
        domain."""
        counts = np.stack([self._pixels(client) for client in range(self.population)])
        if not counts.any(1).all():
            domains = [self.domain(client) for client in range(self.population)]
            kinds = sorted(set(domains))
            counts = np.array([[int(kind == mine) for kind in kinds] for mine in domains])
        sizes = self.sizes()
        skew = Skew.of_counts(counts)
        return replace(
            skew,
            examples=sum(sizes),
            size_min=min(sizes),
            size_median=float(np.median(sizes)),
            size_max=max(sizes),
        )

    def _pixels(self, client: int) -> NDArray[np.int64]:
        data = self.data(client)
        if data.examples.unlabelled:
            return np.zeros(self.classes, np.int64)
        labels = data.batch(torch.arange(min(len(data), SAMPLED_SCENES)), torch.float32).targets
        return np.bincount(labels[labels != IGNORE].numpy(), minlength=self.classes)


def partition_scenes(
    train: Scenes, parts: Sequence[Sequence[int]], tests: Mapping[str, Scenes]
) -> DealtScenes:
    """The federation of these scenes: ``parts`` of ``train`` per client, and named test sets."""
    index = [torch.tensor(part, dtype=torch.long) for part in parts]
    main, *more = (
        (name, ClientData(test.plain(), torch.arange(len(test)))) for name, test in tests.items()
    )
    return DealtScenes(train, main[1], index, more=dict(more))
