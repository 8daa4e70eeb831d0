"""Notes on partitions to print beside results: see `Partition.note`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from fedflat.data.federation import DataSpec, Federation
from fedflat.data.partitions.partition import Partition
from fedflat.errors import FedflatError
from fedflat.registry.specs import parse


def partitions_in(spec: DataSpec) -> Iterator[Partition]:
    """The partitions of a data set and of the sets that it is derived from."""
    for each in fields(spec):  # type: ignore[arg-type]
        value = getattr(spec, each.name)
        if isinstance(value, Partition):
            yield value
        elif isinstance(value, DataSpec):
            yield from partitions_in(value)


def partition_notes(spec: DataSpec, fed: Federation | None = None) -> list[str]:
    """The notes of a data set's partitions; with classes per client if ``fed`` is given."""
    partitions = [partition for partition in partitions_in(spec) if partition.note()]
    if not partitions:
        return []
    counted = fed is not None and fed.here and fed.data(0).examples.labelled
    mean = fed.skew().classes_mean if fed is not None and counted else None
    return list(dict.fromkeys(partition.note(mean) for partition in partitions))


def notes_of_text(on: str) -> tuple[str, ...]:
    """The notes on a data set by its text; none if this version cannot parse it.

    >>> notes_of_text("digits(lda(0.1, concentration='component'))")
    ()
    >>> len(notes_of_text("digits(lda(0.1))"))
    1
    """
    try:
        spec = parse(on, "data set")
    except (FedflatError, AttributeError):
        return ()
    return tuple(partition_notes(spec)) if isinstance(spec, DataSpec) else ()
