"""Partitions of scenes as in FedDrive and LADD.

equal_shares     clients of one group each, equally large within a group; the rest is unused
sizes_between    client sizes between two limits with a given sum
random_sizes      clients of one group each, of random sizes between two limits
place_clusters   clients of neighbouring places, with sizes between two limits
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedflat.data.k_means import k_means
from fedflat.errors import SettingError

Parts = list[list[int]]


def by_group(groups: Sequence[str]) -> dict[str, list[int]]:
    """The positions of each group, groups sorted by name."""
    positions: dict[str, list[int]] = {name: [] for name in sorted(set(groups))}
    for place, name in enumerate(groups):
        positions[name].append(place)
    return positions


def equal_shares(groups: Sequence[str], each: int, rng: np.random.Generator) -> Parts:
    """``each`` clients per group, with ``floor(n / each)`` of its n scenes; the rest is unused.

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
    """``count`` random sizes from ``low`` to ``high`` with the sum ``total``."""
    if not low * count <= total <= high * count:
        raise SettingError(
            f"{total} scenes cannot be divided among {count} clients with {low} to {high} each. "
            f"Use between {-(-total // high)} and {total // low} clients."
        )
    sizes = rng.integers(low, high + 1, size=count)
    while (excess := int(sizes.sum()) - total) != 0:
        movable = np.flatnonzero(sizes > low if excess > 0 else sizes < high)
        chosen = rng.permutation(movable)[: abs(excess)]
        sizes[chosen] -= np.sign(excess)
    return [int(size) for size in sizes]


def uniform(total: int, count: int, low: int, high: int, rng: np.random.Generator) -> Parts:
    """Shuffled scenes divided among ``count`` clients with ``low`` to ``high`` each."""
    ends = np.cumsum(sizes_between(total, count, low, high, rng))
    return [sorted(part.tolist()) for part in np.split(rng.permutation(total), ends[:-1])]


def random_sizes(groups: Sequence[str], low: int, high: int, rng: np.random.Generator) -> Parts:
    """Clients of one group each, with random sizes from ``low`` to ``high``.

    >>> len(random_sizes(["a"] * 3200, 17, 37, np.random.default_rng(0)))
    119
    """
    parts = []
    for name, places in by_group(groups).items():
        if len(places) < low:
            raise SettingError(
                f"{name} has {len(places)} scenes, too few for a client of {low} or more."
            )
        count = _possible_count(round(2 * len(places) / (low + high)), len(places), low, high)
        ends = np.cumsum(sizes_between(len(places), count, low, high, rng))
        parts += [sorted(part.tolist()) for part in np.split(rng.permutation(places), ends[:-1])]
    return parts


def place_clusters(
    places: NDArray[np.float64], groups: Sequence[str], count: int, low: int, high: int, seed: int
) -> Parts:
    """Clients of neighbouring places: k-means on latitude and longitude within each group.

    Each group gets its share of the ``count`` clients. Clusters that are too large are split again.
    Those that are too small are merged with the nearest that has room; if none has, the merged
    cluster is split along its longer side. Then the largest are split, or the smallest merged,
    until the number of clients is right, if sizes allow it.
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
            places,
            np.array(members),
            _possible_count(share, len(members), low, high),
            low,
            high,
            seed,
        )
    return parts


def _possible_count(count: int, total: int, low: int, high: int) -> int:
    """The nearest number of clients that can share ``total`` scenes within the limits."""
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
    done = _merge_small(places, done, low, high)
    while len(done) < count and len(large := max(done, key=len)) >= 2 * low:
        done = [part for part in done if part is not large] + _halves(places, large, len(large) - 1)
    while len(done) > count and len(joined := _merge_smallest(places, done, high)) < len(done):
        done = joined
    return [sorted(part.tolist()) for part in done]


def _merge_smallest(
    places: NDArray[np.float64], parts: list[NDArray[np.int64]], high: int
) -> list[NDArray[np.int64]]:
    """Merge the smallest part with the nearest that has room; if none has, merge and split."""
    small = min(parts, key=len)
    parts = [part for part in parts if part is not small]
    middle = places[small].mean(0)
    near = sorted(parts, key=lambda part: float(((places[part].mean(0) - middle) ** 2).sum()))
    host = next((part for part in near if len(part) + len(small) <= high), near[0])
    return [part for part in parts if part is not host] + _halves(
        places, np.concatenate([host, small]), high
    )


def _merge_small(
    places: NDArray[np.float64], parts: list[NDArray[np.int64]], low: int, high: int
) -> list[NDArray[np.int64]]:
    while len(parts) > 1 and min(map(len, parts)) < low:
        parts = _merge_smallest(places, parts, high)
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
    """The members in ``count`` clusters; if they are at one place, in ``count`` equal pieces."""
    count = min(count, len(members))
    if len(np.unique(places[members], axis=0)) < count:
        return [piece for piece in np.array_split(members, count) if len(piece)]
    labels = k_means(places[members], count, seed, starts=3)
    return [members[labels == c] for c in range(count)]
