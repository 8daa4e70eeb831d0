"""Who is asked in a round."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflat.errors import SettingError
from fedflat.server.client_selection import ClientSampler


@given(st.integers(1, 50), st.integers(0, 50), st.integers(0, 10**6), st.integers(0, 10**6))
def test_uniform_without_replacement(clients: int, more: int, t: int, seed: int) -> None:
    cohort = ClientSampler(clients=clients).draw(t, clients + more, seed)
    assert len(cohort) == len(set(cohort)) == clients
    assert cohort == sorted(cohort)
    assert all(isinstance(k, int) and 0 <= k < clients + more for k in cohort)


def test_every_client_comes_equally_often() -> None:
    """3 of 12 in 4000 rounds: 1000 times each, give or take five standard deviations of 27."""
    seen = Counter(k for t in range(4000) for k in ClientSampler(clients=3).draw(t, 12, seed=7))
    assert set(seen) == set(range(12))
    assert all(abs(count - 1000) < 5 * (4000 * 0.25 * 0.75) ** 0.5 for count in seen.values())


def test_pairs_come_together_as_often_as_chance_says() -> None:
    pairs = Counter(tuple(ClientSampler(clients=2).draw(t, 5, seed=1)) for t in range(5000))
    assert len(pairs) == 10
    assert all(abs(count - 500) < 5 * (5000 * 0.1 * 0.9) ** 0.5 for count in pairs.values())


def test_bernoulli_has_the_mean_and_the_spread_of_independent_clients() -> None:
    sizes = [
        len(ClientSampler(clients=5, kind="bernoulli").draw(t, 50, seed=0)) for t in range(4000)
    ]
    mean = sum(sizes) / len(sizes)
    variance = sum((size - mean) ** 2 for size in sizes) / len(sizes)
    chance_of_no_client = 0.9**50
    assert abs(mean - 5 / (1 - chance_of_no_client)) < 5 * (4.5 / 4000) ** 0.5
    assert variance == pytest.approx(4.5, rel=0.15)


def test_bernoulli_is_redrawn_if_no_client_is_selected() -> None:
    """One of ten expected: in a third of the rounds no client would be selected."""
    sampler = ClientSampler(clients=1, kind="bernoulli")
    cohorts = [sampler.draw(t, 10, seed=0) for t in range(500)]
    assert all(cohorts)
    assert all(len(set(cohort)) == len(cohort) for cohort in cohorts)
    seen = Counter(k for cohort in cohorts for k in cohort)
    assert set(seen) == set(range(10))


@pytest.mark.parametrize("kind", ["uniform", "bernoulli"])
def test_the_same_for_the_same_seed_and_round(kind: str) -> None:
    sampler = ClientSampler(clients=5, kind=kind)
    forwards = [sampler.draw(t, 100, seed=3) for t in range(20)]
    backwards = [
        ClientSampler(clients=5, kind=kind).draw(t, 100, seed=3) for t in reversed(range(20))
    ]
    assert forwards == backwards[::-1]
    assert len({tuple(cohort) for cohort in forwards}) == 20
    assert forwards != [sampler.draw(t, 100, seed=4) for t in range(20)]


def test_by_the_round_alone() -> None:
    sampler = ClientSampler(clients=5, seeding="round")
    assert len({tuple(sampler.draw(9, 100, seed)) for seed in range(20)}) == 1
    assert len({tuple(sampler.draw(t, 100, 0)) for t in range(20)}) == 20
    assert sampler.draw(9, 100, 0) != ClientSampler(clients=5).draw(9, 100, 0)


@pytest.mark.parametrize("kind", ["uniform", "bernoulli"])
def test_a_thousand_million_clients_cost_nothing(kind: str) -> None:
    """A loop over everybody, a hundred times, would take an hour."""
    sampler = ClientSampler(clients=100, kind=kind)
    sampler.check(10**9, 10)
    cohorts = [sampler.draw(t, 10**9, seed=0) for t in range(100)]
    assert max(max(cohort) for cohort in cohorts) > 9 * 10**8
    assert all(len(set(cohort)) == len(cohort) for cohort in cohorts)


def test_by_size() -> None:
    """One of three, who hold 1, 3 and 6 examples."""
    sampler = ClientSampler(clients=1, kind="by_size")
    seen = Counter(sampler.draw(t, 3, 0, lambda: [1, 3, 6])[0] for t in range(4000))
    for k, share in enumerate((0.1, 0.3, 0.6)):
        assert abs(seen[k] - 4000 * share) < 5 * (4000 * share * (1 - share)) ** 0.5
    two = [
        ClientSampler(clients=2, kind="by_size").draw(t, 3, 0, lambda: [1, 3, 6]) for t in range(50)
    ]
    assert all(len(set(cohort)) == 2 for cohort in two)


def test_cohorts_as_given() -> None:
    sampler = ClientSampler(cohorts=[[3, 0], [1], (2, 4)])
    sampler.check(5, 3)
    sampler.check(5, 2)
    assert [sampler.draw(t, 5, seed=9) for t in range(3)] == [[3, 0], [1], [2, 4]]


@pytest.mark.parametrize(
    ("cohorts", "message"),
    [
        ([[0]], "1 cohorts were given for 2 rounds. Give one for each"),
        ([[0], [5]], r"the cohort of round 2 must be different clients from 0 to 4, found \[5\]"),
        ([[-1], [0]], r"round 1 .* found \[-1\]"),
        ([[0], [1, 1]], r"round 2 .* found \[1, 1\]"),
        ([[0], []], r"round 2 .* found \[\]"),
        ([[0], ["a"]], "round 2"),
        ([[0], [1.0]], "round 2"),
        (5, "cohorts must be a list with a list of clients for each round"),
        ([1, 2], "cohorts must be a list with a list of clients for each round"),
        ("ab", "cohorts must be a list with a list of clients for each round"),
        (["ab", "cd"], "cohorts must be a list with a list of clients for each round"),
    ],
)
def test_wrong_cohorts(cohorts: Any, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        ClientSampler(cohorts=cohorts).check(5, 2)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"clients": 0}, "clients a round must be a whole number of at least 1, found 0"),
        ({"clients": 2.5}, "clients a round must be a whole number"),
        ({"kind": "unifrom"}, "found 'unifrom'. Did you mean 'uniform'"),
        ({"seeding": "rounds"}, "found 'rounds'. Did you mean 'round'"),
    ],
)
def test_wrong_settings(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        ClientSampler(**wrong)


@pytest.mark.parametrize("kind", ["uniform", "bernoulli"])
def test_more_clients_than_there_are(kind: str) -> None:
    ClientSampler(clients=5, kind=kind).check(5, 1)
    with pytest.raises(
        SettingError, match=r"a round selects 6 clients, but there are only 5. Use at most 5"
    ):
        ClientSampler(clients=6, kind=kind).check(5, 1)
