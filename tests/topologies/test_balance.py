"""Balanced clusters, against all assignments that are possible."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflat.topologies.groupings.icg import balanced, balanced_kmeans, icg


def total(cost: np.ndarray, columns: np.ndarray) -> float:
    return float(cost[np.arange(len(cost)), columns].sum())


@settings(max_examples=60)
@given(
    st.sampled_from([(1, 4), (2, 2), (2, 3), (3, 2), (4, 2), (6, 1)]),
    st.integers(0, 10**6),
    st.booleans(),
)
def test_no_assignment_is_cheaper(sizes: tuple[int, int], seed: int, rounded: bool) -> None:
    capacity, count = sizes
    cost = np.random.default_rng(seed).exponential(size=(capacity * count, count)) ** 3
    if rounded:  # many ties
        cost = np.round(cost)
    columns = balanced(cost, capacity)
    assert (np.bincount(columns, minlength=count) == capacity).all()
    every = set(permutations(np.repeat(np.arange(count), capacity).tolist()))
    assert total(cost, columns) == pytest.approx(
        min(total(cost, np.array(one)) for one in every), rel=1e-10, abs=1e-10
    )


def test_the_order_of_rows_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    cost, order = rng.random((60, 5)), rng.permutation(60)
    assert (balanced(cost[order], 12) == balanced(cost, 12)[order]).all()


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
