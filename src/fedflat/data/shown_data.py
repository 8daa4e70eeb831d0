"""A data set as a notebook shows it: the summary, and the picture of clients and classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedflat.data.federation import DataSpec, Federation
from fedflat.data.mask_samples import MaskSample
from fedflat.data.partition_figure import partition_figure
from fedflat.data.places.images import PlaceFederation
from fedflat.data.show import class_counts, class_names, show
from fedflat.data.sizes_figure import sizes_figure
from fedflat.errors import SettingError
from fedflat.plot_style import STYLE, ShownFigure, pyplot

CLIENTS = 200
"""Most clients in the picture."""
SAMPLES, MASKS = 12, 6
"""Most sample images, and most of those with masks."""


class ShownData:
    """The summary of a data set, which prints as text and shows as a picture in a notebook.

    spec
        The data set.
    seed
        Seed of the partition.
    """

    def __init__(self, spec: DataSpec, seed: int) -> None:
        self.spec, self.seed = spec, seed
        self.text = show(spec, seed, matrix=True)

    def __repr__(self) -> str:
        return self.text

    def _repr_png_(self) -> bytes | None:
        fed = self.spec.open(self.seed)
        return self.figure()._repr_png_() if fed.here else None

    def figure(self) -> ShownFigure:
        """The picture: one column a client, one row a class; below, sample images of an image
        set. Without classes: a histogram of the clients' sizes, and the clients of each domain;
        below, images of some clients above their masks, if they have masks."""
        fed = self.spec.open(self.seed)
        if not fed.here:
            raise SettingError(
                f"{self.spec!r}: there is no picture of its clients, which are elsewhere."
            )
        counts, names = class_counts(fed, CLIENTS), class_names(self.spec, fed)
        plots = pyplot()
        with plots.rc_context(STYLE):
            figure = (
                partition_figure(
                    counts,
                    names,
                    images=_samples(fed),
                    clients=list(fed.client_names)[: len(counts)],
                )
                if counts
                else sizes_figure(_sizes(fed), _facets(fed), _masks(fed), names)
            )
            shown = ShownFigure(figure)
            plots.close(figure)
        return shown

    def save(self, file: str | Path) -> Path:
        """Write the picture as .png, .svg or .pdf.

        file
            Name of the file.
        """
        return self.figure().save(file)


def show_data(on: DataSpec, seed: int = 0) -> ShownData:
    """What a data set holds and how its clients differ.

    Returns an object that prints as text, that a notebook shows as a picture, and whose
    ``save(file)`` writes the picture.

    on
        A data set.
    seed
        Seed of the partition.
    """
    return ShownData(on, seed)


def _sizes(fed: Federation) -> Sequence[int]:
    """The number of examples of each client, also of those set aside for validation."""
    return fed.images_per_client() if isinstance(fed, PlaceFederation) else fed.sizes()


def _facets(fed: Federation) -> dict[str, list[str]]:
    """For each facet its value at each client; "several" if the examples of a client differ."""
    domains = fed.test.domains
    if domains is None:
        return {}
    homes = [fed.domain(client) for client in range(fed.population)]
    return {
        facet: [home[place] if home else "several" for home in homes]
        for place, facet in enumerate(domains.facets)
    }


def _samples(fed: Federation) -> list[tuple[int, Any]]:
    """One test image of each class, with its class; empty if examples are no images."""
    import torch

    shape, examples = fed.shape, fed.test.examples
    if len(shape) != 3 or shape[0] not in (1, 3) or min(shape[1:]) < 4 or not examples.has_classes:
        return []
    labels = examples.labels
    places = [
        (kind, int(found[0]))
        for kind in range(min(fed.classes, SAMPLES))
        if len(found := torch.nonzero(labels == kind).flatten())
    ]
    raw = examples.raw(torch.tensor([at for _, at in places], dtype=torch.long)).inputs
    images = _pictures(raw)
    return [(kind, image) for (kind, _), image in zip(places, images, strict=True)]


def _pictures(raw: Any) -> Any:
    """Inputs as images with the channels last; numbers with a fraction go from 0 to 1."""
    import torch

    images = torch.as_tensor(raw).movedim(1, -1).cpu()
    if images.is_floating_point():
        low, high = images.min(), images.max()
        images = (images - low) / (high - low).clamp(min=1e-9)
    return images.numpy()


def _masks(fed: Federation) -> list[MaskSample]:
    """The first image of some clients, evenly spaced, with its mask; empty if there are no masks."""
    import torch

    if len(fed.shape) != 3 or fed.shape[0] != 3 or not fed.classes:
        return []
    step = -(-fed.population // MASKS)
    found = []
    for client in range(0, fed.population, step):
        one = fed.data(client).examples.raw(torch.tensor([0]))
        mask = torch.as_tensor(one.targets)[0].cpu()
        if mask.shape != fed.shape[1:]:
            return []
        name = fed.client_names[client] if fed.client_names else f"client {client}"
        found.append(MaskSample(str(name), _pictures(one.inputs)[0], mask.numpy()))
    return found
