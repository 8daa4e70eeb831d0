"""Reading and checking of an image and its mask; errors name the file."""

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
