"""An image and its mask from their files, whole and checked: what cannot be right is a sentence that names the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedflat.data.scenes.classes import IGNORE, Ids
from fedflat.errors import DataError

Bytes = NDArray[np.uint8]
PNG = b"\x89PNG\r\n\x1a\n"
DEEP = ("I;16", "I;16B", "I;16L", "I", "F")
"""Pillow's modes with more than eight bits a channel."""


@dataclass(frozen=True)
class Frame:
    """The height and width that scenes are given, and how.

    An image is stretched to both (``keep=False``), or scaled to the width and then cut, or filled with black and
    ignored pixels, evenly above and below (``keep=True``).
    """

    height: int
    width: int
    keep: bool = False


def read_scene(image: Path, mask: Path | None, ids: Ids, frame: Frame) -> tuple[Tensor, Tensor]:
    """The image as bytes ``(3, h, w)`` and its classes ``(h, w)``; without a mask every pixel is ignored."""
    with _opened(image) as picture:
        colours = picture.convert("RGB")
    x = np.asarray(_scaled(colours, frame, "BICUBIC"))
    if mask is None:
        return _tensor(_framed(x, frame, 0).transpose(2, 0, 1)), torch.full(
            (frame.height, frame.width), IGNORE, dtype=torch.uint8
        )
    with _opened(mask) as picture:
        if picture.mode != ("P" if ids.palette else "L") and not (ids.palette and picture.mode == "L"):
            raise DataError(
                f"{mask} must hold one class id a pixel in 8 bits of grey{' or a palette' if ids.palette else ''}, "
                f"found the mode {picture.mode}. Is it the coloured version of the mask?"
            )
        if ids.same_size and picture.size != colours.size:
            raise DataError(
                f"{mask} is {picture.width}x{picture.height}, but its image {image.name} is "
                f"{colours.width}x{colours.height}. They do not belong together: fetch both again."
            )
        picture.load()
        y = np.asarray(_scaled(picture, frame, "NEAREST"))
    return _tensor(_framed(x, frame, 0).transpose(2, 0, 1)), _tensor(_framed(classes_of(y, ids, mask), frame, IGNORE))


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
    with _opened(path) as picture:
        if picture.mode != "L":
            raise DataError(f"{path} must hold one class id a pixel in 8 bits of grey, found the mode {picture.mode}.")
        return classes_of(np.asarray(picture), ids, path)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The picture in a file, decoded; whatever is wrong with it is said once."""
    try:
        from PIL import Image
    except ImportError:
        raise DataError(f"{path} is an image: install fedflat[vision] to read it.") from None
    try:
        with path.open("rb") as file:
            head = file.read(25)
        deep = head[:8] == PNG and head[24:25] == b"\x10"
        with Image.open(path) as picture:
            if not deep and picture.mode not in DEEP:
                picture.load()
    except FileNotFoundError:
        raise DataError(f"{path} is not there any more. Has the folder changed while it was read?") from None
    except Exception as error:  # PIL raises many kinds
        raise DataError(f"{path} is damaged or was cut off: {error}. Fetch it again.") from None
    if deep or picture.mode in DEEP:
        raise DataError(f"{path} has 16 bits a channel, and 8 are needed. Convert it, or fetch it again.")
    yield picture


def _scaled(picture: Any, frame: Frame, how: str) -> Any:
    from PIL import Image

    height = max(round(picture.height * frame.width / picture.width), 1) if frame.keep else frame.height
    if picture.size == (frame.width, height):
        return picture
    return picture.resize((frame.width, height), getattr(Image.Resampling, how))


def _framed(x: Bytes, frame: Frame, outside: int) -> Bytes:
    """Rows cut away or added evenly above and below, until there are as many as the frame has."""
    more = frame.height - len(x)
    if more <= 0:
        return x[-more // 2 :][: frame.height]
    return np.pad(x, [(more // 2, more - more // 2), *[(0, 0)] * (x.ndim - 1)], constant_values=outside)


def _tensor(x: Bytes) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(x))
