"""The interface of partitions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedflat.errors import SettingError, number
from fedflat.registry.specs import TextSpec

Index = NDArray[np.int64]
Weights = NDArray[np.float64]


def enough(owner: str, examples: int, clients: int, each: int = 1) -> None:
    """Refuse fewer than ``each`` examples per client."""
    number(owner, "clients", clients, low=1, whole=True)
    if examples < clients * each:
        raise SettingError(
            f"{owner}: {clients} clients need at least {clients * each} examples, found "
            f"{examples}. Use fewer clients or a larger data set."
        )


def even(total: int, shares: int) -> Index:
    """Split ``total`` into ``shares`` integers that differ by at most one, larger ones first.

    >>> even(11, 4).tolist()
    [3, 3, 3, 2]
    """
    return total // shares + (np.arange(shares) < total % shares).astype(np.int64)


def pools_of(labels: Index, rng: np.random.Generator) -> list[Index]:
    """The positions of each class that occurs, shuffled."""
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    _, first = np.unique(labels[order], return_index=True)
    return np.split(order, first[1:])


def dirichlet(concentration: float, weights: Weights, rng: np.random.Generator) -> Weights:
    """One draw of ``Dirichlet(concentration * weights)``, for every positive concentration.

    Ratios of gamma variables in logarithms: log G(a) = log G(a + 1) + log(U) / a. For a
    concentration near 0 gammas underflow and their ratio is 0 / 0; the differences of their
    logarithms are still exact, and the draw becomes one-hot as it should.
    """
    race = np.log1p(-rng.random(len(weights))) / weights
    with np.errstate(over="ignore"):
        log_gamma = (race - race.max()) / concentration
        log_gamma += np.log(rng.standard_gamma(concentration * weights + 1))
    q = np.exp(log_gamma - log_gamma.max())
    return np.asarray(q / q.sum())


def class_counts(
    alpha: float, stock: Index, clients: int, rng: np.random.Generator, *, balance: bool
) -> Index:
    """The number of examples of each class (rows) for each client (columns).

    The shares of a class over the clients are ``Dirichlet([alpha] * clients)``. Counts are rounded
    so that no example is left; the last client gets what rounding leaves. With ``balance`` a client
    that has at least the mean number of examples gets none of the following classes, and its share
    goes to the others in proportion to theirs.
    """
    counts = np.zeros((len(stock), clients), np.int64)
    mean, held = stock.sum() / clients, np.zeros(clients, np.int64)
    for at, size in enumerate(stock):
        room = held < mean if balance else np.ones(clients, bool)
        q: Weights = np.where(room, dirichlet(alpha, np.ones(clients), rng), 0.0)
        if q.sum() <= 0:  # the other shares underflow; their ratios are a Dirichlet draw again
            q[room] = dirichlet(alpha, np.ones(room.sum()), rng)
        q = q / q.sum()
        ends = np.floor(np.cumsum(q)[:-1] * size).astype(np.int64)
        counts[at] = np.diff(np.minimum(ends, size), prepend=0, append=size)
        held += counts[at]
    return counts


def split_classes(pools: list[Index], counts: Index) -> list[Index]:
    """The positions of each client; ``counts`` has classes in rows and clients in columns."""
    pieces = [np.split(pool, np.cumsum(row)[:-1]) for pool, row in zip(pools, counts, strict=True)]
    return [np.concatenate(own) for own in zip(*pieces, strict=True)]


def draw(q: Weights, stock: Index, count: int, rng: np.random.Generator) -> Index:
    """Counts of labels, when ``count`` labels are drawn from ``q`` one by one from a finite stock.

    A label that has run out gets probability 0, and ``q`` is renormalized. If nothing is left, the
    remaining labels are drawn uniformly. Drawing many labels at once and rejecting those out of
    stock has the same distribution, so this takes a few multinomial draws instead of ``count``
    single ones.
    """
    assert count <= stock.sum(), (count, stock)
    counts = np.zeros_like(stock)
    while missing := count - int(counts.sum()):
        available = counts < stock
        left = np.where(available, q, 0.0)
        if left.sum() <= 0:
            left = available.astype(np.float64)
        counts = np.minimum(counts + rng.multinomial(missing, left / left.sum()), stock)
    return counts


def draw_in_turns(mixtures: Weights, stock: Index, sizes: Index, rng: np.random.Generator) -> Index:
    """Counts of labels (columns) per client (rows), when all clients draw in turns.

    At each turn a random client that has fewer than its ``sizes`` draws one label from its row of
    ``mixtures``, and draws again if that label is out of stock. If its mixture has run out, see
    `draw`.
    """
    clients, kinds = mixtures.shape
    who = _turns(sizes, rng)
    labels = _labels(mixtures, who, rng)
    there = np.ones(kinds, bool)
    while True:
        counts = np.bincount(labels, minlength=kinds)
        over = np.flatnonzero(counts > stock)
        if not len(over):
            return np.bincount(who * kinds + labels, minlength=clients * kinds).reshape(
                clients, kinds
            )
        by_kind = np.argsort(labels, kind="stable")
        # Turns whose label was out of stock.
        first = by_kind[(np.cumsum(counts) - counts + stock)[over]]
        kind = over[first.argmin()]
        there[kind] = False
        left = np.where(there, mixtures, 0.0)
        left[left.sum(1) <= 0] = there
        again = np.flatnonzero(labels == kind)[stock[kind] :]
        labels[again] = _labels(left, who[again], rng)


def _turns(sizes: Index, rng: np.random.Generator) -> Index:
    """The client of each turn: random order, each client equally often, until it is complete."""
    times = [np.cumsum(rng.standard_exponential(size)) for size in sizes]
    return np.asarray(np.repeat(np.arange(len(sizes)), sizes)[np.argsort(np.concatenate(times))])


def _labels(mixtures: Weights, who: Index, rng: np.random.Generator) -> Index:
    """One label for each of the clients ``who``, from its mixture."""
    bounds = np.cumsum(mixtures, axis=1)
    ends = bounds[who, -1]
    marks = np.minimum(rng.random(len(who)) * ends, np.nextafter(ends, 0))
    labels = np.zeros(len(who), np.int64)
    for bound in bounds.T:
        labels += bound[who] <= marks
    return labels


def take(pools: list[Index], used: Index, counts: Index) -> Index:
    """The next ``counts`` positions of the pools, sorted; advances ``used``."""
    parts = [pools[c][used[c] : used[c] + counts[c]] for c in np.flatnonzero(counts)]
    used += counts
    return np.sort(np.concatenate(parts))


class Partition(TextSpec, ABC):
    """A frozen dataclass that assigns examples to clients."""

    by_label: ClassVar[bool] = True
    """True if it uses labels. If not, it works for examples of any kind and gets zeros as labels.
    """

    def note(self, classes_per_client: float | None = None) -> str:
        """A sentence to print beside results if the arguments differ in other libraries; else
        empty.

        ``classes_per_client`` is the mean number of classes of a client, if the data are open.
        """
        return ""

    @abstractmethod
    def assign(
        self,
        labels: Index,
        clients: int,
        rng: np.random.Generator,
        *,
        coarse: Index | None = None,
        users: Index | None = None,
    ) -> list[Index]:
        """For each client, the sorted positions of its examples in ``labels``.

        ``coarse`` has a coarse class and ``users`` an owner for each example, for partitions that
        need them.
        """
