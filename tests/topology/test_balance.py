"""Balanced clusters, against scipy's solver of assignment problems."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from fedflat.topology.grouping.balance import balanced
from fedflat.topology.grouping.icg import balanced_kmeans, icg


def total(cost: np.ndarray, columns: np.ndarray) -> float:
    return float(cost[np.arange(len(cost)), columns].sum())


@settings(max_examples=60)
@given(st.integers(1, 8), st.integers(1, 6), st.integers(0, 10**6), st.booleans())
def test_no_assignment_is_cheaper(capacity: int, count: int, seed: int, rounded: bool) -> None:
    rng = np.random.default_rng(seed)
    cost = rng.exponential(size=(capacity * count, count)) ** 3
    if rounded:  # many ties
        cost = np.round(cost)
    columns, prices = balanced(cost, capacity, np.zeros(count))
    assert (np.bincount(columns, minlength=count) == capacity).all()
    places = linear_sum_assignment(np.repeat(cost, capacity, axis=1))[1]
    assert total(cost, columns) == pytest.approx(total(cost, places // capacity), rel=1e-10, abs=1e-10)
    again, _ = balanced(cost + 0.01 * rng.random(cost.shape), capacity, prices)
    assert (np.bincount(again, minlength=count) == capacity).all()


def test_four_points_on_a_line() -> None:
    points = np.array([[0.0], [1.0], [10.0], [11.0]])
    assert balanced_kmeans(points, np.array([0, 1, 0, 1])).tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    for seed in range(10):
        rng = np.random.default_rng(seed)
        groups = icg(2).assign(points, [1] * 4, rng)
        assert all(sorted(client // 2 for client in group) == [0, 1] for group in groups)


def test_as_many_groups_as_half_the_clients_and_more() -> None:
    rng = np.random.default_rng(0)
    sizes = sorted(len(group) for group in icg(7).assign(rng.random((10, 2)), [1] * 10, rng))
    assert sizes == [1] * 4 + [2] * 3
