"""Pictures in files, read by Pillow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedflat.errors import DataError

PNG = b"\x89PNG\r\n\x1a\n"
DEEP = ("I;16", "I;16B", "I;16L", "I", "F")
"""Pillow's modes with more than eight bits a channel."""
ENDINGS = frozenset(".bmp .gif .jpeg .jpg .pgm .png .ppm .tif .tiff .webp".split())


@dataclass(frozen=True)
class Picture:
    """Reads a picture as bytes ``(channels, height, width)``: grey (1 channel) or colours (3), resized to ``size``."""

    channels: int = 3
    size: tuple[int, int] | None = None
    """Height and width; None: as it is."""

    def __call__(self, path: str) -> Tensor:
        from PIL import Image

        with opened(Path(path)) as file:
            image = file.convert("L" if self.channels == 1 else "RGB")
        if self.size is not None and image.size != (self.size[1], self.size[0]):
            image = image.resize((self.size[1], self.size[0]), Image.Resampling.BILINEAR)
        pixels = np.array(image)
        return torch.from_numpy(pixels if self.channels == 3 else pixels[..., None]).permute(2, 0, 1).contiguous()


@contextmanager
def opened(path: Path) -> Iterator[Any]:
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


def pictures_in(folder: Path) -> list[str]:
    """The pictures in a folder, by name; hidden files and others are passed over."""
    names = (place for place in folder.iterdir() if place.suffix.lower() in ENDINGS and not place.name.startswith("."))
    return sorted(str(place) for place in names)


def folders_in(folder: Path) -> list[Path]:
    """The folders in a folder, by name, but for hidden ones."""
    try:
        return sorted(place for place in folder.iterdir() if place.is_dir() and not place.name.startswith("."))
    except OSError as error:
        raise DataError(f"{folder} cannot be read ({error.strerror}). Give a folder of pictures.") from None


def check_pillow() -> None:
    """Refuse to go on without Pillow."""
    try:
        import PIL  # noqa: F401
    except ImportError:
        raise DataError("pictures are read by Pillow, which is not installed. Install fedflat[vision].") from None
