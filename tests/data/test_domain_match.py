"""Purity and adjusted mutual information on divisions whose values can be derived."""

from __future__ import annotations

import numpy as np
import pytest

from fedflat.experiments.recording.found_domains import domain_table, mutual_information, purity


def test_the_same_division_under_other_names_is_perfect() -> None:
    known = ["b", "b", "a", "a", "c"]
    assert purity([0, 0, 2, 2, 1], known) == 1.0
    assert mutual_information([0, 0, 2, 2, 1], known) == pytest.approx(1.0)


def test_one_found_domain_has_the_share_of_the_largest() -> None:
    assert purity([0] * 10, ["a"] * 6 + ["b"] * 4) == 0.6
    assert mutual_information([0] * 10, ["a"] * 6 + ["b"] * 4) == pytest.approx(0.0, abs=1e-12)


def test_independent_divisions_have_no_information() -> None:
    rng = np.random.default_rng(0)
    found, known = rng.integers(3, size=3000).tolist(), rng.integers(4, size=3000).tolist()
    assert abs(mutual_information(found, known)) < 0.003
    assert purity(found, known) == pytest.approx(0.25, abs=0.03)


def test_the_table_counts_every_example() -> None:
    table = domain_table([1, 1, 3], ["y", "x", "y"], 4)
    assert table.tolist() == [[0, 0], [1, 1], [0, 0], [0, 1]]
