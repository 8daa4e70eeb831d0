"""Asynchronous topology: the server does not wait for all clients, and steps after some replies.

Xie, Koyejo and Gupta, Asynchronous Federated Optimization, 2019 (FedAsync). Nguyen et al.,
Federated Learning with Buffered Asynchronous Aggregation, AISTATS 2022 (FedBuff).

    at work    ``concurrency`` clients, by default as many as clients a round; each one starts
               from the server's model of that moment, w^v
    step t     after ``buffer`` replies, each a client's model x_k from w^v, staleness t - v:
               w <- w - mean_k s(t-v) (w^v - x_k)               (FedBuff)
               w <- w - mean_k alpha s(t-v) (w - x_k)           (FedAsync, mixing=alpha)

    constant   s = 1
    polynomial s = (1 + staleness)^-a                           a=0.5
    hinge      s = 1 up to staleness b, then 1 / (a (staleness - b) + 1)    a=10, b=4

A round is a step of the server. The mean uses the run's weighting, over the replies of the step.
With mixing, running statistics are mixed as parameters are. Server pieces, such as a learning rate,
work on the result.

The run's clock decides how long clients take, if there is one. Otherwise all take the same time
(durations="equal"), or each client has its own random time exp(spread N(0, 1))
(durations="lognormal"). See `async_scheduler` for the order of replies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean

from fedflat.client.piece import Piece
from fedflat.composition.method import Method
from fedflat.core.messages import Broadcast, Reply, ReplyBatch
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.errors import SettingError, choice, number
from fedflat.registry.specs import register
from fedflat.server.client_selection import Selection
from fedflat.topologies.async_scheduler import AsyncScheduler, Seconds
from fedflat.topologies.topology import SERVER, ClientPopulation, InFlight, Topology

CONSTANT, POLYNOMIAL, HINGE = "constant", "polynomial", "hinge"
USUAL: dict[str, dict[str, float]] = {
    CONSTANT: {},
    POLYNOMIAL: {"a": 0.5},
    HINGE: {"a": 10.0, "b": 4.0},
}
"""The papers' constants of each staleness weight."""
EQUAL, LOGNORMAL = "equal", "lognormal"


