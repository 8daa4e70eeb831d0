"""BiSeNetV2 on driving scenes: fedflat's request beside a bare loop of PyTorch, and files beside
memory, in turn.

    python benchmarks/segmentation.py --only request       # five minutes on a quiet machine
    python benchmarks/segmentation.py --only loader      # ten minutes, with a second core that is idle
    python benchmarks/segmentation.py --only memory      # a minute
    python benchmarks/segmentation.py --scenes 8 --repeats 1 --size 32x64 --files 64x128 --model "small_unet(width=4)"

Scenes of the street world are written as PNG files in Cityscapes' folders. A request is one
client's walk over all of them, in crops of half their sides, with one thread. In each repeat the
same walk, over the same crops, is made

    bare       by torch alone: the module, torch.optim.SGD, cross entropy of every head
    ours       by fedflat's request, the scenes in memory
    files      by fedflat's request, each scene decoded anew by the pool while the model works on the batch before
    alone      the same without the pool: a batch is decoded by one thread when it is needed, and waited for

after one that warms up.

``request`` compares the first two, BiSeNetV2 on scenes of 256x512: the median of ratios of
processor seconds within a repeat, which other work on the machine disturbs less than the clock.

``loader`` compares the last three by the clock. So that decoding is a share of a request that can
be seen, scenes are as large on disk as Cityscapes' are, 1024x2048, brought to 512x1024, and the
network has a quarter of the width. It says first how long decoding takes beside a request from
memory: `alone` should be slower by that share, `files` by no more than the part of it that is the
first batch's, which nobody expects. Without a second idle core nothing can be hidden.

``memory`` is the peak of the second walk of `bare` and `ours`, each in a process of its own, less
what it had before.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch.nn.functional import cross_entropy

import fedflat as ff
import fedflat.data.on_disk
from fedflat.client.training import Request, run_client
from fedflat.core.messages import Broadcast
from fedflat.core.seeds import torch_generator
from fedflat.data.files.paths import set_data_dir
from fedflat.data.files.pictures import png
from fedflat.data.scenes import scenes
from fedflat.data.scenes.classes import CITYSCAPES_IDS
from fedflat.data.scenes.scenes import read_scene
from fedflat.data.street.film import Journey
from fedflat.data.street.frame import CLASSES
from fedflat.experiments.api import experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.run_setup import RunSetup
from fedflat.kernels.allocator import keep_memory
from fedflat.kernels.memory_format import channels_last

ALIKE = {"pavement": "sidewalk", "sign": "traffic sign", "green": "vegetation"}
LR = 0.01


@dataclass(frozen=True)
class Usual:
    """What a part of the benchmark is about, if nothing else is said."""

    model: str
    size: str
    """Height and width of the scenes; crops have half of each."""
    files: str
    """Their height and width on disk."""
    repeats: int = 7


PARTS = {
    "request": Usual("bisenetv2()", "256x512", "256x512"),
    "loader": Usual("bisenetv2(width=0.25)", "512x1024", "1024x2048", 4),
    "memory": Usual("bisenetv2()", "256x512", "256x512"),
}


def write(root: Path, count: int, height: int, width: int) -> None:
    """Scenes of one city, and one to test on."""
    ids = {name: number for number, name in CITYSCAPES_IDS.items()}
    table = np.zeros(256, np.uint8)
    table[: len(CLASSES)] = [ids[ALIKE.get(name, name)] for name in CLASSES]
    film = Journey(0, 0, 0, "sun", width=width, rows=height).film(count + 1)
    for place, (image, mask) in enumerate(zip(film.images, film.masks, strict=True)):
        part, name = ("train", "bern") if place < count else ("val", "basel")
        for kind, ending, pixels in (
            ("leftImg8bit", "leftImg8bit", image.transpose(1, 2, 0)),
            ("gtFine", "gtFine_labelIds", table[mask]),
        ):
            folder = root / "cityscapes" / kind / part / name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}_{place:06d}_000000_{ending}.png").write_bytes(
                png(np.ascontiguousarray(pixels))
            )


def setup(args: argparse.Namespace, root: Path) -> RunSetup:
    """The run whose first request is made."""
    set_data_dir(root)
    height, width = sides(args.size)
    on = ff.cityscapes(clients=1, size=[height, width], crop=[height // 2, width // 2])
    return prepare(
        experiment(
            "fedavg",
            on=on,
            model=args.model,
            rounds=1,
            clients_per_round=1,
            batch_size=args.batch,
            lr=LR,
        )
    )


class Client:
    """Who walks: the run, the bare loop's module, and what fedflat's client is sent, all made
    beforehand."""

    def __init__(self, setup: RunSetup) -> None:
        model = setup.job.learner.initial()
        self.setup, self.module = setup, setup.job.learner.module().train()
        self.broadcast = Broadcast(0, model.params, model.buffers, LR)


def bare(client: Client) -> None:
    """The walk in plain PyTorch, with channels last where fedflat has them so."""
    setup, module = client.setup, client.module
    exp, data = setup.exp, setup.fed.data(0)
    optimiser = torch.optim.SGD(module.parameters(), lr=LR)
    rng = torch_generator(exp.seed, "augment", 0, 0)
    for places in exp.local.batches(exp.seed, 0, 0, len(data)):
        batch = data.batch(places, torch.float32, rng)
        inputs = (
            channels_last(batch.inputs) if setup.job.learner.trains_channels_last else batch.inputs
        )
        optimiser.zero_grad()
        outputs = module(inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        sum(cross_entropy(one, batch.targets, ignore_index=255) for one in outputs).backward()
        optimiser.step()


def ours(client: Client) -> None:
    """The walk as fedflat makes it."""
    run_client(client.setup.job, Request(0, client.broadcast, {}), client.setup.fed.data(0))


def files(client: Client, budget: int) -> None:
    """The same with category for so many bytes of scenes."""
    before, scenes.BUDGET = scenes.BUDGET, budget
    try:
        ours(client)
    finally:
        scenes.BUDGET = before


def alone(client: Client, budget: int) -> None:
    """The same without the pool; those who have another ``budget`` have another one."""
    pool, expect = fedflat.data.on_disk.READERS, scenes.Scenes.expect
    fedflat.data.on_disk.READERS = 1
    scenes.Scenes.expect = lambda self, index: None  # type: ignore[method-assign]
    try:
        files(client, budget)
    finally:
        fedflat.data.on_disk.READERS = pool
        scenes.Scenes.expect = expect  # type: ignore[method-assign]


def decoding(client: Client) -> None:
    """All scenes, and nothing else."""
    found = client.setup.fed.data(0).examples
    assert isinstance(found, scenes.Scenes)
    for scene in found.scenes:
        read_scene(scene.image, scene.mask, found.ids, found.frame)


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Seconds of the clock, and of the processor in this thread."""
    begun, spent = time.perf_counter(), time.thread_time()
    work()
    return time.perf_counter() - begun, time.thread_time() - spent


