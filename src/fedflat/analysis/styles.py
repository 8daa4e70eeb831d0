"""Styles and descriptions of the clients: projected, clustered, and their distances.

Styles are amplitudes of low frequencies. Of descriptions, after Caldarola's thesis, Figures 5.8 to
5.10: the cosines between the vectors that the clients sent, drawn as a matrix; the Frobenius norm
of this matrix; the share of principal components that hold 90 % of the variance; and the distances
between the vectors by which clients are grouped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedflat.analysis.analysis import AnalysisJob, Result
from fedflat.analysis.loaded_run import LoadedRun
from fedflat.analysis.pictures import encode_image, levels
from fedflat.client.describers.mean_style import MeanStyle
from fedflat.client.instructions import Describer
from fedflat.errors import RunError
from fedflat.experiments.groups import groups_of
from fedflat.experiments.run_folder.groups import GROUPS, Grouped
from fedflat.files import Damaged
from fedflat.topologies.clusters import Clustered
from fedflat.topologies.groupings.by_style import ByStyle, silhouette, style_clusters
from fedflat.topologies.groupings.client_vectors import principal, representers
from fedflat.topologies.groupings.dissimilarity import TAUS, Vectors

MAX_CLIENTS, IMAGES = 200, 8
"""Number of clients, evenly spaced, and of images of each, if the run has no styles of the
clients.
"""
SHOWN, WIDEST = 60, 64
"""Number of clients with a picture, and its width in pixels."""
FEWEST = 4
"""Smallest number of clusters that LADD tries, if that many styles differ."""

Styles = NDArray[np.float64]


def compute_styles(job: AnalysisJob) -> Result:
    """Return the style and the cluster of each client, with one image of some of them."""
    loaded, fed = job.loaded, job.loaded.setup.fed
    count = min(fed.population, MAX_CLIENTS)
    clients = [place * fed.population // count for place in range(count)]
    own = clusters_of_run(loaded)
    rows, images = [], {}
    shown = set(clients[:: -(-count // SHOWN)])
    for done, client in enumerate(clients):
        rows.append(_style(loaded, client))
        if client in shown:
            data = fed.data(client)
            images[client] = encode_image(levels(data.examples.raw(data.index[:1]))[0], WIDEST)
        job.on_progress(done + 1, count, f"client {client}")
    styles = np.stack(rows)
    clusters = (
        choose_clusters(styles, job.scope.seed)
        if own is None
        else group_styles(styles, clients, own)
    )
    domains = [", ".join(fed.domain(client)) for client in clients]
    of = {"of": fed.population, "aspect": fed.shape[2] / fed.shape[1]}
    return _result(styles, clusters, clients, images, domains) | of


@dataclass(frozen=True)
class StyleGroups:
    labels: Sequence[int]
    silhouette: float
    groups: str | None = None
    """How the run made its clusters. None if it has none."""


def clusters_of_run(loaded: LoadedRun) -> Grouped | None:
    """Return the clusters of a run, or None.

    They exist if the topology is clustered or groups clients by style.
    """
    topology = loaded.setup.exp.topology
    if not isinstance(topology, Clustered) and not isinstance(
        getattr(topology, "groups", None), ByStyle
    ):
        return None
    try:
        return loaded.stored_groups or groups_of(
            topology, loaded.setup.server.population, loaded.setup.fed
        )
    except Damaged as error:
        raise RunError(
            f"{loaded.folder / GROUPS} is damaged ({error}). "
            f"`fedflat resume {loaded.folder}` writes it again."
        ) from error


def group_styles(styles: Styles, clients: Sequence[int], own: Grouped) -> StyleGroups:
    """Return the clusters of the run, with their silhouette."""
    cluster_of = {client: place for place, group in enumerate(own.groups) for client in group}
    labels = [cluster_of[client] for client in clients]
    return StyleGroups(labels, silhouette(styles, labels), own.by)


def choose_clusters(styles: Styles, seed: int) -> StyleGroups:
    """Cluster styles. The silhouette chooses the number of clusters."""
    different = len(np.unique(styles, axis=0))
    fewest = max(min(FEWEST, different, len(styles) - 1), 1)
    clusters = style_clusters(styles, fewest=fewest, most=max(19, fewest), seed=seed)
    return StyleGroups(clusters.labels.tolist(), clusters.silhouette)


def _style(loaded: LoadedRun, client: int) -> Styles:
    """Return the style that the client described in the run, or that of some of its images."""
    setup, groups = loaded.setup, getattr(loaded.setup.exp.topology, "groups", None)
    psi = groups.psi if isinstance(groups, ByStyle) else MeanStyle()
    data = setup.fed.data(client)
    styles = setup.server.population.descriptions.get(psi)
    style = (
        styles[client] if styles else psi.each(data, torch.arange(min(IMAGES, len(data)))).mean(0)
    )
    return style.flatten().double().cpu().numpy()


def _result(
    styles: Styles,
    clusters: StyleGroups,
    clients: Sequence[int],
    images: dict[int, str],
    domains: Sequence[str],
) -> Result:
    places, shares = project_to_plane(styles)
    rows = [
        {
            "client": client,
            "x": x,
            "y": y,
            "cluster": cluster,
            "domain": domain,
            "image": images.get(client),
        }
        for client, (x, y), cluster, domain in zip(
            clients, places.tolist(), clusters.labels, domains, strict=True
        )
    ]
    return {
        "clients": rows,
        "shares": shares,
        "silhouette": clusters.silhouette,
        "groups": clusters.groups,
    }


def project_to_plane(points: NDArray[np.floating]) -> tuple[Styles, list[float]]:
    """Project points to their first two principal directions.

    Also returns the shares of the variance in these directions.
    """
    centred = points.astype(np.float64) - points.mean(0, dtype=np.float64)
    left, sizes, right = np.linalg.svd(centred, full_matrices=False)
    signs = np.where(right[np.arange(len(right)), np.abs(right).argmax(1)] < 0, -1.0, 1.0)
    places = np.zeros((len(points), 2))
    width = min(2, len(sizes))
    places[:, :width] = (left * sizes * signs)[:, :width]
    total = float((sizes**2).sum())
    return places, [float(size**2 / total) if total else 0.0 for size in [*sizes[:2], 0.0, 0.0][:2]]


def compute_descriptions(describer: Describer, sent: Sequence[Tensor], tau: str) -> Result:
    """Return the cosines of what clients sent, and the distances by which they are compared."""
    cosines = 1 - pairwise("cosine", np.stack([one.reshape(-1).double().numpy() for one in sent]))
    vectors = representers(describer, sent)
    kept = principal(sent).shape[1]
    return {
        "description": repr(describer),
        "tau": tau,
        "components": kept,
        "components_share": kept / min(len(sent), sent[0].numel()),
        "norm_of_cosines": float(np.linalg.norm(cosines)),
        "cosines": cosines.tolist(),
        "distances": pairwise(tau, vectors).tolist(),
    }


def pairwise(tau: str, vectors: Vectors) -> Vectors:
    """Return the dissimilarity of all pairs of rows.

    >>> rows = np.array([[1.0, 0.0], [1.0, 1.0], [-1.0, 0.0]])
    >>> (1 - pairwise("cosine", rows)).round(8).tolist()[1]
    [0.70710678, 1.0, -0.70710678]
    """
    return np.stack([TAUS[tau](one, vectors) for one in vectors])
