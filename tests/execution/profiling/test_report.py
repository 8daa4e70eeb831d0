"""The table of a profile, derived by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflat.execution.profiling.categories import CATEGORIES, START
from fedflat.execution.profiling.report import (
    Profile,
    error,
    profile_json,
    shares,
    speedscope,
    text,
)
from fedflat.execution.profiling.sampler import SampleCount, Samples, StackFrame

GRADIENT = (StackFrame("run", "go"), StackFrame("fedflat.client.learner", "Oracle.__call__"))
DATA = (StackFrame("run", "go"), StackFrame("fedflat.data.examples", "Examples.batch"))
OPEN = (StackFrame("run", "go"), StackFrame("fedflat.execution.workers", "Workers.open"))
WAIT = (StackFrame("run", "go"), StackFrame("fedflat.execution.workers", "WorkerPool.collect"))
HERE = Samples(
    {GRADIENT: SampleCount(300, 3.0), DATA: SampleCount(60, 1.0), OPEN: SampleCount(40, 2.0)}, 0.03
)
WORKERS = (
    Samples({GRADIENT: SampleCount(50, 1.5)}, 0.001),
    Samples({GRADIENT: SampleCount(30, 0.5), WAIT: SampleCount(20, 2.0)}, 0.001),
)


def test_one_process() -> None:
    output = text(Profile(HERE, rounds=4, folder=Path("runs/x")))
    assert output.splitlines() == [
        "Where the time of 4 rounds went, 6.0 s:",
        "",
        "category        seconds  share %  s a round",
        "--------------  -------  -------  ---------",
        "local gradient     3.00     75.0     0.7500",
        "data               1.00     25.0     0.2500",
        "start and end      2.00",
        "",
        "400 samples, one in 15.0 ms, took 0.50 % of the time. By chance a share is off by less than 5.0 points, 19 "
        "times in 20.",
        f"All samples: {Path('runs/x/profile.speedscope.json')}. Open it in https://www.speedscope.app or VS Code.",
    ]


def test_workers_have_columns_of_their_own() -> None:
    lines = text(Profile(HERE, WORKERS, rounds=1)).splitlines()
    assert (
        lines[0]
        == "Where the time of 1 round went, 6.0 s; the time of 2 workers, added up, beside it:"
    )
    rows = {line[:14].strip(): line[14:].split() for line in lines[4:8]}
    assert rows == {
        "local gradient": ["3.00", "75.0", "3.0000", "2.00", "50.0", "2.0000"],
        "waiting": ["0.00", "0.0", "0.0000", "2.00", "50.0", "2.0000"],
        "data": ["1.00", "25.0", "1.0000", "0.00", "0.0", "0.0000"],
        "start and end": ["2.00", "0.00"],
    }
    assert lines[-1].startswith(
        "In the workers 100 samples, one in 40.0 ms, took 0.05 % of the time."
    )
    assert lines[-1].endswith("less than 10.0 points, 19 times in 20.")


def test_nothing_was_seen() -> None:
    output = text(Profile(Samples({}, 0.0)))
    assert "Where the time of 0 rounds went" in output
    assert "0 samples were taken: it was over too soon. Profile a longer run." in output


def test_no_round_was_done() -> None:
    assert "local gradient     3.00     75.0\n" in text(Profile(HERE))


def test_profile_json() -> None:
    found = json.loads(profile_json(Profile(HERE, WORKERS, rounds=4)))
    assert found["rounds"] == 4
    assert found["here"]["seconds"] == {
        **dict.fromkeys(CATEGORIES, 0.0),
        "local gradient": 3.0,
        "data": 1.0,
        START: 2.0,
    }
    assert found["here"]["shares"]["data"] == 0.25
    assert START not in found["here"]["shares"]
    assert (found["here"]["samples"], found["here"]["error"], found["here"]["cost"]) == (
        400,
        0.05,
        0.03,
    )
    assert found["workers"]["count"] == 2
    assert found["workers"]["samples"] == 100
    assert "workers" not in json.loads(profile_json(Profile(HERE)))


@given(st.dictionaries(st.sampled_from(CATEGORIES), st.floats(0.01, 1e4), min_size=1))
def test_shares_add_up_to_one(spent: dict[str, float]) -> None:
    found = shares(spent)
    assert START not in found
    assert math.isclose(sum(found.values()), 1.0) or not found


@pytest.mark.parametrize(("count", "expected"), [(0, 1.0), (1, 1.0), (4, 0.5), (400, 0.05)])
def test_error(count: int, expected: float) -> None:
    """Two standard errors of a share of one half: 2 sqrt(1/2 * 1/2 / n)."""
    assert error(count) == pytest.approx(expected)


def test_speedscope() -> None:
    found = json.loads(speedscope(Profile(HERE, WORKERS), "x"))
    frames = [frame["name"] for frame in found["shared"]["frames"]]
    assert found["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert len(set(frames)) == len(frames) == 5
    assert [one["name"] for one in found["profiles"]] == ["this process", "worker 1", "worker 2"]
    for one, samples in zip(found["profiles"], (HERE, *WORKERS), strict=True):
        assert (one["type"], one["unit"], one["startValue"], one["endValue"]) == (
            "sampled",
            "seconds",
            0,
            samples.seconds,
        )
        stacks = [tuple(frames[place] for place in sample) for sample in one["samples"]]
        true = {tuple(map(str, stack)): seen.seconds for stack, seen in samples.stacks.items()}
        assert dict(zip(stacks, one["weights"], strict=True)) == true
    assert json.loads(speedscope(Profile(Samples({}, 0.0)), "x"))["profiles"][0]["samples"] == []
