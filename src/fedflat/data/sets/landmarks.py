"""Landmarks-User-160k: photographs of landmarks, one client per author.

Hsu, Qi and Brown, Federated Visual Classification with Real-World Data Distribution, ECCV 2020, on
Google Landmarks v2. There are 164,172 training photographs of 1,262 authors, 19,526 test
photographs of others, and 2,028 classes.

    landmarks/
        landmarks-user-160k/federated_train.csv     columns user_id, image_id, class
        landmarks-user-160k/test.csv                columns image_id, class
        train/0/1/2/012....jpg                      Google Landmarks v2, or images/012....jpg

The test photographs are in ``train`` too. The files of the smaller split (23,080 photographs of 233
authors) have the same columns and are read under the same names.

Inputs of a model need one size. Training takes a random part of the photograph, of random area and
aspect ratio, and mirrors it at random (Szegedy et al., CVPR 2015). Testing takes the central
square. Both are scaled to ``side`` pixels. The draws are those of Flax' ImageNet example; scaling
is bicubic with antialiasing, which Flax leaves out.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from math import sqrt
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from fedflat.data.examples import Batch, Examples
from fedflat.data.federation import PartitionedFederation
from fedflat.data.files.pictures import Picture, check_max_pixels, check_pillow
from fedflat.data.files.sources import FolderSet
from fedflat.data.named_set import select_owners
from fedflat.data.on_disk import BUDGET, OnDisk
from fedflat.data.partitions.given import ByUser
from fedflat.data.partitions.partition import Partition
from fedflat.data.splitting import check_cut, federate
from fedflat.errors import MAX_PIXELS, MOST_BYTES, DataError, choice, flag, number, shown
from fedflat.files import open_text
from fedflat.registry.specs import register

TRIES = 10
AREA = (0.08, 1.0)
ASPECT = (3 / 4, 4 / 3)
"""Width over height of the random part."""
MARGIN = 224 / 256
"""Side of the central square as a share of the shorter side of the photograph."""
Box = tuple[int, int, int, int]
"""Top, left, height and width in pixels."""


def random_box(height: int, width: int, rng: torch.Generator) -> Box:
    """A random part of a photograph; the central square if ten tries do not fit into it."""
    for _ in range(TRIES):
        u, v, down, right = torch.rand(4, generator=rng, dtype=torch.float64).tolist()
        area = height * width * (AREA[0] + u * (AREA[1] - AREA[0]))
        aspect = ASPECT[0] + v * (ASPECT[1] - ASPECT[0])
        h, w = round(sqrt(area / aspect)), round(sqrt(area * aspect))
        if 0 < h <= height and 0 < w <= width:
            return int(down * (height - h + 1)), int(right * (width - w + 1)), h, w
    return central_box(height, width)


def central_box(height: int, width: int) -> Box:
    """The central square of 224/256 of the shorter side.

    >>> central_box(512, 1000)
    (32, 276, 448, 448)
    """
    side = max(int(MARGIN * min(height, width)), 1)
    return (height - side + 1) // 2, (width - side + 1) // 2, side, side


def scaled(photo: Tensor, box: Box, side: int) -> Tensor:
    """A part of a photograph ``(C, H, W)`` of bytes, scaled to ``side`` x ``side`` pixels."""
    top, left, height, width = box
    part = photo[:, top : top + height, left : left + width]
    if (height, width) == (side, side):
        return part
    pixels = interpolate(part[None].float(), (side, side), mode="bicubic", antialias=True)[0]
    return pixels.round().clamp(0, 255).to(torch.uint8)


@dataclass(frozen=True)
class Photos(OnDisk):
    """Examples whose files hold images of any size.

    side
        Height and width of an input.
    random_parts
        Train on random, mirrored parts of the photographs; otherwise on their centres.
    """

    side: int = 224
    random_parts: bool = field(default=True, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        number("photos", "side", self.side, low=1, high=10_000, whole=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """See `AnyExamples.shape`; no file is read."""
        return (3, self.side, self.side)

    @property
    def augments(self) -> bool:
        return self.random_parts

    def plain(self) -> Photos:
        return replace(self, random_parts=False)

    def batch(self, index: Tensor, dtype: torch.dtype, rng: torch.Generator | None = None) -> Batch:
        random = rng if self.random_parts else None
        return self._examples(index, random).batch(
            torch.arange(len(index), device=self.device), dtype
        )

    def raw(self, index: Tensor) -> Examples:
        """See `AnyExamples.raw`: the centres of the photographs."""
        return self._examples(index, None)

    def _examples(self, index: Tensor, rng: torch.Generator | None) -> Examples:
        parts = [self._part(photo, rng) for photo in self._decoded.take(self._keys(index))]
        inputs = torch.stack(parts) if parts else torch.zeros((0, *self.shape), dtype=torch.uint8)
        targets = self.labels.index_select(0, index.to(self.labels.device))
        examples = Examples(inputs, targets, self.classes, self.mean, self.std)
        return examples.to(self.device)

    def _part(self, photo: Tensor, rng: torch.Generator | None) -> Tensor:
        height, width = photo.shape[1:]
        if rng is None:
            return scaled(photo, central_box(height, width), self.side)
        part = scaled(photo, random_box(height, width, rng), self.side)
        return part.flip(2) if float(torch.rand((), generator=rng)) < 0.5 else part


SPLIT = "landmarks-user-160k"
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class PhotoRow:
    """One row of a CSV file that has its photograph."""

    user: str
    path: str
    label: int


@dataclass(frozen=True, repr=False)
class Landmarks(FolderSet):
    """Photographs of 2,028 landmarks (Hsu et al., ECCV 2020); a client is an author.

    partition
        ``by_user()``: the authors are the clients. Others redistribute their photographs.
    clients
        The number of authors, selected at random.
    side
        Height and width of the inputs in pixels.
    augment
        Train on random parts of the photographs, mirrored at random; otherwise on their centres.
    missing
        ``"error"``: refuse rows without a photograph. ``"skip"``: leave them out, and authors
        without any photograph too; the number of both is printed before the run.
    memory
        Bytes of decoded photographs that each process caches.
    seed
        As for the named sets.
    max_pixels
        Photographs with more pixels are refused before decoding.
    """

    folders = ("landmarks", "gldv2", "google-landmarks")
    needed = (f"{SPLIT}/federated_train.csv", f"{SPLIT}/test.csv")
    by_hand = (
        f"Put the folder {SPLIT} of the authors' split files (github.com/google-research/"
        "google-research, federated_vision_datasets) and the folder train of Google Landmarks v2 "
        "(github.com/cvdfoundation/google-landmark) into a folder landmarks."
    )

    partition: Partition = field(default_factory=ByUser)
    _: KW_ONLY
    clients: int = 1262
    side: int = 224
    augment: bool = True
    missing: str = "error"
    memory: int = BUDGET
    seed: int | None = None
    max_pixels: int = MAX_PIXELS

    def __post_init__(self) -> None:
        check_cut(self.name, self.partition, self.clients, None, self.seed)
        number(self.name, "side", self.side, low=1, high=10_000, whole=True)
        flag(self.name, "augment", self.augment)
        choice(self.name, "missing", self.missing, ["error", "skip"])
        number(self.name, "memory", self.memory, low=0, high=MOST_BYTES, whole=True)
        check_max_pixels(self.name, self.max_pixels)

    def __repr__(self) -> str:
        name, _, rest = super().__repr__().partition("(")
        return f"{name}({rest.removeprefix('partition=')}"

    def open(self, seed: int) -> PartitionedFederation:
        """The federation for this seed or the set's own; no photograph is read."""
        check_pillow()
        folder, seed = self.folder(), seed if self.seed is None else self.seed
        rows, users = _rows(folder / SPLIT / "federated_train.csv", ("user_id", "image_id"))
        tests, _ = _rows(folder / SPLIT / "test.csv", ("image_id",))
        classes = _class_count(folder / SPLIT, rows, tests)
        train, lost = self._with_photos(folder, rows)
        test, lost_tests = self._with_photos(folder, tests)
        owners = {user: k for k, user in enumerate(dict.fromkeys(row.user for row in train))}
        chosen = select_owners(
            self.name, "authors with photographs", np.arange(len(owners)), self.clients, seed
        )
        selected = set(chosen.tolist())
        train = [row for row in train if owners[row.user] in selected]
        both = [*train, *test]
        fed = federate(
            Photos(
                tuple(row.path for row in both),
                Picture(max_pixels=self.max_pixels),
                torch.tensor([row.label for row in both]),
                classes,
                MEAN,
                STD,
                memory=self.memory,
                side=self.side,
                random_parts=self.augment,
            ),
            len(train),
            self.partition,
            self.clients,
            seed,
            users=np.array([owners[row.user] for row in train]),
        )
        return replace(fed, remark=_remark(lost, lost_tests, len(users) - len(owners)))

    def _with_photos(
        self, folder: Path, rows: Sequence[tuple[str, str, int]]
    ) -> tuple[list[PhotoRow], int]:
        """The rows whose photographs are there, and the number of the others."""
        found = [
            PhotoRow(user, path, label)
            for user, image, label in rows
            if (path := _photo(folder, image)) is not None
        ]
        lost = len(rows) - len(found)
        if lost and self.missing == "error":
            first = next(image for _, image, _ in rows if _photo(folder, image) is None)
            raise DataError(
                f"{self.name}: {lost} of {len(rows)} rows have no photograph; the first is "
                f"{shown(first)}, looked for at {_places(folder, first)[0]}. Complete the folder "
                "train, or leave these rows out with missing='skip'."
            )
        if not found:
            raise DataError(
                f"{self.name}: none of the photographs is in {folder / 'train'}. "
                "Unpack Google Landmarks v2 there."
            )
        return found, lost


