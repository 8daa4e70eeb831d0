"""Lists of images and masks in a folder, with errors that name missing files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fedflat.data.scenes.scenes import Scene
from fedflat.errors import DataError


def subfolders(owner: str, folder: Path) -> list[Path]:
    """The folders in a folder, by name; at least one."""
    folders = sorted(
        path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")
    )
    if not folders:
        raise DataError(
            f"{owner}: {folder} must have a folder for each city or domain, and has none."
        )
    return folders


def pair_masks(
    owner: str,
    folder: Path,
    ending: str,
    mask: Callable[[Path], Path] | None,
    domain: str,
    advice: str,
) -> list[Scene]:
    """The images whose names end in ``ending``, each with its mask (``mask=None``: no masks)."""
    images = sorted(folder.glob(f"*{ending}")) if folder.is_dir() else []
    if not images:
        raise DataError(f"{owner}: {folder} has no images (*{ending}). {advice}")
    if mask is None:
        return [Scene(image, None, domain) for image in images]
    scenes = [Scene(image, mask(image), domain) for image in images]
    missing = [
        scene.mask for scene in scenes if scene.mask is not None and not scene.mask.is_file()
    ]
    if missing:
        raise DataError(
            f"{owner}: {len(missing)} of {len(scenes)} images in {folder} have no mask; the first "
            f"that is missing is {missing[0]}. {advice}"
        )
    return scenes
