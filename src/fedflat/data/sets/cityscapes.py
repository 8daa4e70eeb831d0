"""Street scenes of cities: Cityscapes as in FedDrive, CrossCity and Mapillary Vistas as in LADD."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedflat.data.examples import Augment
from fedflat.data.scenes.augment import ScaleCrop
from fedflat.data.scenes.classes import CITYSCAPES_IDS, MAPILLARY_IDS, Ids, check_classes
from fedflat.data.scenes.dealing import equal_shares, place_clusters, random_sizes, uniform
from fedflat.data.scenes.scene_set import SceneSet, pair_masks, subfolders
from fedflat.data.scenes.scenes import DealtScenes, Scene
from fedflat.errors import DataError, choice, flag, number
from fedflat.files import open_text
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


CITIES = ("Rio", "Rome", "Taipei", "Tokyo")
CROSSCITY_SIZES = (17, 37)
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
        parts = random_sizes([scene.domain for scene in train], *CROSSCITY_SIZES, self.rng(seed))
        return self.federation(train, parts, {"test": test})


crosscity = register("data set", "crosscity")(CrossCity)


MAPILLARY_SIZES = (16, 100)
"""Scenes per client."""
ON_AVERAGE = 18_000 / 357
"""Mean scenes per client in LADD, which has 357 clients for all training scenes."""
WHERE = "places.csv"
"""The file with the place of each training image.

Mapillary publishes places through its API, not in the archive.
"""
ANYWHERE = "anywhere"
"""The domain of images whose continent is unknown."""


@dataclass(frozen=True, repr=False)
class Mapillary(SceneSet):
    """Streets of six continents (Neuhold et al., ICCV 2017), with the classes of Cityscapes.

    split
        ``"places"``: neighbours by k-means on latitude and longitude within each continent, 16 to
        100 scenes per client, 357 clients. It needs a file places.csv in the folder, with the
        columns name, latitude, longitude, continent. ``"uniform"``: shuffled, with the same sizes.
    classes
        The learnt classes: ``"cityscapes"`` (19), ``"idda"`` (16) or ``"crosscity"`` (13).

    Images have many shapes: they are scaled to the width, and cropped or padded to the height. Both
    published formats of the masks of version 1.2 are read. The other arguments are those of all
    scene sets: size, crop, augment, seed, max_pixels.
    """

    folders = ("mapillary", "mapillary-vistas", "Mapillary")
    needed = ("training/images", "validation/images")
    by_hand = (
        "Ask for it at https://www.mapillary.com/dataset/vistas and unpack it into a folder "
        "mapillary."
    )
    published = (768, 1024)
    keeps_shape = True
    facets = ("continent",)

    split: str = "places"
    classes: str = "cityscapes"

    def __post_init__(self) -> None:
        super().__post_init__()
        choice(self.name, "split", self.split, ["places", "uniform"])
        check_classes(self.name, self.classes)

    @property
    def class_list(self) -> str:
        return self.classes

    def ids(self) -> Ids:
        """See `SceneSet.ids`: the indices in the masks' palette."""
        return Ids.of(MAPILLARY_IDS, range(66), self.classes, palette=True)

    def views(self, height: int, width: int) -> Augment:
        """See `SceneSet.views`: crops without scaling."""
        return ScaleCrop(height, width, 1.0, 1.0)

    def open(self, seed: int) -> DealtScenes:
        folder = self.folder()
        train, test = self._listed(folder, "training"), self._listed(folder, "validation")
        count = max(round(len(train) / ON_AVERAGE), 1)
        if self.split == "uniform":
            parts = uniform(len(train), count, *MAPILLARY_SIZES, self.rng(seed))
        else:
            where = _places(self.name, folder / WHERE, train)
            train = [
                replace(scene, domain=place[2]) for scene, place in zip(train, where, strict=True)
            ]
            chosen = seed if self.seed is None else self.seed
            spots = np.array([place[:2] for place in where])
            continents = [place[2] for place in where]
            parts = place_clusters(spots, continents, count, *MAPILLARY_SIZES, chosen)
        return self.federation(train, parts, {"test": test})

    def _listed(self, folder: Path, part: str) -> list[Scene]:
        masks = folder / part / "v1.2" / "labels"
        masks = masks if masks.is_dir() else folder / part / "labels"

        def mask(image: Path) -> Path:
            return masks / f"{image.stem}.png"

        return pair_masks(self.name, folder / part / "images", ".jpg", mask, ANYWHERE, self.by_hand)


def _places(owner: str, path: Path, scenes: Sequence[Scene]) -> list[tuple[float, float, str]]:
    """Latitude, longitude and continent of each scene."""
    try:
        with open_text(path, newline="") as file:
            rows = {row["name"]: _place(row) for row in csv.DictReader(file)}
    except FileNotFoundError:
        raise DataError(
            f"{owner}: clients by place need {path}, with the columns name, latitude, longitude, "
            "continent. Get the places from Mapillary's API, or use split='uniform'."
        ) from None
    except (KeyError, TypeError, ValueError, OSError, csv.Error) as error:
        raise DataError(
            f"{path} must have the columns name, latitude, longitude and continent, with numbers "
            f"of degrees: {error}."
        ) from None
    missing = [scene.image.stem for scene in scenes if scene.image.stem not in rows]
    if missing:
        raise DataError(
            f"{path} has no place for {len(missing)} of {len(scenes)} training images; the first "
            f"is {missing[0]}."
        )
    return [rows[scene.image.stem] for scene in scenes]


def _place(row: Mapping[str, str]) -> tuple[float, float, str]:
    north, east = float(row["latitude"]), float(row["longitude"])
    if not (-90 <= north <= 90 and -180 <= east <= 180):
        raise ValueError(f"found latitude {north} and longitude {east}")
    return north, east, row["continent"]


mapillary = register("data set", "mapillary")(Mapillary)
