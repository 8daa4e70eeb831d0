"""FEMNIST, one client for each writer (Caldas et al., LEAF, 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from fedflat.data.files.leaf import read_leaf
from fedflat.data.files.paths import FileLayout
from fedflat.data.natural_set import NaturalSet
from fedflat.data.partitions.dealing import Index
from fedflat.data.raw import Bytes, RawSet
from fedflat.errors import DataError, shown
from fedflat.registry.specs import register

CLASSES = 62
PIXELS = 28 * 28


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
        pixels.shape != (len(images), PIXELS) or not ((pixels >= 0) & (pixels <= 1)).all()
    ):
        raise DataError(
            f"{path}: the images of {user} must be lists of {PIXELS} numbers from 0 to 1."
        )
    return np.rint(255 * pixels.reshape(len(images), PIXELS)).astype(np.uint8)


def _labels(path: Path, user: str, labels: list[object]) -> Index:
    for label in labels:
        if type(label) is not int or not 0 <= label < CLASSES:
            kind = f"whole numbers from 0 to {CLASSES - 1}"
            raise DataError(f"{path}: the labels of {user} must be {kind}, found {shown(label)}.")
    return np.array(labels, np.int64)


femnist = register("data set", "femnist")(Femnist)
