"""recall@N: the share of queries with an image of their place among the N nearest descriptors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.data.examples import Batch
from fedflat.data.places.targets import Places
from fedflat.tasks.nearest import nearest

NEAREST = (1, 5, 10, 20)
WITHOUT = "without_positive"
"""The score that counts queries without any image of their place in the gallery."""


@dataclass(frozen=True)
class Retrieved:
    """The images that each query retrieves."""

    order: Tensor
    """Positions of the nearest images in the gallery, nearest first, ``(Q, N)``."""
    right: Tensor
    """True where such an image is of the query's place, ``(Q, N)``."""
    possible: Tensor
    """True for queries with at least one image of their place in the gallery, ``(Q,)``."""

    def recall(self, count: int, *, all_queries: bool) -> float:
        """The share of queries with a right image among the ``count`` nearest; NaN without any."""
        queries = len(self.possible) if all_queries else int(self.possible.sum())
        return int(self.right[:, :count].any(1).sum()) / queries if queries else math.nan


def retrieve(
    queries: Tensor,
    query_places: Places,
    gallery: Tensor,
    gallery_places: Places,
    within: float,
    *,
    itself: bool = False,
    count: int = NEAREST[-1],
    faiss: bool | None = None,
) -> Retrieved:
    """Search descriptors of queries in a gallery; right is what is ``within`` so many metres.

    ``itself``: the gallery is the list of queries, and no query finds itself.
    """
    order = nearest(queries, gallery, count + itself, faiss=faiss)
    rows = torch.arange(len(queries))
    own = order == rows.unsqueeze(1)
    if itself and len(gallery):
        # Move the query itself to the end, or drop the last one where it is not among the nearest.
        own_last = own.long().sort(dim=1, stable=True).indices[:, : order.shape[1] - 1]
        order = order.gather(1, own_last)
    radius = gallery_places.radius(within)
    where, found = query_places.where, gallery_places.where[order]
    right = torch.linalg.vector_norm(where.unsqueeze(1) - found, dim=2) <= radius
    both = Places(
        torch.cat([where, gallery_places.where]),
        torch.cat([torch.zeros(len(where)), torch.ones(len(gallery))]).long(),
        query_places.numbered,
    )
    hits = both.database_within(rows, within)
    others = [len(one) - itself for one in hits]
    return Retrieved(order, right, torch.tensor(others) > 0)


class RecallMeter:
    """Collects descriptors of queries and of a gallery.

    Queries are searched in the gallery given by `refer`, if any; else in the database images of
    the same test set; else each example among all others.
    """

    def __init__(self, within: float, *, all_queries: bool) -> None:
        self.within, self.all_queries = within, all_queries
        self.gallery: list[tuple[Tensor, Tensor]] = []
        self.examples: list[tuple[Tensor, Tensor]] = []

    def refer(self, output: Tensor, batch: Batch) -> None:
        """Add a batch of the gallery."""
        self.gallery.append((output.double().cpu(), batch.targets.cpu()))

    def add(self, output: Tensor, batch: Batch) -> None:
        """Add a batch of the test set."""
        self.examples.append((output.double().cpu(), batch.targets.cpu()))

    def retrieved(self) -> Retrieved | None:
        """What the queries found; None if there is no query or no gallery."""
        if not self.examples:
            return None
        descriptors, places = _joined(self.examples)
        queries = places.queries
        itself = places.roles is None and not self.gallery
        if self.gallery:
            gallery, gallery_places = _joined(self.gallery)
        else:
            gallery, gallery_places = descriptors[places.database], _part(places, places.database)
        if len(queries) == 0 or len(gallery) == 0:
            return None
        return retrieve(
            descriptors[queries],
            _part(places, queries),
            gallery,
            gallery_places,
            self.within,
            itself=itself,
        )

    def scores(self) -> dict[str, float]:
        """recall@1, @5, @10 and @20, and the number of queries that have no right answer."""
        found = self.retrieved()
        if found is None:
            return {f"recall@{n}": math.nan for n in NEAREST}
        recalls = {f"recall@{n}": found.recall(n, all_queries=self.all_queries) for n in NEAREST}
        return recalls | {WITHOUT: float((~found.possible).sum())}


def _joined(parts: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Places]:
    descriptors, targets = map(torch.cat, zip(*parts, strict=True))
    return descriptors, Places.of(targets)


def _part(places: Places, rows: Tensor) -> Places:
    return Places(places.where[rows], None, places.numbered)
