"""Cityscapes, partitioned as in FedDrive."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from fedflat.data.scenes.classes import CITYSCAPES_IDS, Ids, check_classes
from fedflat.data.scenes.dealing import equal_shares, uniform
from fedflat.data.scenes.folders import pair_masks, subfolders
from fedflat.data.scenes.scene_set import SceneSet
from fedflat.data.scenes.scenes import DealtScenes, Scene
from fedflat.errors import choice, flag, number
from fedflat.registry.specs import register

IMAGE, MASK = "_leftImg8bit.png", "_gtFine_labelIds.png"
SIZES = (10, 40)
"""Scenes per client if all are shuffled."""


@dataclass(frozen=True, repr=False)
class Cityscapes(SceneSet):
    """Streets of 50 cities with 19 classes (Cordts et al., CVPR 2016), partitioned as in FedDrive.

    split
        ``"heterogeneous"``: 8 clients for each of the 18 training cities, 144 in total.
        ``"uniform"``: 146 clients with 10 to 40 scenes of all cities.
    clients
        The number of clients; for ``"heterogeneous"`` per city. ``None``: as in FedDrive.
    double
        Every client holds every scene twice, the second time mirrored.
    classes
        The learnt classes: ``"cityscapes"`` (19), ``"idda"`` (16) or ``"crosscity"`` (13).

    The test cities are Frankfurt, Lindau and Münster. The other arguments are those of all scene
    sets: size, crop, augment, seed, max_pixels.
    """

    folders = ("cityscapes", "Cityscapes")
    needed = ("leftImg8bit/train", "leftImg8bit/val", "gtFine/train", "gtFine/val")
    by_hand = (
        "Ask for it at https://www.cityscapes-dataset.com and unpack leftImg8bit_trainvaltest.zip "
        "and gtFine_trainvaltest.zip into a folder cityscapes."
    )
    published = (1024, 2048)

    split: str = "heterogeneous"
    clients: int | None = None
    double: bool = False
    classes: str = "cityscapes"

    def __post_init__(self) -> None:
        super().__post_init__()
        choice(self.name, "split", self.split, ["heterogeneous", "uniform"])
        if self.clients is not None:
            number(self.name, "clients", self.clients, low=1, whole=True)
        flag(self.name, "double", self.double)
        check_classes(self.name, self.classes)

    @property
    def class_list(self) -> str:
        return self.classes

    def ids(self) -> Ids:
        """See `SceneSet.ids`: the label ids; that of licence plates, -1, is 255 as a byte."""
        return Ids.of(CITYSCAPES_IDS, [*range(35), 255], self.classes)

    def open(self, seed: int) -> DealtScenes:
        folder, rng = self.folder(), self.rng(seed)
        train, test = self._listed(folder, "train"), self._listed(folder, "val")
        if self.split == "heterogeneous":
            parts = equal_shares([scene.domain for scene in train], self.clients or 8, rng)
        else:
            parts = uniform(len(train), self.clients or 146, *SIZES, rng)
        if self.double:
            parts = [[*part, *(place + len(train) for place in part)] for part in parts]
            train = [*train, *(replace(scene, mirrored=True) for scene in train)]
        return self.federation(train, parts, {"test": test})

    def _listed(self, folder: Path, part: str) -> list[Scene]:
        scenes: list[Scene] = []
        for city in subfolders(self.name, folder / "leftImg8bit" / part):
            masks = folder / "gtFine" / part / city.name

            def mask(image: Path, masks: Path = masks) -> Path:
                return masks / f"{image.name.removesuffix(IMAGE)}{MASK}"

            scenes += pair_masks(self.name, city, IMAGE, mask, city.name, self.by_hand)
        return scenes


cityscapes = register("data set", "cityscapes")(Cityscapes)
