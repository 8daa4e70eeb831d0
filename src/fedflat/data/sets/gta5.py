"""GTA5, the labelled source of LADD."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedflat.data.examples import Augment
from fedflat.data.scenes.augment import Jitter, ScaleCrop
from fedflat.data.scenes.classes import CITYSCAPES_IDS, Ids, check_classes
from fedflat.data.scenes.folders import pair_masks
from fedflat.data.scenes.scene_set import SceneSet
from fedflat.data.scenes.scenes import DealtScenes
from fedflat.errors import SettingError, number
from fedflat.registry.specs import register


@dataclass(frozen=True, repr=False)
class Gta5(SceneSet):
    """Streets of a game with the classes of Cityscapes (Richter et al., ECCV 2016), shuffled.

    clients
        The number of clients; one by default, the server of LADD.
    test
        The number of test scenes, selected by the seed.
    classes
        The learnt classes: ``"cityscapes"`` (19), ``"idda"`` (16) or ``"crosscity"`` (13).

    Masks of another size than their image are resized. The other arguments are those of all scene
    sets: size, crop, augment, seed, max_pixels.
    """

    folders = ("gta5", "GTA5", "gta")
    needed = ("images", "labels")
    by_hand = (
        "Fetch its ten parts of images and labels at "
        "https://download.visinf.tu-darmstadt.de/data/from_games/ and unpack them into a folder "
        "gta5."
    )
    published = (1052, 1914)

    clients: int = 1
    test: int = 999
    classes: str = "cityscapes"

    def __post_init__(self) -> None:
        super().__post_init__()
        number(self.name, "clients", self.clients, low=1, whole=True)
        number(self.name, "test", self.test, low=1, whole=True)
        check_classes(self.name, self.classes)

    @property
    def class_list(self) -> str:
        return self.classes

    def ids(self) -> Ids:
        """See `SceneSet.ids`: the indices in the masks' palette."""
        return Ids.of(
            CITYSCAPES_IDS, [*range(35), 255], self.classes, palette=True, same_size=False
        )

    def views(self, height: int, width: int) -> Augment:
        """See `SceneSet.views`: scaled by 0.7 to 2, with colour changes."""
        return ScaleCrop(height, width, 0.7, 2.0, flip=0, jitter=Jitter(0.5))

    def open(self, seed: int) -> DealtScenes:
        folder, rng = self.folder(), self.rng(seed)

        def mask(image: Path) -> Path:
            return folder / "labels" / image.name

        scenes = pair_masks(self.name, folder / "images", ".png", mask, "gta5", self.by_hand)
        if len(scenes) < self.test + self.clients:
            raise SettingError(
                f"{self.name}: {len(scenes)} scenes are too few for {self.test} to test on and "
                f"{self.clients} clients. Set a smaller test=."
            )
        order = rng.permutation(len(scenes)).tolist()
        test, train = (
            [scenes[i] for i in sorted(positions)]
            for positions in (order[: self.test], order[self.test :])
        )
        dealt = rng.permutation(len(train))
        parts = [sorted(dealt[k :: self.clients].tolist()) for k in range(self.clients)]
        return self.federation(train, parts, {"test": test})


gta5 = register("data set", "gta5")(Gta5)
