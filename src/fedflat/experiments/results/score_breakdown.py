"""The scores of runs told apart: on further test sets, in each domain, and of each class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import mean, stdev
from typing import TYPE_CHECKING

from fedflat.errors import FedflatError
from fedflat.registry.specs import parse
from fedflat.tasks.iou import EACH

if TYPE_CHECKING:
    from fedflat.experiments.results.results import Result

MAIN, STD = "test", "std"
"""What the main test set is called where domains are told apart, and what the spread over its
domains."""
Apart = dict[str, tuple[float, float]]
"""A score and its standard deviation over seeds, by name."""


def by_test(runs: Sequence[Result]) -> Apart:
    """The headline on each further test set and in each domain that the runs have, and its spread
    over domains."""
    score = runs[0].headline.name
    rows = [row for run in runs for row in run.last_rows]
    named = dict.fromkeys(name for row in rows for name in row.get("tests", {}))
    where = {name: f"tests.{name}.{score}" for name in named}
    where |= {f"{name}/{STD}": f"{where[name]}_{STD}" for name in named}
    where |= {f"{MAIN}/{STD}": f"{score}_{STD}"}
    finals = {name: [run.final(place) for run in runs] for name, place in where.items()}
    known = {
        name: values
        for name, values in finals.items()
        if name in named or any(map(math.isfinite, values))
    }
    return {name: (mean(values), spread(values)) for name, values in known.items()}


def by_class(runs: Sequence[Result]) -> Apart:
    """The IoU of each class on the test set, where each pixel has a class; by its name, if the data
    tell it."""
    rows = [row for run in runs for row in run.last_rows]
    each = list(dict.fromkeys(name for row in rows for name in row if name.startswith(EACH)))
    names = _class_names(runs[0].on) if each else ()
    finals = [[run.final(place) for run in runs] for place in each]
    said = names if len(names) == len(each) else [place.removeprefix(EACH) for place in each]
    return {name: (mean(values), spread(values)) for name, values in zip(said, finals, strict=True)}


def spread(values: Sequence[float]) -> float:
    """The standard deviation; NaN where there is none."""
    return stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else math.nan


def _class_names(on: str) -> tuple[str, ...]:
    """What data call their classes; nothing if nobody here knows such data."""
    try:
        found: tuple[str, ...] = parse(on, "data set").class_names()
    except FedflatError:
        return ()
    return found
