"""A data set as ``fedflat data show`` prints it and a notebook shows it: a summary and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedflat.data.domains import Domains
from fedflat.data.federation import DataSpec, Federation
from fedflat.data.figures import MaskSample, partition_figure, sizes_figure
from fedflat.data.partitions.lda import Lda
from fedflat.data.places.targets import PlaceFederation, Places
from fedflat.errors import SettingError
from fedflat.plot_style import STYLE, ShownFigure, pyplot
from fedflat.text_table import aligned

RIGHT = 25.0
"""Metres within which a retrieved image is right."""
NEAR = 10.0
"""Metres within which an image is a positive in training."""
BINS = 12
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


MATRIX = 12
"""Clients whose classes are printed."""
MOST_CLASSES = 30
"""Most classes of which counts are printed."""
BARS = 40
"""Length of the longest bar, and of a row of bars, in characters."""
HEIGHTS = " ▁▂▃▄▅▆▇█"


def show(spec: DataSpec, seed: int = 0, matrix: bool = False, room: int | None = None) -> str:
    """A summary of a few lines: the examples, and how unequal the clients are under this seed.

    With ``matrix``, the examples of each class at the first clients follow, in parts that are at
    most ``room`` characters wide.
    """
    return _summary(spec, spec.open(seed), seed, matrix, room)


def _summary(
    spec: DataSpec, fed: Federation, seed: int, matrix: bool = False, room: int | None = None
) -> str:
    shape = "x".join(map(str, fed.shape))
    lines = [
        f"{spec!r}, seed {seed}",
        f"{len(fed.test)} test examples, inputs of {shape}"
        + (f", {fed.classes} classes" if fed.classes else ""),
        fed.skew().describe() if fed.test.examples.has_classes else _size_line(fed),
    ]
    if fed.more:
        further = ", ".join(f"{name} ({len(data)})" for name, data in fed.more.items())
        lines.append(f"further test sets: {further}")
    for partition in spec.partitions():
        if isinstance(partition, Lda) and partition.alpha:
            lines.append(partition.alpha_meaning(fed.classes))
    if fed.held_out is not None:
        lines.append(
            f"held out by the clients for their own tests: {sum(map(len, fed.held_out))} examples"
        )
    table = _matrix(fed, class_names(spec, fed), room) if matrix else []
    lines += ["", *table] if table else []
    places = place_lines(fed)
    lines += ["", *places] if places else []
    if fed.test.domains is not None:
        lines += [
            "",
            *_size_histogram(fed.sizes()),
            *_facet_table(fed, fed.test.domains),
            *_test_domains(fed),
        ]
    return "\n".join(lines)


def class_names(spec: DataSpec, fed: Federation) -> list[str]:
    """The names of the classes, or their numbers."""
    names = spec.class_names()
    return list(names) if len(names) == fed.classes else [str(i) for i in range(fed.classes)]


def class_counts(fed: Federation, clients: int) -> list[list[int]]:
    """How many examples of each class the first clients hold; empty if examples have no class."""
    if not fed.classes or not fed.here or not fed.data(0).examples.has_classes:
        return []
    shown = min(fed.population, clients)
    return [fed.data(client).counts(fed.classes).tolist() for client in range(shown)]


def _matrix(fed: Federation, names: Sequence[str], room: int | None) -> list[str]:
    """Examples of each class at the first clients, with the names of the classes above."""
    counts = class_counts(fed, MATRIX)
    if not counts or fed.classes > MOST_CLASSES:
        return []
    rows = [["client", *names, "all"]]
    clients = list(fed.client_names) or list(map(str, range(len(counts))))
    rows += [
        [clients[client], *(str(count or ".") for count in row), str(sum(row))]
        for client, row in enumerate(counts)
    ]
    of = f", the first {len(counts)} of {fed.population} clients" * (len(counts) < fed.population)
    return [f"examples of each class{of}:", *aligned(rows, room).splitlines()]


def _size_histogram(sizes: Sequence[int]) -> list[str]:
    """A histogram of client sizes, as a row of bars."""
    low, high = min(sizes), max(sizes)
    if low == high:
        return []
    width = min(high - low + 1, BARS)
    counts = [0] * width
    for size in sizes:
        counts[(size - low) * width // (high - low + 1)] += 1
    most = max(counts)
    return [
        f"clients by their size, {low} to {high}: "
        + "".join(HEIGHTS[-(-8 * count // most)] for count in counts)
    ]


def _facet_table(fed: Federation, domains: Domains) -> list[str]:
    """For each value of each facet: clients that have only this value, and their examples."""
    homes, sizes = [fed.domain(client) for client in range(fed.population)], fed.sizes()
    if not any(homes):
        return ["every client has examples of several domains"]
    lines = []
    for place, facet in enumerate(domains.facets):
        sizes_by_value: dict[str, list[int]] = {}
        for home, size in zip(homes, sizes, strict=True):
            sizes_by_value.setdefault(home[place] if home else "several", []).append(size)
        most = max(map(sum, sizes_by_value.values()))
        lines.append(f"clients by {facet}:")
        longest = max(12, *(len(value) + 1 for value in sizes_by_value))
        for value, held_sizes in sorted(sizes_by_value.items()):
            bar = "█" * max(round(BARS * sum(held_sizes) / most), 1)
            lines.append(
                f"  {value:<{longest}}{len(held_sizes):>5} clients {sum(held_sizes):>7} examples  "
                f"{bar}"
            )
    return lines


def _test_domains(fed: Federation) -> list[str]:
    lines = []
    for name, data in fed.tests.items():
        groups = data.domains.groups() if data.domains else {}
        if groups:
            lines.append(
                f"{name}: "
                + ", ".join(f"{value} ({len(places)})" for value, places in groups.items())
            )
    return lines


def _size_line(fed: Federation) -> str:
    """Client sizes, for examples without classes."""
    sizes = fed.sizes()
    return (
        f"{len(sizes)} clients, {sum(sizes)} examples: {min(sizes)} to {max(sizes)} each, median "
        f"{median(sizes):g}"
    )


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
