"""Command lines, most of them wrong, drawn by a seed; all of them end quickly.

for words in options(seed=0, count=1000, folder=scratch):
    assert check(words, scratch) in (0, 2)
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

from fedflat.data.files.paths import set_data_dir
from fedflat.settings.execution import MACHINE
from fedflat.settings.groups import SETTINGS
from hostile.limits import carried_out, shortened

NUMBERS = [
    "0",
    "1",
    "-1",
    "1e0",
    "1.5",
    "1e308",
    "-1e308",
    "nan",
    "inf",
    "9" * 30,
    "9" * 5000,
    "2147483648",
    "1e99",
    "²",
    "٣",
    "0x10",
    "",
    " ",
    "1 ",
    "x",
    "\ud800",
    "10000000000000000000",
    "1e-320",
    "--",
    "1,2",
    "None",
    "1_0",
]
TEXTS = [
    "fedavg",
    "fedsam(rho=1e308)",
    "fedavg + ",
    "FEDAVG",
    "digits(clients=1e18)",
    "mlp(hidden=[1e12])",
    "decay(0.1, 3)",
    "decay(10, 1e30)",
    "",
    "\0",
    "(" * 300,
    "a" * 300,
    "a" * 20_000,
    "from_file(5)",
    "cnn",
    "[]",
    "5",
    "lda(from_file('x'))",
    "digits(from_file('/'))",
    "digits(from_file('~nobody/x'))",
    "auto",
    "test",
    "client:²",
    "²",
    "client:" + "9" * 99,
    "drift,,",
    "drift,nothing",
    "tensorboard;",
    "cuda:9999999999",
    "meta",
    "cpu:x",
    "by_size",
]
NUMERIC = [
    *(one.option for one in (*SETTINGS, *MACHINE) if one.kind in ("int", "float", "Scalar")),
    "--seeds",
    "--checkpoint-every",
    "--target",
]
OPTIONS = [
    "--on",
    "--model",
    "--sampler",
    "--sampler-seed",
    "--weighting",
    "--dtype",
    "--on-bad",
    "--executor",
    "--device",
    "--record",
    "--logger",
    "--preset",
    "--replay",
    "--data-dir",
    "--plugin",
    "--nothing",
    "--Rounds",
]
CLOSELY = [
    "-k",
    "--probes",
    "--density",
    "--rho",
    "--clients",
    "--points",
    "--span",
    "--seed",
    "--examples",
]
PATHS = [
    "/",
    "~nobody/x",
    "a" * 300,
    "x/" * 3000,
    "\0",
    "",
    "nothing",
    "a\nb",
    "/dev/null",
    "..",
    "\ud800",
]
PORTS = ["-1", "65536", "1.5", "nan", "inf", "1e99", "9" * 30, "9" * 5000, "²", "", "x", "--"]
REFUSED = ["--device", "no such device"]
"""Ends a run before its first round, however right the rest is."""


def options(seed: int, count: int, folder: Path) -> Iterator[list[str]]:
    """``count`` command lines that write nothing outside of ``folder``."""
    rng = random.Random(seed)
    make = [
        _run,
        _run,
        _run,
        _analyse,
        _report,
        _resume,
        _dashboard,
        _export,
        _list,
        _reproduce,
        _data,
        _nonsense,
    ]
    for _ in range(count):
        yield rng.choice(make)(rng, folder)


def _run(rng: random.Random, folder: Path) -> list[str]:
    command = rng.choice(["run", "run", "compare"])
    words = [command, rng.choice([*TEXTS, "fedavg", "fedavg", "fedavg"])]
    for _ in range(rng.randrange(1, 5)):
        if rng.random() < 0.7:
            words += [rng.choice(NUMERIC), rng.choice(NUMBERS)]
        else:
            words += [rng.choice(OPTIONS), rng.choice([*TEXTS, *PATHS])]
    return [*words, *REFUSED, "--out", str(folder / rng.choice(["run", "a" * 300, "b/c", "\0"]))]


def _analyse(rng: random.Random, folder: Path) -> list[str]:
    words = ["analyse", str(folder / "nothing")]
    for _ in range(rng.randrange(1, 4)):
        words += [
            rng.choice([*CLOSELY, "--set", "--model", "--trace"]),
            rng.choice([*NUMBERS, *TEXTS]),
        ]
    return [
        *words,
        rng.choice(["--curvature", "--surface", "--plane", "--corruptions", "--local-global"]),
    ]


def _report(rng: random.Random, folder: Path) -> list[str]:
    return [
        "report",
        rng.choice([str(folder), *PATHS]),
        "--out",
        rng.choice([str(folder / "page.html"), *PATHS]),
    ]


def _resume(rng: random.Random, folder: Path) -> list[str]:
    words = ["resume", rng.choice([str(folder / "nothing"), *PATHS])]
    return [
        *words,
        rng.choice(["--until", "--checkpoint-every", "--target", "--record"]),
        rng.choice(NUMBERS),
    ]


def _dashboard(rng: random.Random, folder: Path) -> list[str]:
    """Never with a port that can be had: it would not end."""
    return ["dashboard", rng.choice([str(folder), *PATHS]), "--port", rng.choice(PORTS)]


def _export(rng: random.Random, folder: Path) -> list[str]:
    words = [
        "export",
        rng.choice([str(folder / "nothing"), *PATHS]),
        "--to",
        rng.choice(["m.pt2", "m.x", *PATHS]),
    ]
    return [*words, *rng.choice([[], ["--model", rng.choice(TEXTS)]])]


def _list(rng: random.Random, folder: Path) -> list[str]:
    kind = rng.choice(["methods", "presets", "models", "metrics", "executors", "datasets", *TEXTS])
    words = ["list", kind, rng.choice([*TEXTS, "fedsam", "Fedsam", "fedgloss/", "fedgloss"])]
    return rng.choice([words, words, words[:2]])


def _reproduce(rng: random.Random, folder: Path) -> list[str]:
    words = ["reproduce", rng.choice([*TEXTS, "toy", "fedgloss/table3", "fedgloss/*"])]
    for _ in range(rng.randrange(3)):
        words += rng.choice(
            [
                [
                    rng.choice(["--seeds", "--rounds", "--share", "--jobs", "--checkpoint-every"]),
                    rng.choice(NUMBERS),
                ],
                [rng.choice(["--cells", "--add-average"]), rng.choice([*TEXTS, "*"])],
                [rng.choice(["--list", "--stretch", "--table"])],
                ["--resume", rng.choice([str(folder), *PATHS])],
            ]
        )
    return [*words, "--nice", "99", "--out", str(folder / "table")]


def _data(rng: random.Random, folder: Path) -> list[str]:
    what = rng.choice(
        [
            ["list"],
            ["get", rng.choice([*TEXTS, "digits"])],
            ["show", rng.choice(TEXTS)],
            ["nothing"],
        ]
    )
    more = [["--seed", rng.choice(NUMBERS)], ["--data-dir", rng.choice([str(folder), *PATHS])], []]
    return ["data", *what, *rng.choice(more)]


def _nonsense(rng: random.Random, folder: Path) -> list[str]:
    return [
        rng.choice([*TEXTS, *NUMBERS, *NUMERIC, "run", "--help", "--version"])
        for _ in range(rng.randrange(4))
    ]


def check(words: list[str], folder: Path) -> int:
    """Carry out a command line in ``folder``: its status, 0 or 2, with something said; or an
    AssertionError."""
    before = _names(folder.parent)
    try:
        status = carried_out(*words, where=folder).status
    finally:
        set_data_dir(None)
    assert _names(folder.parent) == before, (
        f"{shortened(words)}: something was written beside the folder"
    )
    return status


def _names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))
