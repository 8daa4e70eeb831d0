"""Images in a folder, which need not fit into memory.

    image_folder('pictures', lda(0.5), clients=20, size=[32, 32])      pictures/CLASS/*.png
    image_folder('pictures', by_user())                                pictures/CLIENT/CLASS/*.png
    image_folder('pictures', test='others', classes=['cat', 'dog'])    others/CLASS/*.png for testing

A folder with subfolders ``train`` and ``test`` has these below each. Otherwise every fifth image of
a class (per client, if clients are folders) is for testing, unless ``test`` names another folder.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
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
from fedflat.data.partitions.given import ByUser
from fedflat.data.partitions.iid import Iid
from fedflat.data.partitions.partition import Partition
from fedflat.data.splitting import check_cut, federate
from fedflat.errors import MAX_PIXELS, MOST_BYTES, DataError, SettingError, flag, number, shown
from fedflat.registry.specs import register

LARGEST_SIDE = 10_000
"""Most pixels per side after resizing."""


class ImageFile(NamedTuple):
    """An image, its class, the folder of its client or "", and its index within both."""

    path: str
    kind: str
    client: str
    place: int


@dataclass(frozen=True, repr=False)
class ImageFolder(DataSpec):
    """The images in a folder with one subfolder per class, read when they are needed.

    path
        The folder. With ``by_user()`` its subfolders are the clients, and theirs the classes.
    partition
        How examples are assigned to clients. The other arguments are given by name.
    test
        A folder of test images with the same subfolders; None: the subfolder ``test``, or every
        fifth image.
    classes
        The classes in their order, for folders in which not all occur. By default those that occur,
        sorted.
    clients
        The number of clients, K; with ``by_user()`` it is counted.
    size
        Height and width after resizing, such as [32, 32]. None: all images must have the same size.
    channels
        3: colour; 1: grey.
    augment
        Train on random crops (4 pixels of border) and mirrored images.
    memory
        Bytes of decoded images that each process caches.
    split, seed
        As for the named sets.
    max_pixels
        Images with more pixels are refused before decoding.
    """

    origin = "reads a folder of yours"

    path: str
    partition: Partition = field(default_factory=Iid)
    _: KW_ONLY
    test: str | None = None
    classes: tuple[str, ...] | None = None
    clients: int = 100
    size: tuple[int, int] | None = None
    channels: int = 3
    augment: bool = False
    memory: int = BUDGET
    split: float | None = None
    seed: int | None = None
    max_pixels: int = MAX_PIXELS

    def __post_init__(self) -> None:
        for path in (self.path, "x" if self.test is None else self.test):
            if not isinstance(path, str) or not path or "\0" in path:
                raise SettingError(
                    f"image_folder: the path of a folder is needed, in quotes, found {shown(path)}. "
                    "Write image_folder('pictures'); in a shell quote the whole: "
                    "--on \"image_folder('pictures')\"."
                )
        if self.classes is not None:
            if not isinstance(self.classes, list | tuple) or not self.classes:
                raise SettingError(
                    "image_folder: classes must be a list such as ['cat', 'dog'], found "
                    f"{shown(self.classes)}."
                )
            object.__setattr__(self, "classes", tuple(map(str, self.classes)))
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
                "image_folder: channels must be 1, grey, or 3, colours, found "
                f"{shown(self.channels)}."
            )
        flag("image_folder", "augment", self.augment)
        number("image_folder", "memory", self.memory, low=0, high=MOST_BYTES, whole=True)
        check_max_pixels("image_folder", self.max_pixels)

    def open(self, seed: int) -> Federation:
        """The federation for this seed or the set's own; only the first image is read."""
        check_pillow()
        train, test = self._find_images()
        both = [*train, *test]
        kinds = {name: place for place, name in enumerate(self._kinds(both))}
        owners = {
            name: place for place, name in enumerate(sorted({image.client for image in train}))
        }
        targets = torch.tensor([kinds[image.kind] for image in both])
        examples = OnDisk(
            tuple(image.path for image in both),
            Picture(self.channels, self.size, self.max_pixels),
            targets,
            len(kinds),
            augment=CropFlip() if self.augment else None,
            memory=self.memory,
        )
        by_folder = isinstance(self.partition, ByUser)
        fed = federate(
            examples,
            len(train),
            self.partition,
            len(owners) if by_folder else self.clients,
            seed if self.seed is None else self.seed,
            split=self.split,
            users=np.array([owners[image.client] for image in train]) if by_folder else None,
        )
        return replace(fed, client_names=tuple(owners) if by_folder else ())

    def class_names(self) -> tuple[str, ...]:
        """See `DataSpec.class_names`: the names of the folders."""
        train, test = self._find_images()
        return self._kinds([*train, *test])

    def client_names(self) -> tuple[str, ...]:
        """See `DataSpec.client_names`: the names of the clients' folders."""
        if not isinstance(self.partition, ByUser):
            return ()
        return tuple(sorted({image.client for image in self._find_images()[0]}))

    def _find_images(self) -> tuple[list[ImageFile], list[ImageFile]]:
        """The images for training, and those for testing."""
        root = Path(os.path.expanduser(self.path))
        if self.test is not None:
            train, test = self._below(root), self._below(Path(os.path.expanduser(self.test)))
        elif {"train", "test"} <= {place.name for place in folders_in(root)}:
            train, test = self._below(root / "train"), self._below(root / "test")
        else:
            everything = self._below(root)
            train = [image for image in everything if image.place % 5 != 4]
            test = [image for image in everything if image.place % 5 == 4]
        per_client = ", in a folder for each client" if isinstance(self.partition, ByUser) else ""
        for what, images in (("train", train), ("test", test)):
            if not images:
                raise DataError(
                    f"image_folder: {root} has no pictures to {what} on. There must be a folder "
                    f"of pictures for each class{per_client}, with five pictures in some of them, "
                    "or the same below train and test."
                )
        return train, test

    def _below(self, root: Path) -> list[ImageFile]:
        clients: Sequence[Path] = folders_in(root) if isinstance(self.partition, ByUser) else [root]
        return [
            ImageFile(path, kind.name, "" if client == root else client.name, place)
            for client in clients
            for kind in folders_in(client)
            for place, path in enumerate(pictures_in(kind))
        ]

    def _kinds(self, images: Sequence[ImageFile]) -> tuple[str, ...]:
        """The classes in their order."""
        found = {image.kind for image in images}
        if self.classes is None:
            return tuple(sorted(found))
        if unknown := sorted(found - set(self.classes)):
            raise DataError(
                f"image_folder: {self.path} has folders that are not in classes: "
                f"{', '.join(map(shown, unknown[:5]))}. Add them to classes, or remove them."
            )
        return self.classes


image_folder = register("data set", "image_folder")(ImageFolder)
