"""Text summary of a data set and its partition, printed by ``fedflat data show SPEC``."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from fedflat.data.domains import Domains
from fedflat.data.federation import DataSpec, Federation
from fedflat.data.partitions.lda import Lda
from fedflat.data.places.show import place_lines
from fedflat.text_table import aligned

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
        fed.skew().describe() if fed.test.examples.has_classes else _sizes(fed),
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
    """The domains in each test set."""
    lines = []
    for name, data in fed.tests.items():
        groups = data.domains.groups() if data.domains else {}
        if groups:
            lines.append(
                f"{name}: "
                + ", ".join(f"{value} ({len(places)})" for value, places in groups.items())
            )
    return lines


def _sizes(fed: Federation) -> str:
    """Client sizes, for examples without classes."""
    sizes = fed.sizes()
    return (
        f"{len(sizes)} clients, {sum(sizes)} examples: {min(sizes)} to {max(sizes)} each, median "
        f"{median(sizes):g}"
    )
