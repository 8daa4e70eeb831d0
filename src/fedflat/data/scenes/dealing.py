"""Who holds which scenes: the rules of FedDrive and LADD.

    equal_shares     so many clients of each group, all of one group equally large; what is left over is left out
    sizes_between    so many clients whose sizes lie between two limits and add up to a total
    drawn_sizes      sizes drawn between two limits until all is dealt out
    place_clusters   neighbours on the map, between two sizes
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedflat.errors import SettingError

Parts = list[list[int]]


def by_group(groups: Sequence[str]) -> dict[str, list[int]]:
    """The places of each group, the groups in the order of their names."""
    found: dict[str, list[int]] = {name: [] for name in sorted(set(groups))}
    for place, name in enumerate(groups):
        found[name].append(place)
    return found


def equal_shares(groups: Sequence[str], each: int, rng: np.random.Generator) -> Parts:
    """``each`` clients of every group, with ``floor(n / each)`` of its n scenes; the rest belong to nobody.

    >>> [len(part) for part in equal_shares(["a"] * 7 + ["b"] * 4, 2, np.random.default_rng(0))]
    [3, 3, 2, 2]
    """
    parts = []
    for name, places in by_group(groups).items():
        share = len(places) // each
        if share == 0:
            raise SettingError(f"{name} has {len(places)} scenes, too few for {each} clients. Use fewer for each.")
        order = rng.permutation(places).tolist()
        parts += [sorted(order[k * share : (k + 1) * share]) for k in range(each)]
    return parts


def sizes_between(total: int, count: int, low: int, high: int, rng: np.random.Generator) -> list[int]:
    """``count`` sizes from ``low`` to ``high`` that add up to ``total``: drawn, then moved by one here and there."""
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
    """Clients of one group each, whose sizes are uniform from ``low`` to ``high``.

    In each group sizes are drawn until it is used up; so many clients then share it, with sizes within the limits.
    """
    parts = []
    for name, places in by_group(groups).items():
        if len(places) < low:
            raise SettingError(f"{name} has {len(places)} scenes, too few for a client of {low} or more.")
        drawn, count = 0, 0
        while drawn + low <= len(places):
            drawn += int(rng.integers(low, high + 1))
            count += 1
        count = min(max(count, -(-len(places) // high)), len(places) // low)
        ends = np.cumsum(sizes_between(len(places), count, low, high, rng))
        parts += [sorted(part.tolist()) for part in np.split(rng.permutation(places), ends[:-1])]
    return parts


def place_clusters(
    places: NDArray[np.float64], groups: Sequence[str], low: int, high: int, seed: int
) -> Parts:
    """Clients of neighbours: k-means on latitude and longitude in each group, with ``low`` to ``high`` scenes each.

    Clusters that are too large are cut in two again; those that are too small join the nearest that has room, and if
    none has, what they join is cut in two by its longer side.
    """
    parts: Parts = []
    for name, members in by_group(groups).items():
        if len(members) < low:
            raise SettingError(f"{name} has {len(members)} scenes, too few for a client of {low} or more.")
        parts += _clusters(places, np.array(members), low, high, seed)
    return parts


def _clusters(places: NDArray[np.float64], members: NDArray[np.int64], low: int, high: int, seed: int) -> Parts:
    count = max(round(2 * len(members) / (low + high)), 1)
    waiting, done = [_k_means(places, members, count, seed)], []
    while waiting:
        for part in waiting.pop():
            if len(part) > high:
                waiting.append(_k_means(places, part, 2, seed))
            else:
                done.append(part)
    return [sorted(part.tolist()) for part in _merged(places, done, low, high)]


def _merged(
    places: NDArray[np.float64], parts: list[NDArray[np.int64]], low: int, high: int
) -> list[NDArray[np.int64]]:
    while len(parts) > 1 and len(small := min(parts, key=len)) < low:
        parts = [part for part in parts if part is not small]
        middle = places[small].mean(0)
        near = sorted(parts, key=lambda part: float(((places[part].mean(0) - middle) ** 2).sum()))
        host = next((part for part in near if len(part) + len(small) <= high), near[0])
        joined = np.concatenate([host, small])
        parts = [part for part in parts if part is not host] + _halves(places, joined, high)
    return parts


def _halves(places: NDArray[np.float64], part: NDArray[np.int64], high: int) -> list[NDArray[np.int64]]:
    if len(part) <= high:
        return [part]
    along = int(np.ptp(places[part], axis=0).argmax())
    order = part[np.argsort(places[part, along], kind="stable")]
    return [order[: len(order) // 2], order[len(order) // 2 :]]


def _k_means(
    places: NDArray[np.float64], members: NDArray[np.int64], count: int, seed: int
) -> list[NDArray[np.int64]]:
    """The members in ``count`` clusters; where they cannot be told apart, in ``count`` pieces."""
    from sklearn.cluster import KMeans

    count = min(count, len(members))
    if len(np.unique(places[members], axis=0)) < count:
        return [piece for piece in np.array_split(members, count) if len(piece)]
    labels = KMeans(count, n_init=3, random_state=seed % 2**32).fit(places[members]).labels_
    return [members[labels == c] for c in range(count)]
