"""Mapillary Street-Level Sequences in its published layout.

    train_val/<city>/{query,database}/images/<key>.jpg
                                      raw.csv            key, pano, ...
                                      seq_info.csv       key, sequence_key (or sequence_id),
                                                         frame_number
                                      postprocessed.csv  key, easting, northing, ...
    test/<city>/...                   without raw.csv and postprocessed.csv: no positions

Warburg et al., Mapillary Street-Level Sequences: A Dataset for Lifelong Place Recognition, CVPR
2020. Columns are read by name. Panoramas are left out. A sequence is one drive: images of one city
and one role (query or database), in order. It is the unit that is assigned to clients.
"""

from __future__ import annotations

import csv
import math
import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedflat.data.places.targets import CITY_APART, DATABASE, QUERY, ROLES, PlaceImage
from fedflat.errors import DataError
from fedflat.files import open_text

Metres = NDArray[np.float64]


@dataclass(frozen=True)
class ImageSequence:
    """One drive through a city, as query or as database."""

    city: str
    role: int
    name: str
    images: tuple[int, ...]
    """Positions of its images in the list of all images, in the order of the drive."""
    where: Metres
    """Metres east and north of each image."""

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True)
class Validity:
    """When a client can take part: at least two query and two database sequences.

    ``images``: two query images suffice instead of two query sequences.
    """

    images: bool = False

    def __call__(self, sequences: Sequence[ImageSequence]) -> bool:
        """True if a client with these sequences is valid."""
        queries = [one for one in sequences if one.role == QUERY]
        database = sum(one.role == DATABASE for one in sequences)
        count = sum(map(len, queries)) if self.images else len(queries)
        return count >= 2 and database >= 2


def by_city(sequences: Sequence[ImageSequence]) -> dict[str, list[int]]:
    """Positions of the sequences of each city, cities by name."""
    cities = sorted({one.city for one in sequences})
    return {city: [i for i, one in enumerate(sequences) if one.city == city] for city in cities}


@dataclass(frozen=True)
class Cities:
    """Images and sequences of some cities."""

    images: list[PlaceImage]
    sequences: list[ImageSequence]
    panoramas: int
    """Images that were left out because they are panoramas."""


def read_cities(folder: Path, cities: Sequence[str], continents: dict[str, str]) -> Cities:
    """The images of these cities; their coordinates do not overlap."""
    images: list[PlaceImage] = []
    sequences: list[ImageSequence] = []
    panoramas = 0
    for number, city in enumerate(cities):
        rows = {role: _read(folder / city / name) for role, name in enumerate(ROLES)}
        kept = [row for found, _ in rows.values() for row in found]
        panoramas += sum(left_out for _, left_out in rows.values())
        if not kept:
            continue
        origin = np.min([row.where for row in kept], axis=0) - (number * CITY_APART, 0.0)
        domain = (continents.get(city, "elsewhere"), city)
        for role, (found, _) in rows.items():
            drives: dict[str, list[_Row]] = defaultdict(list)
            for row in found:
                drives[row.sequence].append(row)
            for name in sorted(drives):
                drive = sorted(drives[name], key=lambda row: (row.frame, row.path))
                where = np.array([row.where for row in drive]) - origin
                first = len(images)
                images += [
                    PlaceImage(row.path, (float(x), float(y)), role, domain)
                    for row, (x, y) in zip(drive, where, strict=True)
                ]
                places = tuple(range(first, len(images)))
                sequences.append(ImageSequence(city, role, name, places, where))
    return Cities(images, sequences, panoramas)


@dataclass(frozen=True)
class _Row:
    path: str
    sequence: str
    frame: int
    where: tuple[float, float]


def _read(folder: Path) -> tuple[list[_Row], int]:
    """The images of one city and role, without panoramas, and the number of panoramas."""
    if not (folder / "postprocessed.csv").is_file():
        raise DataError(
            f"{folder} has no postprocessed.csv, so its images have no positions (GPS). The cities "
            "in the folder test/ of MSLS are published without them. Name cities of train_val/."
        )
    pano = _columns(folder / "raw.csv", ("key", "pano"))
    drives = _columns(
        folder / "seq_info.csv", ("key", ("sequence_key", "sequence_id"), "frame_number")
    )
    where = _columns(folder / "postprocessed.csv", ("key", "easting", "northing"))
    there = _files(folder / "images")
    rows, missing, unmatched, panoramas = [], [], [], 0
    for key, (flag,) in pano.items():
        if flag.strip().lower() == "true":
            panoramas += 1
        elif key not in drives or key not in where:
            unmatched.append(key)
        elif f"{key}.jpg" not in there:
            missing.append(key)
        else:
            sequence, frame = drives[key]
            path = str(folder / "images" / f"{key}.jpg")
            rows.append(
                _Row(path, sequence, _whole(folder, key, frame), _metres(folder, key, where[key]))
            )
    if unmatched:
        raise DataError(
            f"{folder}: {len(unmatched)} images of raw.csv are not in seq_info.csv and "
            f"postprocessed.csv; the first is {unmatched[0]}. The files do not belong together."
        )
    if missing:
        raise DataError(
            f"{folder}: {len(missing)} of {len(missing) + len(rows)} listed images are not in "
            f"images/; the first is {missing[0]}.jpg. Unpack all archives of the data set."
        )
    return rows, panoramas


def _columns(path: Path, wanted: Sequence[str | tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The wanted columns by the first of them; several names mean any of them."""
    try:
        with open_text(path, newline="") as file:
            reader = csv.DictReader(file)
            known = reader.fieldnames or []
            names = []
            for one in wanted:
                choices = (one,) if isinstance(one, str) else one
                found = next((name for name in choices if name in known), None)
                if found is None:
                    raise DataError(
                        f"{path} must have a column {' or '.join(choices)}, found "
                        f"{', '.join(name for name in known if name) or 'none'}."
                    )
                names.append(found)
            return {row[names[0]]: tuple(row[name] for name in names[1:]) for row in reader}
    except FileNotFoundError:
        raise DataError(
            f"{path} is missing. Unpack the metadata of MSLS into its folder."
        ) from None
    except (OSError, csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read ({error}). Fetch it again.") from None


def _files(folder: Path) -> set[str]:
    try:
        with os.scandir(folder) as entries:
            return {entry.name for entry in entries}
    except OSError as error:
        raise DataError(
            f"{folder} cannot be read ({error.strerror}). It holds the images."
        ) from None


def _whole(folder: Path, key: str, text: str) -> int:
    try:
        return int(text)
    except (TypeError, ValueError):
        raise DataError(
            f"{folder}/seq_info.csv: the frame number of {key} must be a whole number, found "
            f"{text!r}."
        ) from None


def _metres(folder: Path, key: str, texts: Sequence[str]) -> tuple[float, float]:
    try:
        east, north = (float(text) for text in texts)
    except (TypeError, ValueError):
        east = north = math.nan
    if not (math.isfinite(east) and math.isfinite(north)):
        raise DataError(
            f"{folder}/postprocessed.csv: {key} has no position (GPS): easting and northing must "
            f"be numbers, found {', '.join(map(repr, texts))}."
        )
    return east, north
