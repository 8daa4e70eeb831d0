"""Pictures read from files while a model trains, against the same pictures in memory: side by side,
in turn.

    python benchmarks/on_disk.py                     # about two minutes on two cores
    python benchmarks/on_disk.py --pictures 200 --repeats 1

The papers' CNN trains on 32x32 pictures with one thread; files are read by others. In each repeat
the same rounds are run from memory, from files with a budget of a tenth of the pictures, and with
one of all of them, which are read once. Each figure is the median of ratios within one repeat, with
the smallest and the largest: how much of the speed from memory is left. The files are in the
system's cache: what is timed is reading and decoding, not a disk. Run it on a quiet machine:
decoding needs a core beside the one that trains.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from PIL import Image

import fedflat as ff

SIDE, CLASSES = 32, 10
EACH = 3 * SIDE * SIDE


def draw(folder: Path, count: int) -> tuple[np.ndarray, list[int]]:
    """Pictures of smooth noise, as PNG files in a folder for each class; and as arrays, in the
    order of the files."""
    rng = np.random.default_rng(0)
    coarse = rng.integers(256, size=(count, 8, 8, 3), dtype=np.uint8)
    pictures = coarse.repeat(SIDE // 8, axis=1).repeat(SIDE // 8, axis=2) // 2 + rng.integers(
        40, size=(count, SIDE, SIDE, 3), dtype=np.uint8
    )
    labels = [place * CLASSES // count for place in range(count)]
    for place, (picture, label) in enumerate(zip(pictures, labels, strict=True)):
        path = folder / "train" / str(label) / f"{place:06}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(path)
    test = folder / "test" / "0"
    test.mkdir(parents=True)
    Image.fromarray(pictures[0]).save(test / "0.png")
    return pictures.transpose(0, 3, 1, 2), labels


def seconds(on: Any, rounds: int, model: str) -> tuple[float, torch.Tensor]:
    """How long the rounds take, and where they lead."""
    begun = time.perf_counter()
    result = ff.run(
        "fedavg",
        on=on,
        model=model,
        rounds=rounds,
        clients_per_round=2,
        batch_size=64,
        lr=0.01,
        eval_every=10**6,
        executor="in-process",
        threads=1,
        quiet=True,
    )
    assert result.model is not None
    return time.perf_counter() - begun, result.model.params


def main() -> None:
    """Draw, run in turn, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pictures", type=int, default=5000)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--model", default="cnn()")
    args = parser.parse_args()
    with TemporaryDirectory() as folder:
        pictures, labels = draw(Path(folder), args.pictures)
        x, y = torch.from_numpy(pictures.copy()), torch.tensor(labels)
        memory = ff.tensors(x, y, x[:1], y[:1], clients=args.clients, classes=CLASSES)
        tenth, whole = (
            ff.image_folder(folder, clients=args.clients, memory=EACH * args.pictures // share)
            for share in (10, 1)
        )
        ratios: dict[str, list[float]] = {"a tenth of the pictures kept": [], "all of them": []}
        for repeat in range(args.repeats + 1):
            took, there = seconds(memory, args.rounds, args.model)
            for name, on in zip(ratios, (tenth, whole), strict=True):
                other, same = seconds(on, args.rounds, args.model)
                assert torch.equal(there, same), "the bits must be those of pictures in memory"
                if repeat:  # the first warms up
                    ratios[name].append(took / other)
        for name, found in ratios.items():
            spread = f"({min(found):.3f} to {max(found):.3f})"
            print(f"{name:<30}{statistics.median(found):.3f} {spread} of the speed from memory")


if __name__ == "__main__":
    main()
