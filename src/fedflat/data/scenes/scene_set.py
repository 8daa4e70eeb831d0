"""Base class of scene sets on disk: folder, size and augmentation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from fedflat.core.seeds import numpy_generator
from fedflat.data.examples import Augment
from fedflat.data.files.pictures import check_max_pixels
from fedflat.data.files.sources import FolderSet
from fedflat.data.scenes.augment import Jitter, ScaleCrop
from fedflat.data.scenes.classes import LISTS, Ids
from fedflat.data.scenes.scenes import DealtScenes, FrameFiles, Scene, Scenes, partition_scenes
from fedflat.errors import LARGEST_SEED, MAX_PIXELS, DataError, SettingError, flag, number

MOST_PIXELS = 20_000
"""Most pixels per side."""


@dataclass(frozen=True, repr=False)
class SceneSet(FolderSet):
    """A set of scenes in the folder layout of its authors.

    size
        Height and width of images and masks; by default as published.
    crop
        Height and width of the crops in training.
    augment
        Train on random crops; if False, on whole images.
    seed
        Seed of the partition. ``None``: the seed of the run.
    max_pixels
        Images and masks with more pixels are refused before decoding.
    """

    usual_task = "segmentation()"
    published: ClassVar[tuple[int, int]]
    """Height and width of its images."""
    view: ClassVar[tuple[int, int]] = (512, 1024)
    """Default height and width of the crops in training."""
    facets: ClassVar[tuple[str, ...]] = ("city",)
    """The facets in the name of a domain, separated by underscores if there are several."""
    look: ClassVar[int] = 0
    """See `Domains.look`."""
    keeps_shape: ClassVar[bool] = False
    """True if images of other shapes are cropped or padded instead of stretched."""

    _: KW_ONLY
    size: tuple[int, int] | None = None
    crop: tuple[int, int] | None = None
    augment: bool = True
    seed: int | None = None
    max_pixels: int = MAX_PIXELS

    def __post_init__(self) -> None:
        for name in ("size", "crop"):
            value = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, list | tuple) or len(value) != 2:
                raise SettingError(
                    f"{self.name}: {name} must be a height and a width, [512, 1024], found "
                    f"{value!r}."
                )
            for side in value:
                number(
                    self.name, f"every side of {name}", side, low=1, high=MOST_PIXELS, whole=True
                )
            object.__setattr__(self, name, tuple(value))
        flag(self.name, "augment", self.augment)
        if self.seed is not None:
            number(self.name, "seed", self.seed, low=0, high=LARGEST_SEED, whole=True)
        check_max_pixels(self.name, self.max_pixels)

    @property
    def class_list(self) -> str:
        """The list of learnt classes, by its name in `LISTS`."""
        return "cityscapes"

    def class_names(self) -> tuple[str, ...]:
        return LISTS[self.class_list]

    @abstractmethod
    def ids(self) -> Ids:
        """The ids in its masks."""

    def views(self, height: int, width: int) -> Augment:
        """The augmentation, with crops of ``height`` x ``width``."""
        return ScaleCrop(height, width, jitter=Jitter())

    def scenes(self, scenes: Sequence[Scene]) -> Scenes:
        """These scenes as examples."""
        height, width = self.size or self.published
        crop = self.crop or (min(height, self.view[0]), min(width, self.view[1]))
        views = self.views(*crop) if self.augment else None
        frame = FrameFiles(height, width, self.keeps_shape)
        classes = len(LISTS[self.class_list])
        return Scenes(
            tuple(scenes),
            self.ids(),
            frame,
            classes,
            views,
            facets=self.facets,
            look=self.look,
            max_pixels=self.max_pixels,
        )

    def federation(
        self,
        train: Sequence[Scene],
        parts: Sequence[Sequence[int]],
        tests: Mapping[str, Sequence[Scene]],
    ) -> DealtScenes:
        return partition_scenes(
            self.scenes(train),
            parts,
            {name: self.scenes(test_scenes) for name, test_scenes in tests.items()},
        )

    def rng(self, seed: int) -> np.random.Generator:
        """The generator of the partition."""
        return numpy_generator(seed if self.seed is None else self.seed, "partition")


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
