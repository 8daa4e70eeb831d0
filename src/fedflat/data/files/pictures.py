"""Pictures in files, read by Pillow."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedflat.errors import DataError

ENDINGS = frozenset(".bmp .gif .jpeg .jpg .pgm .png .ppm .tif .tiff .webp".split())


@dataclass(frozen=True)
class Picture:
    """Reads a picture as bytes ``(channels, height, width)``: grey (1 channel) or colours (3), resized to ``size``."""

    channels: int = 3
    size: tuple[int, int] | None = None
    """Height and width; None: as it is."""

    def __call__(self, path: str) -> Tensor:
        from PIL import Image

        with Image.open(path) as file:
            image = file.convert("L" if self.channels == 1 else "RGB")
        if self.size is not None and image.size != (self.size[1], self.size[0]):
            image = image.resize((self.size[1], self.size[0]), Image.Resampling.BILINEAR)
        pixels = np.array(image)
        return torch.from_numpy(pixels if self.channels == 3 else pixels[..., None]).permute(2, 0, 1).contiguous()


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
