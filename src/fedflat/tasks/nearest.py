"""The nearest descriptors of a gallery: by FAISS where it is installed, otherwise by PyTorch.

Both give the same order: ascending Euclidean distance in double precision, ties by the lower index.
FAISS works in single precision and only proposes candidates. The order of the candidates is
computed again in double precision. A query for which FAISS might have missed a neighbour is
searched completely.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType

import torch
from torch import Tensor

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
