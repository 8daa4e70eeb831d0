"""Tiny-ImageNet, read from its folder when images are needed.

    tiny-imagenet-200/
        wnids.txt                                the classes, one WordNet id per line
        words.txt                                names of WordNet ids, separated by a tab
        train/n01443537/images/*.JPEG            500 images per class
        val/images/*.JPEG                        10,000 test images
        val/val_annotations.txt                  file and class of each, separated by tabs

``test/`` has no labels and is not read. Images directly in the folder of their class
(``train/n01443537/*.JPEG``, ``val/n01443537/*.JPEG``) are read too, and so is a part of the
classes. A label is the position of the class among all sorted WordNet ids.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

import torch

from fedflat.data.augment import CropFlip
from fedflat.data.examples import Augment
from fedflat.data.federation import PartitionedFederation
from fedflat.data.files.pictures import Picture, check_pillow, folders_in, pictures_in
from fedflat.data.files.sources import FolderSet
from fedflat.data.on_disk import BUDGET, OnDisk
from fedflat.data.partitions.iid import Iid
from fedflat.data.partitions.partition import Partition
from fedflat.data.splitting import check_cut, federate
from fedflat.errors import MOST_BYTES, DataError, SettingError, choice, flag, number, shown
from fedflat.files import open_text
from fedflat.registry.specs import register

SIDE = 64
COLOURS = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "fedfsa": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
}
"""Mean and standard deviation: ImageNet's, as in MAN's code, and those of FedFSA's code."""
Labelled = list[tuple[str, str]]
"""Path and WordNet id of each image."""


@dataclass(frozen=True, repr=False)
class TinyImageNet(FolderSet):
    """110,000 colour images of 64x64 pixels in 200 classes (Stanford CS231n, from ImageNet).

    partition
        How examples are assigned to clients. The other arguments are given by name.
    clients
        The number of clients, K.
    split, pool, seed
        As for the named sets. ``pool=True`` partitions ``train`` and ``val`` together.
    augment
        Train on random crops (4 pixels of black border) and mirrored images. ``"feddyn"``: crop
        only every other image, with a border of the mean colour, as in MAN's code.
    normalise
        Mean and standard deviation: ``"imagenet"``, or ``"fedfsa"``, which is 0.5 for both.
    memory
        Bytes of decoded images that each process caches.

    Its folder is tiny-imagenet-200 as published. A part of the classes works too.
    """

    folders = ("tiny-imagenet-200", "tiny-imagenet", "tinyimagenet")
    needed = ("train/n*", "val")
    by_hand = (
        "Put the unpacked tiny-imagenet-200.zip (cs231n.stanford.edu/tiny-imagenet-200.zip) there."
    )

    partition: Partition = field(default_factory=Iid)
    _: KW_ONLY
    clients: int = 100
    split: float | None = None
    pool: bool = False
    seed: int | None = None
    augment: bool | str = True
    normalise: str = "imagenet"
    memory: int = BUDGET

    def __post_init__(self) -> None:
        check_cut(self.name, self.partition, self.clients, self.split, self.seed)
        flag(self.name, "pool", self.pool)
        if self.pool and self.split is None:
            raise SettingError(
                f"{self.name}: pool=True partitions the test set too, so clients must hold out a "
                "part to test on. Add split=0.7, or remove pool."
            )
        if not isinstance(self.augment, bool):
            choice(self.name, "augment", self.augment, ["feddyn"])
        choice(self.name, "normalise", self.normalise, list(COLOURS))
        number(self.name, "memory", self.memory, low=0, high=MOST_BYTES, whole=True)

    def __repr__(self) -> str:
        name, _, rest = super().__repr__().partition("(")
        return f"{name}({rest.removeprefix('partition=')}"

    def open(self, seed: int) -> PartitionedFederation:
        """The federation for this seed or the set's own."""
        check_pillow()
        folder = self.folder()
        kinds = _kinds(folder)
        train, test = _training(folder, kinds), _testing(folder, kinds)
        place = {kind: i for i, kind in enumerate(kinds)}
        both = [*train, *test]
        mean, std = COLOURS[self.normalise]
        change: Augment | None = CropFlip() if self.augment else None
        if self.augment == "feddyn":
            change = CropFlip(crop=0.5, border=tuple(round(255 * part) for part in mean))
        examples = OnDisk(
            tuple(path for path, _ in both),
            Picture(size=(SIDE, SIDE)),
            torch.tensor([place[kind] for _, kind in both]),
            len(kinds),
            mean,
            std,
            change,
            memory=self.memory,
        )
        return federate(
            examples,
            len(train),
            self.partition,
            self.clients,
            seed if self.seed is None else self.seed,
            split=self.split,
            pool=self.pool,
        )

    def class_names(self) -> tuple[str, ...]:
        """See `DataSpec.class_names`: the first name of each class, else its WordNet id."""
        folder = self.folder()
        names: dict[str, str] = {}
        if (folder / "words.txt").is_file():
            for line in _lines(folder / "words.txt"):
                kind, _, words = line.partition("\t")
                names[kind] = words.partition(",")[0].strip()
        return tuple(names.get(kind) or kind for kind in _kinds(folder))


