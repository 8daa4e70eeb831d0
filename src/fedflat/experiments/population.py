"""The clients as the topology sees them, and whether the run that was said can be made of them."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fedflat.client.learner import Learner
from fedflat.data.client_columns import column
from fedflat.data.federation import Federation, PartitionedFederation
from fedflat.errors import SettingError, shown
from fedflat.experiments.devices import check_devices, fleet_of, visit_seconds
from fedflat.experiments.experiment import Experiment
from fedflat.topologies.population import ClientPopulation
from fedflat.topologies.topology import Selection


def open_population(exp: Experiment, fed: Federation, learner: Learner) -> ClientPopulation:
    """The clients as the topology sees them."""
    classes, fleet = fed.classes if fed.test.examples.labelled else None, fleet_of(exp)
    population = ClientPopulation(
        fed.population,
        fed.sizes,
        exp.cohort_sampler(),
        exp.rounds,
        exp.seed,
        learner.flat.layout,
        column=partial(column, fed),
        classes=classes,
    )
    return (
        population
        if fleet is None
        else replace(population, keeps_to_end=visit_seconds(exp, fed, learner, fleet), timed=True)
    )


def check_population(exp: Experiment, fed: Federation, population: ClientPopulation) -> None:
    """Refuse clients that the topology cannot be made of, or who cannot be asked as the run
    says."""
    check_devices(exp, population)
    if population.sampler.kind == "by_size":
        fed.sizes()
    smallest = exp.topology.smallest_cohort(population)
    replies = smallest if exp.clock is None else exp.clock.waited_for(smallest)
    if exp.method.aggregator:
        exp.method.aggregator.check(replies)
    check_attendance(exp, replies)
    wrong = [name for name in exp.topology.slots(population) if not re.fullmatch(r"\w+", name)]
    if wrong:
        raise SettingError(
            f"{exp.topology}: slots must be named in letters and digits, found {shown(wrong[0])}."
        )
    check_orders(exp, fed, population)


def selected_clients(asked: Selection) -> list[int]:
    """All clients that are asked, in the order of their first letters."""
    return list(
        dict.fromkeys(client for chains in asked.values() for chain in chains for client in chain)
    )


def check_attendance(exp: Experiment, cohort: int) -> None:
    """Refuse to ask for more replies than there are clients in a round."""
    if exp.min_replies is not None and exp.min_replies > cohort:
        raise SettingError(
            f"min_replies={exp.min_replies} asks for more replies than there are clients in a round, {cohort}. Ask for "
            "fewer, or ask more clients a round."
        )


def check_orders(exp: Experiment, fed: Federation, population: ClientPopulation) -> None:
    """Refuse given batches that are missing, empty, or not places in the client's own data."""
    orders = exp.local.orders
    for came in range(exp.rounds if orders is not None else 0):
        underway = exp.topology.in_flight(population, came)
        for client in selected_clients(exp.topology.select(population, came)):
            t, size = underway.since[client] if underway else came, fed.size(client)
            try:
                steps = exp.local.planned_steps(t, client, size)
                fits = steps > 0 and all(_places(batch, size) for batch in orders[t][client])  # type: ignore[index]
            except SettingError:
                raise
            except (TypeError, KeyError, ValueError):
                fits = False
            if not fits:
                raise SettingError(
                    f"the batch orders of round {t}, client {client} must be lists of places from 0 to {size - 1}, at "
                    "least one list and none of them empty, found something else."
                )


def check_batches(exp: Experiment, fed: Federation, learner: Learner) -> None:
    """Refuse batches of one example for a model that cannot be trained on them, where sizes are
    known beforehand."""
    for t, given in enumerate(exp.local.orders or ()):
        for client in given:
            if exp.local.smallest_batch(t, client, 0) == 1:
                learner.check_single_example(f"the orders of round {t}, client {client} have")
    if isinstance(fed, PartitionedFederation) and exp.local.orders is None:
        for client, size in enumerate(fed.sizes()):
            if exp.local.smallest_batch(0, client, size) == 1:
                cut = f"in batches of {exp.local.batch_size} these leave"
                learner.check_single_example(f"client {client} has {size} examples, {cut}")


def _places(batch: Any, size: int) -> bool:
    places = np.asarray(batch)
    whole = places.ndim == 1 and places.dtype.kind in "iu"
    return whole and len(places) > 0 and bool(places.min() >= 0) and bool(places.max() < size)
