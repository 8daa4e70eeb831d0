"""An image and its mask from their files, whole and checked: what cannot be right is a sentence
that names the file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedflat.data.files.pictures import opened
from fedflat.data.scenes.classes import IGNORE, Ids
from fedflat.errors import DataError

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class FrameFiles:
    """The height and width that scenes are given, and how.

    An image is stretched to both (``keep=False``), or scaled to the width and then cut, or filled
    with black and ignored pixels, evenly above and below (``keep=True``).
    """

    height: int
    width: int
    keep: bool = False


def stat_of(path: Path) -> os.stat_result:
    """What the system knows of a file."""
    try:
        return path.stat()
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}). Fetch it again.") from None


def read_scene(
    image: Path, mask: Path | None, ids: Ids, frame: FrameFiles, max_pixels: int | None = None
) -> tuple[Tensor, Tensor]:
    """The image as bytes ``(3, h, w)`` and its classes ``(h, w)``; without a mask every pixel is
    ignored.

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
                f"{mask} must hold one class id a pixel in 8 bits of grey{' or a palette' if ids.palette else ''}, "
                f"found the mode {picture.mode}. Is it the coloured version of the mask?"
            )
        if ids.same_size and (picture.height, picture.width) != size:
            raise DataError(
                f"{mask} is {picture.width}x{picture.height}, but its image {image.name} is "
                f"{size[1]}x{size[0]}. They do not belong together: fetch both again."
            )
        y = np.asarray(_scaled(picture, frame, "NEAREST"))
    return x, _tensor(_framed(classes_of(y, ids, mask), frame, IGNORE))


def read_image(
    path: Path, frame: FrameFiles, max_pixels: int | None = None
) -> tuple[Tensor, tuple[int, int]]:
    """The image in a file as bytes ``(3, h, w)`` of the frame, and its own height and width."""
    with opened(path, max_pixels) as picture:
        colours = picture.convert("RGB")
    x = _framed(np.asarray(_scaled(colours, frame, "BICUBIC")), frame, 0)
    return _tensor(x.transpose(2, 0, 1)), (colours.height, colours.width)


def unframed(mask: Bytes, frame: FrameFiles, size: tuple[int, int]) -> Bytes:
    """A mask of the frame as it lies over an image of this height and width; what the frame cut
    away is ignored."""
    from PIL import Image

    if frame.keep:
        mask = _framed(mask, FrameFiles(_height(size, frame), frame.width), IGNORE)
    return np.asarray(Image.fromarray(mask).resize(size[::-1], Image.Resampling.NEAREST))


def classes_of(mask: Bytes, ids: Ids, path: Path) -> Bytes:
    """The class of each pixel; ids that the set does not have are refused."""
    found = np.asarray(ids.table, np.int16)[mask]
    if (found < 0).any():
        wrong = sorted(set(mask[found < 0].tolist()))
        raise DataError(
            f"{path} has the ids {', '.join(map(str, wrong[:5]))}{' ...' if len(wrong) > 5 else ''}, which this data "
            "set does not know. Is it of another version, or a mask of instances?"
        )
    return found.astype(np.uint8)


def whole_mask(path: Path, ids: Ids) -> Bytes:
    """The classes of a mask as large as it is."""
    with opened(path) as picture:
        if picture.mode != "L":
            raise DataError(
                f"{path} must hold one class id a pixel in 8 bits of grey, found the mode {picture.mode}."
            )
        return classes_of(np.asarray(picture), ids, path)


def _scaled(picture: Any, frame: FrameFiles, how: str) -> Any:
    from PIL import Image

    height = _height((picture.height, picture.width), frame) if frame.keep else frame.height
    if picture.size == (frame.width, height):
        return picture
    return picture.resize((frame.width, height), getattr(Image.Resampling, how))


def _height(size: tuple[int, int], frame: FrameFiles) -> int:
    """Rows of an image of this height and width at the width of a frame that keeps its shape."""
    return max(round(size[0] * frame.width / size[1]), 1)


def _framed(x: Bytes, frame: FrameFiles, outside: int) -> Bytes:
    """Rows cut away or added evenly above and below, until there are as many as the frame has."""
    more = frame.height - len(x)
    if more <= 0:
        return x[-more // 2 :][: frame.height]
    return np.pad(
        x, [(more // 2, more - more // 2), *[(0, 0)] * (x.ndim - 1)], constant_values=outside
    )


def _tensor(x: Bytes) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(x))
