"""Who holds which scenes: the rules of FedDrive and LADD.

equal_shares     so many clients of each group, all of one group equally large; what is left over is left out
sizes_between    so many clients whose sizes lie between two limits and add up to a total
drawn_sizes      clients of each group between two sizes, the middle of them on average
place_clusters   so many clients of neighbours on the map, between two sizes
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedflat.data.k_means import k_means
from fedflat.errors import SettingError

Parts = list[list[int]]


def by_group(groups: Sequence[str]) -> dict[str, list[int]]:
    """The places of each group, the groups in the order of their names."""
    found: dict[str, list[int]] = {name: [] for name in sorted(set(groups))}
    for place, name in enumerate(groups):
        found[name].append(place)
    return found


def equal_shares(groups: Sequence[str], each: int, rng: np.random.Generator) -> Parts:
    """``each`` clients of every group, with ``floor(n / each)`` of its n scenes; the rest belong to
    nobody.

    >>> [len(part) for part in equal_shares(["a"] * 7 + ["b"] * 4, 2, np.random.default_rng(0))]
    [3, 3, 2, 2]
    """
    parts = []
    for name, places in by_group(groups).items():
        share = len(places) // each
        if share == 0:
            raise SettingError(
                f"{name} has {len(places)} scenes, too few for {each} clients. Use fewer for each."
            )
        order = rng.permutation(places).tolist()
        parts += [sorted(order[k * share : (k + 1) * share]) for k in range(each)]
    return parts


def sizes_between(
    total: int, count: int, low: int, high: int, rng: np.random.Generator
) -> list[int]:
    """``count`` sizes from ``low`` to ``high`` that add up to ``total``: drawn, then moved by one
    here and there."""
    if not low * count <= total <= high * count:
        raise SettingError(
            f"{total} scenes cannot be dealt out to {count} clients with {low} to {high} each. Use between "
            f"{-(-total // high)} and {total // low} clients."
        )
    sizes = rng.integers(low, high + 1, size=count)
    while (excess := int(sizes.sum()) - total) != 0:
        movable = np.flatnonzero(sizes > low if excess > 0 else sizes < high)
        chosen = rng.permutation(movable)[: abs(excess)]
        sizes[chosen] -= np.sign(excess)
    return [int(size) for size in sizes]


def uniform(total: int, count: int, low: int, high: int, rng: np.random.Generator) -> Parts:
    """All scenes shuffled and dealt out to ``count`` clients with ``low`` to ``high`` each."""
    ends = np.cumsum(sizes_between(total, count, low, high, rng))
    return [sorted(part.tolist()) for part in np.split(rng.permutation(total), ends[:-1])]


def drawn_sizes(groups: Sequence[str], low: int, high: int, rng: np.random.Generator) -> Parts:
    """Clients of one group each, whose sizes are drawn from ``low`` to ``high``: as many as have
    the middle on average.

    >>> len(drawn_sizes(["a"] * 3200, 17, 37, np.random.default_rng(0)))
    119
    """
    parts = []
    for name, places in by_group(groups).items():
        if len(places) < low:
            raise SettingError(
                f"{name} has {len(places)} scenes, too few for a client of {low} or more."
            )
        count = _within(round(2 * len(places) / (low + high)), len(places), low, high)
        ends = np.cumsum(sizes_between(len(places), count, low, high, rng))
        parts += [sorted(part.tolist()) for part in np.split(rng.permutation(places), ends[:-1])]
    return parts


def place_clusters(
    places: NDArray[np.float64], groups: Sequence[str], count: int, low: int, high: int, seed: int
) -> Parts:
    """Clients of neighbours: k-means on latitude and longitude in each group, with ``low`` to
    ``high`` scenes each.

    Of the ``count`` clients each group has its share. Clusters that are too large are cut in two
    again; those that are too small join the nearest that has room, and if none has, what they join
    is cut in two by its longer side. Then the largest are cut, or the smallest join others, until
    there are as many as there should be, if sizes allow it.
    """
    parts: Parts = []
    before, dealt = 0, 0
    for name, members in by_group(groups).items():
        if len(members) < low:
            raise SettingError(
                f"{name} has {len(members)} scenes, too few for a client of {low} or more."
            )
        before += len(members)
        share = round(count * before / len(groups)) - dealt
        dealt += share
        parts += _clusters(
            places, np.array(members), _within(share, len(members), low, high), low, high, seed
        )
    return parts


def _within(count: int, total: int, low: int, high: int) -> int:
    """The nearest number of clients that can share ``total`` scenes with ``low`` to ``high``
    each."""
    return max(min(max(count, -(-total // high)), total // low), 1)


def _clusters(
    places: NDArray[np.float64],
    members: NDArray[np.int64],
    count: int,
    low: int,
    high: int,
    seed: int,
) -> Parts:
    waiting, done = [_k_means(places, members, count, seed)], []
    while waiting:
        for part in waiting.pop():
            if len(part) > high:
                waiting.append(_k_means(places, part, 2, seed))
            else:
                done.append(part)
    done = _merged(places, done, low, high)
    while len(done) < count and len(large := max(done, key=len)) >= 2 * low:
        done = [part for part in done if part is not large] + _halves(places, large, len(large) - 1)
    while len(done) > count and len(joined := _joined(places, done, high)) < len(done):
        done = joined
    return [sorted(part.tolist()) for part in done]


def _joined(
    places: NDArray[np.float64], parts: list[NDArray[np.int64]], high: int
) -> list[NDArray[np.int64]]:
    """The smallest part joined to the nearest that has room; if none has, to the nearest, and cut
    in two."""
    small = min(parts, key=len)
    parts = [part for part in parts if part is not small]
    middle = places[small].mean(0)
    near = sorted(parts, key=lambda part: float(((places[part].mean(0) - middle) ** 2).sum()))
    host = next((part for part in near if len(part) + len(small) <= high), near[0])
    return [part for part in parts if part is not host] + _halves(
        places, np.concatenate([host, small]), high
    )


def _merged(
    places: NDArray[np.float64], parts: list[NDArray[np.int64]], low: int, high: int
) -> list[NDArray[np.int64]]:
    while len(parts) > 1 and min(map(len, parts)) < low:
        parts = _joined(places, parts, high)
    return parts


def _halves(
    places: NDArray[np.float64], part: NDArray[np.int64], high: int
) -> list[NDArray[np.int64]]:
    if len(part) <= high:
        return [part]
    along = int(np.ptp(places[part], axis=0).argmax())
    order = part[np.argsort(places[part, along], kind="stable")]
    return [order[: len(order) // 2], order[len(order) // 2 :]]


def _k_means(
    places: NDArray[np.float64], members: NDArray[np.int64], count: int, seed: int
) -> list[NDArray[np.int64]]:
    """The members in ``count`` clusters; where they cannot be told apart, in ``count`` pieces."""
    count = min(count, len(members))
    if len(np.unique(places[members], axis=0)) < count:
        return [piece for piece in np.array_split(members, count) if len(piece)]
    labels = k_means(places[members], count, seed, starts=3)
    return [members[labels == c] for c in range(count)]
