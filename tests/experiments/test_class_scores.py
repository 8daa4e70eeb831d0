"""Scores of each class, by the names that data give them."""

from __future__ import annotations

import math

import pytest

import fedflat as ff
from fedflat.experiments.results.results import Result
from fedflat.experiments.results.scenario import Scenario
from fedflat.experiments.results.summary import by_class
from fedflat.server.ledger import Ledger
from fedflat.tasks.segmentation import MIOU


def result(seed: int, on: str, *each: float) -> Result:
    """A run of one round."""
    row = {"round": 1, "miou": 0.5, **{f"iou_{c}": value for c, value in enumerate(each)}}
    return Result(
        "fedavg()", seed, "done", 1, 1, [row], Ledger(), headline=MIOU, scenario=Scenario(on)
    )


def test_means_and_spreads_over_seeds_by_name() -> None:
    names = ff.street().class_names()
    runs = [
        result(seed, "street(clients=4)", *(0.1 * c + 0.2 * seed for c in range(9)))
        for seed in (0, 1)
    ]
    found = by_class(runs)
    assert list(found) == list(names)
    assert [value for value, _ in found.values()] == pytest.approx(
        [0.1 * c + 0.1 for c in range(9)]
    )
    assert [off for _, off in found.values()] == pytest.approx([0.2 / math.sqrt(2)] * 9)


@pytest.mark.parametrize("on", ["nobody_knows_these()", "street(clients=4)", ""])
def test_by_number_where_no_names_fit(on: str) -> None:
    assert list(by_class([result(0, on, 0.5, 0.25)])) == ["0", "1"]
    assert by_class([result(0, on)]) == {}
