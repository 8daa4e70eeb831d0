"""What a partition makes of a data set: the work behind ``fedflat data show SPEC``."""

from __future__ import annotations

from statistics import median

from fedflat.data.federation import DataSpec, Federation
from fedflat.data.partitions.lda import Lda


def show(spec: DataSpec, seed: int = 0) -> str:
    """The data set in a few lines: its examples, and how unequal its clients are under this seed."""
    fed = spec.open(seed)
    shape = "x".join(map(str, fed.shape))
    lines = [
        f"{spec!r}, seed {seed}",
        f"{len(fed.test)} test examples, inputs of {shape}" + (f", {fed.classes} classes" if fed.classes else ""),
        fed.skew().describe() if fed.test.examples.labelled else _sizes(fed),
    ]
    if fed.more:
        further = ", ".join(f"{name} ({len(data)})" for name, data in fed.more.items())
        lines.append(f"further test sets: {further}")
    partition = getattr(spec, "partition", None)
    if isinstance(partition, Lda) and partition.alpha:
        lines.append(partition.reading(fed.classes))
    if fed.held_out is not None:
        lines.append(f"held out by the clients for their own tests: {sum(map(len, fed.held_out))} examples")
    return "\n".join(lines)


def _sizes(fed: Federation) -> str:
    """How many examples clients hold, where these have no class each."""
    sizes = fed.sizes()
    return f"{len(sizes)} clients, {sum(sizes)} examples: {min(sizes)} to {max(sizes)} each, median {median(sizes):g}"
