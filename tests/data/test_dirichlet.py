"""Each class divided over the clients by a Dirichlet distribution."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflat import by_class, dirichlet
from fedflat.data.partitions import dirichlet as module
from fedflat.data.partitions.partition import class_counts
from fedflat.errors import SettingError
from fedflat.registry.specs import parse


def counts_of(parts: list[np.ndarray], labels: np.ndarray) -> np.ndarray:
    """Examples of each class (rows) that each client (columns) has."""
    return np.stack(
        [np.bincount(labels[part], minlength=labels.max() + 1) for part in parts], axis=1
    )


def literal(
    labels: np.ndarray, clients: int, alpha: float, min_size: int, balance: bool, seed: int
) -> np.ndarray:
    """The published procedure as plain loops with NumPy's own Dirichlet; counts as in
    `counts_of`."""
    rng = np.random.default_rng(seed)
    while True:
        held: list[list[int]] = [[] for _ in range(clients)]
        for label in np.unique(labels):
            own = rng.permutation(np.flatnonzero(labels == label)).tolist()
            shares = rng.dirichlet([alpha] * clients)
            if balance:
                room = np.array([len(own) < len(labels) / clients for own in held])
                shares = shares * room / (shares * room).sum()
            start, total = 0, 0.0
            for client, share in enumerate(shares):
                total += share
                end = len(own) if client == clients - 1 else int(total * len(own))
                held[client] += own[start:end]
                start = end
        if min(map(len, held)) >= min_size:
            return counts_of([np.array(h) for h in held], labels)


def ours(labels: np.ndarray, clients: int, draws: int, **arguments: object) -> Iterator[np.ndarray]:
    for seed in range(draws):
        parts = dirichlet(**arguments).assign(labels, clients, np.random.default_rng(seed))  # type: ignore[arg-type]
        yield counts_of(parts, labels)


def assert_same_mean(found: np.ndarray, expected: np.ndarray) -> None:
    """Two samples whose means differ by less than four standard errors of the difference."""
    error = np.sqrt(found.var(ddof=1) / len(found) + expected.var(ddof=1) / len(expected))
    assert abs(found.mean() - expected.mean()) < 4 * error


@pytest.mark.parametrize("alpha", [0.3, 2.0])
def test_shares_of_a_class_have_the_moments_of_the_dirichlet_distribution(alpha: float) -> None:
    """Mean 1/K and variance (K - 1) / (K^2 (K alpha + 1)); a count differs from its share by less
    than one example."""
    clients, size, draws = 5, 4_000, 300
    labels = np.repeat([0, 1, 2, 3], size)
    shares = np.stack(
        [c / size for c in ours(labels, clients, draws, alpha=alpha, min_size=1, balance=False)]
    )
    for client in range(clients):
        own = shares[:, :, client].mean(1)
        assert abs(own.mean() - 1 / clients) < 4 * own.std(ddof=1) / draws**0.5 + 1 / size
    squares = ((shares - 1 / clients) ** 2).mean((1, 2))
    variance = (clients - 1) / (clients**2 * (clients * alpha + 1))
    assert abs(squares.mean() - variance) < 4 * squares.std(ddof=1) / draws**0.5 + 2 / size
    both = (shares[:, 0] - 1 / clients) * (
        shares[:, 1] - 1 / clients
    )  # classes are drawn independently
    assert abs(both.mean()) < 4 * both.mean(1).std(ddof=1) / draws**0.5 + 2 / size


@pytest.mark.parametrize("balance", [True, False])
@pytest.mark.parametrize("min_size", [1, 10])
def test_law_is_that_of_the_published_procedure(balance: bool, min_size: int) -> None:
    """Classes a client, the smallest and the largest client agree in the mean with a second
    implementation."""
    labels, clients, draws = np.repeat(np.arange(6), 200), 12, 300
    mine = list(ours(labels, clients, draws, alpha=0.3, min_size=min_size, balance=balance))
    others = [literal(labels, clients, 0.3, min_size, balance, seed) for seed in range(draws)]
    for measure in (
        lambda c: (c > 0).sum(0).mean(),
        lambda c: c.sum(0).min(),
        lambda c: c.sum(0).max(),
        lambda c: (c**2).sum(),
        lambda c: c[-1].max(),
    ):
        assert_same_mean(
            np.array([measure(c) for c in mine], float),
            np.array([measure(c) for c in others], float),
        )


@given(st.integers(1, 8), st.floats(0.2, 1e6), st.integers(1, 4), st.booleans(), st.integers(0, 99))
def test_each_example_is_assigned_once_and_no_client_is_too_small(
    clients: int, alpha: float, min_size: int, balance: bool, seed: int
) -> None:
    labels = np.random.default_rng(seed).integers(0, 5, size=40 * clients)
    partition = dirichlet(alpha, min_size=min_size, balance=balance)
    parts = partition.assign(labels, clients, np.random.default_rng(seed))
    assert len(parts) == clients
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)))
    assert all((np.diff(part) > 0).all() for part in parts)
    assert min(map(len, parts)) >= min_size
    again = partition.assign(labels, clients, np.random.default_rng(seed))
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))


def test_balance_gives_no_further_class_to_clients_above_the_mean() -> None:
    labels, clients = np.repeat(np.arange(10), 300), 15
    full_clients = 0
    for counts in ours(labels, clients, 20, alpha=0.2, min_size=1, balance=True):
        before = np.cumsum(counts, axis=0) - counts
        full = before >= len(labels) / clients
        assert not counts[:, :-1][full[:, :-1]].any()
        assert (counts[full] <= 1).all()  # the last client gets what rounding leaves
        full_clients += int(full.any(0).sum())
    assert full_clients > 20
    unbalanced = ours(labels, clients, 20, alpha=0.2, min_size=1, balance=False)
    assert any(
        (c[(np.cumsum(c, axis=0) - c) >= len(labels) / clients] > 1).any() for c in unbalanced
    )


@pytest.mark.parametrize("alpha", [0.1, 0.5, 10.0])
def test_by_class_with_one_draw_and_uneven_sizes_is_the_same_partition(alpha: float) -> None:
    labels, clients, compared = np.repeat(np.arange(10), 500), 10, 0
    for seed in range(10):
        plain = by_class(alpha, draws=1, even=False).assign(
            labels, clients, np.random.default_rng(seed)
        )
        if min(map(len, plain)) >= 1:  # else dirichlet draws again
            parts = dirichlet(alpha, min_size=1).assign(
                labels, clients, np.random.default_rng(seed)
            )
            assert all(np.array_equal(a, b) for a, b in zip(plain, parts, strict=True))
            compared += 1
    assert compared >= 5


def test_tiny_alpha_gives_each_class_to_one_client() -> None:
    """Also where the client that was drawn has its share already: the class goes to one of the
    others."""
    labels = np.repeat(np.arange(4), 30)
    for seed in range(10):
        stock = np.bincount(labels)
        counts = class_counts(1e-9, stock, 4, np.random.default_rng(seed), balance=True)
        assert np.array_equal(np.sort(counts.ravel()), [0] * 12 + [30] * 4)
        assert (counts.sum(0) == 30).all()


def test_large_alpha_gives_every_client_the_same_share() -> None:
    labels = np.repeat(np.arange(4), 100)
    parts = dirichlet(1e12, balance=False).assign(labels, 10, np.random.default_rng(0))
    assert np.abs(counts_of(parts, labels) - 10).max() <= 1


def test_text() -> None:
    for text in ("dirichlet(0.1)", "dirichlet(0.5, min_size=1, balance=False)"):
        assert repr(parse(text, "partition")) == text


def test_refused() -> None:
    with pytest.raises(SettingError, match="dirichlet: alpha must be a number above 0, found 0"):
        dirichlet(0)
    with pytest.raises(
        SettingError, match="dirichlet: min_size must be a whole number of at least 1, found 0"
    ):
        dirichlet(1, min_size=0)
    with pytest.raises(SettingError, match="dirichlet: balance must be True or False"):
        dirichlet(1, balance="yes")  # type: ignore[arg-type]
    with pytest.raises(
        SettingError, match="dirichlet: 5 clients need at least 50 examples, found 49"
    ):
        dirichlet(1).assign(np.zeros(49, np.int64), 5, np.random.default_rng(0))


def test_draws_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DRAWS", 20)
    message = r"min_size=10 examples, but in each of 20 draws one had at most \d\. Use a larger alpha, fewer clients"
    with pytest.raises(SettingError, match=message):
        dirichlet(1e-6).assign(np.repeat([0, 1], 500), 50, np.random.default_rng(0))
