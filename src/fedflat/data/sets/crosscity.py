"""CrossCity, partitioned as in LADD."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedflat.data.examples import Augment
from fedflat.data.scenes.augment import ScaleCrop
from fedflat.data.scenes.classes import CITYSCAPES_IDS, Ids
from fedflat.data.scenes.dealing import random_sizes
from fedflat.data.scenes.folders import pair_masks
from fedflat.data.scenes.scene_set import SceneSet
from fedflat.data.scenes.scenes import DealtScenes, Scene
from fedflat.registry.specs import register

CITIES = ("Rio", "Rome", "Taipei", "Tokyo")
SIZES = (17, 37)
"""Scenes per client."""


@dataclass(frozen=True, repr=False)
class CrossCity(SceneSet):
    """Streets of Rio, Rome, Taipei and Tokyo without labels (Chen et al., ICCV 2017).

    Each client has 17 to 37 scenes of one city; there are 476 clients. Only the 400 test scenes
    have masks, of 13 classes; all pixels of the clients' scenes are ignored. The arguments are
    those of all scene sets: size, crop, augment, seed, max_pixels.
    """

    folders = ("crosscity", "NTHU_Datasets", "NTHU")
    needed = tuple(f"{city}/Images" for city in CITIES)
    by_hand = (
        "Ask for it at https://yihsinchen.github.io/segmentation_adaptation and unpack it into a "
        "folder crosscity."
    )
    published = (1024, 2048)

    @property
    def class_list(self) -> str:
        return "crosscity"

    def ids(self) -> Ids:
        return Ids.of(CITYSCAPES_IDS, [*range(35), 255], "crosscity")

    def views(self, height: int, width: int) -> Augment:
        """See `SceneSet.views`: scaled by 0.7 to 2, without colour changes."""
        return ScaleCrop(height, width, 0.7, 2.0)

    def open(self, seed: int) -> DealtScenes:
        folder = self.folder()
        train: list[Scene] = []
        test: list[Scene] = []
        for city in CITIES:
            masks = folder / city / "Labels" / "Test"

            def mask(image: Path, masks: Path = masks) -> Path:
                return masks / f"{image.stem}_eval.png"

            train += pair_masks(
                self.name, folder / city / "Images" / "Train", ".png", None, city, self.by_hand
            )
            test += pair_masks(
                self.name, folder / city / "Images" / "Test", ".png", mask, city, self.by_hand
            )
        parts = random_sizes([scene.domain for scene in train], *SIZES, self.rng(seed))
        return self.federation(train, parts, {"test": test})


crosscity = register("data set", "crosscity")(CrossCity)
