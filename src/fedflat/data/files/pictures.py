"""Images in files, read by Pillow."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedflat.errors import MAX_PIXELS, MOST_BYTES, DataError, number
from fedflat.files import open_bytes, reason

PNG = b"\x89PNG\r\n\x1a\n"
DEEP = ("I;16", "I;16B", "I;16L", "I", "F")
"""Pillow's modes with more than eight bits per channel."""
ENDINGS = frozenset(".bmp .gif .jpeg .jpg .pgm .png .ppm .tif .tiff .webp".split())


@dataclass(frozen=True)
class Picture:
    """Reads an image as bytes ``(channels, height, width)``, grey (1) or colour (3)."""

    channels: int = 3
    size: tuple[int, int] | None = None
    """Height and width to resize to; None: unchanged."""
    max_pixels: int = MAX_PIXELS
    """Images with more pixels are refused."""

    def __call__(self, path: str) -> Tensor:
        with opened(Path(path), self.max_pixels) as file:
            return self.pixels(file)

    def pixels(self, image: Any) -> Tensor:
        """The bytes of an image that Pillow has opened."""
        from PIL import Image

        image = image.convert("L" if self.channels == 1 else "RGB")
        if self.size is not None and image.size != (self.size[1], self.size[0]):
            image = image.resize((self.size[1], self.size[0]), Image.Resampling.BILINEAR)
        pixels = np.array(image)
        return (
            torch.from_numpy(pixels if self.channels == 3 else pixels[..., None])
            .permute(2, 0, 1)
            .contiguous()
        )


@contextmanager
def opened(path: Path, max_pixels: int | None = None) -> Iterator[Any]:
    """The decoded image in a file, rotated by its EXIF orientation; problems are a `DataError`.

    The number of pixels is read from the header and compared with ``max_pixels`` before decoding.
    None means `MAX_PIXELS`, for images whose size is fixed by their data set.
    """
    try:
        import PIL  # noqa: F401
    except ImportError:
        raise DataError(f"{path} is an image: install fedflat[vision] to read it.") from None
    try:
        with open_bytes(path) as file:
            picture = _decode(path, file, max_pixels)
    except FileNotFoundError:
        raise DataError(
            f"{path} is not there any more. Has the folder changed while it was read?"
        ) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {reason(error)}. Give an image file.") from None
    yield picture


def _decode(path: Path, file: BinaryIO, max_pixels: int | None) -> Any:
    try:
        head = file.read(25)
        file.seek(0)
        with _header(file) as picture:
            _check_size(path, picture.size, max_pixels)
            if picture.mode in DEEP or (head[:8] == PNG and head[24:25] == b"\x10"):
                raise DataError(
                    f"{path} has 16 bits a channel, and 8 are needed. Convert it, or fetch it "
                    "again."
                )
            picture.load()
            return _rotate_by_exif(picture)
    except DataError:
        raise
    except Exception as error:  # Pillow raises many types
        raise DataError(f"{path} is damaged or was cut off: {error}. Fetch it again.") from None


_PILLOW_LIMIT = Lock()


def _header(file: BinaryIO) -> Any:
    """The image in a file, not decoded yet. Pillow's own limit is off; ours is checked next."""
    from PIL import Image

    with _PILLOW_LIMIT:
        before, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            return Image.open(file)
        finally:
            Image.MAX_IMAGE_PIXELS = before


def _check_size(path: Path, size: tuple[int, int], max_pixels: int | None) -> None:
    width, height = size
    pixels, limit = width * height, MAX_PIXELS if max_pixels is None else max_pixels
    if pixels <= limit:
        return
    advice = (
        "Is it the right file?"
        if max_pixels is None
        else (
            f"Make it smaller, or raise the limit: max_pixels={pixels} in the data set, or "
            f"--max-pixels {pixels} of `fedflat predict`."
        )
    )
    raise DataError(f"{path} has {width}x{height} pixels, and at most {limit:,} are read. {advice}")


def _rotate_by_exif(picture: Any) -> Any:
    """The image rotated by its EXIF orientation; unchanged if its EXIF data cannot be read."""
    from PIL import ExifTags, ImageOps

    try:
        turned = picture.getexif().get(ExifTags.Base.Orientation, 1) != 1
    except Exception:  # Pillow raises many types
        return picture
    return ImageOps.exif_transpose(picture) if turned else picture


def check_max_pixels(owner: str, max_pixels: int) -> None:
    """Refuse a limit of pixels that is not a positive whole number."""
    number(owner, "max_pixels", max_pixels, low=1, high=MOST_BYTES, whole=True)


def pictures_in(folder: Path) -> list[str]:
    """The image files in a folder, by name; hidden files and others are skipped."""
    names = (
        place
        for place in folder.iterdir()
        if place.suffix.lower() in ENDINGS and not place.name.startswith(".")
    )
    return sorted(str(place) for place in names)


def folders_in(folder: Path) -> list[Path]:
    """The folders in a folder, by name, without hidden ones."""
    try:
        return sorted(
            place for place in folder.iterdir() if place.is_dir() and not place.name.startswith(".")
        )
    except OSError as error:
        raise DataError(
            f"{folder} cannot be read ({error.strerror}). Give a folder of pictures."
        ) from None


def check_pillow() -> None:
    """Refuse to continue without Pillow."""
    try:
        import PIL  # noqa: F401
    except ImportError:
        raise DataError(
            "pictures are read by Pillow, which is not installed. Install fedflat[vision]."
        ) from None


SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY, COLOURS, PLACES = 0, 2, 3
"""Colour types of the format: grey, colour, palette."""


def png(pixels: NDArray[np.uint8], palette: NDArray[np.uint8] | None = None) -> bytes:
    """The content of a PNG file; with a palette ``(n, 3)`` pixels are indices into it.

    >>> png(np.zeros((1, 1), np.uint8))[:8] == SIGNATURE
    True
    """
    kind = COLOURS if pixels.ndim == 3 else GREY if palette is None else PLACES
    height, width = pixels.shape[:2]
    lines = pixels.reshape(height, -1)
    plain = np.concatenate(
        [np.zeros((height, 1), np.uint8), lines], 1
    ).tobytes()  # filter type 0: no prediction
    parts = [_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))]
    if palette is not None:
        parts.append(_chunk(b"PLTE", palette.tobytes()))
    parts += [_chunk(b"IDAT", zlib.compress(plain, 9)), _chunk(b"IEND", b"")]
    return SIGNATURE + b"".join(parts)


def _chunk(name: bytes, content: bytes) -> bytes:
    return (
        struct.pack(">I", len(content))
        + name
        + content
        + struct.pack(">I", zlib.crc32(name + content))
    )
