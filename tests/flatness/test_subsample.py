"""Seeded parts of a set, and what they say about the whole."""

from __future__ import annotations

import pytest

from fedflat.errors import SettingError
from fedflat.flatness.hessian import Hessian
from fedflat.flatness.spectrum import eigenvalues
from fedflat.flatness.subsample import PROBES, split_parts, spread, subset
from fedflat.flatness.trace import hutchinson
from flatness.networks import network


def test_a_subset_is_drawn_by_the_seed() -> None:
    _, _, data = network("mlp", count=40)
    some = subset(data, 10, seed=3)
    assert (
        some.index.tolist()
        == subset(data, 10, seed=3).index.tolist()
        != subset(data, 10, seed=4).index.tolist()
    )
    assert len(set(some.index.tolist())) == 10
    assert (
        subset(data, 40).index.tolist() == data.index.tolist() == subset(data, 100).index.tolist()
    )


def test_a_larger_subset_holds_the_smaller() -> None:
    _, _, data = network("mlp", count=40)
    assert subset(data, 20).index.tolist()[:10] == subset(data, 10).index.tolist()


def test_parts_are_disjoint_and_equal() -> None:
    _, _, data = network("mlp", count=41)
    cut = split_parts(data, 4)
    assert [len(part) for part in cut] == [10, 10, 10, 10]
    assert len({int(i) for part in cut for i in part.index}) == 40


def test_the_mean_over_parts_bounds_the_top_and_gives_the_trace() -> None:
    learner, model, data = network("group norm", count=40)
    found = spread(data, lambda part: Hessian(learner, model, part), trace=True)
    whole = Hessian(learner, model, data)
    assert float(eigenvalues(whole, 1, tol=1e-8).values[0]) <= sum(found["lambda_1"]) / 4 + 1e-9
    assert sum(found["trace"]) / 4 == pytest.approx(hutchinson(whole, PROBES).mean, rel=1e-9)
    mean = sum(found["lambda_1"]) / 4
    assert found["lambda_1_spread"] == pytest.approx(
        (sum((x - mean) ** 2 for x in found["lambda_1"]) / 3) ** 0.5
    )
    assert (found["parts"], found["examples_each"]) == (4, 10)


def test_refusals() -> None:
    _, _, data = network("mlp", count=3)
    with pytest.raises(SettingError, match="3 examples cannot be split into 4 parts"):
        split_parts(data, 4)
    with pytest.raises(
        SettingError, match="examples must be a whole number of at least 1, found 0"
    ):
        subset(data, 0)
