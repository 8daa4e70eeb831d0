"""Lines about places for ``fedflat data show``: roles, queries that can be answered, histograms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fedflat.data.federation import Federation
from fedflat.data.places.images import PlaceFederation
from fedflat.data.places.targets import Places

RIGHT = 25.0
"""Metres within which a retrieved image is right."""
NEAR = 10.0
"""Metres within which an image is a positive in training."""
BARS, BINS = 40, 12
LOOKED_AT = 200
"""Most clients whose queries are counted."""


def place_lines(fed: Federation) -> list[str]:
    """Roles in test sets and at clients; empty if these data are not places with roles."""
    if not has_roles(fed.test.targets):
        return []
    lines = [*fed.details(), ""] if isinstance(fed, PlaceFederation) else []
    lines += [
        f"{name}: {_test_line(data.targets)}"
        for name, data in fed.tests.items()
        if has_roles(data.targets)
    ]
    lines.append(_client_line(fed))
    if isinstance(fed, PlaceFederation):
        lines += ["", *histogram(fed.images_per_client(), "images per client")]
    return lines


def has_roles(targets: object) -> bool:
    """True if targets are metres east and north and a role."""
    if not isinstance(targets, Tensor) or not targets.is_floating_point() or targets.dim() != 2:
        return False
    roles = targets[:, 2] if targets.shape[1] == 3 else None
    return roles is not None and bool(((roles == 0) | (roles == 1)).all())


def _test_line(targets: Tensor) -> str:
    places = Places.of(targets)
    queries = places.queries
    found = sum(len(hits) > 0 for hits in places.database_within(queries, RIGHT))
    return (
        f"{len(queries)} queries, {len(places.database)} database images; {found} queries have one "
        f"within {RIGHT:g} m"
    )


def _client_line(fed: Federation) -> str:
    count = min(fed.population, LOOKED_AT)
    chosen = [place * fed.population // count for place in range(count)]
    usable, queries = [], 0
    for client in chosen:
        places = Places.of(fed.data(client).targets)
        queries += len(places.queries)
        usable.append(len(places.usable_queries(NEAR, RIGHT)))
    which = "clients" if count == fed.population else f"{count} clients looked at"
    idle = sum(one == 0 for one in usable)
    return (
        f"{which}: {queries} queries, of which {sum(usable)} have a database image within "
        f"{NEAR:g} m and one beyond {RIGHT:g} m at the same client; {idle} clients have no such "
        "query and learn nothing"
    )


def histogram(values: Sequence[int], what: str) -> list[str]:
    """A histogram of one bar per line.

    >>> print("\\n".join(histogram([1, 2, 2, 9], "images per client")))
    images per client, number of clients:
           1 to 1       1  ████████████████████
           2 to 2       2  ████████████████████████████████████████
           9 to 9       1  ████████████████████
    """
    low, high = min(values), max(values)
    width = max(-(-(high - low + 1) // BINS), 1)
    starts = np.arange(low, high + 1, width)
    counts = torch.bincount((torch.tensor(list(values)) - low) // width).tolist()
    most = max(counts)
    lines = [f"{what}, number of clients:"]
    for start, count in zip(starts.tolist(), counts, strict=False):
        end = min(start + width - 1, high)
        bar = "█" * max(round(BARS * count / most), 1)
        lines += [f"{start:>8} to {end:<7} {count:>1}  {bar}"] if count else []
    return lines
