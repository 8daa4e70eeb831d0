"""Handwriting, one client per person: Omniglot's two small sets and FEMNIST.

Omniglot (Lake et al., Science 2015): ``images.png`` has an image of 28x28 pixels in each of its
rows, grey, ink 255. ``index.csv`` has for each row the alphabet, the character, the drawer, the
label and the client. Drawers are numbered within an alphabet.

FEMNIST (Caldas et al., LEAF, 2018) has JSON files.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from fedflat.data.domains import Domains
from fedflat.data.files.formats import read_leaf
from fedflat.data.files.paths import FileLayout
from fedflat.data.files.pictures import opened
from fedflat.data.named_set import Bytes, NaturalSet, RawSet
from fedflat.data.partitions.partition import Index
from fedflat.errors import DataError, shown
from fedflat.files import open_text
from fedflat.registry.specs import register

PIXELS = 28 * 28
TRAINING = 15
"""Drawers of each alphabet for training; the others are for testing."""
MOST_ROWS = 40_000
"""More than the rows of all of Omniglot."""


@dataclass(frozen=True, repr=False)
class Omniglot(NaturalSet):
    """4,840 handwritten characters of 28x28 pixels, 242 classes; a client drew one alphabet.

    clients
        The number of drawers, selected from the 120 for training: 15 for each of 8 alphabets. The
        other five of each are for testing. Each drew every character of an alphabet once. The
        alphabets are the known domains.
    """

    layout = FileLayout(("omniglot_small", "omniglot"), ("images.png", "index.csv"))
    whose = "drawers"
    by_hand = (
        "images.png has a row of 784 grey pixels for each image, index.csv the columns row, "
        "alphabet, character, drawer, label, client, made from images_background_small1 and "
        "_small2 of github.com/brendenlake/omniglot."
    )

    clients: int = 120

    @classmethod
    def read(cls, files: Sequence[Path]) -> RawSet:
        drawers, labels, owners, alphabets = _index(files[1])
        images = _image_rows(files[0])
        if len(images) != len(labels):
            raise DataError(
                f"{files[0]} has {len(images)} images, and {files[1].name} has {len(labels)} "
                "rows. They do not belong together."
            )
        order = np.argsort(drawers > TRAINING, kind="stable")
        users = np.where(drawers > TRAINING, -1, owners)[order]
        train = int((drawers <= TRAINING).sum())
        if not 0 < train < len(labels):
            raise DataError(
                f"{files[1]} must have drawers up to {TRAINING}, who train, and others. Is it "
                "whole?"
            )
        x, y = torch.from_numpy(images[order]).view(-1, 1, 28, 28), torch.from_numpy(labels[order])
        domains = Domains(("alphabet",), tuple((alphabets[place],) for place in order))
        return RawSet(
            x, y, train, int(labels.max()) + 1, users=torch.from_numpy(users), domains=domains
        )

    def owners(self) -> Index:
        raw = self.raw()
        assert raw.users is not None
        return np.unique(raw.users[: raw.train].numpy())


def _index(path: Path) -> tuple[Index, Index, Index, list[str]]:
    """The drawer, the label, the client and the alphabet of each row."""
    try:
        with open_text(path, newline="") as file:
            rows = list(csv.DictReader(file))
        table = np.array(
            [[int(row[key]) for key in ("drawer", "label", "client")] for row in rows], np.int64
        )
        if not rows or table.min() < 0:
            raise ValueError("numbers must not be negative")
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise DataError(
            f"{path} must have the columns drawer, label and client, whole numbers: {error!r}."
        ) from None
    drawers, labels, owners = table.T
    return drawers, labels, owners, [row.get("alphabet") or "unknown" for row in rows]


def _image_rows(path: Path) -> Bytes:
    with opened(path) as image:
        if image.width != PIXELS or image.height > MOST_ROWS:
            size = f"{image.width}x{image.height}"
            raise DataError(
                f"{path} must be {PIXELS} pixels wide and at most {MOST_ROWS} high, found {size}."
            )
        return np.array(image.convert("L"))


omniglot = register("data set", "omniglot")(Omniglot)


CLASSES = 62


@dataclass(frozen=True, repr=False)
class Femnist(NaturalSet):
    """Handwritten digits and letters of 28x28 pixels in 62 classes; a client is a writer.

    clients
        The number of writers, selected at random. LEAF has 3,550 or 3,597; the papers use 3,500.

    Pixels are stored as bytes, 0 for ink and 255 for paper. The test set is that of LEAF's files.
    If its writers differ from the training writers (LEAF's split by user), all of them are used.
    """

    layout = FileLayout(("femnist", "femnist/data"), ("train", "test"), json_folders=True)
    whose = "writers"
    by_hand = (
        "LEAF makes them: in its folder data/femnist, `./preprocess.sh -s niid --sf 1.0 -k 0 -t "
        "sample` writes the folders data/train and data/test of JSON files "
        "(github.com/TalwalkarLab/leaf)."
    )

    clients: int = 3500

    @classmethod
    def read(cls, files: Sequence[Path]) -> RawSet:
        names: dict[str, int] = {}
        x, y, users, train = [], [], [], 0
        for place, folder in enumerate(files):
            for path, user, images, labels in read_leaf(folder):
                x.append(_images(path, user, images))
                y.append(_labels(path, user, labels))
                writer = names.setdefault(user, len(names)) if place == 0 else names.get(user, -1)
                users.append(np.full(len(labels), writer))
            if place == 0:
                train = sum(map(len, y))
        if not train:
            raise DataError(f"{files[0]} has no examples. Make it again with LEAF's preprocessing.")
        images_, labels_, owners = (
            torch.from_numpy(np.concatenate(parts)) for parts in (x, y, users)
        )
        return RawSet(images_.view(-1, 1, 28, 28), labels_, train, CLASSES, users=owners)

    def owners(self) -> Index:
        raw = self.raw()
        assert raw.users is not None
        return np.unique(raw.users[: raw.train].numpy())


def _images(path: Path, user: str, images: list[object]) -> Bytes:
    try:
        pixels = np.asarray(images, np.float64).reshape(len(images), -1)
    except (TypeError, ValueError):
        pixels = np.empty((0, 0))
    if len(images) and (
        pixels.shape != (len(images), 28 * 28) or not ((pixels >= 0) & (pixels <= 1)).all()
    ):
        raise DataError(
            f"{path}: the images of {user} must be lists of {28 * 28} numbers from 0 to 1."
        )
    return np.rint(255 * pixels.reshape(len(images), 28 * 28)).astype(np.uint8)


def _labels(path: Path, user: str, labels: list[object]) -> Index:
    for label in labels:
        if type(label) is not int or not 0 <= label < CLASSES:
            kind = f"whole numbers from 0 to {CLASSES - 1}"
            raise DataError(f"{path}: the labels of {user} must be {kind}, found {shown(label)}.")
    return np.array(labels, np.int64)


femnist = register("data set", "femnist")(Femnist)
