"""Command lines, most of them wrong, drawn by a seed; all of them end quickly.

    for words in options(seed=0, count=1000, folder=scratch):
        assert check(words, scratch) in (0, 2)
"""

from __future__ import annotations

import io
import os
import random
import warnings
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

from fedflat.cli import main
from fedflat.data.places import set_data_dir

NUMBERS = [
    "0", "1", "-1", "1e0", "1.5", "1e308", "-1e308", "nan", "inf", "9" * 30, "9" * 5000, "2147483648", "1e99", "²", "٣",
    "0x10", "", " ", "1 ", "x", "\ud800", "10000000000000000000", "1e-320", "--", "1,2", "None", "1_0",
]  # fmt: skip
TEXTS = [
    "fedavg", "fedsam(rho=1e308)", "fedavg + ", "FEDAVG", "digits(clients=1e18)", "mlp(hidden=[1e12])",
    "decay(0.1, 3)", "decay(10, 1e30)", "", "\0", "(" * 300, "a" * 300, "a" * 20_000, "from_file(5)", "cnn", "[]", "5",
    "lda(from_file('x'))", "digits(from_file('/'))", "digits(from_file('~nobody/x'))", "auto", "test", "client:²", "²",
    "client:" + "9" * 99, "drift,,", "drift,nothing", "tensorboard;", "cuda:9999999999", "meta", "cpu:x", "by_size",
]  # fmt: skip
NUMERIC = [
    "--rounds", "--clients-per-round", "--local-epochs", "--local-steps", "--batch-size", "--virtual", "--lr", "--clip",
    "--weight-decay", "--momentum", "--eval-every", "--eval-last", "--seed", "--seeds", "--workers", "--threads",
    "--state-memory", "--checkpoint-every", "--target",
]  # fmt: skip
SAID = [
    "--on", "--model", "--sampler", "--sampler-seed", "--weighting", "--dtype", "--on-bad", "--executor", "--device",
    "--watch", "--track", "--preset", "--replay", "--data-dir", "--nothing", "--Rounds",
]  # fmt: skip
CLOSELY = ["-k", "--probes", "--density", "--rho", "--clients", "--points", "--span", "--seed", "--examples"]
PATHS = ["/", "~nobody/x", "a" * 300, "x/" * 3000, "\0", "", "nothing", "a\nb", "/dev/null", "..", "\ud800"]
REFUSED = ["--device", "no such device"]
"""Ends a run before its first round, however right the rest is."""


def options(seed: int, count: int, folder: Path) -> Iterator[list[str]]:
    """``count`` command lines that write nothing outside of ``folder``."""
    rng = random.Random(seed)
    make = [_run, _run, _run, _analyse, _report, _resume, _methods, _data, _nonsense]
    for _ in range(count):
        yield rng.choice(make)(rng, folder)


def _run(rng: random.Random, folder: Path) -> list[str]:
    command = rng.choice(["run", "run", "compare"])
    words = [command, rng.choice([*TEXTS, "fedavg", "fedavg", "fedavg"])]
    for _ in range(rng.randrange(1, 5)):
        if rng.random() < 0.7:
            words += [rng.choice(NUMERIC), rng.choice(NUMBERS)]
        else:
            words += [rng.choice(SAID), rng.choice([*TEXTS, *PATHS])]
    return [*words, *REFUSED, "--out", str(folder / rng.choice(["run", "a" * 300, "b/c", "\0"]))]


def _analyse(rng: random.Random, folder: Path) -> list[str]:
    words = ["analyse", str(folder / "nothing")]
    for _ in range(rng.randrange(1, 4)):
        words += [rng.choice([*CLOSELY, "--set", "--model", "--trace"]), rng.choice([*NUMBERS, *TEXTS])]
    return [*words, rng.choice(["--curvature", "--surface", "--plane", "--corruptions", "--local-global"])]


def _report(rng: random.Random, folder: Path) -> list[str]:
    return ["report", rng.choice([str(folder), *PATHS]), "--out", rng.choice([str(folder / "page.html"), *PATHS])]


def _resume(rng: random.Random, folder: Path) -> list[str]:
    words = ["resume", rng.choice([str(folder / "nothing"), *PATHS])]
    return [*words, rng.choice(["--until", "--checkpoint-every", "--target", "--watch"]), rng.choice(NUMBERS)]


def _methods(rng: random.Random, folder: Path) -> list[str]:
    return [rng.choice(["methods", "presets"]), rng.choice([*TEXTS, "fedsam", "Fedsam", "fedgloss/"])]


def _data(rng: random.Random, folder: Path) -> list[str]:
    what = rng.choice([["list"], ["get", rng.choice([*TEXTS, "digits"])], ["show", rng.choice(TEXTS)], ["nothing"]])
    more = [["--seed", rng.choice(NUMBERS)], ["--data-dir", rng.choice([str(folder), *PATHS])], []]
    return ["data", *what, *rng.choice(more)]


def _nonsense(rng: random.Random, folder: Path) -> list[str]:
    return [rng.choice([*TEXTS, *NUMBERS, *NUMERIC, "run", "--help", "--version"]) for _ in range(rng.randrange(4))]


def check(words: list[str], folder: Path) -> int:
    """Carry out a command line in ``folder``: its status, 0 or 2, with something said; or an AssertionError."""
    out, err = io.StringIO(), io.StringIO()
    before = _names(folder.parent)
    try:
        with chdir(folder), redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("error")
            status = main(words)
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException as error:
        raise AssertionError(f"{_short(words)}: {type(error).__name__}: {error}") from error
    finally:
        set_data_dir(None)
    said = out.getvalue() + err.getvalue()
    assert status in (0, 2), f"{_short(words)}: status {status}: {said[-500:]}"
    assert said.strip(), f"{_short(words)}: nothing was said"
    assert "Traceback" not in said, f"{_short(words)}: {said[-500:]}"
    assert _names(folder.parent) == before, f"{_short(words)}: something was written beside the folder"
    return status


def _names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def _short(words: list[str]) -> list[str]:
    return [word if len(word) < 60 else f"{word[:40]}...({len(word)})" for word in words]