@dataclass(frozen=True, repr=False)
class Asynchronous(Topology):
    """Clients train all the time.

    The server steps after ``buffer`` replies, weighted by their staleness.
    """

    key = "asynchronous"

    buffer: int = 1
    concurrency: int | None = None
    staleness: str = CONSTANT
    a: float | None = None
    b: float | None = None
    mixing: Scalar | None = None
    durations: str | None = None
    spread: float | None = None

    def __post_init__(self) -> None:
        number(self.key, "buffer", self.buffer, low=1, whole=True)
        if self.concurrency is not None:
            number(self.key, "concurrency", self.concurrency, low=1, whole=True)
        choice(self.key, "staleness", self.staleness, USUAL)
        for name in ("a", "b"):
            self._check_number(
                name, getattr(self, name), self.staleness, name in USUAL[self.staleness]
            )
        if self.mixing is not None:
            scalar(self.key, "mixing", self.mixing, open_low=True, high=1)
        if self.durations is not None:
            choice(self.key, "durations", self.durations, [EQUAL, LOGNORMAL])
        self._check_number(
            "spread", self.spread, self.durations or EQUAL, self.durations == LOGNORMAL
        )

    def _check_number(self, name: str, value: float | None, of: str, used: bool) -> None:
        if value is not None and not used:
            raise SettingError(
                f"{self.key}: {name}={value} has no effect with {of!r}. Leave it out."
            )
        if value is not None:
            number(self.key, name, value, low=0)

    @property
    def synchronous(self) -> bool:
        """False: replies answer models of earlier rounds."""
        return False

    def at_work(self, population: ClientPopulation) -> int:
        """Return how many clients train at any time."""
        return self.concurrency or population.sampler.smallest(population.rounds)

    def check(self, population: ClientPopulation) -> None:
        """Refuse more clients at work, or replies in a step, than there are clients."""
        sampler = population.sampler
        if population.timed and self.durations is not None:
            raise SettingError(
                f"{self} sets how long clients take, and so does the run's clock. Leave one out."
            )
        if sampler.kind == "bernoulli":
            raise SettingError(
                f"{self} selects a client whenever one is done, so there is no cohort whose size "
                "could be random. Use the sampler 'uniform' or 'by_size'."
            )
        (sampler if sampler.cohorts is not None else replace(sampler, clients=1)).check(
            population.n_clients, population.rounds
        )
        for name, wanted in (
            ("clients at work", self.at_work(population)),
            ("replies a step", self.buffer),
        ):
            if wanted > population.n_clients:
                raise SettingError(
                    f"{self}: {wanted} {name} were asked for, but there are only "
                    f"{population.n_clients} clients. Ask for fewer, or split the data into more "
                    "clients."
                )
        if sampler.cohorts is not None:
            self.in_flight(population, population.rounds - 1)

    def in_flight(self, population: ClientPopulation, t: int) -> InFlight:
        """Return the state of the schedule in round ``t``."""
        return population.sequence(
            repr(self),
            AsyncScheduler(
                population, self.at_work(population), self.buffer, self._seconds(population)
            ).steps,
            t,
        )

    def _seconds(self, population: ClientPopulation) -> Seconds:
        if self.durations != LOGNORMAL:
            return population.keeps_to_end
        spread = 1.0 if self.spread is None else self.spread
        duration = cache(
            lambda client: float(population.rng("duration", client).lognormal(0.0, spread))
        )
        return lambda client, t: duration(client)

    def select(self, population: ClientPopulation, t: int) -> Selection:
        """Return the clients whose replies arrive, in the order of arrival."""
        return {SERVER: [(client,) for client in self.in_flight(population, t).since]}

    def end_times(self, population: ClientPopulation, t: int) -> float:
        return self.in_flight(population, t).moment

    def metrics(self, population: ClientPopulation, t: int) -> dict[str, float]:
        """Return the mean staleness of the replies of the step."""
        return {
            "staleness": fmean(t - since for since in self.in_flight(population, t).since.values())
        }

    def weight(self, staleness: int) -> float:
        """Return the weight s(staleness)."""
        usual = USUAL[self.staleness]
        a, b = (
            usual.get(name, 0.0) if value is None else value
            for name, value in (("a", self.a), ("b", self.b))
        )
        if self.staleness == POLYNOMIAL:
            return float((1 + staleness) ** -a)
        return (
            1.0 if staleness <= b or self.staleness == CONSTANT else 1 / (a * (staleness - b) + 1)
        )

    def weigh_reply(
        self, now: Broadcast, sent: Broadcast, reply: Reply | ReplyBatch
    ) -> Reply | ReplyBatch:
        """Return the reply weighted by its staleness.

        With mixing it is a step from the server's model to the client's.
        """
        weight = self.weight(now.round - sent.round)
        if self.mixing is None:
            return reply if weight == 1 else replace(reply, delta=weight * reply.delta)
        weight *= at(self.mixing, now.round)
        return replace(
            reply,
            delta=weight * (now.params - sent.params + reply.delta),
            buffers=now.buffers + weight * (reply.buffers - now.buffers),
        )

    def smallest_cohort(self, population: ClientPopulation) -> int:
        return self.buffer

    def expected_clients(self, population: ClientPopulation) -> int:
        """Return the replies of all steps."""
        return self.buffer * population.rounds

    def refuse(self, method: Method, pieces: Sequence[Piece]) -> None:
        """Also refuse pieces for which all clients of a round must have the same model."""
        super().refuse(method, pieces)
        for piece in pieces:
            if (
                piece.state_vectors
                or piece.upload_vectors
                or piece.needs_cohort_order
                or piece.needs_server_model
            ):
                raise SettingError(
                    f"{piece} cannot be used with {self}: its state, uploads or comparisons belong "
                    "to one sequence of models, but here clients reply to models of different age. "
                    "Remove one of them."
                )
        for server in method.server:
            if (
                server.oracle_calls > 1
                or server.owns_step
                or (self.mixing is not None and server.stage is Stage.PROBE)
            ):
                raise SettingError(
                    f"{server} cannot be used with {self}: it needs all clients of a round to have "
                    "the same model, but here they reply to models of different age. Remove one of "
                    "them."
                )


asynchronous = register("topology", "asynchronous")(Asynchronous)
