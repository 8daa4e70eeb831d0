"""The groups of clients in a run, and those of a data set and a grouping without a run."""

from __future__ import annotations

from functools import partial
from statistics import median

import numpy as np
import torch

from fedflat.client.instructions import LabelCounts
from fedflat.core.flat import Layout
from fedflat.data.client_columns import column
from fedflat.data.federation import LARGEST_POPULATION, DataSpec, Federation
from fedflat.data.skew import Skew
from fedflat.errors import SettingError
from fedflat.experiments.run_folder.groups import Grouped
from fedflat.server.client_selection import ClientSampler
from fedflat.topologies.groupings.grouping import Grouping
from fedflat.topologies.topology import ClientPopulation, Topology

MOST, MEMBERS = 12, 6
"""Number of groups that are drawn in text, and of clients of each."""
BARS = " ▁▂▃▄▅▆▇█"


def groups_of(topology: Topology, population: ClientPopulation, fed: Federation) -> Grouped | None:
    """The groups of a run's clients; None if there are none."""
    found = topology.groups_of(population)
    by = repr(getattr(topology, "groups", ""))
    return Grouped(by, tuple(found), counts_of(fed)) if found else None


def counts_of(fed: Federation) -> tuple[tuple[int, ...], ...] | None:
    """The number of examples of each class, by client; None without classes or with too many
    clients."""
    if not fed.here or not fed.test.examples.has_classes or fed.population > LARGEST_POPULATION:
        return None
    return tuple(
        tuple(fed.data(client).counts(fed.classes).tolist()) for client in range(fed.population)
    )


def groups_among(spec: DataSpec, grouping: Grouping, seed: int) -> Grouped:
    """The groups that a run with this seed makes of a data set's clients, by labels or at
    random."""
    fed = spec.open(seed)
    counts = counts_of(fed)
    assert all(isinstance(one, LabelCounts) for one in grouping.describers)
    if counts is None and grouping.describers:
        raise SettingError(
            f"{grouping} needs clients' labels, and these data have no class for each example."
        )
    labelled = fed.test.examples.has_classes
    population = ClientPopulation(
        fed.population,
        fed.sizes,
        ClientSampler(clients=1),
        1,
        seed,
        Layout((), (), (), ()),
        column=partial(column, fed),
        classes=fed.classes if labelled else None,
        descriptions={
            one: [torch.tensor(row) for row in counts or ()] for one in grouping.describers
        },
    )
    return Grouped(repr(grouping), population.groups(grouping), counts)


def groups_text(grouped: Grouped) -> str:
    """Groups in lines of text: labels of clients, before, and of groups, after."""
    lengths = [len(group) for group in grouped.groups]
    lines = [
        f"{grouped.by}: {len(lengths)} groups of {min(lengths)} to {max(lengths)} clients, median {median(lengths):g}"
    ]
    if grouped.counts is None or grouped.together is None:
        return "\n".join(
            lines + [f"group {at}: clients {_some(group)}" for at, group in _first(grouped)]
        )
    for when, whose, counts in (
        ("before", "client", grouped.counts),
        ("after", "group", grouped.together),
    ):
        skew = Skew.of_counts(np.array(counts))
        lines.append(
            f"{when:<6}  classes per {whose}: {skew.classes_min} to {skew.classes_max} of "
            f"{skew.classes}, mean {skew.classes_mean:.2f}; distance of labels to everyone's: "
            f"{skew.distance:.3f}"
        )
    for at, group in _first(grouped):
        own = grouped.together[at]
        lines.append(f"group {at:<6} {_bars(own)}  {sum(own)} examples of {len(group)} clients")
        for client in group[:MEMBERS]:
            mine = grouped.counts[client]
            lines.append(f"  client {client:<4}{_bars(mine)}  {sum(mine)}")
        if len(group) > MEMBERS:
            lines.append(f"  and {len(group) - MEMBERS} clients more")
    if len(lengths) > MOST:
        lines.append(f"and {len(lengths) - MOST} groups more")
    return "\n".join(lines)


def _first(grouped: Grouped) -> list[tuple[int, tuple[int, ...]]]:
    return list(enumerate(grouped.groups))[:MOST]


def _some(clients: tuple[int, ...]) -> str:
    return ", ".join(map(str, clients[: 2 * MEMBERS])) + (
        ", ..." if len(clients) > 2 * MEMBERS else ""
    )


def _bars(counts: tuple[int, ...]) -> str:
    """A bar for each class, the tallest for the most frequent one."""
    most = max(counts) or 1
    return "|" + "".join(BARS[-(-count * (len(BARS) - 1) // most)] for count in counts) + "|"