def print_ratios(label: str, ratios: list[float]) -> None:
    """A line: the median of some ratios, and how far they spread."""
    print(
        f"{label:<50}{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})",
        flush=True,
    )


def local_training(client: Client, args: argparse.Namespace) -> None:
    """Walk in turn, bare and ours, and print the ratio of processor seconds."""
    ratios = [
        timed(lambda: bare(client))[1] / timed(lambda: ours(client))[1]
        for _ in range(args.repeats + 1)
    ]
    print_ratios("a request, of the speed of bare PyTorch", ratios[1:])


def loaders(client: Client, args: argparse.Namespace) -> None:
    """Walk in turn, from memory and from files with and without the pool, and print ratios by the
    clock."""
    height, width = sides(args.size)
    category = (
        4 * height * width * 2 * args.batch
    )  # two batches: that which is worked on, and the next
    found: dict[str, list[float]] = {"decoding": [], "files": [], "alone": []}
    for repeat in range(args.repeats + 1):
        kept = timed(lambda: ours(client))[0]
        pool, waiting = (
            timed(lambda: files(client, category))[0],
            timed(lambda: alone(client, category + 1))[0],
        )
        if repeat:
            found["decoding"].append(timed(lambda: decoding(client))[0] / kept)
            found["files"].append(kept / pool)
            found["alone"].append(kept / waiting)
    print_ratios("decoding by itself, of the time of a request", found["decoding"])
    print_ratios("decoded by the pool, of the speed from memory", found["files"])
    print_ratios("decoded without the pool, likewise", found["alone"])


def raised(client: Client, walk: Callable[[Client], None]) -> float:
    """By how many megabytes a walk raises what this process has in memory, at most."""

    def memory(name: str) -> int:
        return int(re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())[1])  # type: ignore[index]

    walk(client)  # what is loaded and kept the first time does not count
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak is from now on
    before = memory("VmRSS")
    walk(client)
    return (memory("VmHWM") - before) * 1024 / 1e6


def peak(args: argparse.Namespace, root: Path, who: str) -> str:
    """The memory of one walk in a process of its own, in megabytes."""
    words = [sys.executable, __file__, "--alone", who, "--root", str(root), "--size", args.size]
    words += ["--model", args.model, "--batch", str(args.batch)]
    return subprocess.run(
        words, capture_output=True, text=True, check=True, env=dict(os.environ)
    ).stdout.strip()


def part(name: str, args: argparse.Namespace) -> None:
    """Write, walk, print."""
    for option, usual in vars(PARTS[name]).items():
        setattr(args, option, usual if getattr(args, option) is None else getattr(args, option))
    with TemporaryDirectory() as folder:
        write(Path(folder), args.scenes, *sides(args.files))
        ready = setup(args, Path(folder))
        count, (height, width) = (
            sum(p.numel() for p in ready.job.learner.module().parameters()),
            sides(args.size),
        )
        crops = f"batches of {args.batch} crops of {height // 2}x{width // 2}"
        print(
            f"{name}: {args.model}, {count:,} parameters, {crops}, files of {args.files}",
            flush=True,
        )
        if name == "memory":
            for who in ("bare", "ours"):
                print(f"memory of a request, {who:<31}{peak(args, Path(folder), who)}")
        else:
            {"request": local_training, "loader": loaders}[name](Client(ready), args)


def sides(text: str) -> tuple[int, int]:
    """Height and width."""
    height, width = map(int, text.split("x"))
    return height, width


def size(text: str) -> str:
    """Height and width, as text."""
    if not re.fullmatch(r"[1-9]\d*x[1-9]\d*", text):
        raise argparse.ArgumentTypeError("it must be height and width, such as 256x512")
    return text


def main() -> None:
    """All parts, or one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=list(PARTS))
    parser.add_argument("--scenes", type=int, default=32)
    parser.add_argument(
        "--size",
        type=size,
        help="height and width of the scenes, as 256x512; crops have half of each",
    )
    parser.add_argument("--files", type=size, help="their height and width on disk")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--model")
    parser.add_argument("--alone", choices=["bare", "ours"], help=argparse.SUPPRESS)
    parser.add_argument("--root", help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.alone:
        print(
            f"{raised(Client(setup(args, Path(args.root))), bare if args.alone == 'bare' else ours):.0f} MB"
        )
        return
    keep_memory()
    for name in [args.only] if args.only else PARTS:
        part(name, argparse.Namespace(**vars(args)))


if __name__ == "__main__":
    main()
