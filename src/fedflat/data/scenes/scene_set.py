"""What all sets of scenes on disk have in common: their folder, the size they are given, and their
augmentation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np

from fedflat.core.seeds import numpy_generator
from fedflat.data.examples import Augment
from fedflat.data.files.folder_set import FolderSet
from fedflat.data.files.pictures import check_max_pixels
from fedflat.data.scenes.augment import Jitter, ScaleCrop
from fedflat.data.scenes.classes import LISTS, Ids
from fedflat.data.scenes.reading import FrameFiles
from fedflat.data.scenes.scenes import DealtScenes, Scene, Scenes, dealt
from fedflat.errors import LARGEST_SEED, MAX_PIXELS, SettingError, flag, number

MOST_PIXELS = 20_000
"""On a side."""


@dataclass(frozen=True, repr=False)
class SceneSet(FolderSet):
    """A set of scenes in the folder its authors publish.

    size
        Height and width that images and masks are given; as published if nothing is said.
    crop
        Height and width of the views that are trained on.
    augment
        Whether training sees random views; if not, whole images.
    seed
        Decides who holds what. ``None``: the seed of the run does.
    max_pixels
        Images and masks with more pixels are refused before they are decoded.
    """

    usual_task = "segmentation()"
    published: ClassVar[tuple[int, int]]
    """Height and width of its images."""
    view: ClassVar[tuple[int, int]] = (512, 1024)
    """Height and width of the views that are trained on, if nothing is said."""
    facets: ClassVar[tuple[str, ...]] = ("city",)
    """What the name of a domain says: its parts have underscores between them if there are
    several."""
    look: ClassVar[int] = 0
    """See `Domains.look`."""
    keeps_shape: ClassVar[bool] = False
    """Whether images of other shapes are cut or filled up, rather than stretched."""

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
                    f"{self.name}: {name} must be a height and a width, [512, 1024], found {value!r}."
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
        """The list of classes that are learnt, by its name in `LISTS`."""
        return "cityscapes"

    def class_names(self) -> tuple[str, ...]:
        return LISTS[self.class_list]

    @abstractmethod
    def ids(self) -> Ids:
        """What the numbers in its masks are."""

    def views(self, height: int, width: int) -> Augment:
        """What training sees of an image, as crops of ``height`` x ``width``."""
        return ScaleCrop(height, width, jitter=Jitter())

    def scenes(self, found: Sequence[Scene]) -> Scenes:
        """These scenes as examples."""
        height, width = self.size or self.published
        crop = self.crop or (min(height, self.view[0]), min(width, self.view[1]))
        views = self.views(*crop) if self.augment else None
        frame = FrameFiles(height, width, self.keeps_shape)
        classes = len(LISTS[self.class_list])
        return Scenes(
            tuple(found),
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
        """The federation of these scenes."""
        return dealt(
            self.scenes(train), parts, {name: self.scenes(some) for name, some in tests.items()}
        )

    def rng(self, seed: int) -> np.random.Generator:
        """What decides who holds what."""
        return numpy_generator(seed if self.seed is None else self.seed, "partition")
