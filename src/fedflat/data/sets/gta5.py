"""GTA5, the labelled source of LADD, and IDDA, partitioned as in FedDrive."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedflat.data.examples import Augment
from fedflat.data.scenes.augment import AreaCrop, Jitter, ScaleCrop
from fedflat.data.scenes.classes import CITYSCAPES_IDS, IDDA_IDS, Ids, check_classes
from fedflat.data.scenes.scene_set import SceneSet, pair_masks, subfolders
from fedflat.data.scenes.scenes import DealtScenes, Scene
from fedflat.errors import DataError, SettingError, choice, number
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


DOMAIN = re.compile(r"(T\d\d)_(CN|CS|HRN)_([A-Z])")
"""Town, weather (clear noon, clear sunset, hard rain at noon), vehicle."""
HELD_BACK = {"country": (0, "T07"), "rainy": (1, "HRN"), "bus": (2, "B")}
"""Index and value of the part of a domain's name that is never trained on."""
PER_DOMAIN, FOR_TRAINING = 60, 48
"""Scenes per domain, and how many of them are for training if the domain is seen."""


@dataclass(frozen=True, repr=False)
class Idda(SceneSet):
    """Rendered streets of 7 towns, 3 weathers and 5 vehicles, 16 classes (Alberti et al., 2020).

    unseen
        The domain that no client has and that has its own test set: ``"country"`` (town 7),
        ``"rainy"`` or ``"bus"``; 90, 69 or 83 clients.
    split
        ``"heterogeneous"``: a client for each town, weather and vehicle. ``"uniform"``: the same
        scenes shuffled.

    A domain has 60 scenes (selected, if its folder has more): 48 for training and 12 for testing if
    it is seen. The first test set has seen domains, the second unseen ones, as in FedDrive. The
    other arguments are those of all scene sets: size, crop, augment, seed, max_pixels.
    """

    folders = ("idda", "IDDA", "IDDAsmall")
    needed = ("T*_*_*/RGB",)
    by_hand = "Ask for it at https://idda-dataset.github.io/home and unpack it into a folder idda."
    published = (1024, 1856)
    view = (512, 928)
    facets = ("town", "weather", "vehicle")
    look = 2

    unseen: str = "country"
    split: str = "heterogeneous"

    def __post_init__(self) -> None:
        super().__post_init__()
        choice(self.name, "unseen", self.unseen, HELD_BACK)
        choice(self.name, "split", self.split, ["heterogeneous", "uniform"])

    @property
    def class_list(self) -> str:
        return "idda"

    def ids(self) -> Ids:
        return Ids.of(IDDA_IDS, [*range(24), 255], "idda")

    def views(self, height: int, width: int) -> Augment:
        """See `SceneSet.views`: windows of half to twice the area, without colour changes."""
        return AreaCrop(height, width)

    def open(self, seed: int) -> DealtScenes:
        rng = self.rng(seed)
        place, value = HELD_BACK[self.unseen]
        train: list[Scene] = []
        parts: list[list[int]] = []
        seen: list[Scene] = []
        unseen: list[Scene] = []
        for domain in self._domains():
            scenes = self._listed(domain)
            selected = [
                scenes[i] for i in sorted(rng.permutation(len(scenes))[:PER_DOMAIN].tolist())
            ]
            if domain.name.split("_")[place] == value:
                unseen += selected
                continue
            order = rng.permutation(len(selected)).tolist()
            cut = max(len(selected) * FOR_TRAINING // PER_DOMAIN, 1)
            parts.append(list(range(len(train), len(train) + cut)))
            train += [selected[i] for i in sorted(order[:cut])]
            seen += [selected[i] for i in sorted(order[cut:])]
        self._refuse_nothing(train, seen, unseen)
        if self.split == "uniform":
            order = rng.permutation(len(train)).tolist()
            parts = [sorted(order[part[0] : part[-1] + 1]) for part in parts]
        return self.federation(train, parts, {"test": seen, "unseen": unseen})

    def _domains(self) -> list[Path]:
        folder = self.folder()
        domains = [path for path in subfolders(self.name, folder) if DOMAIN.fullmatch(path.name)]
        if not domains:
            raise DataError(
                f"{self.name}: {folder} must have folders such as T01_CN_A, for town, weather and "
                f"vehicle, and has none. {self.by_hand} If you have it elsewhere, set --data-dir "
                "or $FEDFLAT_DATA."
            )
        return domains

    def _listed(self, domain: Path) -> list[Scene]:
        def mask(image: Path) -> Path:
            return domain / "Semantic" / f"{image.stem}.png"

        return pair_masks(self.name, domain / "RGB", ".jpg", mask, domain.name, self.by_hand)

    def _refuse_nothing(
        self, train: Sequence[Scene], seen: Sequence[Scene], unseen: Sequence[Scene]
    ) -> None:
        kinds = (
            (train, "to train on"),
            (seen, "to test on"),
            (unseen, f"of the unseen kind ({self.unseen})"),
        )
        for scenes, what in kinds:
            if not scenes:
                raise DataError(
                    f"{self.name}: the folder has no scenes {what}. Is a part of it missing?"
                )


idda = register("data set", "idda")(Idda)
