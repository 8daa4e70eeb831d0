"""A miniature of Mapillary Street-Level Sequences in its true layout."""

from __future__ import annotations

from pathlib import Path

import numpy as np

ROLES = ("query", "database")


def write_city(
    folder: Path,
    drives: dict[str, dict[str, list[tuple[float, float]]]],
    *,
    panoramas: int = 0,
    size: tuple[int, int] = (48, 32),
    seed: int = 0,
    sequence_column: str = "sequence_key",
) -> None:
    """``drives[role][sequence]``: easting and northing of each image, in order of the drive.

    The rows are written in reverse, and ``panoramas`` images of the database are panoramas. Images
    have different sizes: every third is a portrait.
    """
    from PIL import Image

    rng = np.random.default_rng(seed)
    for role in ROLES:
        here = folder / role
        (here / "images").mkdir(parents=True)
        raw, sequences, posts = [], [], []
        for name, positions in drives[role].items():
            for frame, (east, north) in enumerate(positions):
                key = f"{role[0]}{name}{frame:02d}"
                pano = role == "database" and len(raw) < panoramas
                raw.append(f"{key},9.9,53.5,200.5,1436181930000,{pano}")
                sequences.append(f"{key},{name},{frame}")
                posts.append(f"{key},{east!r},{north!r},False,True,Forward,3")
                shape = size if len(raw) % 3 else size[::-1]
                pixels = rng.integers(256, size=(shape[1], shape[0], 3), dtype=np.uint8)
                Image.fromarray(pixels).save(here / "images" / f"{key}.jpg")
        write_table(here / "raw.csv", "key,lon,lat,ca,captured_at,pano", raw)
        write_table(here / "seq_info.csv", f"key,{sequence_column},frame_number", sequences)
        columns = "key,easting,northing,night,control_panel,view_direction,unique_cluster"
        write_table(here / "postprocessed.csv", columns, posts)


def write_table(path: Path, columns: str, rows: list[str]) -> None:
    """A CSV file as MSLS has it: the first column is a row number without a name."""
    numbered = [f"{number},{row}" for number, row in enumerate(rows)]
    path.write_text("\n".join([f",{columns}", *reversed(numbered)]) + "\n")


def straight(
    start: tuple[float, float], count: int, step: float = 8.0
) -> list[tuple[float, float]]:
    """A drive to the east."""
    return [(start[0] + step * i, start[1]) for i in range(count)]


def neighbourhoods(
    centres: list[tuple[float, float]], frames: int = 6
) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Around each centre two query and two database sequences along the same street."""
    drives: dict[str, dict[str, list[tuple[float, float]]]] = {role: {} for role in ROLES}
    for number, (east, north) in enumerate(centres):
        for role in ROLES:
            for turn in range(2):
                shift = 0.0 if role == "query" else 1.5
                start = (east + 60 * turn + shift, north)
                drives[role][f"s{number}{turn}"] = straight(start, frames)
    return drives


def write_msls(root: Path) -> Path:
    """Two training cities of two and three neighbourhoods, and the four others."""
    base = (565_000.0, 5_930_000.0)

    def at(*offsets: tuple[float, float]) -> list[tuple[float, float]]:
        return [(base[0] + x, base[1] + y) for x, y in offsets]

    cities = {
        "london": neighbourhoods(at((0, 0), (5000, 0))),
        "boston": neighbourhoods(at((0, 0), (0, 6000), (9000, 0))),
        "amsterdam": neighbourhoods(at((0, 0))),
        "sf": neighbourhoods(at((0, 0))),
        "cph": neighbourhoods(at((0, 0)), frames=4),
    }
    for number, (city, drives) in enumerate(cities.items()):
        column = "sequence_id" if city == "boston" else "sequence_key"
        write_city(
            root / "train_val" / city,
            drives,
            panoramas=3 if city == "london" else 0,
            seed=number,
            sequence_column=column,
        )
    (root / "test" / "miami" / "query" / "images").mkdir(parents=True)
    (root / "test" / "miami" / "database" / "images").mkdir(parents=True)
    return root
