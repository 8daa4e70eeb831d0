"""Images of places in a folder with a table of positions and roles; the Berlin set is one.

    images/<name>.jpg
    index.csv            name, role (query or database), and east_m, north_m or lat, lon

Berlin Halenseestrasse: two Mapillary sequences along the same streets, 67 query and 157 database
images, first used by Chen et al., Only Look Once, Mining Distinctive Landmarks from ConvNet for
Visual Place Recognition, IROS 2017. The images are CC BY-SA 4.0.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

import numpy as np
import torch

from fedflat.data.examples import ClientData
from fedflat.data.federation import DataSpec, Federation
from fedflat.data.files.pictures import ENDINGS, check_max_pixels
from fedflat.data.files.sources import FolderSet
from fedflat.data.k_means import k_means
from fedflat.data.places.targets import ROLES, PlaceFederation, PlaceImage, place_images
from fedflat.data.sets.msls import check_size
from fedflat.errors import LARGEST_SEED, MAX_PIXELS, DataError, SettingError, number
from fedflat.files import open_text
from fedflat.registry.specs import register

METRES_PER_DEGREE = math.pi * 6_371_000 / 180
"""Metres of a degree of latitude."""
INDEX = "index.csv"


@dataclass(frozen=True, repr=False)
class PlaceFolder(DataSpec):
    """Images in a folder with ``index.csv``: name, role, and east_m, north_m or lat, lon.

    All images are the test set. The clients hold the same images, in ``clients`` neighbourhoods:
    to test a model that was trained elsewhere, write ``tested_on(street(...), place_folder(...))``.

    path
        The folder.
    clients
        The number of neighbourhoods, by k-means on positions.
    size
        Height and width to which all images are resized; their ratio is not kept.
    seed
        Seed of the neighbourhoods; None: the seed of the run.
    max_pixels
        Images with more pixels are refused before they are decoded.
    """

    usual_task = "retrieval()"
    usual_model = "embedder()"
    origin = "reads a folder of yours"

    path: str
    _: KW_ONLY
    clients: int = 1
    size: tuple[int, int] = (240, 320)
    seed: int | None = None
    max_pixels: int = MAX_PIXELS

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not self.path:
            raise SettingError(f"place_folder: path must be a text, found {self.path!r}.")
        check_arguments("place_folder", self)

    def open(self, seed: int) -> Federation:
        return neighbourhoods(Path(self.path).expanduser(), self, seed)


@dataclass(frozen=True, repr=False)
class Berlin(FolderSet):
    """Two drives along the same streets in Berlin, 67 queries and 157 database images.

    All images are the test set. The clients hold the same images, in ``clients`` neighbourhoods: to
    test a model that was trained elsewhere, write ``tested_on(street(...), berlin())``.

    clients
        The number of neighbourhoods, by k-means on positions.
    size
        Height and width to which all images are resized; their ratio is not kept.
    seed
        Seed of the neighbourhoods; None: the seed of the run.
    max_pixels
        Images with more pixels are refused before they are decoded.
    """

    folders = ("vpr_berlin", "berlin")
    needed = (INDEX, "images")
    by_hand = (
        "Put the images of Berlin Halenseestrasse, from the public repository "
        "Harbourr/VisualPlaceRecognitionDatasets, into a folder vpr_berlin/images, and their "
        "names, roles and positions into vpr_berlin/index.csv."
    )
    usual_task = "retrieval()"
    usual_model = "embedder()"

    _: KW_ONLY
    clients: int = 1
    size: tuple[int, int] = (240, 320)
    seed: int | None = None
    max_pixels: int = MAX_PIXELS

    def __post_init__(self) -> None:
        check_arguments("berlin", self)

    def open(self, seed: int) -> Federation:
        return neighbourhoods(self.folder(), self, seed)


def check_arguments(owner: str, spec: PlaceFolder | Berlin) -> None:
    """Refuse arguments out of range."""
    number(owner, "clients", spec.clients, low=1, whole=True)
    check_size(owner, spec.size)
    object.__setattr__(spec, "size", tuple(spec.size))
    check_max_pixels(owner, spec.max_pixels)
    if spec.seed is not None:
        number(owner, "seed", spec.seed, low=0, high=LARGEST_SEED, whole=True)


def neighbourhoods(folder: Path, spec: PlaceFolder | Berlin, seed: int) -> Federation:
    """All images as the test set, and in ``clients`` neighbourhoods by k-means on positions."""
    listed = read_index(folder)
    images = place_images(listed, ("set",), spec.size, spec.max_pixels)
    if spec.clients > len(listed):
        raise SettingError(
            f"{spec}: {spec.clients} clients need as many images, found {len(listed)}."
        )
    where = np.array([image.where for image in listed])
    seed = seed if spec.seed is None else spec.seed
    labels = torch.from_numpy(k_means(where, spec.clients, seed))
    parts = [(labels == client).nonzero().squeeze(1) for client in range(spec.clients)]
    return PlaceFederation(images, ClientData(images, torch.arange(len(images))), parts)


def read_index(folder: Path) -> list[PlaceImage]:
    path = folder / INDEX
    try:
        with open_text(path, newline="") as file:
            rows = list(csv.DictReader(file))
    except FileNotFoundError:
        raise DataError(
            f"{path} is missing. It lists name, role, and east_m, north_m or lat, lon of each "
            "image."
        ) from None
    except (OSError, csv.Error, UnicodeDecodeError) as error:
        raise DataError(
            f"{path} cannot be read ({error}). It must be a table with commas."
        ) from None
    if not rows:
        raise DataError(f"{path} lists no image.")
    known = rows[0].keys()
    metric = {"east_m", "north_m"} <= known
    if not {"name", "role"} <= known or not (metric or {"lat", "lon"} <= known):
        raise DataError(
            f"{path} must have the columns name and role, and the position (GPS) as east_m and "
            f"north_m or as lat and lon, found {', '.join(str(name) for name in known)}."
        )
    files = {
        place.stem: str(place)
        for place in sorted((folder / "images").glob("*"))
        if place.suffix.lower() in ENDINGS
    }
    where = _positions(path, rows, metric)
    twice = [name for name, count in Counter(row["name"] for row in rows).items() if count > 1]
    if twice:
        raise DataError(f"{path} lists {twice[0]} more than once. Leave the further rows out.")
    images = []
    for row, at in zip(rows, where, strict=True):
        if row["role"] not in ROLES:
            raise DataError(
                f"{path}: the role of {row['name']} must be query or database, found "
                f"{row['role']!r}."
            )
        if row["name"] not in files:
            raise DataError(f"{path} lists {row['name']}, which is not in {folder / 'images'}.")
        role = ROLES.index(row["role"])
        images.append(PlaceImage(files[row["name"]], at, role, (folder.name,)))
    return images


def _positions(path: Path, rows: list[dict[str, str]], metric: bool) -> list[tuple[float, float]]:
    """Metres east and north of each image; degrees are measured from the first image."""
    names = ("east_m", "north_m") if metric else ("lon", "lat")
    pairs = [(_number(row, names[0]), _number(row, names[1])) for row in rows]
    unknown = [
        row["name"]
        for row, pair in zip(rows, pairs, strict=True)
        if not all(map(math.isfinite, pair))
    ]
    if unknown:
        raise DataError(
            f"{path}: {len(unknown)} of {len(rows)} images have no position (GPS); the first is "
            f"{unknown[0]}. Leave them out of the table."
        )
    if metric:
        return pairs
    for row, (lon, lat) in zip(rows, pairs, strict=True):
        if abs(lon) > 180 or abs(lat) > 90:
            raise DataError(
                f"{path}: lat and lon are degrees, at most 90 and 180; those of {row['name']} are "
                f"{lat:g} and {lon:g}."
            )
    lon, lat = pairs[0]
    east = METRES_PER_DEGREE * math.cos(math.radians(lat))
    return [((x - lon) * east, (y - lat) * METRES_PER_DEGREE) for x, y in pairs]


def _number(row: Mapping[str, str], name: str) -> float:
    try:
        return float(row[name])
    except (TypeError, ValueError):
        return math.nan


place_folder = register("data set", "place_folder")(PlaceFolder)
berlin = register("data set", "berlin")(Berlin)
