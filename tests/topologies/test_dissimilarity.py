"""Dissimilarities: numbers derived by hand, and properties of all of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import cosine as scipy_cosine

from fedflat.topologies.groupings.dissimilarity import TAUS, scores

A = np.array([0.7, 0.2, 0.1])
OTHERS = np.array([[0.6, 0.3, 0.1], [0.1, 0.1, 0.8]])


@pytest.mark.parametrize(
    ("tau", "expected"),
    [
        ("gini", (0.505, 0.615)),
        ("kl", (0.75822871, 0.91180047)),
        ("cosine", (0.01684887, 0.71523929)),
        ("euclidean", (0.14142136, 0.92736185)),
    ],
)
def test_two_candidates(tau: str, expected: tuple[float, float]) -> None:
    np.testing.assert_allclose(TAUS[tau](A, OTHERS), expected, rtol=0, atol=1e-8)


def test_norm_cosine() -> None:
    found = TAUS["norm_cosine"](np.array([1.0, 2.0, 3.0]), np.array([[3.0, 2.0, 2.0]]))
    np.testing.assert_allclose(found, [0.16224245], rtol=0, atol=1e-8)


def test_absent_classes_do_not_spoil_the_divergence() -> None:
    found = TAUS["kl"](np.array([1.0, 0.0]), np.array([[0.0, 1.0], [1.0, 0.0]]))
    np.testing.assert_allclose(found, [1.0, 1 - np.log(2)], rtol=0, atol=1e-15)


POSITIVE = arrays(np.float64, 5, elements=st.floats(1e-3, 1e3))


@given(POSITIVE, POSITIVE)
def test_both_cosines_are_scipys(one: np.ndarray, other: np.ndarray) -> None:
    assert TAUS["cosine"](one, other[None])[0] == pytest.approx(scipy_cosine(one, other), abs=1e-12)
    total = one + other + 1e-8
    expected = scipy_cosine(one / total, other / total)
    assert TAUS["norm_cosine"](one, other[None])[0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("tau", TAUS)
def test_symmetric_and_the_same_in_parts(tau: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).dirichlet(np.ones(4), 9)
    found = scores(tau, rows[0], rows, np.arange(1, 9))
    assert found == pytest.approx([TAUS[tau](row, rows[:1])[0] for row in rows[1:]], abs=1e-14)
    monkeypatch.setattr("fedflat.topologies.groupings.dissimilarity.AT_A_TIME", 8)
    assert found == pytest.approx(scores(tau, rows[0], rows, np.arange(1, 9)), abs=1e-14)
