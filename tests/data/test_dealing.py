from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflat.data.partitions.partition import (
    dirichlet,
    draw,
    draw_in_turns,
    enough,
    even,
    pools_of,
    take,
)
from fedflat.errors import SettingError


def one_by_one(
    q: tuple[float, ...], stock: tuple[int, ...], count: int
) -> dict[tuple[int, ...], float]:
    """The exact law of drawing one label after the other, by walking the whole tree."""

    @cache
    def walk(taken: tuple[int, ...]) -> dict[tuple[int, ...], float]:
        if sum(taken) == count:
            return {taken: 1.0}
        there = [t < s for t, s in zip(taken, stock, strict=True)]
        left = [p if ok else 0.0 for p, ok in zip(q, there, strict=True)]
        if sum(left) == 0:
            left = [float(ok) for ok in there]
        law: Counter[tuple[int, ...]] = Counter()
        for c, p in enumerate(left):
            if p:
                after = (*taken[:c], taken[c] + 1, *taken[c + 1 :])
                for end, share in walk(after).items():
                    law[end] += p / sum(left) * share
        return dict(law)

    return walk((0,) * len(q))


def assert_follows(found: Counter[Any], law: dict[Any, float]) -> None:
    """Nothing was drawn that cannot be, and what is likely as often as it should be (chi squared,
    five deviations)."""
    n = found.total()
    assert set(found) <= set(law)
    common = {k: p for k, p in law.items() if n * p >= 5}
    chi2 = sum((found[k] - n * p) ** 2 / (n * p) for k, p in common.items())
    degrees = len(common) - 1
    assert chi2 <= degrees + 5 * np.sqrt(2 * max(degrees, 1))


@pytest.mark.parametrize(
    ("q", "stock", "count"),
    [
        ((0.7, 0.2, 0.1), (3, 4, 5), 8),
        ((1.0, 0.0, 0.0), (3, 4, 2), 6),
        ((0.5, 0.5, 0.0), (1, 2, 5), 6),
        ((0.4, 0.3, 0.2, 0.1), (9, 9, 9, 9), 4),
    ],
)
def test_draw_has_the_law_of_single_draws(q, stock, count):
    law = one_by_one(q, stock, count)
    rng, n = np.random.default_rng(0), 8000
    found = Counter(
        tuple(draw(np.array(q), np.array(stock), count, rng).tolist()) for _ in range(n)
    )
    assert_follows(found, law)


def all_at_once(
    mixtures: tuple[tuple[float, ...], ...], stock: tuple[int, ...], sizes: tuple[int, ...]
) -> dict[tuple[tuple[int, ...], ...], float]:
    """The exact law of turns: any client that wants more, then any label of its mixture that is
    there."""

    @cache
    def walk(taken: tuple[tuple[int, ...], ...]) -> dict[tuple[tuple[int, ...], ...], float]:
        open_ = [k for k, row in enumerate(taken) if sum(row) < sizes[k]]
        if not open_:
            return {taken: 1.0}
        there = [sum(row[c] for row in taken) < have for c, have in enumerate(stock)]
        law: Counter[tuple[tuple[int, ...], ...]] = Counter()
        for k in open_:
            left = [p if ok else 0.0 for p, ok in zip(mixtures[k], there, strict=True)]
            left = left if sum(left) else [float(ok) for ok in there]
            for c, p in enumerate(left):
                if p:
                    row = (*taken[k][:c], taken[k][c] + 1, *taken[k][c + 1 :])
                    for end, share in walk((*taken[:k], row, *taken[k + 1 :])).items():
                        law[end] += p / sum(left) / len(open_) * share
        return dict(law)

    return walk(((0,) * len(stock),) * len(sizes))


