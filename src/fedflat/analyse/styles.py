"""The clients' styles in the plane: amplitudes of low frequencies in clusters, along two principal directions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedflat.analyse.analyses import Found, Look, Tell, once
from fedflat.analyse.pictures import kept, levels
from fedflat.analyse.shelf import Result
from fedflat.analyse.subject import Subject
from fedflat.data.styles.clusters import style_clusters
from fedflat.data.styles.frequencies import client_style
from fedflat.errors import SettingError

MOST_CLIENTS, IMAGES = 200, 8
"""Clients that are looked at, spread evenly, and images of each."""
SHOWN, WIDEST = 60, 64
"""Clients with a picture of theirs, and how many pixels it is across."""
FEWEST = 4
"""Clusters, as LADD tries them, if so many styles differ."""


def see_styles(subject: Subject, look: Look, tell: Tell) -> Found:
    """Where each client's style lies, in which cluster, and one of its images."""
    fed = subject.ready.fed
    if len(fed.shape) != 3 or fed.shape[0] not in (1, 3):
        size = "x".join(map(str, fed.shape))
        raise SettingError(f"{subject.folder}: styles are of images, found inputs of {size}.")
    count = min(fed.population, MOST_CLIENTS)
    clients = [place * fed.population // count for place in range(count)]

    def work() -> Result:
        styles, images = [], {}
        shown = set(clients[:: -(-count // SHOWN)])
        for done, client in enumerate(clients):
            some = _images(subject, client)
            styles.append(client_style(some, size=None).flatten().numpy())
            if client in shown:
                images[client] = kept(some[0], WIDEST)
            tell(done + 1, count, f"client {client}")
        domains = [", ".join(fed.domain(client)) for client in clients]
        return _result(np.stack(styles), clients, images, domains) | {
            "of": fed.population, "aspect": fed.shape[2] / fed.shape[1]
        }  # fmt: skip

    return once(subject.shelf, "styles", {"seed": look.seed}, work)


def _result(
    styles: NDArray[np.floating], clients: list[int], images: dict[int, str], domains: list[str]
) -> Result:  # fmt: skip
    different = len(np.unique(styles.astype(np.float64), axis=0))
    fewest = max(min(FEWEST, different, len(clients) - 1), 1)
    found = style_clusters(styles, fewest=fewest, most=max(19, fewest))
    places, shares = in_the_plane(styles)
    rows = [
        {"client": client, "x": x, "y": y, "cluster": int(cluster), "domain": domain, "image": images.get(client)}
        for client, (x, y), cluster, domain in zip(clients, places.tolist(), found.labels, domains, strict=True)
    ]
    tried = {str(number): score for number, score in found.tried.items()}
    return {"clients": rows, "shares": shares, "silhouette": found.silhouette, "tried": tried}


def in_the_plane(points: NDArray[np.floating]) -> tuple[NDArray[np.float64], list[float]]:
    """Points along the two directions in which they differ most, and the shares of their variance there."""
    centred = points.astype(np.float64) - points.mean(0, dtype=np.float64)
    left, sizes, right = np.linalg.svd(centred, full_matrices=False)
    signs = np.where(right[np.arange(len(right)), np.abs(right).argmax(1)] < 0, -1.0, 1.0)
    places = np.zeros((len(points), 2))
    width = min(2, len(sizes))
    places[:, :width] = (left * sizes * signs)[:, :width]
    total = float((sizes**2).sum())
    return places, [float(size**2 / total) if total else 0.0 for size in [*sizes[:2], 0.0, 0.0][:2]]


def _images(subject: Subject, client: int) -> Tensor:
    """Some of a client's images as levels from 0 to 255, not augmented."""
    data = subject.ready.fed.data(client)
    return levels(data.examples.raw(data.index[:IMAGES]))
