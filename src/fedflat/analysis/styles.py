"""The clients' styles in the plane: amplitudes of low frequencies in clusters, along two principal
directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fedflat.analysis.analyses import AnalysisResult, Scope, Tell, once
from fedflat.analysis.analysis_store import Result
from fedflat.analysis.loaded_run import LoadedRun
from fedflat.analysis.pictures import kept, levels
from fedflat.client.describers.mean_style import MeanStyle
from fedflat.errors import RunError, SettingError
from fedflat.experiments.groups import groups_of
from fedflat.experiments.run_folder.groups import GROUPS, Grouped, read_groups
from fedflat.files import Damaged
from fedflat.topologies.clusters import Clustered
from fedflat.topologies.groupings.by_style import ByStyle, silhouette, style_clusters

MOST_CLIENTS, IMAGES = 200, 8
"""Clients that are looked at, spread evenly, and images of each, where they have not told their
styles in the run."""
SHOWN, WIDEST = 60, 64
"""Clients with a picture of theirs, and how many pixels it is across."""
FEWEST = 4
"""Clusters, as LADD tries them, if so many styles differ."""

Styles = NDArray[np.float64]


def analyse_styles(loaded: LoadedRun, look: Scope, on_progress: Tell) -> AnalysisResult:
    """Where each client's style lies, in which cluster, and one of its images.

    Clusters are those that the run itself has made; without any, as many as the silhouette likes
    best.
    """
    fed = loaded.ready.fed
    if len(fed.shape) != 3 or fed.shape[0] not in (1, 3):
        size = "x".join(map(str, fed.shape))
        raise SettingError(f"{loaded.folder}: styles are of images, found inputs of {size}.")
    count = min(fed.population, MOST_CLIENTS)
    clients = [place * fed.population // count for place in range(count)]
    own = own_clusters(loaded)

    def work() -> Result:
        rows, images = [], {}
        shown = set(clients[:: -(-count // SHOWN)])
        for done, client in enumerate(clients):
            rows.append(_style(loaded, client))
            if client in shown:
                data = fed.data(client)
                images[client] = kept(levels(data.examples.raw(data.index[:1]))[0], WIDEST)
            on_progress(done + 1, count, f"client {client}")
        styles = np.stack(rows)
        clusters = chosen(styles, look.seed) if own is None else as_grouped(styles, clients, own)
        domains = [", ".join(fed.domain(client)) for client in clients]
        of = {"of": fed.population, "aspect": fed.shape[2] / fed.shape[1]}
        return _drawn(styles, clusters, clients, images, domains) | of

    return once(
        loaded.shelf, "styles", {"seed": look.seed, "groups": own.by if own else None}, work
    )


@dataclass(frozen=True)
class StyleGroups:
    """Which cluster each style is in."""

    labels: Sequence[int]
    silhouette: float
    groups: str | None = None
    """By what the run itself has made them; None: it has made none."""


def own_clusters(loaded: LoadedRun) -> Grouped | None:
    """The clusters of a run whose server has a model for each, or whose clients are grouped by
    style."""
    topology = loaded.ready.exp.topology
    if not isinstance(topology, Clustered) and not isinstance(
        getattr(topology, "groups", None), ByStyle
    ):
        return None
    try:
        return read_groups(loaded.folder, loaded.facts["identity"]) or groups_of(loaded.ready)
    except Damaged as error:
        raise RunError(
            f"{loaded.folder / GROUPS} is damaged ({error}). `fedflat resume {loaded.folder}` writes it again."
        ) from error


def as_grouped(styles: Styles, clients: Sequence[int], own: Grouped) -> StyleGroups:
    """The clusters that a run has made."""
    home = {client: place for place, group in enumerate(own.groups) for client in group}
    labels = [home[client] for client in clients]
    return StyleGroups(labels, silhouette(styles, labels), own.by)


def chosen(styles: Styles, seed: int) -> StyleGroups:
    """As many clusters as the silhouette likes best, where the run has none."""
    different = len(np.unique(styles, axis=0))
    fewest = max(min(FEWEST, different, len(styles) - 1), 1)
    found = style_clusters(styles, fewest=fewest, most=max(19, fewest), seed=seed)
    return StyleGroups(found.labels.tolist(), found.silhouette)


def _style(loaded: LoadedRun, client: int) -> Styles:
    """What the client has told of its style in the run, or the mean of some of its images'."""
    prepared, groups = loaded.ready, getattr(loaded.ready.exp.topology, "groups", None)
    psi = groups.psi if isinstance(groups, ByStyle) else MeanStyle()
    data = prepared.fed.data(client)
    told = prepared.descriptions.get(psi)
    style = told[client] if told else psi.each(data, torch.arange(min(IMAGES, len(data)))).mean(0)
    return style.flatten().double().cpu().numpy()


def _drawn(
    styles: Styles,
    clusters: StyleGroups,
    clients: Sequence[int],
    images: dict[int, str],
    domains: Sequence[str],
) -> Result:
    places, shares = in_the_plane(styles)
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


def in_the_plane(points: NDArray[np.floating]) -> tuple[Styles, list[float]]:
    """Points along the two directions in which they differ most, and the shares of their variance
    there."""
    centred = points.astype(np.float64) - points.mean(0, dtype=np.float64)
    left, sizes, right = np.linalg.svd(centred, full_matrices=False)
    signs = np.where(right[np.arange(len(right)), np.abs(right).argmax(1)] < 0, -1.0, 1.0)
    places = np.zeros((len(points), 2))
    width = min(2, len(sizes))
    places[:, :width] = (left * sizes * signs)[:, :width]
    total = float((sizes**2).sum())
    return places, [float(size**2 / total) if total else 0.0 for size in [*sizes[:2], 0.0, 0.0][:2]]
