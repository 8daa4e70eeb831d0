"""The verdict on a cell, derived by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from fedflat.papers.reproduce.cells import TableCell
from fedflat.papers.reproduce.plan import PlannedCell
from fedflat.papers.reproduce.status import CellStatus, Seed, final_values, measurement
from fedflat.papers.reproduce.verdict import (
    ANOTHER,
    DIFFERS,
    NEAR,
    NO_BASELINE,
    NONE,
    OPEN,
    ORDER,
    WITHIN,
    decimals,
    order,
    verdict,
)

ARGUMENTS = {"on": "cifar10(lda(0))", "model": "cnn()", "rounds": 10_000, "method": "fedavg()"}


def cell(
    name: str, reported: float | None, spread: float | None = None, **more: object
) -> TableCell:
    return TableCell(
        name=f"paper/{name}", arguments=ARGUMENTS, reported=reported, spread=spread, **more
    )  # type: ignore[arg-type]


def status(
    of: TableCell,
    *values: float,
    stop: int = 10_000,
    round: int | None = None,
    stretched: bool = False,
    status: str = "running",
) -> CellStatus:
    seeds = [
        Seed(i, f"x/seed-{i}", status, round or stop, 1.0, [], value, 100)
        for i, value in enumerate(values)
    ]
    return CellStatus(PlannedCell(of, stop, stretched, ["server"], 100, {}), seeds)


FEDAVG, GLOSS = cell("fedavg", 59.9, 0.4), cell("fedgloss", 83.9, 0.4)


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (59.9, WITHIN),
        (60.34, WITHIN),
        (60.36, DIFFERS),
        (59.46, WITHIN),
        (59.44, DIFFERS),
        (83.9, DIFFERS),
    ],
)
def test_the_whole_schedule_is_within_the_spread_or_differs(value: float, word: str) -> None:
    """Rounded as the paper prints: 60.34 is 60.3."""
    assert verdict(status(FEDAVG, value), []).word == word


def test_several_seeds_count_by_their_mean_once_all_are_there() -> None:
    assert verdict(status(FEDAVG, 59.0, 61.0), []).word == WITHIN  # 60.0
    late = status(FEDAVG, 59.0, 61.0)
    late.seeds[1] = replace(late.seeds[1], round=9_999)
    assert verdict(late, []).word == OPEN
    late.seeds[1] = replace(late.seeds[1], status="done")
    assert verdict(late, []).word == WITHIN


def test_one_point_where_no_spread_is_printed() -> None:
    unsaid = cell("fedavg", 65.0)
    assert str(verdict(status(unsaid, 65.9), [])) == f"{WITHIN} (±1 assumed, none is printed)"
    assert verdict(status(unsaid, 66.2), []).word == DIFFERS


def test_how_it_differs() -> None:
    low = status(FEDAVG, 62.0)
    assert str(verdict(low, [status(GLOSS, 80.0)])) == "differs (by +2.1, right order)"
    assert str(verdict(low, [status(GLOSS, 61.0)])) == "differs (by +2.1, another order)"
    assert str(verdict(low, [])) == "differs (by +2.1)"


def test_a_cut_run_has_the_right_order_or_is_not_decided() -> None:
    low, high = status(FEDAVG, 40.0, stop=3000), status(GLOSS, 60.0, stop=3000)
    assert verdict(low, [high]).word == verdict(high, [low]).word == ORDER
    assert str(verdict(low, [status(GLOSS, 39.0, stop=3000)])) == f"{OPEN} (another order so far)"
    near = status(GLOSS, 40.8, stop=3000)  # no further than 0.4 and 0.4
    assert str(verdict(low, [near])) == f"{OPEN} (too near others to tell)"
    assert verdict(low, [replace(near, seeds=[replace(near.seeds[0], value=40.81)])]).word == ORDER
    assert str(verdict(low, [])) == f"{OPEN} (nothing to compare it with)"
    assert verdict(status(FEDAVG, 59.9, stop=3000), []).word == OPEN  # the very number, too early
    assert verdict(low, [replace(high, entry=replace(high.entry, stop=4000))]).word == OPEN
    assert verdict(status(FEDAVG, 40.0, stop=3000, round=2999), [high]).word == OPEN


def test_a_stretched_run_is_no_whole_schedule() -> None:
    low, high = (
        status(FEDAVG, 59.9, stop=3000, stretched=True),
        status(GLOSS, 83.9, stop=3000, stretched=True),
    )
    assert verdict(low, [high]).word == ORDER
    assert verdict(low, [status(GLOSS, 83.9, stop=3000)]).word == OPEN


def test_pairs_the_paper_does_not_tell_apart_do_not_count() -> None:
    prox = cell("fedprox", 59.8, 0.5)  # 0.1 below FedAvg, the spreads are 0.9
    assert order(status(FEDAVG, 40.0), [status(prox, 41.0)]) == NO_BASELINE
    assert order(status(FEDAVG, 40.0), [status(prox, 41.0), status(GLOSS, 42.0)]) == ORDER
    assert order(status(FEDAVG, 43.0), [status(prox, 41.0), status(GLOSS, 42.0)]) == ANOTHER


def test_one_pair_that_is_wrong_or_too_near_spoils_the_order() -> None:
    dyn = cell("feddyn", 65.5, 0.3)
    assert order(status(FEDAVG, 40.0), [status(dyn, 40.1), status(GLOSS, 60.0)]) == NEAR
    assert order(status(FEDAVG, 40.0), [status(dyn, 40.1), status(GLOSS, 30.0)]) == ANOTHER
    assert order(status(dyn, 50.0), [status(FEDAVG, 40.0), status(GLOSS, 60.0)]) == ORDER


def test_other_data_are_not_compared() -> None:
    other = replace(GLOSS, arguments={**ARGUMENTS, "on": "cifar100(lda(0))"})
    assert order(status(FEDAVG, 90.0), [status(other, 50.0)]) == NO_BASELINE


def test_other_networks_are_not_compared_but_other_settings_of_one_are() -> None:
    for model, output in (
        ("cnn(pool_first=False)", ORDER),
        ("resnet18()", NO_BASELINE),
        ("", NO_BASELINE),
    ):
        other = replace(GLOSS, arguments={**ARGUMENTS, "model": model})
        assert order(status(FEDAVG, 40.0), [status(other, 50.0)]) == output


def test_what_does_not_converge() -> None:
    cross = cell("feddyn", None, diverges=True)
    gone = status(cross, math.nan, round=100, status="diverged")
    assert verdict(gone, []).word == WITHIN
    assert verdict(status(cross, 50.0), []).word == DIFFERS
    assert (
        str(verdict(status(FEDAVG, math.nan, round=100, status="diverged"), []))
        == "differs (diverged)"
    )


def test_a_cell_without_a_number() -> None:
    assert verdict(status(cell("fedavg+wima", None), 70.0), [status(GLOSS, 60.0)]).word == NONE
    assert order(status(FEDAVG, 80.0), [status(cell("fedavg+wima", None), 70.0)]) == NO_BASELINE


def test_digits_as_printed() -> None:
    assert decimals(cell("a", 59.9, 0.4)) == 1
    assert decimals(cell("a", 71.5, 1.08)) == 2
    assert decimals(cell("a", 40)) == 1


def test_each_cell_reads_its_own_model() -> None:
    row = {
        "round": 5,
        "models": {"server": {"accuracy": 0.5}, "wima": {"accuracy": 0.75}},
        "personal": 0.25,
    }
    plain = status(FEDAVG).entry
    assert measurement(plain, row) == 50
    assert measurement(replace(plain, models=["server", "wima"]), row) == 75
    assert measurement(replace(plain, models=["server", "swa"]), row) == 50  # it has not begun
    own = replace(plain, cell=replace(FEDAVG, measure="personal"))
    assert measurement(own, row) == 25
    assert math.isnan(measurement(plain, {"round": 5, "tuned": True}))


def test_the_evaluations_that_count() -> None:
    entry = replace(status(FEDAVG).entry, last=3)
    curve = [(10, 1.0), (20, 2.0), (28, 3.0), (29, 4.0), (30, 5.0)]
    assert final_values(entry, curve) == [3.0, 4.0, 5.0]
    assert final_values(entry, curve[:2]) == [2.0]
    assert final_values(replace(entry, cell=replace(FEDAVG, measure="personal")), curve) == [5.0]
    assert final_values(entry, []) == []
