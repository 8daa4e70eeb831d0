"""The clients as the server and the topology see them, with their devices, and checks with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np

from fedflat.client.learner import Learner
from fedflat.core.messages import local_work
from fedflat.data.client_columns import column
from fedflat.data.domains import Domain
from fedflat.data.federation import Federation, PartitionedFederation
from fedflat.errors import SettingError, shown
from fedflat.experiments.experiment import Experiment
from fedflat.server.client_registry import ClientRegistry
from fedflat.server.client_selection import selected_clients
from fedflat.simulation.clock import Fleet
from fedflat.text_table import span
from fedflat.topologies.topology import ClientPopulation


def fleet_of(exp: Experiment) -> Fleet | None:
    """The clients' devices, if the run has a clock; centralised training has none."""
    return None if exp.clock is None or exp.method.pooled else Fleet(exp.clock, exp.seed)


def request_seconds(
    exp: Experiment, registry: ClientRegistry, learner: Learner, fleet: Fleet
) -> Callable[[int, int], float]:
    """Returns the seconds that a client trains in a round, by the cost that the method declares."""
    pieces, cost, buffers = exp.pieces(), exp.method.cost, learner.flat.buffers.nbytes
    vector = learner.flat.layout.dim * learner.dtype.itemsize

    def lasts(client: int, t: int) -> float:
        examples = registry.size(client)
        work = local_work(pieces, examples, exp.local.samples(t, client, examples))
        return fleet.seconds(client, work, cost.down * vector + buffers, cost.up * vector + buffers)

    return lasts


def clock_remark(exp: Experiment, population: ClientPopulation, cohort: Sequence[int]) -> str:
    """A remark on the seconds that the clients of round 0 need; empty if there is no clock."""
    if exp.clock is None:
        return ""
    if exp.method.pooled:
        return "no client computes in centralised training, so the clock measures no time"
    if not exp.topology.synchronous:
        return ""
    least, most = (
        span(of(population.keeps_to_end(client, 0) for client in cohort)) for of in (min, max)
    )
    return f"by the clock one client takes {least} to {most} in round 1"


def check_devices(exp: Experiment, population: ClientPopulation) -> None:
    """Check that topology and clock can be used with these clients, and with each other."""
    try:
        exp.topology.check(population)
    except SettingError as error:
        if exp.clock is None or population.sampler.clients == exp.sampler.clients:
            raise
        raise SettingError(
            f"{error} (With extra={exp.clock.extra:g} in the clock, {population.sampler.clients} "
            f"are asked and {exp.sampler.clients} waited for.)"
        ) from None
    if exp.clock is not None and not exp.method.pooled:
        exp.clock.check(population.n_clients)
        if not exp.topology.synchronous and (exp.clock.drops_clients or exp.clock.extra):
            raise SettingError(
                f"{exp.topology} does not wait for clients, so there is no round that a deadline could end, "
                "that clients could miss, or that more could be asked for than are needed, as "
                f"{exp.clock} says. Leave that out."
            )
        asked = exp.topology.select(population, 0).values() if exp.clock.extra else ()
        if exp.clock.extra and (
            getattr(exp.topology, "cut", None) or all(len(chains) == 1 for chains in asked)
        ):
            raise SettingError(
                f"with {exp.topology} there are as many chains however many clients are asked, so "
                f"none of them can be left out, as extra={exp.clock.extra:g} in the clock says. "
                "Leave that out."
            )


def open_registry(fed: Federation) -> ClientRegistry:
    return ClientRegistry(
        fed.population,
        fed.size,
        fed.sizes,
        clients_have_tests=fed.held_out is not None,
        clients_by_domain=cache(partial(clients_by_domain, fed)),
        column=partial(column, fed),
        online=fed.online,
    )


def clients_by_domain(fed: Federation) -> dict[Domain, list[int]]:
    """The clients of each domain; empty if no domain is known, or the data are elsewhere."""
    found: dict[Domain, list[int]] = {}
    for client in range(fed.population) if fed.here and fed.test.domains else ():
        found.setdefault(fed.domain(client), []).append(client)
    found.pop((), None)
    return found