def _rows(path: Path, keys: Sequence[str]) -> tuple[list[tuple[str, str, int]], set[str]]:
    """Author or "", photograph and class of each row, and all authors."""
    rows: list[tuple[str, str, int]] = []
    try:
        with open_text(path, newline="") as file:
            reader = csv.DictReader(file)
            absent = [key for key in (*keys, "class") if key not in (reader.fieldnames or ())]
            if absent:
                raise ValueError(f"the column {absent[0]} is missing")
            for row in reader:
                image, label = row["image_id"] or "", row["class"] or ""
                user = (row["user_id"] or "") if "user_id" in keys else ""
                if not re.fullmatch("[0-9A-Za-z_-]+", image) or not label.isdecimal():
                    raise ValueError(f"found image {shown(image)} of class {shown(label)}")
                if "user_id" in keys and not user:
                    raise ValueError(f"image {image} has no author")
                rows.append((user, image, int(label)))
    except (OSError, UnicodeDecodeError, csv.Error, ValueError) as error:
        raise DataError(
            f"{path}: row {len(rows) + 1} must have {', '.join(keys)}, and class, a whole number "
            f"from 0: {error}."
        ) from None
    if not rows:
        raise DataError(f"{path} has no row. Get it again.")
    return rows, {user for user, _, _ in rows}


