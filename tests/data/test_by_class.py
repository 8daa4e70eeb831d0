"""Classes cut by a Dirichlet draw over the clients."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflat import by_class
from fedflat.errors import SettingError

CIFAR10 = np.repeat(np.arange(10), 5000)


def held(parts: list[np.ndarray], labels: np.ndarray) -> float:
    return float(np.mean([len(np.unique(labels[part])) for part in parts]))


@pytest.mark.parametrize(("alpha", "classes"), [(0.2, 5.2), (0.5, 7.4)])
def test_classes_of_a_client_are_those_of_the_authors_code(alpha: float, classes: float) -> None:
    parts = by_class(alpha, even=False).assign(CIFAR10, 500, np.random.default_rng(0))
    assert held(parts, CIFAR10) == pytest.approx(classes, abs=0.3)
    assert len({len(part) for part in parts}) > 10
    even = by_class(alpha).assign(CIFAR10, 500, np.random.default_rng(0))
    assert {len(part) for part in even} == {100}
    moved = [len(np.setdiff1d(after, before)) for before, after in zip(parts, even, strict=True)]
    missing = [max(0, 100 - len(part)) for part in parts]
    assert moved == missing  # no client loses what it may keep or gets what it does not need


@given(st.integers(1, 12), st.floats(0, 3), st.booleans(), st.integers(0, 99))
def test_everything_is_dealt_once(clients: int, alpha: float, even: bool, seed: int) -> None:
    labels = np.random.default_rng(seed).integers(0, 4, size=clients + 17)
    parts = by_class(alpha, draws=3, even=even).assign(labels, clients, np.random.default_rng(seed))
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(labels)))
    assert all((np.diff(part) > 0).all() for part in parts)
    if even or alpha == 0:
        sizes = [len(part) for part in parts]
        assert max(sizes) - min(sizes) <= 1


def test_alpha_zero_cuts_sorted_examples() -> None:
    labels = np.repeat([0, 1, 2], 20)
    parts = by_class(0).assign(labels, 6, np.random.default_rng(0))
    assert held(parts, labels) == 1
    assert {len(part) for part in parts} == {10}


def test_the_evenest_draw_is_taken() -> None:
    spread = []
    for draws in (1, 40):
        parts = by_class(0.2, draws=draws, even=False).assign(CIFAR10, 50, np.random.default_rng(1))
        spread.append(np.std([len(part) for part in parts]))
    assert spread[1] < spread[0]


def test_refused() -> None:
    with pytest.raises(
        SettingError, match="by_class: alpha must be a number of at least 0, found -1"
    ):
        by_class(-1)
    with pytest.raises(SettingError, match="by_class: even must be True or False"):
        by_class(1, even="yes")
    with pytest.raises(SettingError, match="by_class: 5 clients need at least 5 examples, found 3"):
        by_class(1).assign(np.zeros(3, np.int64), 5, np.random.default_rng(0))
