"""CelebA as LEAF has it: a client is a celebrity with five images or more; smiling or not.

Liu et al., Deep Learning Face Attributes in the Wild, ICCV 2015; Caldas et al., LEAF, 2018.

    celeba/
        img_align_celeba/000001.jpg      202,599 faces of 178x218 pixels
        identity_CelebA.txt              lines "000001.jpg 2880": the celebrity of each image
        list_attr_celeba.txt             the count; 40 names; lines "000001.jpg -1 1 ..."
        train/*.json, test/*.json        LEAF's own clients and split, only for leaf=True

Five other attributes are kept as the domains of the images: Attractive, Heavy_Makeup,
High_Cheekbones, Mouth_Slightly_Open and Wavy_Hair. These are the 32 known domains of FedCG's
Table 5.9. LEAF resizes images to 84x84 pixels without keeping their ratio, by Pillow's default
filter, and does not scale their values from 0 to 255. We resize bilinearly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

import numpy as np
import torch

from fedflat.data.domains import Domains
from fedflat.data.federation import PartitionedFederation
from fedflat.data.files.formats import read_leaf
from fedflat.data.files.pictures import Picture, check_pillow
from fedflat.data.files.sources import FolderSet
from fedflat.data.named_set import select_owners
from fedflat.data.on_disk import BUDGET, OnDisk
from fedflat.data.partitions.given import ByUser
from fedflat.data.partitions.partition import Partition
from fedflat.data.splitting import check_cut, federate
from fedflat.errors import MOST_BYTES, DataError, flag, number, shown
from fedflat.files import open_text
from fedflat.registry.specs import register

IMAGES, IDENTITIES, ATTRIBUTES = "img_align_celeba", "identity_CelebA.txt", "list_attr_celeba.txt"
TARGET = "Smiling"
FACETS = ("Attractive", "Heavy_Makeup", "High_Cheekbones", "Mouth_Slightly_Open", "Wavy_Hair")
"""The attributes of the known domains, in the order of their bits."""
FEWEST = 5
"""Celebrities with fewer images are left out."""


@dataclass(frozen=True)
class FaceRow:
    name: str
    owner: str
    label: int


@dataclass(frozen=True, repr=False)
class CelebA(FolderSet):
    """200,288 faces of 9,343 celebrities, smiling or not (LEAF); a client is a celebrity.

    clients
        The number of celebrities, selected at random.
    split
        Share of each client's images for training; the rest are its test images. LEAF has 0.9.
    side
        Height and width of the inputs in pixels.
    leaf
        Take clients, classes and split from LEAF's own JSON files, in ``train`` and ``test``.
    memory
        Bytes of decoded images that each process caches.
    seed
        As for the named sets.
    """

    folders = ("celeba", "CelebA")
    needed = (IMAGES, ATTRIBUTES)
    by_hand = (
        "Fetch img_align_celeba.zip, identity_CelebA.txt and list_attr_celeba.txt at "
        "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html and unpack them into a folder celeba."
    )
    usual_model = "leaf_celeba()"

    partition: Partition = field(default_factory=ByUser)
    _: KW_ONLY
    clients: int = 9343
    split: float = 0.9
    side: int = 84
    leaf: bool = False
    memory: int = BUDGET
    seed: int | None = None

    def __post_init__(self) -> None:
        check_cut(self.name, self.partition, self.clients, self.split, self.seed)
        number(self.name, "side", self.side, low=1, high=10_000, whole=True)
        flag(self.name, "leaf", self.leaf)
        number(self.name, "memory", self.memory, low=0, high=MOST_BYTES, whole=True)

    def __repr__(self) -> str:
        name, _, rest = super().__repr__().partition("(")
        return f"{name}({rest.removeprefix('partition=')}"

    def class_names(self) -> tuple[str, ...]:
        return ("not smiling", "smiling")

    def open(self, seed: int) -> PartitionedFederation:
        """The federation for this seed or the set's own; no image is read."""
        check_pillow()
        folder, seed = self.folder(), seed if self.seed is None else self.seed
        attributes = _attributes(folder / ATTRIBUTES)
        rows, train = _leaf_rows(folder) if self.leaf else (_rows(folder, attributes), None)
        _check(folder, rows, attributes)
        first = rows if train is None else rows[:train]
        counts: dict[str, int] = {}
        for row in rows if train is None else first:
            counts[row.owner] = counts.get(row.owner, 0) + 1
        least = FEWEST if train is None else 1
        owners = {
            owner: place
            for place, owner in enumerate(one for one, n in counts.items() if n >= least)
        }
        whose = f"celebrities with {least} images or more"
        chosen = select_owners(self.name, whose, np.arange(len(owners)), self.clients, seed)
        selected = set(chosen.tolist())
        kept = [place for place, row in enumerate(rows) if owners.get(row.owner) in selected]
        users = np.array([owners[rows[place].owner] for place in kept])
        faces = self._faces(folder, [rows[place] for place in kept], attributes)
        count = len(kept) if train is None else sum(place < train for place in kept)
        if train is not None and count == len(kept):
            raise DataError(f"{folder / 'test'} has no image of the clients. Make it with LEAF.")
        own = {"split": self.split, "pool": True} if train is None else {}
        return federate(faces, count, self.partition, self.clients, seed, users=users, **own)  # type: ignore[arg-type]

    def _faces(
        self, folder: Path, rows: Sequence[FaceRow], attributes: dict[str, dict[str, int]]
    ) -> OnDisk:
        known = {
            row.name: tuple(f"{facet}={attributes[row.name][facet]}" for facet in FACETS)
            for row in rows
        }
        return OnDisk(
            tuple(str(folder / IMAGES / row.name) for row in rows),
            Picture(size=(self.side, self.side)),
            torch.tensor([row.label for row in rows]),
            2,
            (0.0,) * 3,
            (1 / 255,) * 3,  # LEAF does not scale: 0 to 255
            memory=self.memory,
            domains=Domains(FACETS, tuple(known[row.name] for row in rows)),
        )