def _class_count(
    folder: Path, train: Sequence[tuple[str, str, int]], test: Sequence[tuple[str, str, int]]
) -> int:
    """The number of classes; refuse files whose classes do not match."""
    known = {label for _, _, label in train}
    if strange := sorted({label for _, _, label in test} - known):
        raise DataError(
            f"{folder / 'test.csv'} has {len(strange)} classes that federated_train.csv has not, "
            f"the first of which is {strange[0]}. The two files do not belong together."
        )
    if gaps := sorted(set(range(max(known) + 1)) - known):
        raise DataError(
            f"{folder / 'federated_train.csv'} must have every class from 0 to {max(known)}, and "
            f"{len(gaps)} are missing, the first of which is {gaps[0]}. Number the classes anew."
        )
    return len(known)


def _places(folder: Path, image: str) -> list[Path]:
    file = f"{image}.jpg"
    return [folder / "train" / "/".join(image[:3]) / file, folder / "images" / file]


def _photo(folder: Path, image: str) -> str | None:
    return next((str(path) for path in _places(folder, image) if path.is_file()), None)


def _remark(lost: int, lost_tests: int, authors: int) -> str:
    if not lost and not lost_tests:
        return ""
    return (
        f"rows without a photograph were left out: {lost} for training and {lost_tests} for "
        f"testing; {authors} authors have no photograph and are no clients"
    )


landmarks = register("data set", "landmarks")(Landmarks)
