"""How fast fedflat is, as ratios measured side by side: participants are alive together and work in
turn.

    make bench
    python benchmarks/bench.py --only w1 w3 --repeats 7 --json bench.json

L1 is bare PyTorch over the same mini-batches: one process, two threads, nothing federated, the
allocator left alone. LB is the best bare loop known: two processes of one thread, glibc told to
keep its memory, huge pages, images with channels last, convolutions by fewer products where those
are quicker; LT is the same with torch's own convolutions. Every figure is the median of ratios
within one repeat, with the smallest and the largest. Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from peak import Product, operations
from process import HERE, Participant
from workloads import SIZES

from flatness import Flatness

KEPT = {
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**33),
    "MALLOC_TOP_PAD_": str(2**28),
}
HUGE = {**KEPT, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
GB = 1e9


@dataclass
class Figure:
    """One line of the table: values of each repeat, and what they should reach."""

    what: str
    values: list[float]
    goal: float | None = None
    most: bool = False
    """Whether the goal is an upper limit."""
    unit: str = ""

    @property
    def middle(self) -> float:
        """The median."""
        return statistics.median(self.values)

    def row(self) -> list[str]:
        """The line, in words."""
        spread = (
            f"{_short(min(self.values))} to {_short(max(self.values))}"
            if len(self.values) > 1
            else ""
        )
        output = _short(self.middle) + self.unit
        if self.goal is None:
            return [self.what, output, spread, ""]
        met = self.middle <= self.goal if self.most else self.middle >= self.goal
        goal = f"{'at most' if self.most else 'at least'} {self.goal:g}{self.unit}{'' if met else ': missed'}"
        return [self.what, output, spread, goal]


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


@dataclass(frozen=True)
class Bench:
    """How to measure."""

    size: str
    repeats: int
    seconds: float
    print_line: Callable[[str], None]

    @property
    def threads(self) -> int:
        """Threads of L1."""
        return 2 if self.size == "full" else 1

    def start(
        self, name: str, who: str, number: int | None = None, env: dict[str, str] | None = None
    ) -> Participant:
        """A participant, warmed up."""
        command = [sys.executable, str(HERE / "work.py"), self.size, name, who]
        command += [] if number is None else [str(number)]
        self.print_line(f"  starting {name} {who} {number or ''}")
        return Participant(f"{name} {who}", command, SIZES[self.size][name].samples, env)

    def race(self, teams: Mapping[str, list[Any]]) -> dict[str, list[float]]:
        """Samples a second of each team in each repeat; the members of a team work at the same
        time."""
        speeds: dict[str, list[float]] = {name: [] for name in teams}
        rounds = {
            name: max(1, round(self.seconds / _turn(team, 1)[0])) for name, team in teams.items()
        }
        for repeat in range(self.repeats):
            for name, team in teams.items():
                seconds, samples = _turn(team, rounds[name])
                speeds[name].append(samples / seconds)
            messages = ", ".join(f"{name} {values[-1]:,.0f}" for name, values in speeds.items())
            self.print_line(f"  repeat {repeat + 1} of {self.repeats}: samples/s {messages}")
        return speeds


def _turn(team: list[Any], rounds: int) -> tuple[float, int]:
    begun = time.perf_counter()
    for one in team:
        one.begin(rounds)
    samples = sum(one.end(rounds)["samples"] for one in team)
    return time.perf_counter() - begun, samples


@contextmanager
def _ended(*teams: list[Any]) -> Iterator[None]:
    try:
        yield
    finally:
        for one in (one for team in teams for one in team):
            one.close()


def ratios(speeds: dict[str, list[float]], one: str, other: str) -> list[float]:
    """How many times as fast one is as the other, in each repeat."""
    return [a / b for a, b in zip(speeds[one], speeds[other], strict=True)]


def images(bench: Bench, name: str, goal: float) -> list[Figure]:
    """Two clients at a time against L1 and LB; one at a time against a bare loop that knows the
    same tricks."""
    teams = {
        "L1": [bench.start(name, "bare", bench.threads)],
        "tricks": [bench.start(name, "bare-quick", bench.threads, KEPT)],
        "contiguous": [bench.start(name, "bare", 1, HUGE) for _ in range(2)],
        "LT": [bench.start(name, "bare-last", 1, HUGE) for _ in range(2)],
        "LB": [bench.start(name, "bare-quick", 1, HUGE) for _ in range(2)],
        "workers": [bench.start(name, "workers")],
        "in process": [bench.start(name, "in-process")],
    }
    with _ended(*teams.values()):
        speeds = bench.race(teams)
    return [
        Figure(f"{name}: L1", speeds["L1"], unit=" samples/s"),
        Figure(f"{name}: LB to L1", ratios(speeds, "LB", "L1")),
        Figure(
            f"{name}: LB to the same with torch's own convolutions, LT", ratios(speeds, "LB", "LT")
        ),
        Figure(
            f"{name}: LT to the same with contiguous images", ratios(speeds, "LT", "contiguous")
        ),
        Figure(f"{name}: two workers to L1", ratios(speeds, "workers", "L1"), goal),
        Figure(
            f"{name}: two workers to LB",
            ratios(speeds, "workers", "LB"),
            None if name == "w1-aug" else 0.95,
        ),
        Figure(
            f"{name}: in process to a bare loop with its tricks",
            ratios(speeds, "in process", "tricks"),
            0.97,
        ),
    ]


def one_core(bench: Bench) -> list[Figure]:
    """Training on one thread, as a share of what a matrix product reaches there."""
    teams: dict[str, list[Any]] = {
        "ours": [bench.start("w1", "one-thread")],
        "product": [Product(bench.size)],
    }
    with _ended(*teams.values()):
        speeds = bench.race(teams)
    each = operations(SIZES[bench.size]["w1"])
    return [
        Figure("w1: operations of an example", [each / 1e6], unit=" million"),
        Figure(
            "w1: the best matrix product of one core",
            [v / 1e9 for v in speeds["product"]],
            unit=" GFLOP/s",
        ),
        Figure(
            "w1: training on one thread", [v * each / 1e9 for v in speeds["ours"]], unit=" GFLOP/s"
        ),
        Figure(
            "w1: training to the matrix product",
            [v * each for v in ratios(speeds, "ours", "product")],
        ),
    ]


def small_networks(bench: Bench) -> list[Figure]:
    """A cohort in one stack against the bare loop."""
    teams = {
        "L1": [bench.start("w3", "bare", bench.threads)],
        "one": [bench.start("w3", "bare", 1)],
    }
    teams |= {
        name: [bench.start("w3", name)]
        for name in ("stacked", "stacked-threads", "stacked-parts", "in-process")
    }
    with _ended(*teams.values()):
        speeds = bench.race(teams)
    return [
        Figure("w3: L1", speeds["L1"], unit=" samples/s"),
        Figure("w3: stacked to L1", ratios(speeds, "stacked", "L1"), 20),
        Figure("w3: stacked to the bare loop with one thread", ratios(speeds, "stacked", "one")),
        Figure("w3: stacked with two threads to L1", ratios(speeds, "stacked-threads", "L1")),
        Figure("w3: stacked in two processes to L1", ratios(speeds, "stacked-parts", "L1")),
        Figure(
            "w3: in process to the bare loop with one thread",
            ratios(speeds, "in-process", "one"),
            0.9,
        ),
    ]


def populations(bench: Bench) -> list[Figure]:
    """A million clients against a thousand."""
    teams = {name: [bench.start(f"w4-{name}", "stacked")] for name in ("thousand", "million")}
    with _ended(*teams.values()):
        speeds = bench.race(teams)
        thousand, million = (teams[name][0].peak() for name in ("thousand", "million"))
    return [
        Figure(
            "w4: time of a round, a million clients to 1,000",
            ratios(speeds, "thousand", "million"),
            1.1,
            True,
        ),
        Figure("w4: memory, a million clients to 1,000", [million / thousand], 1.1, True),
        Figure("w4: memory with a million clients", [million / GB], 1, True, " GB"),
    ]


def memories(bench: Bench) -> list[Figure]:
    """What clients remember on disk, against all of it in RAM."""
    budget = 10**9 if bench.size == "full" else 10**6
    teams = {
        "disk": [bench.start("w5", "in-process", budget)],
        "ram": [bench.start("w5", "in-process", 10**12)],
    }
    with _ended(*teams.values()):
        speeds = bench.race(teams)
        disk, ram = (teams[name][0].peak() / GB for name in ("disk", "ram"))
    return [
        Figure(
            "w5: time of a round, on disk beyond 1 GB to all in RAM",
            ratios(speeds, "ram", "disk"),
            1.3,
            True,
        ),
        Figure("w5: memory with 1 GB for what clients remember", [disk], 2.5, True, " GB"),
        Figure("w5: memory with all of it in RAM", [ram], unit=" GB"),
    ]


def cohorts(bench: Bench) -> list[Figure]:
    """Memory of a round with ten times the clients."""
    found = []
    for executor in ("in-process", "workers"):
        peaks = []
        for name in ("cohort-10", "cohort-100"):
            team = [bench.start(name, executor)]
            with _ended(team):
                peaks.append(team[0].peak())
        found.append(
            Figure(
                f"memory, 100 clients a round to 10, {executor}", [peaks[1] / peaks[0]], 1.1, True
            )
        )
    return found


def start_up(bench: Bench) -> list[Figure]:
    """Seconds until something happens."""
    fedflat = str(Path(sys.executable).with_name("fedflat"))
    commands = {
        "help": [fedflat, "--help"],
        "torch": [sys.executable, "-c", "import torch"],
        "fedflat": [sys.executable, "-c", "import fedflat, torch"],
        "digits": [fedflat, "run", "fedavg", "--rounds", "1", "--quiet", "--out"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for repeat in range(bench.repeats + 1):
        for name, command in commands.items():
            with _folder() as folder:
                begun = time.perf_counter()
                subprocess.run(
                    [*command, folder] if name == "digits" else command,
                    check=True,
                    capture_output=True,
                )
                if repeat:
                    times[name].append(time.perf_counter() - begun)
    beyond = [a - b for a, b in zip(times["fedflat"], times["torch"], strict=True)]
    return [
        Figure("start-up: fedflat --help", times["help"], 0.4, True, " s"),
        Figure("start-up: import fedflat beyond import torch", beyond, 0.3, True, " s"),
        Figure("start-up: import torch", times["torch"], unit=" s"),
        Figure(
            "start-up: a run of one round of digits, from the shell", times["digits"], unit=" s"
        ),
    ]


def flatness(bench: Bench) -> list[Figure]:
    """What it costs to see how flat a minimum is, with all cores."""
    seen = Flatness(bench.size)
    plain, held = seen.costs(bench.repeats)
    return [
        Figure("flatness: a Hessian-vector product to a gradient", plain, 2.6, True),
        Figure("flatness: the same with the graphs of the one before", held, 2.6, True),
        Figure("flatness: five eigenvalues of the CNN on 1,000 images", [seen.top()], unit=" s"),
        Figure(
            "flatness: a surface of 25 x 25 points on 1,000 images", [seen.surface()], unit=" s"
        ),
    ]


@contextmanager
def _folder() -> Iterator[str]:
    with TemporaryDirectory() as folder:
        yield folder + "/run"


PARTS: dict[str, Callable[[Bench], list[Figure]]] = {
    "w1": lambda bench: images(bench, "w1", 1.65),
    "w1-aug": lambda bench: images(bench, "w1-aug", 1.15),
    "w2": lambda bench: images(bench, "w2", 1.25),
    "w1-r": lambda bench: images(bench, "w1-r", 1.25),
    "one-core": one_core,
    "w3": small_networks,
    "w4": populations,
    "w5": memories,
    "cohorts": cohorts,
    "start-up": start_up,
    "flatness": flatness,
}


def table(figures: Sequence[Figure]) -> str:
    """In Markdown."""
    rows = [
        ["", "median", "spread", "goal"],
        ["---", "---:", "---", "---"],
        *(f.row() for f in figures),
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def machine() -> dict[str, str | int | None]:
    """What it was measured on."""
    model = [line for line in _cpuinfo() if line.startswith("model name")]
    return {
        "processor": model[0].partition(":")[2].strip() if model else platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": platform.platform(),
    }


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def main() -> None:
    """Measure and print."""
    ask = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ask.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    ask.add_argument("--repeats", type=int, default=5)
    ask.add_argument(
        "--seconds", type=float, default=2.0, help="about how long a turn is; at least one round"
    )
    ask.add_argument("--size", choices=SIZES, default="full")
    ask.add_argument(
        "--json", default="bench.json", help="where to write all values (default: %(default)s)"
    )
    output = ask.parse_args()
    bench = Bench(
        output.size,
        output.repeats,
        output.seconds,
        lambda text: print(text, file=sys.stderr, flush=True),
    )
    figures = []
    for name in output.only:
        bench.print_line(name)
        figures += PARTS[name](bench)
    where = machine()
    print(
        f"{where['processor']}, {where['cores']} cores, Python {where['python']}, torch {where['torch']}, "
        f"medians of {output.repeats} repeats\n"
    )
    print(table(figures))
    with open(output.json, "w") as stream:
        json.dump(
            {"machine": where, "figures": [asdict(figure) for figure in figures]}, stream, indent=1
        )


if __name__ == "__main__":
    main()