def open_population(
    exp: Experiment, fed: Federation, registry: ClientRegistry, learner: Learner
) -> ClientPopulation:
    """The clients as the topology sees them."""
    classes = fed.classes if fed.test.examples.has_classes else None
    fleet = fleet_of(exp)
    population = ClientPopulation(
        registry.population,
        registry.sizes,
        exp.cohort_sampler(),
        exp.rounds,
        exp.seed,
        learner.flat.layout,
        column=registry.column,
        classes=classes,
        online=registry.online,
    )
    if fleet is None:
        return population
    return replace(
        population, keeps_to_end=request_seconds(exp, registry, learner, fleet), timed=True
    )


def check_population(
    exp: Experiment, registry: ClientRegistry, population: ClientPopulation
) -> None:
    """Check that topology, aggregator and settings can be used with these clients."""
    check_devices(exp, population)
    if population.sampler.kind == "by_size":
        registry.sizes()
    smallest = exp.topology.smallest_cohort(population)
    replies = smallest if exp.clock is None else exp.clock.waited_for(smallest)
    if exp.method.aggregator:
        exp.method.aggregator.check(replies)
    check_min_replies(exp, replies)
    wrong = [name for name in exp.topology.slots(population) if not re.fullmatch(r"\w+", name)]
    if wrong:
        raise SettingError(
            f"{exp.topology}: slots must be named in letters and digits, found {shown(wrong[0])}."
        )
    check_batch_indices(exp, registry, population)


def check_min_replies(exp: Experiment, cohort: int) -> None:
    """Check that `min_replies` is not more than the clients of a round."""
    if exp.min_replies is not None and exp.min_replies > cohort:
        raise SettingError(
            f"min_replies={exp.min_replies} asks for more replies than there are clients in a "
            f"round, {cohort}. Ask for fewer, or ask more clients a round."
        )


def check_batch_indices(
    exp: Experiment, registry: ClientRegistry, population: ClientPopulation
) -> None:
    """Check that given batches are there, not empty, and places in the client's data."""
    orders = exp.local.orders
    for came in range(exp.rounds if orders is not None else 0):
        underway = exp.topology.in_flight(population, came)
        for client in selected_clients(exp.topology.select(population, came)):
            t, size = underway.since[client] if underway else came, registry.size(client)
            try:
                steps = exp.local.planned_steps(t, client, size)
                batches = orders[t][client]  # type: ignore[index]
                fits = steps > 0 and all(_places(batch, size) for batch in batches)
            except SettingError:
                raise
            except (TypeError, KeyError, ValueError):
                fits = False
            if not fits:
                raise SettingError(
                    f"the batch orders of round {t + 1}, client {client} must be lists of places "
                    f"from 0 to {size - 1}, at least one list and none of them empty, found something "
                    "else."
                )


def check_batches(exp: Experiment, fed: Federation, learner: Learner) -> None:
    """Refuse batches of one example if the model cannot be trained on them.

    Only sizes that are known without opening clients' data are checked.
    """
    for t, given in enumerate(exp.local.orders or ()):
        for client in given:
            if exp.local.smallest_batch(t, client, 0) == 1:
                learner.check_single_example(f"the orders of round {t + 1}, client {client} have")
    # Batches of tasks that make their own are larger than one example.
    fixed = exp.local.orders is not None or learner.task.makes_batches
    if isinstance(fed, PartitionedFederation) and not fixed:
        for client, size in enumerate(fed.sizes()):
            if exp.local.smallest_batch(0, client, size) == 1:
                cut = f"in batches of {exp.local.batch_size} these leave"
                learner.check_single_example(f"client {client} has {size} examples, {cut}")


def _places(batch: object, size: int) -> bool:
    places = np.asarray(batch)
    whole = places.ndim == 1 and places.dtype.kind in "iu"
    return whole and len(places) > 0 and bool(places.min() >= 0) and bool(places.max() < size)
