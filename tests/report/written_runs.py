"""Run folders written by hand with known numbers, and analyses of a quadratic whose Hessian is
known."""

from __future__ import annotations

import copy
import math
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedflat.analysis.analysis_store import AnalysisStore
from fedflat.data.files.pictures import png
from fedflat.experiments.recording import metrics_of
from fedflat.experiments.run_folder.experiment_texts import ExperimentTexts
from fedflat.experiments.run_folder.jsonl_log import LOGS
from fedflat.experiments.run_folder.record import Origin, RunEnd, RunRecord, read_record
from fedflat.tasks.headline import Headline

EXPERIMENT: dict[str, Any] = {
    "method": "fedavg()",
    "on": "digits(lda(0))",
    "model": "logistic()",
    "rounds": 10,
    "local": {
        "epochs": 1,
        "steps": None,
        "batch_size": 16,
        "lr": 0.05,
        "weight_decay": 0.0,
        "momentum": 0.0,
        "clip": None,
        "virtual": None,
        "drop_last": False,
        "orders": None,
    },
    "sampler": {"clients": 5, "kind": "uniform", "seeding": "run", "cohorts": None},
    "evaluate": {"every": 1, "last": 4},
    "seed": 0,
    "weighting": None,
    "dtype": "float32",
    "on_bad": "raise",
    "layout": "auto",
    "loss": "cross_entropy",
}
CURVATURES = (8.0, 2.0)
"""The eigenvalues of the bowl's Hessian."""


def accuracy(seed: int, round: int) -> float:
    """What the run written by `write_run` claims."""
    return min(1.0, 0.1 * (seed + 1) + 0.05 * round)


def write_run(
    folder: Path,
    *,
    method: str = "fedavg()",
    seed: int = 0,
    done: int = 10,
    rounds: int = 10,
    status: str = "done",
    **changes: Any,
) -> Path:
    """A run folder with ``done`` evaluations; ``changes`` are of the experiment."""
    folder.mkdir(parents=True)
    experiment = {
        **copy.deepcopy(EXPERIMENT),
        "method": method,
        "seed": seed,
        "rounds": rounds,
        **changes,
    }
    execution = {"workers": 0, "threads": None, "device": "cpu"}
    record = RunRecord.new(ExperimentTexts.from_json(experiment), execution, Origin())
    labels = {metric.key: metric.labels for metric in metrics_of("drift, norms, classes")}
    replace(record, recorded=labels).write(folder)
    write_rows(folder, "metrics", evaluations(1, done, seed), status)
    return folder