@pytest.mark.parametrize(
    ("mixtures", "stock", "sizes"),
    [
        (((0.7, 0.2, 0.1), (0.1, 0.6, 0.3)), (3, 2, 2), (4, 3)),
        (((1.0, 0.0, 0.0), (1.0, 0.0, 0.0)), (2, 2, 1), (3, 2)),
        (((0.5, 0.5), (0.9, 0.1), (0.0, 1.0)), (3, 4), (2, 3, 1)),
    ],
)
def test_draw_in_turns_has_the_law_of_single_turns(mixtures, stock, sizes):
    law = all_at_once(mixtures, stock, sizes)
    rng, n = np.random.default_rng(0), 8000
    found = Counter(
        tuple(
            map(
                tuple,
                draw_in_turns(np.array(mixtures), np.array(stock), np.array(sizes), rng).tolist(),
            )
        )
        for _ in range(n)
    )
    assert_follows(found, law)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=8), st.data())
def test_draw_takes_what_is_asked_and_no_more_than_there_is(stock, data):
    stock = np.array(stock)
    count = data.draw(st.integers(0, int(stock.sum())))
    weights = st.sampled_from([0.0, 1e-300, 0.1, 1.0])
    q = data.draw(st.lists(weights, min_size=len(stock), max_size=len(stock)))
    taken = draw(np.array(q), stock, count, np.random.default_rng(0))
    assert taken.sum() == count
    assert ((taken >= 0) & (taken <= stock)).all()


@pytest.mark.parametrize("total", [0.3, 5.0, 200.0])
def test_dirichlet_has_the_right_moments(total):
    weights = np.array([0.5, 0.3, 0.2])
    rng = np.random.default_rng(0)
    q = np.stack([dirichlet(total, weights, rng) for _ in range(6000)])
    variance = weights * (1 - weights) / (total + 1)
    assert np.abs(q.mean(0) - weights).max() < 5 * np.sqrt(variance.max() / len(q))
    np.testing.assert_allclose(q.var(0), variance, rtol=0.12)


@pytest.mark.parametrize("total", [1e-12, 1e-300, 5e-324])
def test_dirichlet_near_zero_is_one_hot_with_the_weights_as_probabilities(total):
    weights = np.array([0.6, 0.3, 0.1])
    rng = np.random.default_rng(0)
    q = np.stack([dirichlet(total, weights, rng) for _ in range(4000)])
    assert np.isfinite(q).all()
    np.testing.assert_allclose(q.max(1), 1, atol=1e-6)
    assert np.abs(q.mean(0) - weights).max() < 5 * np.sqrt(0.25 / len(q))


def test_dirichlet_of_a_huge_concentration_is_the_prior():
    weights = np.array([0.6, 0.3, 0.1])
    np.testing.assert_allclose(
        dirichlet(1e300, weights, np.random.default_rng(0)), weights, rtol=1e-6
    )


@given(st.integers(0, 1000), st.integers(1, 50))
def test_even(total, shares):
    sizes = even(total, shares)
    assert sizes.sum() == total
    assert sizes.max() - sizes.min() <= 1


def test_pools_hold_every_position_of_their_class_once():
    labels = np.array([3, 0, 3, 7, 0, 3])
    pools = pools_of(labels, np.random.default_rng(0))
    assert [sorted(pool.tolist()) for pool in pools] == [[1, 4], [0, 2, 5], [3]]


def test_take_goes_on_where_it_stopped():
    pools, used = [np.array([5, 1, 3]), np.array([0, 2])], np.array([0, 0])
    assert take(pools, used, np.array([2, 1])).tolist() == [0, 1, 5]
    assert take(pools, used, np.array([1, 1])).tolist() == [2, 3]
    assert used.tolist() == [3, 2]


def test_enough_says_how_many_are_needed():
    with pytest.raises(SettingError, match="5 clients need at least 10 examples, found 9"):
        enough("iid", 9, 5, each=2)
    with pytest.raises(SettingError, match="clients must be a whole number of at least 1, found 0"):
        enough("iid", 9, 0)
