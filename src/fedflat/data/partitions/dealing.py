"""How examples are dealt out: even sizes, class pools, Dirichlet draws, and drawing while the stock
lasts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedflat.errors import SettingError, number

Index = NDArray[np.int64]
Weights = NDArray[np.float64]


def enough(owner: str, examples: int, clients: int, each: int = 1) -> None:
    """Refuse to deal fewer than ``each`` examples to every client."""
    number(owner, "clients", clients, low=1, whole=True)
    if examples < clients * each:
        raise SettingError(
            f"{owner}: {clients} clients need at least {clients * each} examples, found {examples}. "
            "Use fewer clients or a larger data set."
        )


def even(total: int, shares: int) -> Index:
    """``total`` in ``shares`` whole numbers that differ by at most one, the larger ones first.

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
    """How many examples of each class (rows) each client (columns) gets.

    The shares of a class over the clients are ``Dirichlet([alpha] * clients)``. Counts are rounded
    so that no example is left; the last client gets what rounding leaves. With ``balance`` a client
    that has at least the mean number of examples gets none of the classes that follow: its share
    goes to the others in proportion to theirs.
    """
    counts = np.zeros((len(stock), clients), np.int64)
    mean, held = stock.sum() / clients, np.zeros(clients, np.int64)
    for at, size in enumerate(stock):
        room = held < mean if balance else np.ones(clients, bool)
        q: Weights = np.where(room, dirichlet(alpha, np.ones(clients), rng), 0.0)
        if (
            q.sum() <= 0
        ):  # the others' shares were too small for a float; in proportion they are a Dirichlet draw again
            q[room] = dirichlet(alpha, np.ones(room.sum()), rng)
        q = q / q.sum()
        ends = np.floor(np.cumsum(q)[:-1] * size).astype(np.int64)
        counts[at] = np.diff(np.minimum(ends, size), prepend=0, append=size)
        held += counts[at]
    return counts


def split_classes(pools: list[Index], counts: Index) -> list[Index]:
    """The positions of each client, where ``counts`` has classes in rows and clients in columns."""
    pieces = [np.split(pool, np.cumsum(row)[:-1]) for pool, row in zip(pools, counts, strict=True)]
    return [np.concatenate(own) for own in zip(*pieces, strict=True)]


def draw(q: Weights, stock: Index, count: int, rng: np.random.Generator) -> Index:
    """How many of each kind, when ``count`` labels are drawn from ``q`` one by one while ``stock``
    lasts.

    A kind that has run out is set to 0 in ``q``, which is renormalised; if that leaves nothing,
    kinds that are still there are drawn uniformly. Labels drawn in one go and thrown away where the
    stock is used up have the same law, so this takes a few multinomial draws instead of ``count``
    single ones.
    """
    assert count <= stock.sum(), (count, stock)
    taken = np.zeros_like(stock)
    while missing := count - int(taken.sum()):
        there = taken < stock
        left = np.where(there, q, 0.0)
        if left.sum() <= 0:
            left = there.astype(np.float64)
        taken = np.minimum(taken + rng.multinomial(missing, left / left.sum()), stock)
    return taken


def draw_in_turns(mixtures: Weights, stock: Index, sizes: Index, rng: np.random.Generator) -> Index:
    """How many of each kind (columns) each client (rows) gets, when all draw at the same time.

    At each turn a random client that has not all of its ``sizes`` yet draws one label from its row
    of ``mixtures``, and again where the stock of that label is used up; see `draw` for a mixture of
    which nothing is left.
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
        first = by_kind[
            (np.cumsum(counts) - counts + stock)[over]
        ]  # the turns at which there was none left
        kind = over[first.argmin()]
        there[kind] = False
        left = np.where(there, mixtures, 0.0)
        left[left.sum(1) <= 0] = there
        again = np.flatnonzero(labels == kind)[stock[kind] :]
        labels[again] = _labels(left, who[again], rng)


def _turns(sizes: Index, rng: np.random.Generator) -> Index:
    """Who is served at which turn: clients come at random times, equally often, until they have
    enough."""
    times = [np.cumsum(rng.standard_exponential(size)) for size in sizes]
    return np.asarray(np.repeat(np.arange(len(sizes)), sizes)[np.argsort(np.concatenate(times))])


def _labels(mixtures: Weights, who: Index, rng: np.random.Generator) -> Index:
    """One label for each of ``who``, from its mixture."""
    bounds = np.cumsum(mixtures, axis=1)
    ends = bounds[who, -1]
    marks = np.minimum(rng.random(len(who)) * ends, np.nextafter(ends, 0))
    labels = np.zeros(len(who), np.int64)
    for bound in bounds.T:
        labels += bound[who] <= marks
    return labels


def take(pools: list[Index], used: Index, counts: Index) -> Index:
    """The next ``counts`` positions of the pools after the ``used`` ones, sorted; ``used`` moves
    on."""
    parts = [pools[c][used[c] : used[c] + counts[c]] for c in np.flatnonzero(counts)]
    used += counts
    return np.sort(np.concatenate(parts))
