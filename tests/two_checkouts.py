"""The same seeded experiments in two checkouts, compared bit for bit, for refactorings.

    python tests/two_checkouts.py OLD NEW            # folders of two checkouts, e.g. of `git worktree add`
    python tests/two_checkouts.py OLD NEW --only fedsam --keep folder

Every method of the common table, the executors, resumed runs, averages, personal models and
analyses are run in each checkout by a process of its own, in turn. Then every parameter, metric and
file is compared; what a clock or a digest over a clock says is left out. Sentences for people (why
a run was refused, why a client failed) are counted apart from values. Nothing is pasted: both sides
are computed here and now. It says what it compared, what differed and what only the new one writes,
and ends with status 1 if a value of the old is gone or differs. Only what is public in both is
used.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
CLOCK = {
    "training",
    "seconds",
    "evaluation",
    "took",
    "made",
    "machine",
    "fedflat",
    "digest",
    "chain",
    "identity",
    "run",
    "end",
    "info",
}
"""Keys of JSON files that may differ between two runs of the same thing."""
RENAMED = {
    "watch": "record",
    "track": "logger",
    "watch.jsonl": "recorded.jsonl",
    "param_norm": "norms",
    "feature_norms": "features",
    "shadow": "average",
    "recovery_visits": "recovery_requests",
    "letter": "request",
}
"""Words in the names of files and values that an older checkout writes differently."""
PASSED_OVER = {"lock", "report.html"}
SENTENCES = ("refused.txt", ".why")
"""How the names of sentences end."""
SETTINGS: dict[str, Any] = {
    "on": "digits(lda(0.3), clients=12, split=0.7)",
    "model": "mlp(hidden=[8])",
    "rounds": 4,
    "clients_per_round": 3,
    "batch_size": 16,
    "lr": 0.05,
    "momentum": 0.5,
    "weight_decay": 0.001,
    "eval_every": 1,
    "seed": 3,
}


def table(checkout: Path) -> list[str]:
    """The texts of the common table of a checkout, read without running it."""
    tree = ast.parse((checkout / "tests" / "test_every_method.py").read_text())
    found = {
        target.id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in ("ROWS", "TOGETHER")
    }
    return [*found["ROWS"].values(), *found["TOGETHER"]]


def needs(method: str) -> dict[str, Any]:
    """What some methods need to run at all."""
    if "fedbn" in method or "silobn" in method:
        return {"model": normalised, "drop_last": True}
    if "fedcr" in method:
        return {"model": "stochastic(mlp([5]), dim=3, train_samples=2, test_samples=3)"}
    if any(name in method for name in ("scaffold", "fedgamma", "feddc")):
        return {"momentum": 0.0}
    return {}


def normalised() -> Any:
    """A small network with batch normalisation."""
    from torch import nn

    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 10)
    )


def experiments(methods: list[str]) -> Iterator[tuple[str, Callable[[Path], object]]]:
    """Names, and what makes a folder of each."""
    for method in methods:
        yield f"in-process {method}", _run(method, threads=1)
    for method in (
        "fedavg",
        "feddyn(alpha=0.1) + sam(rho=0.05)",
        "fedgloss(rho_s=0.1, rho_l=0.1) + wima(window=2)",
        "scaffold",
        "fedfsa(top=1) + personal()",
        "fedadam(lr=0.05) + all_clients()",
    ):
        yield f"two workers {method}", _run(method, executor="workers", workers=2)
        yield f"stacked {method}", _run(method, executor="stacked", clients_per_round=8)
        yield f"left to us {method}", _run(method, clients_per_round=8)
    equal = {
        "on": "synthetic(clients=40, examples=20, features=16)",
        "model": "mlp([12])",
        "rounds": 24,  # a stack is traced after some rounds
        "clients_per_round": 20,
        "eval_every": 4,
    }
    for method in ("fedavg", "feddyn(alpha=0.1) + sam(rho=0.05)", "scaffold", "fedavg + mixup()"):
        for size in (8, 32):
            settings = {**equal, "executor": "stacked", "batch_size": size}
            yield f"stacked, equal, batches of {size} {method}", _run(method, **settings)
        of_one_set = {**equal, "on": "digits(iid(), clients=11)", "clients_per_round": 7}
        yield f"stacked, of one set {method}", _run(method, **of_one_set, executor="stacked")
        two = _run(method, **equal, executor="stacked", workers=2)
        yield f"stacked in two processes {method}", two
    for method in (
        "fedseq(groups=4, passes=2)",
        "fedasyncseq(groups=4, R=2)",
        "hfl(clusters=2, T_c=2)",
        "fedbuff(2)",
    ):
        timed = {"clients_per_round": 6, "clock": "devices(speed=lognormal(50, 1))"}
        yield f"by the clock {method}", _run(method, threads=1, **timed)
        yield f"two workers, timed {method}", _run(method, executor="workers", workers=2, **timed)
    late = {
        "clock": "devices(speed=lognormal(50, 1), deadline=20, present=on_off(100, 5))",
        "min_replies": 1,
    }
    yield (
        "stragglers fedseq(groups=4)",
        _run("fedseq(groups=4)", threads=1, clients_per_round=9, rounds=12, **late),
    )
    for model in ("tiny_convnet", "resnet20"):
        yield f"{model} fedsam", _run("fedsam(rho=0.05)", model=model, threads=1, rounds=2)
    for metrics in ("drift,alignment,norms,classes",):
        yield f"recorded {metrics}", lambda folder, metrics=metrics: _recorded(metrics, folder)
    for method in (
        "fedgloss(rho_s=0.1, rho_l=0.1) + wima(window=2)",
        "feddyn(alpha=0.1) + asam() + ema(gamma=0.5)",
        "scaffold + fedlesam + all_clients()",
    ):
        yield (
            f"resumed {method}",
            lambda folder, method=method: _stopped_and_resumed(method, folder),
        )
    for what in (
        ["--curvature", "--probes", "4", "--density", "1", "--layers"],
        ["--surface", "--points", "5"],
        ["--local-global"],
    ):
        yield f"analysed {' '.join(what)}", lambda folder, what=what: _analysed(what, folder)
    yield (
        "study",
        lambda folder: _fedflat(
            "compare",
            "fedavg",
            "fedsam(rho=0.1)",
            "--seeds",
            "2",
            "--rounds",
            "6",
            "--eval-every",
            "1",
            "--threads",
            "1",
            "--lr",
            "0.05",
            "--out",
            str(folder),
        ),
    )


def _run(method: str, **more: Any) -> Callable[[Path], object]:
    def make(folder: Path) -> object:
        import fedflat

        settings = {**SETTINGS, **needs(method), **more}
        if "krum" in method or "trimmed" in method:
            settings["clients_per_round"] = max(4, settings["clients_per_round"])
        return fedflat.run(method, out=folder, quiet=True, **settings)

    return make


def _recorded(metrics: str, folder: Path) -> None:
    """A run with recorded metrics, by the name of the setting in this checkout."""
    import inspect

    import fedflat

    name = "record" if "record" in inspect.signature(fedflat.run).parameters else "watch"
    _run("fedsam(rho=0.05) + swa(start=1, cycle=1)", threads=1, **{name: metrics})(folder)


def _fedflat(*words: str, **more: Any) -> Any:
    process = subprocess.run(
        [sys.executable, "-m", "fedflat", *words], capture_output=True, text=True, **more
    )
    assert process.returncode == 0, process.stderr[-2000:]
    return process


def _stopped_and_resumed(method: str, folder: Path) -> None:
    """A run that hears Ctrl-C in the middle, wherever that is, and is taken up again."""
    words = [
        "run",
        method,
        "--on",
        "digits(lda(0), clients=20)",
        "--rounds",
        "120",
        "--eval-every",
        "1",
        "--lr",
        "0.05",
        "--threads",
        "1",
        "--out",
        str(folder),
    ]
    process = subprocess.Popen([sys.executable, "-m", "fedflat", *words], stderr=subprocess.DEVNULL)
    metrics = folder / "metrics.jsonl"
    while process.poll() is None and not (
        metrics.exists() and metrics.read_bytes().count(b"\n") >= 20
    ):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    process.wait()
    _fedflat("resume", str(folder))


def _analysed(what: list[str], folder: Path) -> None:
    _run("fedsam(rho=0.1) + wima(window=2)", threads=1, model="tiny_convnet", rounds=2)(folder)
    _fedflat("analyse", str(folder), *what)


def make_all(methods: list[str], only: str, out: Path) -> None:
    """Carry the experiments out, each in a folder of its own; one that fails leaves its
    sentence."""
    for place, (name, make) in enumerate(experiments(methods)):
        if only not in name:
            continue
        folder = out / f"{place:03d}"
        try:
            make(folder)
        except Exception as error:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "refused.txt").write_text(f"{type(error).__name__}: {error}\n")
        (out / f"{place:03d}.name").write_text(name)


def contents(folder: Path) -> dict[str, Any]:
    """All that a folder holds, by file and name, without what a clock says."""
    found: dict[str, Any] = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name not in PASSED_OVER):
        name = str(path.relative_to(folder))
        if "checkpoint/" in name:
            continue
        if path.suffix == ".safetensors":
            found |= {f"{name}:{key}": value for key, value in _tensors(path).items()}
        elif path.suffix == ".jsonl":
            lines = path.read_text().splitlines()
            found |= {
                f"{name}:{i}{k}": v
                for i, line in enumerate(lines)
                for k, v in _leaves(json.loads(line))
            }
        elif path.suffix == ".json":
            found |= {
                f"{name}:{key}": value for key, value in _leaves(json.loads(path.read_text()))
            }
        else:
            found[name] = path.read_bytes()
    return {_renamed(name): value for name, value in (found | _checkpoints(folder)).items()}


def _renamed(name: str) -> str:
    return re.sub(r"watch\.jsonl|\w+", lambda word: RENAMED.get(word[0], word[0]), name)


def _checkpoints(folder: Path) -> dict[str, Any]:
    """The groups of the newest checkpoint of each run; when it was made before is up to the
    clock."""
    found: dict[str, Any] = {}
    for place in sorted(folder.rglob("checkpoint")):
        newest = max(place.glob("round-*.json"), default=None)
        if newest is None:
            continue
        body = json.loads(json.loads(newest.read_text())["body"])
        for group, entry in body["groups"].items():
            if group != "clients":
                name = f"{place.relative_to(folder)}/{newest.stem}/{group}"
                found |= {
                    f"{name}:{key}": value for key, value in _tensors(place / entry["file"]).items()
                }
    return found


def _tensors(path: Path) -> dict[str, bytes]:
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    header.pop("__metadata__", None)
    return {
        name: f"{entry['dtype']}{entry['shape']}".encode() + data[slice(*entry["data_offsets"])]
        for name, entry in header.items()
    }


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Everything in a JSON value by its path, without what a clock says."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            if key not in CLOCK:
                yield from _leaves(inner, f"{path}.{key}")
    elif isinstance(value, list) and any(isinstance(inner, dict) for inner in value):
        for i, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{i}]")
    else:
        yield path, value


def compare(old: Path, new: Path) -> tuple[int, int, list[str], list[str], Counter[str]]:
    """How many experiments and values were compared, a line for each difference and for each
    sentence with other words, and what only the new one writes."""
    count, lines, reworded, more = 0, [], [], Counter[str]()
    names = sorted(path.name for path in new.glob("*.name"))
    for file in names:
        name, place = (new / file).read_text(), file.removesuffix(".name")
        before, after = contents(old / place), contents(new / place)
        count += len(before.keys() | after.keys())
        for key in sorted(before.keys() | after.keys()):
            if key not in before:
                more[key] += 1
            elif key not in after or before[key] != after[key]:
                where = (
                    "only in OLD"
                    if key not in after
                    else f"{before[key]!r:.60} became {after[key]!r:.60}"
                )
                same = key in after and is_reworded(key, before[key], after[key])
                (reworded if same else lines).append(f"{name}: {key} {where}")
    return len(names), count, lines, reworded, more


def is_reworded(name: str, before: Any, after: Any) -> bool:
    """Whether both are sentences, and errors of the same type if they are errors."""
    if name.endswith("refused.txt"):
        return before.partition(b":")[0] == after.partition(b":")[0]
    return name.endswith(SENTENCES)


def main() -> int:
    """Read the words, run both sides, say what differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("old", type=Path, help="a checkout, as it was")
    parser.add_argument("new", type=Path, help="a checkout, as it is now")
    parser.add_argument(
        "--only", default="", metavar="WORD", help="experiments with this in their name"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="where to leave the folders (default: nowhere)"
    )
    parser.add_argument("--make", type=Path, metavar="DIR", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.make:
        make_all(table(args.old), args.only, args.make)
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        place = args.keep or Path(temporary)
        for side in ("old", "new"):
            out = place.resolve() / side
            out.mkdir(parents=True)
            environment = {
                **os.environ,
                "PYTHONPATH": str(getattr(args, side).resolve() / "src"),
                "OMP_NUM_THREADS": "1",
            }
            words = [
                str(args.old.resolve()),
                str(args.new.resolve()),
                "--only",
                args.only,
                "--make",
                str(out),
            ]
            subprocess.run(
                [sys.executable, str(HERE), *words], env=environment, check=True, cwd=out
            )
        runs, values, differences, reworded, more = compare(place / "old", place / "new")
    print(
        "\n".join(
            [
                *differences,
                *(f"reworded: {line}" for line in reworded),
                *(f"only in NEW, {times} times: {key}" for key, times in more.items()),
            ]
        )
    )
    print(
        f"{runs} experiments, {values} values compared, {len(differences)} differ, "
        f"{len(reworded)} sentences are reworded, {sum(more.values())} are new"
    )
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
