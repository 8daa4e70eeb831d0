"""Omniglot's two small sets, one client per drawer (Lake et al., Science 2015).

``images.png`` has an image of 28x28 pixels in each of its rows, grey, ink 255. ``index.csv`` has
for each row the alphabet, the character, the drawer, the label and the client. Drawers are numbered
within an alphabet.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from fedflat.data.domains import Domains
from fedflat.data.files.paths import FileLayout
from fedflat.data.files.pictures import opened
from fedflat.data.natural_set import NaturalSet
from fedflat.data.partitions.dealing import Index
from fedflat.data.raw import Bytes, RawSet
from fedflat.errors import DataError
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
