"""Notes on partitions to print beside results: see `Partition.note`."""

from __future__ import annotations

from fedflat.data.federation import DataSpec, Federation


def partition_notes(spec: DataSpec, fed: Federation | None = None) -> list[str]:
    """The notes of a data set's partitions; with classes per client if ``fed`` is given."""
    partitions = [partition for partition in spec.partitions() if partition.note()]
    if not partitions:
        return []
    counted = fed is not None and fed.here and fed.data(0).examples.labelled
    mean = fed.skew().classes_mean if fed is not None and counted else None
    return list(dict.fromkeys(partition.note(mean) for partition in partitions))
