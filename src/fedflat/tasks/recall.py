"""recall@N: the share of queries with an image of their place among the N nearest descriptors.

The nearest descriptors are found by FAISS where it is installed, otherwise by PyTorch. Both give
the same order: ascending Euclidean distance in double precision, ties by the lower index. FAISS
works in single precision and only proposes candidates. The order of the candidates is computed
again in double precision. A query for which FAISS might have missed a neighbour is searched
completely.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from types import ModuleType

import torch
from torch import Tensor

from fedflat.data.examples import Batch
from fedflat.data.places.targets import Places

CHUNK = 256
"""Queries whose distances to the whole gallery are computed at once."""
MORE = 32
"""Candidates that FAISS proposes beyond those that are needed."""
ROUNDING = 1e-5
"""Largest relative error of a squared distance in single precision."""


def nearest(queries: Tensor, gallery: Tensor, count: int, *, faiss: bool | None = None) -> Tensor:
    """Positions of the ``count`` nearest rows of ``gallery`` for each query, nearest first.

    Fewer if the gallery is smaller. ``faiss``: None means "if installed".

    >>> gallery = torch.tensor([[0.0, 1.0], [3.0, 0.0], [0.0, 1.0]])
    >>> nearest(torch.zeros(1, 2), gallery, 3).tolist()
    [[0, 2, 1]]
    """
    queries, gallery = queries.double().cpu(), gallery.double().cpu()
    count = min(count, len(gallery))
    if count == 0 or len(queries) == 0:
        return torch.empty(len(queries), count, dtype=torch.long)
    library = _faiss() if faiss is not False else None
    if faiss and library is None:
        raise ImportError("faiss is not installed. Install it with `pip install fedflat[vpr]`.")
    # With few rows more than candidates, the complete search is faster.
    if library is None or len(gallery) <= 2 * (count + MORE):
        return _complete(queries, gallery, count)
    return _by_candidates(library, queries, gallery, count)


def _complete(queries: Tensor, gallery: Tensor, count: int) -> Tensor:
    parts = [
        distances(chunk, gallery).sort(dim=1, stable=True).indices[:, :count]
        for chunk in queries.split(CHUNK)
    ]
    return torch.cat(parts)


def distances(a: Tensor, b: Tensor) -> Tensor:
    """Exact Euclidean distances of all pairs."""
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")


def _by_candidates(library: ModuleType, queries: Tensor, gallery: Tensor, count: int) -> Tensor:
    index = library.IndexFlatL2(gallery.shape[1])
    index.add(gallery.float().numpy())
    before = library.omp_get_max_threads()
    library.omp_set_num_threads(torch.get_num_threads())
    try:
        proposed, positions = index.search(queries.float().numpy(), count + MORE)
    finally:
        library.omp_set_num_threads(before)
    candidates = torch.from_numpy(positions).sort(dim=1).values
    exact = torch.linalg.vector_norm(queries.unsqueeze(1) - gallery[candidates], dim=2)
    order = exact.sort(dim=1, stable=True)
    found = candidates.gather(1, order.indices[:, :count])
    # Every row that was not proposed is at least this far away, up to rounding.
    scale = queries.square().sum(1) + gallery.square().sum(1).max()
    outside = torch.from_numpy(proposed).double()[:, -1] - 2 * ROUNDING * scale
    unsure = order.values[:, count - 1].square() >= outside
    if bool(unsure.any()):
        found[unsure] = _complete(queries[unsure], gallery, count)
    return found


@cache
def _faiss() -> ModuleType | None:
    try:
        import faiss  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        return None
    module: ModuleType = faiss
    return module


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
