"""Pictures in a folder, which need not fit into memory.

    image_folder('pictures', lda(0.5), clients=20, size=[32, 32])      pictures/CLASS/*.png
    image_folder('pictures', by_user())                                pictures/CLIENT/CLASS/*.png

A folder with ``train`` and ``test`` in it has these below each. Otherwise every fifth picture of a
class, of each client if the clients are folders, is for testing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from fedflat.data.augment import CropFlip
from fedflat.data.federation import DataSpec, Federation
from fedflat.data.files.pictures import (
    Picture,
    check_max_pixels,
    check_pillow,
    folders_in,
    pictures_in,
)
from fedflat.data.on_disk import BUDGET, OnDisk
from fedflat.data.partitions.by_user import ByUser
from fedflat.data.partitions.iid import Iid
from fedflat.data.partitions.partition import Partition
from fedflat.data.splitting import check_cut, federate
from fedflat.errors import MAX_PIXELS, MOST_BYTES, DataError, SettingError, flag, number, shown
from fedflat.registry.specs import register

LARGEST_SIDE = 10_000
"""Pixels on a side that a picture is brought to."""


class FoundImages(NamedTuple):
    """A picture, its class, the folder of its client or "", and its place among those of both."""

    path: str
    kind: str
    client: str
    place: int


@dataclass(frozen=True, repr=False)
class ImageFolder(DataSpec):
    """The pictures in a folder, a sub-folder for each class, read when they are needed.

    path
        The folder. With ``by_user()`` the first level of its sub-folders are the clients, and the next the classes.
    partition
        Who holds what. All else is said by name.
    clients
        The number of clients, K; those of ``by_user()`` are counted.
    size
        Height and width that pictures are brought to, such as [32, 32]. None: all must be of one size already.
    channels
        3: colours; 1: grey.
    augment
        Train on random crops (4 pixels of border) and mirror images.
    memory
        How many bytes of decoded pictures each process keeps; what is not kept is read again.
    split, seed
        As for the named sets.
    max_pixels
        Pictures with more pixels are refused before they are decoded.
    """

    origin = "reads a folder of yours"

    path: str
    partition: Partition = field(default_factory=Iid)
    _: KW_ONLY
    clients: int = 100
    size: tuple[int, int] | None = None
    channels: int = 3
    augment: bool = False
    memory: int = BUDGET
    split: float | None = None
    seed: int | None = None
    max_pixels: int = MAX_PIXELS

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not self.path or "\0" in self.path:
            raise SettingError(
                f"image_folder: the path of a folder is needed, in quotes, found {shown(self.path)}."
            )
        check_cut("image_folder", self.partition, self.clients, self.split, self.seed)
        if self.size is not None:
            if not isinstance(self.size, list | tuple) or len(self.size) != 2:
                raise SettingError(
                    f"image_folder: size must be [height, width], found {shown(self.size)}."
                )
            for side in self.size:
                number("image_folder", "a side of size", side, low=1, high=LARGEST_SIDE, whole=True)
            object.__setattr__(self, "size", tuple(self.size))
        if self.channels not in (1, 3):
            raise SettingError(
                f"image_folder: channels must be 1, grey, or 3, colours, found {shown(self.channels)}."
            )
        flag("image_folder", "augment", self.augment)
        number("image_folder", "memory", self.memory, low=0, high=MOST_BYTES, whole=True)
        check_max_pixels("image_folder", self.max_pixels)

    def open(self, seed: int) -> Federation:
        """The federation for this seed, unless the set has its own; no picture but the first is
        read for it."""
        check_pillow()
        train, test = self._found()
        both = [*train, *test]
        kinds = {name: place for place, name in enumerate(_kinds(both))}
        owners = {name: place for place, name in enumerate(sorted({one.client for one in train}))}
        targets = torch.tensor([kinds[one.kind] for one in both])
        examples = OnDisk(
            tuple(one.path for one in both),
            Picture(self.channels, self.size, self.max_pixels),
            targets,
            len(kinds),
            augment=CropFlip() if self.augment else None,
            memory=self.memory,
        )
        by_folder = isinstance(self.partition, ByUser)
        return federate(
            examples,
            len(train),
            self.partition,
            len(owners) if by_folder else self.clients,
            seed if self.seed is None else self.seed,
            split=self.split,
            users=np.array([owners[one.client] for one in train]) if by_folder else None,
        )

    def class_names(self) -> tuple[str, ...]:
        """See `DataSpec.class_names`: those of the folders."""
        train, test = self._found()
        return _kinds([*train, *test])

    def _found(self) -> tuple[list[FoundImages], list[FoundImages]]:
        """What there is to train on, and to test on."""
        root = Path(os.path.expanduser(self.path))
        if {"train", "test"} <= {place.name for place in folders_in(root)}:
            train, test = self._below(root / "train"), self._below(root / "test")
        else:
            everything = self._below(root)
            train = [one for one in everything if one.place % 5 != 4]
            test = [one for one in everything if one.place % 5 == 4]
        for what, found in (("train", train), ("test", test)):
            if not found:
                raise DataError(
                    f"image_folder: {root} has no pictures to {what} on. There must be a folder of pictures for each "
                    f"class{', in a folder for each client' if isinstance(self.partition, ByUser) else ''}, with five "
                    "pictures in some of them, or the same below train and test."
                )
        return train, test

    def _below(self, root: Path) -> list[FoundImages]:
        clients: Sequence[Path] = folders_in(root) if isinstance(self.partition, ByUser) else [root]
        return [
            FoundImages(path, kind.name, "" if client == root else client.name, place)
            for client in clients
            for kind in folders_in(client)
            for place, path in enumerate(pictures_in(kind))
        ]


def _kinds(found: Sequence[FoundImages]) -> tuple[str, ...]:
    return tuple(sorted({one.kind for one in found}))


image_folder = register("data set", "image_folder")(ImageFolder)
