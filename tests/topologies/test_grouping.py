"""Groups derived by hand, properties of all groupings, and refusals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflat import greedy, icg, kmeans, random
from fedflat.errors import FedflatError, SettingError
from fedflat.registry.specs import parse
from fedflat.topologies.groupings.grouping import Grouping, Groups, in_order
from fedflat.topologies.groupings.kmeans import round_robin

SIX = np.array(
    [
        [0.80, 0.15, 0.05],
        [0.65, 0.25, 0.10],
        [0.12, 0.80, 0.08],
        [0.22, 0.70, 0.08],
        [0.07, 0.11, 0.82],
        [0.05, 0.33, 0.62],
    ]
)
EQUAL = [100] * 6
UNEQUAL = [100, 300, 100, 200, 100, 100]


def drawing(*wanted: tuple[int, int]) -> np.random.Generator:
    """A generator that draws these numbers below those."""
    for seed in range(10_000):
        rng = np.random.default_rng(seed)
        if all(rng.integers(below) == number for number, below in wanted):
            return np.random.default_rng(seed)
    raise AssertionError("no seed draws that")


def grouped(
    text: str, vectors: Any, sizes: Sequence[int], rng: np.random.Generator | None = None
) -> Groups:
    grouping = parse(text, "grouping")
    assert isinstance(grouping, Grouping)
    return grouping.assign(
        np.asarray(vectors, float), sizes, rng or np.random.default_rng(0), classes=3
    )


def test_the_last_group_is_dissolved() -> None:
    groups = random(d_min=300, k_max=4).fill(in_order(range(7)), [100] * 7, 300, 4)
    assert groups == [[0, 1, 2, 6], [3, 4, 5]]


def test_clients_of_the_last_group_leave_in_reverse_order_in_turn_where_there_is_room() -> None:
    sizes = [
        50,
        60,
        60,
        60,
        70,
        30,
        10,
        10,
        10,
    ]  # 110, 120, 100 examples: the third group comes first, then the first
    groups = random(d_min=100, k_max=3).fill(in_order(range(9)), sizes, 100, 3)
    assert groups == [[0, 1, 7], [2, 3, 6], [4, 5, 8]]


def test_a_group_may_end_with_few_examples() -> None:
    assert random(d_min=100, k_max=2).fill(in_order(range(4)), [10, 10, 50, 60], 100, 2) == [
        [0, 1],
        [2, 3],
    ]


@pytest.mark.parametrize(
    ("tau", "expected"),
    [
        ("kl", [[0, 5, 3], [1, 4, 2]]),
        ("gini", [[0, 5, 3], [1, 4, 2]]),
        ("cosine", [[0, 4, 2], [1, 5, 3]]),
    ],
)
def test_greedy(tau: str, expected: Groups) -> None:
    text = f"greedy(psi='confidence', tau='{tau}', d_min=300, k_max=4)"
    assert grouped(text, SIX, EQUAL, drawing((0, 6), (0, 3))) == expected


@pytest.mark.parametrize(
    ("tau", "expected"),
    [
        ("kl", [[1, 5, 3], [2, 4, 0]]),
        ("gini", [[1, 5, 3], [2, 4, 0]]),
        ("cosine", [[4, 0, 2], [3, 5, 1]]),
    ],
)
def test_greedy_as_released(tau: str, expected: Groups) -> None:
    assert (
        grouped(f"greedy(tau='{tau}', d_min=300, k_max=4, start='uniform')", SIX, EQUAL) == expected
    )


def test_greedy_with_unequal_sizes() -> None:
    assert grouped("greedy(d_min=400, k_max=4)", SIX, UNEQUAL, drawing((0, 6), (0, 2))) == [
        [0, 5, 3, 2],
        [1, 4],
    ]
    assert grouped("greedy(d_min=400, k_max=4, start='uniform')", SIX, UNEQUAL) == [
        [1, 5, 2],
        [3, 4, 0],
    ]


def test_greedy_as_released_weights_the_mean_of_a_group_by_examples() -> None:
    """Clients on a line. Client 0 is farthest from the uniform vector (0.5, 0.5), client 1 is
    farthest from client 0.

    With 300 and 100 examples their mean is at 7.5, and client 2 is farthest from it (5.5; client 3:
    1.5). The plain mean would be at 5, and client 3 would be farthest (4; client 2: 3).
    """
    line = [[10, 0.5], [0, 0.5], [2, 0.5], [9, 0.5], [5, 0.5]]
    text = "greedy(psi='classifier', tau='euclidean', d_min=500, k_max=3, start='uniform')"
    assert grouped(text, line, [300, 100, 100, 300, 200]) == [[0, 1, 2], [3, 4]]


def test_greedy_takes_the_first_of_equals_and_where_no_score_counts() -> None:
    alike = np.tile([0.1, 0.2, 0.7], (7, 1))
    rng = drawing((3, 7))
    assert grouped("greedy(tau='euclidean', d_min=700)", alike, [100] * 7, rng) == [
        [3, 0, 1, 2, 4, 5, 6]
    ]
    rng = drawing((3, 7))
    assert grouped("greedy(tau='cosine', d_min=700)", alike, [100] * 7, rng) == [
        [3, 0, 1, 2, 4, 5, 6]
    ]


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e-30])
def test_single_precision_in_between_changes_no_group(
    scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    vectors = scale * rng.gamma(0.5, size=(60, 40)) * (1 + 1e-7 * rng.standard_normal((60, 1)))
    vectors[30:] = vectors[:30] * (
        1 + 1e-9 * rng.standard_normal((30, 40))
    )  # nearly the same clients again
    text = "greedy(psi='task2vec', tau='norm_cosine', d_min=500, k_max=6)"
    found = grouped(text, vectors, [100] * 60)
    monkeypatch.setattr("fedflat.topologies.groupings.greedy._moderate", lambda vectors: False)
    assert grouped(text, vectors, [100] * 60) == found


@pytest.mark.parametrize(
    ("labels", "d_min", "expected"),
    [
        ([0, 0, 1, 1, 2, 2], 300, [[1, 3, 5], [0, 2, 4]]),
        ([0, 0, 0, 1, 1, 2, 0, 1], 300, [[6, 7, 5, 0], [2, 4, 1, 3]]),
    ],
)
def test_clusters_are_dealt(labels: list[int], d_min: int, expected: Groups) -> None:
    grouping = kmeans(d_min=d_min, k_max=4)
    assert grouping.fill(in_order(round_robin(labels)), [100] * len(labels), d_min, 4) == expected


def test_kmeans_finds_clusters_and_every_group_has_one_of_each() -> None:
    centres = 10.0 * np.eye(3)
    vectors = np.concatenate([centres + 0.1 * k for k in range(4)])  # client k has kind k % 3
    groups = grouped("kmeans(d_min=300)", vectors, [100] * 12)
    assert [sorted(client % 3 for client in group) for group in groups] == [[0, 1, 2]] * 4


GROUPINGS = st.sampled_from(
    ["random", "kmeans", "greedy(tau='kl')", "greedy(tau='cosine', start='uniform')"]
)


@settings(max_examples=40)
@given(
    GROUPINGS,
    st.lists(st.integers(1, 9), min_size=1, max_size=24),
    st.integers(1, 30),
    st.integers(1, 6),
)
def test_no_client_is_lost_and_limits_are_kept(
    text: str, sizes: list[int], d_min: int, k_max: int
) -> None:
    rng = np.random.default_rng(len(sizes))
    name, _, rest = text.partition("(")
    limits = f"d_min={d_min}, k_max={k_max}"
    grouping = parse(f"{name}({limits}, {rest}" if rest else f"{name}({limits})", "grouping")
    if sum(sizes) < d_min:
        with pytest.raises(SettingError, match=f"d_min={d_min} examples, but all"):
            grouping.assign(rng.dirichlet(np.ones(3), len(sizes)), sizes, rng, classes=3)
        return
    try:
        groups = grouping.assign(rng.dirichlet(np.ones(3), len(sizes)), sizes, rng, classes=3)
    except SettingError:  # no room for the last, or groups of one
        return
    assert sorted(chain.from_iterable(groups)) == list(range(len(sizes)))
    assert all(0 < len(group) <= k_max for group in groups)
    assert all(sum(sizes[c] for c in group) >= d_min or len(group) == k_max for group in groups)


@settings(max_examples=40)
@given(st.integers(1, 30), st.data())
def test_groups_of_icg_differ_by_at_most_one_client(clients: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, clients))
    rng = np.random.default_rng(clients)
    groups = icg(count).assign(rng.standard_normal((clients, 2)), [1] * clients, rng)
    assert sorted(chain.from_iterable(groups)) == list(range(clients))
    sizes = list(map(len, groups))
    assert len(groups) == count
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    "text", ["random(d_min=30)", "greedy(d_min=30)", "kmeans(d_min=30)", "icg(4)"]
)
def test_the_same_generator_gives_the_same_groups(text: str) -> None:
    vectors = np.random.default_rng(1).dirichlet(np.ones(3), 20)
    one, two, other = (
        grouped(text, vectors, [10] * 20, np.random.default_rng(seed)) for seed in (5, 5, 6)
    )
    assert one == two != other
    assert repr(parse(text, "grouping")) == text


@pytest.mark.parametrize(
    ("text", "sizes", "why"),
    [
        ("random(d_min=700)", [100] * 6, "all 6 clients together have 600. Lower d_min"),
        (
            "random(d_min=300, k_max=2)",
            [100] * 6,
            "the k_max=2 clients with most have 200 together. Lower d_min or",
        ),
        (
            "random(d_min=300, k_max=3)",
            [100] * 7,
            "the last group has 100 examples, fewer than d_min=300, and the 2",
        ),
        (
            "random(d_min=300, k_max=3)",
            [100] * 7,
            "have room for 0 of its 1 clients with k_max=3. Lower d_min or",
        ),
        (
            "random(d_min=100)",
            [100] * 6,
            "each group would be one client. Raise d_min, or set k_max=1",
        ),
        ("icg(7)", [100] * 6, "icg: 7 groups cannot be made of 6 clients"),
        ("icg(0)", EQUAL, "groups must be a whole number of at least 1"),
        ("kmeans(d_min=300, clusters=7)", EQUAL, "7 clusters cannot be made of 6 clients"),
        ("random(k_max=0)", EQUAL, "random: k_max must be a whole number of at least 1, found 0"),
        ("random()", [], "random: there are no clients to group"),
        (
            "greedy(psi='task2vec')",
            EQUAL,
            "tau='kl' compares probabilities of classes, but psi='task2vec' gives none",
        ),
        ("greedy(psi='confidences')", EQUAL, "Did you mean 'confidence'"),
        ("greedy(tau='wasserstein')", EQUAL, "tau must be 'cosine' or"),
        ("greedi()", EQUAL, "Did you mean 'greedy'"),
    ],
)
def test_refused(text: str, sizes: list[int], why: str) -> None:
    with pytest.raises(FedflatError) as caught:
        grouped(text, SIX[: len(sizes)] if len(sizes) <= 6 else np.ones((len(sizes), 3)) / 3, sizes)
    assert why in str(caught.value)


def test_unfit_descriptions_are_refused() -> None:
    with pytest.raises(
        SettingError, match=r"each of the 6 clients must be described .* shape \(5, 3\)"
    ):
        grouped("icg(2)", SIX[:5], EQUAL)
    with pytest.raises(SettingError, match="the description of client 2 is not finite"):
        grouped("icg(2)", np.where(SIX == 0.12, np.nan, SIX), EQUAL)
    with pytest.raises(SettingError, match="does not sum to one"):
        grouped("greedy()", 2 * SIX, EQUAL)
    with pytest.raises(SettingError, match="these data have no classes"):
        kmeans().assign(SIX, EQUAL, np.random.default_rng(0))


def test_groups_of_one_if_they_are_meant() -> None:
    assert sorted(grouped("random(d_min=1, k_max=1)", SIX, EQUAL)) == [[k] for k in range(6)]
    assert greedy(k_max=1).k_max == 1
