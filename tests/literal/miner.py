"""The miner of FedVPR, the triplet loss and recall, written out in loops.

Caldarola's doctoral thesis, equations 2.10 to 2.12, with the pool and the refresh of Berton et al.,
Deep Visual Geo-localization Benchmark, CVPR 2022.

    for each refresh of at most R queries of the request:
 1      pool = a random part of the client's database, one for all queries of the refresh
 2      descriptors of queries, pool and all positives by the current model in evaluation mode
        for each query q:
 3          positive = the nearest in descriptors of all database images within 10 m
 4          negatives = the k nearest in descriptors of the pool's images beyond 25 m
 5  loss of a batch = mean over its (q, p, n) of max(|q - p| - |q - n| + m, 0)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Array = np.ndarray


def metres(a: Array, b: Array) -> float:
    return float(np.sqrt(sum((float(x) - float(y)) ** 2 for x, y in zip(a, b, strict=True))))


def usable(where: Array, roles: Array, within: float, beyond: float) -> list[int]:
    """Queries with a positive and a negative at the client."""
    database = [i for i in range(len(roles)) if roles[i] == 1]
    found = []
    for q in range(len(roles)):
        if roles[q] != 0:
            continue
        apart = [metres(where[q], where[i]) for i in database]
        if any(d <= within for d in apart) and any(d > beyond for d in apart):
            found.append(q)
    return found


def mine(
    q: int,
    where: Array,
    roles: Array,
    features: Array,
    pool: Sequence[int],
    *,
    within: float = 10.0,
    beyond: float = 25.0,
    negatives: int = 1,
) -> tuple[int, list[int]] | None:
    """The positive and the negatives of one query; None if it is skipped. Steps 3 and 4."""
    database = [i for i in range(len(roles)) if roles[i] == 1]
    near = [i for i in database if metres(where[q], where[i]) <= within]
    far = [i for i in sorted(pool) if metres(where[q], where[i]) > beyond]
    if not near or not far:
        return None

    def hardness(i: int) -> tuple[float, int]:
        return metres(features[q], features[i]), i

    return min(near, key=hardness), sorted(far, key=hardness)[:negatives]


def loss(features: Array, triples: Sequence[tuple[int, int, int]], margin: float = 0.1) -> float:
    """Step 5, without torch's 1e-6 inside the norms."""
    if not triples:
        return 0.0
    values = [
        max(metres(features[q], features[p]) - metres(features[q], features[n]) + margin, 0.0)
        for q, p, n in triples
    ]
    return sum(values) / len(values)


def recall(
    queries: Array,
    query_where: Array,
    database: Array,
    database_where: Array,
    count: int,
    *,
    radius: float = 25.0,
    every: bool = False,
) -> float:
    """recall@count; ``every`` counts queries without a positive as failures."""
    hits = asked = 0
    for q in range(len(queries)):
        order = sorted(range(len(database)), key=lambda i: (metres(queries[q], database[i]), i))
        right = [metres(query_where[q], database_where[i]) <= radius for i in order]
        asked += every or any(right)
        hits += any(right[:count])
    return hits / asked if asked else float("nan")