def _attributes(path: Path) -> dict[str, dict[str, int]]:
    """The needed attributes of each image, 0 or 1."""
    try:
        with open_text(path) as file:
            lines = [line.split() for line in file if line.strip()]
        count, names = int(lines[0][0]), lines[1]
        absent = [name for name in (TARGET, *FACETS) if name not in names]
        if absent:
            raise ValueError(f"the attribute {absent[0]} is missing")
        places = {name: names.index(name) + 1 for name in (TARGET, *FACETS)}
        found = {}
        for line in lines[2:]:
            if len(line) != len(names) + 1:
                raise ValueError(f"{line[0]} has {len(line) - 1} of {len(names)} values")
            values = {name: line[place] for name, place in places.items()}
            if not set(values.values()) <= {"1", "-1"}:
                raise ValueError(f"{line[0]} has values other than -1 and 1")
            found[line[0]] = {name: int(value == "1") for name, value in values.items()}
        if len(found) != count:
            raise ValueError(f"it names {len(found)} images, and its first line says {count}")
    except (OSError, UnicodeDecodeError, ValueError, IndexError) as error:
        raise DataError(
            f"{path} must have the number of images, the names of attributes, and a line of "
            f"values -1 or 1 for each image: {error}."
        ) from None
    return found


def _rows(folder: Path, attributes: dict[str, dict[str, int]]) -> list[FaceRow]:
    path = folder / IDENTITIES
    try:
        with open_text(path) as file:
            pairs = [line.split() for line in file if line.strip()]
        wrong = next((pair for pair in pairs if len(pair) != 2 or not pair[1].isdecimal()), None)
        if wrong is not None or not pairs:
            raise ValueError(f"found {shown(' '.join(wrong or []))}")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise DataError(
            f"{path} must have lines such as '000001.jpg 2880': {error}. Fetch it again, or use "
            "LEAF's own files with leaf=True."
        ) from None
    return [FaceRow(name, owner, attributes.get(name, {}).get(TARGET, 0)) for name, owner in pairs]


def _leaf_rows(folder: Path) -> tuple[list[FaceRow], int]:
    """The images of LEAF's files, and how many of them are for training."""
    rows: list[FaceRow] = []
    train = 0
    for part in ("train", "test"):
        for path, user, names, labels in read_leaf(folder / part):
            for name, label in zip(names, labels, strict=True):
                if not isinstance(name, str) or label not in (0, 1):
                    raise DataError(
                        f"{path}: {user} must have names of images and labels 0 or 1, found "
                        f"{shown(name)} and {shown(label)}."
                    )
                rows.append(FaceRow(name, user, int(label)))
        train = train or len(rows)
    if not train:
        raise DataError(
            f"{folder / 'train'} has no JSON files of LEAF's. Make them, or leave leaf=True out."
        )
    return rows, train


def _check(folder: Path, rows: Sequence[FaceRow], attributes: dict[str, dict[str, int]]) -> None:
    """Refuse images without attributes or without a file."""
    unknown = [row.name for row in rows if row.name not in attributes]
    if unknown:
        raise DataError(
            f"{folder / ATTRIBUTES} has no attributes of {len(unknown)} of {len(rows)} images, the "
            f"first of which is {shown(unknown[0])}. The files do not belong together."
        )
    there = {path.name for path in (folder / IMAGES).iterdir()}
    absent = [row.name for row in rows if row.name not in there]
    if absent:
        raise DataError(
            f"{folder / IMAGES} lacks {len(absent)} of {len(rows)} images, the first of which is "
            f"{shown(absent[0])}. Unpack img_align_celeba.zip again."
        )


celeba = register("data set", "celeba")(CelebA)
