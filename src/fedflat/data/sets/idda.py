"""IDDA, dealt out as FedDrive does it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedflat.data.examples import Augment
from fedflat.data.scenes.augment import AreaCrop
from fedflat.data.scenes.classes import IDDA_IDS, Ids
from fedflat.data.scenes.folders import paired, subfolders
from fedflat.data.scenes.scene_set import SceneSet
from fedflat.data.scenes.scenes import DealtScenes, Scene
from fedflat.errors import DataError, choice
from fedflat.registry.specs import register

DOMAIN = re.compile(r"(T\d\d)_(CN|CS|HRN)_([A-Z])")
"""Town, weather (clear noon, clear sunset, hard rain at noon), vehicle."""
HELD_BACK = {"country": (0, "T07"), "rainy": (1, "HRN"), "bus": (2, "B")}
"""Which part of a domain's name, with which value, is never trained on."""
EACH, TRAINED = 60, 48
"""Scenes of a domain, and how many of them its client trains on where it is seen."""


@dataclass(frozen=True, repr=False)
class Idda(SceneSet):
    """Drawn streets of 7 towns, 3 weathers and 5 vehicles with 16 classes (Alberti et al., 2020),
    as in FedDrive.

    unseen
        What no client has and is tested apart: ``"country"`` (town 7), ``"rainy"`` or ``"bus"``; 90, 69 or 83 clients.
    split
        ``"heterogeneous"``: a client for each town, weather and vehicle. ``"uniform"``: the same scenes shuffled.

    A domain has 60 scenes (drawn, if its folder has more): 48 to train on and 12 to test on if it
    is seen. The first test set is of what is seen, the second of what is not. The other arguments
    are those of all sets of scenes: size, crop, augment, seed, max_pixels.
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
        """See `SceneSet.views`: windows of half to twice the area; no other colours."""
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
            some = [scenes[i] for i in sorted(rng.permutation(len(scenes))[:EACH].tolist())]
            if domain.name.split("_")[place] == value:
                unseen += some
                continue
            order = rng.permutation(len(some)).tolist()
            cut = max(len(some) * TRAINED // EACH, 1)
            parts.append(list(range(len(train), len(train) + cut)))
            train += [some[i] for i in sorted(order[:cut])]
            seen += [some[i] for i in sorted(order[cut:])]
        self._refuse_nothing(train, seen, unseen)
        if self.split == "uniform":
            order = rng.permutation(len(train)).tolist()
            parts = [sorted(order[part[0] : part[-1] + 1]) for part in parts]
        return self.federation(train, parts, {"test": seen, "unseen": unseen})

    def _domains(self) -> list[Path]:
        folder = self.folder()
        found = [path for path in subfolders(self.name, folder) if DOMAIN.fullmatch(path.name)]
        if not found:
            raise DataError(
                f"{self.name}: {folder} must have folders such as T01_CN_A, for town, weather and vehicle, and has "
                f"none. {self.by_hand} If you have it elsewhere, say so with --data-dir or $FEDFLAT_DATA."
            )
        return found

    def _listed(self, domain: Path) -> list[Scene]:
        def mask(image: Path) -> Path:
            return domain / "Semantic" / f"{image.stem}.png"

        return paired(self.name, domain / "RGB", ".jpg", mask, domain.name, self.by_hand)

    def _refuse_nothing(
        self, train: Sequence[Scene], seen: Sequence[Scene], unseen: Sequence[Scene]
    ) -> None:
        kinds = (
            (train, "to train on"),
            (seen, "to test on"),
            (unseen, f"of the unseen kind ({self.unseen})"),
        )
        for some, what in kinds:
            if not some:
                raise DataError(
                    f"{self.name}: the folder has no scenes {what}. Is a part of it missing?"
                )


idda = register("data set", "idda")(Idda)