def _kinds(folder: Path) -> list[str]:
    """The sorted WordNet ids of the folders in ``train``, which must be those of wnids.txt."""
    kinds = sorted(place.name for place in folders_in(folder / "train"))
    if not kinds:
        raise DataError(f"{folder / 'train'} has no folder of a class. Is it whole?")
    path = folder / "wnids.txt"
    if path.is_file():
        listed = sorted(line.strip() for line in _lines(path) if line.strip())
        if listed != kinds:
            odd = sorted(set(listed).symmetric_difference(kinds))
            raise DataError(
                f"{path} lists {len(listed)} classes, and {folder / 'train'} has folders of "
                f"{len(kinds)}; {shown(odd[0]) if odd else 'a class'} is not in both or is listed "
                "twice. Unpack the set again, or remove wnids.txt to use the folders alone."
            )
    return kinds


def _training(folder: Path, kinds: list[str]) -> Labelled:
    images: Labelled = []
    for kind in kinds:
        found = _pictures(folder / "train" / kind)
        if not found:
            raise DataError(f"{folder / 'train' / kind} has no images. Unpack the set again.")
        images += [(path, kind) for path in found]
    return images


def _testing(folder: Path, kinds: list[str]) -> Labelled:
    val = folder / "val"
    if (val / "val_annotations.txt").is_file():
        return _annotated(val, kinds)
    images = [(path, kind) for kind in kinds for path in _pictures(val / kind)]
    if not images:
        raise DataError(
            f"{val} has neither val_annotations.txt nor a folder of images for each class. Unpack "
            "the set again."
        )
    return images


def _annotated(val: Path, kinds: list[str]) -> Labelled:
    """The images that val_annotations.txt lists, which must be those of ``val/images``."""
    path, known = val / "val_annotations.txt", set(kinds)
    there = {Path(image).name: image for image in _pictures(val)}
    listed: dict[str, str] = {}
    for row, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        name, kind, *_ = [*line.split("\t"), ""]
        if kind not in known:
            raise DataError(
                f"{path}: line {row} must have a file and one of the {len(kinds)} classes of "
                f"train, separated by a tab, found {shown(line[:80])}."
            )
        if name not in there:
            raise DataError(
                f"{path}: line {row} lists {shown(name)}, which is not in {val / 'images'}. "
                "Unpack the set again."
            )
        listed[name] = kind
    if forgotten := sorted(set(there) - set(listed)):
        raise DataError(
            f"{path} lists no class for {len(forgotten)} of {len(there)} images, the first of "
            f"which is {shown(forgotten[0])}. Unpack the set again."
        )
    if not listed:
        raise DataError(f"{path} lists no image. Unpack the set again.")
    return [(there[name], kind) for name, kind in listed.items()]


def _pictures(folder: Path) -> list[str]:
    """The images in ``folder/images``, or in the folder itself, in the order of their numbers."""
    place = folder / "images" if (folder / "images").is_dir() else folder
    if not place.is_dir():
        return []
    return sorted(pictures_in(place), key=lambda path: (len(path), path))


def _lines(path: Path) -> list[str]:
    try:
        with open_text(path) as file:
            return file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}. Unpack the set again.") from None


tiny_imagenet = register("data set", "tiny_imagenet")(TinyImageNet)
