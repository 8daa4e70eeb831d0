"""Writers of miniature driving scenes in the folder layouts of the published sets."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

CITY_IDS = [7, 8, 11, 26, 23, 0, 33]
"""Some label ids of Cityscapes, one of them ignored."""


def photo(path: Path, seed: int, size: tuple[int, int] = (6, 8)) -> np.ndarray:
    """An image of random colours, ``(h, w, 3)``; what was written, if the file is a PNG."""
    pixels = np.random.default_rng(seed).integers(256, size=(*size, 3), dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return pixels


def mask(
    path: Path, seed: int, ids: list[int], size: tuple[int, int] = (6, 8), *, palette: bool = False
) -> np.ndarray:
    """A mask of these ids, each of them somewhere."""
    rng = np.random.default_rng(seed)
    pixels = rng.permutation(np.resize(np.array(ids, np.uint8), size[0] * size[1])).reshape(size)
    image = Image.fromarray(pixels)
    if palette:
        image.putpalette(rng.integers(256, size=768, dtype=np.uint8).tobytes())
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)
    return pixels


def cityscapes(root: Path, train: Mapping[str, int], val: Mapping[str, int]) -> Path:
    """``leftImg8bit`` and ``gtFine`` with so many scenes of each city."""
    folder, seed = root / "cityscapes", 0
    for part, cities in (("train", train), ("val", val)):
        for city, count in cities.items():
            for frame in range(count):
                name, seed = f"{city}_000000_{frame:06d}", seed + 1
                photo(folder / "leftImg8bit" / part / city / f"{name}_leftImg8bit.png", seed)
                mask(
                    folder / "gtFine" / part / city / f"{name}_gtFine_labelIds.png", seed, CITY_IDS
                )
    return folder


def idda(root: Path, towns: int = 7, each: int = 5) -> Path:
    """A folder for each town, weather and vehicle, without the one that is missing."""
    folder, seed = root / "idda", 0
    for town in range(1, towns + 1):
        for weather in ("CN", "CS", "HRN"):
            for vehicle in "ABJMV":
                domain = f"T{town:02d}_{weather}_{vehicle}"
                if domain == "T07_CN_J":
                    continue
                for _ in range(each):
                    seed += 1
                    photo(folder / domain / "RGB" / f"{seed}_{domain}.jpg", seed)
                    mask(
                        folder / domain / "Semantic" / f"{seed}_{domain}.png", seed, list(range(24))
                    )
    return folder


def crosscity(root: Path, train: int, test: int) -> Path:
    """Images of four cities to train on, and with masks to test on."""
    folder, seed = root / "crosscity", 0
    for city in ("Rio", "Rome", "Taipei", "Tokyo"):
        for i in range(train):
            photo(
                folder / city / "Images" / "Train" / f"pano_{i:05d}_0_0.png",
                seed := seed + 1,
                (2, 4),
            )
        for i in range(test):
            photo(folder / city / "Images" / "Test" / f"pano_{i:05d}_0_180.png", seed := seed + 1)
            mask(folder / city / "Labels" / "Test" / f"pano_{i:05d}_0_180_eval.png", seed, CITY_IDS)
    return folder


def gta5(root: Path, count: int) -> Path:
    """Images and masks with a palette; the last mask has another size than its image."""
    folder = root / "gta5"
    for i in range(1, count + 1):
        photo(folder / "images" / f"{i:05d}.png", i)
        mask(
            folder / "labels" / f"{i:05d}.png",
            i,
            [*CITY_IDS, 34],
            (6, 8) if i < count else (5, 8),
            palette=True,
        )
    return folder


def mapillary(root: Path, continents: Mapping[str, int], *, version: str = "v1.2") -> Path:
    """Images of two shapes, masks with a palette, and where each was taken."""
    folder, rows, seed = root / "mapillary", [], 0
    rng = np.random.default_rng(0)
    for continent, count in continents.items():
        for i in range(count):
            name, seed = f"{continent}-{i}", seed + 1
            size = (6, 8) if i % 2 else (6, 12)
            photo(folder / "training" / "images" / f"{name}.jpg", seed, size)
            mask(
                folder / "training" / version / "labels" / f"{name}.png",
                seed,
                [13, 15, 27, 65],
                size,
                palette=True,
            )
            north, east = rng.normal(10 * seed % 40, 3), rng.normal(0, 20)
            rows.append(
                {"name": name, "latitude": north, "longitude": east, "continent": continent}
            )
    photo(folder / "validation" / "images" / "v.jpg", 0)
    mask(folder / "validation" / version / "labels" / "v.png", 0, [13, 15, 27, 65], palette=True)
    with (folder / "places.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["name", "latitude", "longitude", "continent"])
        writer.writeheader()
        writer.writerows(rows)
    return folder


def camvid(root: Path, sequences: Mapping[str, tuple[int, int]]) -> np.ndarray:
    """Of each sequence so many frames to train and to test on; all masks in one file; the masks."""
    folder = root / "camvid"
    rows = [
        (f"{name}_{i:06d}", "train" if i < train else "test", name)
        for name, (train, test) in sequences.items()
        for i in range(train + test)
    ]
    for seed, (name, _, _) in enumerate(rows):
        photo(folder / "images" / f"{name}.jpg", seed, (180, 240))
    masks = np.random.default_rng(1).integers(12, size=(len(rows) * 180, 240), dtype=np.uint8)
    Image.fromarray(masks).save(folder / "labels.png", compress_level=1)
    lines = [f"{i},{name},{split},{sequence}" for i, (name, split, sequence) in enumerate(rows)]
    (folder / "index.csv").write_text("\n".join(["row,name,split,sequence", *lines]) + "\n")
    return masks.reshape(-1, 180, 240)
