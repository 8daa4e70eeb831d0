"""The clients' simulated devices, and how long a request takes there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fedflat.client.learner import Learner
from fedflat.core.messages import local_work
from fedflat.errors import SettingError
from fedflat.experiments.experiment import Experiment
from fedflat.server.client_registry import ClientRegistry
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