def write_headline_run(
    folder: Path, headline: Headline, scores: list[float], *, unseen: bool = False, **more: Any
) -> Path:
    """A run that is judged by something else, with these scores; on data of unseen clients twice as
    much of it."""
    last = {"every": 1, "last": max(1, len(scores) // 2)}
    status, judged = more.pop("status", "done"), headline.as_json()
    write_run(
        folder, done=0, rounds=len(scores), status="running", evaluate=last, headline=judged, **more
    )
    rows = evaluations(1, len(scores))
    for row, score in zip(rows, scores, strict=True):
        row.pop("accuracy")
        row[headline.name] = score
        row |= {"tests": {"unseen": {headline.name: 2 * score, "loss": 1.0}}} if unseen else {}
    write_rows(folder, "metrics", rows, status)
    return folder


def write_timed(folder: Path, each: float, *, between: int = 0, **more: Any) -> Path:
    """A run with a clock, each of whose rounds takes so long, and so many bytes from client to
    client."""
    write_run(folder, done=0, status="running", **more)
    rows = [{**row, "clock": each * row["round"]} for row in evaluations(1, 10)]
    write_rows(folder, "metrics", [{**row, "c2c": between * row["round"]} for row in rows], "done")
    return folder


def evaluations(first: int, last: int, seed: int = 0) -> list[dict[str, Any]]:
    """What a run claims of these rounds."""
    return [
        {
            "round": t,
            "loss": 2.0 / t,
            "accuracy": accuracy(seed, t),
            "train_loss": 1.0 / t,
            "down": 100 * t,
            "up": 300 * t,
            "samples": 50 * t,
            "training": 0.5 * t,
            "seconds": 1.0 * t,
        }
        for t in range(first, last + 1)
    ]


def write_rows(
    folder: Path, name: str, rows: list[dict[str, Any]], status: str | None = None
) -> None:
    """Add to a log, as the run would, and let the run be where it was, or at another end."""
    record = read_record(folder)
    marks = {}
    for each in LOGS:
        log = record.open_log(folder, each)
        *_, log.mark = [log.start, *(mark for mark, _ in log._rows())]
        with open(log.path, "ab") as stream:
            for row in rows if each == name else []:
                line, log.mark = log.mark.line(row)
                stream.write(line)
        marks[each] = log.mark
    status = status or record.status
    end = None if status == "running" else RunEnd(marks, {}, "server")
    replace(record, status=status, end=end).write(folder)


def bowl(x: float, y: float) -> float:
    """A loss with the eigenvalues `CURVATURES` and the value 1 in the middle."""
    return 1.0 + 0.5 * (CURVATURES[0] * x * x + CURVATURES[1] * y * y)


def write_analysis(
    folder: Path, kind: str, settings: dict[str, Any], result: dict[str, Any]
) -> Path:
    """One analysis of a run."""
    return AnalysisStore(folder / "analysis", read_record(folder).identity).save(
        kind, settings, result, 1.0
    )


def write_analyses(folder: Path, points: int = 11, stretch: float = 1.0) -> None:
    """All kinds of analyses of the bowl, scaled by ``stretch``."""
    axis = [2 * i / (points - 1) - 1 for i in range(points)]
    values = [[stretch * bowl(x, y) for x in axis] for y in axis]
    errors = [[1 - math.exp(-value / 10) for value in row] for row in values]
    first, second = (stretch * value for value in CURVATURES)
    near = {"model": "server", "set": "test", "seed": 0}
    grid = {"x": axis, "y": axis, "loss": values, "error": errors}
    center = {"loss": stretch, "error": 1 - math.exp(-stretch / 10)}
    write_analysis(
        folder, "surface", {**near, "points": points, "span": 1.0}, {**grid, "center": center}
    )
    at = {"a": 0.0, "b": 0.5}
    marks = [
        {"name": n, "x": x, "y": 0.0, "loss": stretch * bowl(x, 0.0), "error": 0.2}
        for n, x in at.items()
    ]
    write_analysis(
        folder, "plane", {"models": ["a", "b"], "set": "test"}, {**grid, "points": marks}
    )
    line = {
        "gamma": axis,
        "loss": [stretch * bowl(x, 0) for x in axis],
        "error": [0.1 + 0.1 * x * x for x in axis],
    }
    ends = {"a": {"loss": line["loss"][-1]}, "b": {"loss": stretch}, "barrier": 0.0}
    write_analysis(
        folder, "interpolate", {"a": "server", "b": "start", "set": "test"}, {**line, **ends}
    )
    density = {"x": [0.0, second, first], "y": [1e-9, 0.5, 0.5]}
    result = {
        "loss": stretch,
        "norm": 3.0,
        "examples": 10,
        "of": 20,
        "eigenvalues": [first, second],
        "residuals": [0.0, 0.0],
        "lambda_1": first,
        "ratio": 4.0,
        "trace": {"mean": first + second, "stderr": 0.1, "probes": 3, "method": "hutchinson"},
        "density": density,
        "layers": {"fc1.weight": first, "fc2.weight": second},
        "sharpness": {"rho": 0.05, "first_order": 0.01, "ascent": 0.02, "adaptive": 0.03},
        "subsample": {"lambda_1_spread": 0.4},
    }
    write_analysis(folder, "curvature", {**near, "k": 2, "probes": 3}, result)
    clients = [{"client": k, "local": first * (k + 1), "global": second} for k in range(3)]
    found = {"round": 10, "clients": clients, "local": 2 * first, "global": second}
    write_analysis(folder, "local_global", {"round": 10, "clients": 3, "k": 1}, found)
    kinds = {"gaussian_noise": [0.8, 0.7, 0.6], "motion_blur": [0.9, 0.8, None]}
    write_analysis(
        folder,
        "corruptions",
        {"model": "server", "seed": 0},
        {"clean": 0.95, "kinds": kinds, "mean": 0.76},
    )
    write_analysis(folder, "partition", {}, {"counts": [[5, 0, 1], [0, 7, 0]], "clients": 2})
    matrices = {"test": [[8, 2], [0, 10]], "unseen": [[5, 5], [0, 0]]}
    write_analysis(folder, "confusion", near, {"names": ["cat", "dog"], "sets": matrices})


def picture(colour: int) -> str:
    """A PNG file of one grey, in letters."""
    return b64encode(png(np.full((4, 8), colour, np.uint8))).decode()


def write_pictures(folder: Path, guess: int) -> None:
    """Two examples of one test set and one of another, and the styles of three clients."""
    both = {"image": picture(1), "truth": picture(2), "mask": picture(guess)}
    sets = {
        "test": [
            {"place": 3, "score": 0.5, "domain": "rome", **both},
            {"place": 9, "score": None, **both},
        ],
        "unseen": [{"place": 0, "score": 0.25, **both}],
    }
    result = {"names": ["road", "sky"], "colours": [[128, 64, 128], [70, 130, 180]], "sets": sets}
    write_analysis(folder, "pictures", {"model": "server", "each": 2}, result)
    clients = [
        {
            "client": k,
            "x": k / 2,
            "y": k % 2,
            "cluster": k % 2,
            "domain": "",
            "image": picture(k) if k else None,
        }
        for k in range(3)
    ]
    styles = {"clients": clients, "shares": [0.75, 0.2], "silhouette": 0.5, "of": 30, "aspect": 2.0}
    write_analysis(folder, "styles", {"seed": 0}, styles)


def write_recorded(folder: Path, rounds: int = 10) -> None:
    """What was watched in each round."""
    rows = [
        {
            "round": t,
            "drift": 1.0 / t,
            "alignment": 0.1 * t,
            "norms": 3.0,
            "features": {"0": 1.0, "4": 3.0},
            "classes": [0.1 * t, 1 - 0.1 * t],
        }
        for t in range(1, rounds + 1)
    ]
    write_rows(folder, "recorded", rows)
