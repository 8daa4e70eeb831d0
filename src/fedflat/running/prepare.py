"""An experiment made ready: data opened, model built, everything checked that can be checked before round 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from statistics import fmean

from torch import Tensor

from fedflat.attacks.attack import Victim
from fedflat.client.asks import Describer, Descriptions
from fedflat.client.attacker import Attacker
from fedflat.client.judge import outputs
from fedflat.client.learner import Learner
from fedflat.client.piece import Site, fitting_piece
from fedflat.client.trial import try_out
from fedflat.client.visit import ClientJob
from fedflat.clock.clock import Fleet
from fedflat.data.domains import Domain
from fedflat.data.examples import ClientData
from fedflat.data.federation import Federation
from fedflat.data.files.places import data_place
from fedflat.data.roster import Roster
from fedflat.data.sampling import Sampler
from fedflat.engine.flat import Model
from fedflat.engine.mail import Mail
from fedflat.errors import FedflatError, SettingError, shown
from fedflat.executors.crew import Crew
from fedflat.executors.memories import ClientStates, usual_budget
from fedflat.running.crowd import check_batches, check_crowd, gathered, members
from fedflat.running.devices import fleet_of, pace
from fedflat.running.evaluate import OwnTests, own_tests
from fedflat.running.experiment import Experiment, open_federation
from fedflat.running.fitting import Fitting, Routing, check_fitting, homes
from fedflat.running.state import Ledger
from fedflat.running.tables import size
from fedflat.server.piece import Holding, Stepped
from fedflat.server.shadows import Scene
from fedflat.topology.crowd import Crowd
from fedflat.topology.topology import Asked


@dataclass(frozen=True)
class Ready:
    """What `train` works with."""

    exp: Experiment
    fed: Federation
    source: Callable[[], Federation]
    """The same data for a worker process to open."""
    learner: Learner
    crowd: Crowd
    """The clients as the topology sees them."""
    job: ClientJob
    scene: Scene
    withheld: int
    """Numbers of the model that stay with the clients."""
    holding: Holding | None = None
    """What the server has besides models."""
    descriptions: Descriptions = field(default_factory=dict)
    """What every client has said of itself before round 0."""
    beforehand: Ledger = Ledger()
    """What that has cost."""

    @cached_property
    def describers(self) -> tuple[Describer, ...]:
        """What every client must be asked before round 0, by whoever wants to know."""
        method = self.exp.method
        pieces = [*(one.describers for one in self.job.pieces), *(one.describers for one in method.server)]
        return tuple(dict.fromkeys(chain(self.exp.topology.describers, *pieces, self.exp.init.describers)))

    @cached_property
    def supposed(self) -> Ready:
        """The same for estimates, where groups hang on what clients have not been asked yet: these are guessed."""
        if all(describer in self.descriptions for describer in self.exp.topology.describers):
            return self
        crowd = self.crowd.supposed
        try:
            self.exp.topology.check(crowd)
        except SettingError:  # which the groups that there will be may not meet
            crowd = replace(crowd, sampler=Sampler(clients=1))
        return replace(self, crowd=crowd)

    @property
    def device(self) -> str:
        """Where models are."""
        return self.learner.device

    @cached_property
    def fleet(self) -> Fleet | None:
        """The clients' devices, if the run has a clock; centralised training needs none."""
        return fleet_of(self.exp)

    @property
    def roster(self) -> Roster:
        """Who there is, and no more."""
        return Roster.of(self.fed)

    def own_tests(self, crew: Crew, fitting: Fitting = Fitting(), some: Sequence[int] | None = None) -> OwnTests | None:
        """The tests that clients, all or some, make of their own, if they keep something to test on."""
        name, may_miss = self.exp.task.headline.name, self.exp.min_replies is not None
        return own_tests(crew, self.roster, name, fitting, may_miss=may_miss, clients=some)

    def fitting(self, clients: ClientStates) -> Fitting:
        """How models are tested, where ``clients`` keep a part of them."""
        return Fitting(fitting_piece(self.job.pieces), self.scene.layout, self.homes, clients)

    def routing(self, models: Mapping[str, Model]) -> Routing | None:
        """Which of these models each test example is tested with, if the topology says so."""
        if self._route(self.fed.test) is None:
            return None
        return Routing(self._route, list(models.values()))  # type: ignore[arg-type]

    def _route(self, data: ClientData) -> Tensor | None:
        if id(data) not in self._routes:
            self._routes[id(data)] = self.exp.topology.route(self.crowd, data)
        return self._routes[id(data)]

    @cached_property
    def _routes(self) -> dict[int, Tensor | None]:
        return {}

    @cached_property
    def homes(self) -> Mapping[Domain, Sequence[int]]:
        """The clients of each domain, if a piece must know."""
        return homes(self.fed) if fitting_piece(self.job.pieces) else {}

    def remarks(self, state_memory: int | None = None) -> list[str]:
        """What is good to know before the first round; ``state_memory`` as in `train`."""
        site = Site(self.job.pieces, self.learner.flat.module, self.scene.layout, self.exp.task)
        said = [self.exp.task.remark(self.fed), *(piece.remark(site) for piece in self.job.pieces)]
        if self.exp.attack is not None and self.supposed is self:  # else nobody knows yet who attacks
            said.append(self.exp.attack.remark(self.victim))
        if self.client_memory:
            budget = usual_budget() if state_memory is None else state_memory
            fits = self.client_memory <= budget
            where = "kept in memory" if fits else f"{size(budget)} kept in memory, the rest on disk"
            said.append(f"clients will remember up to {size(self.client_memory)} in all, {where}")
        if self.exp.clock is not None:
            said.append(pace(self.exp, self.crowd, members(self.supposed.asked(0))))
        said += [f"before round 0 every client is asked for {one}: {one.reveals}" for one in self.describers]
        return [text for text in said if text]

    @cached_property
    def victim(self) -> Victim:
        """The run as those see it who attack it."""
        return victim_of(self.exp, self.fed, self.learner, self.crowd)

    def addressed(self, mail: Mail, cohort: Sequence[int]) -> Mail:
        """The mail as it goes to this cohort: pieces that must know it are told what those before each client do."""
        if not any(piece.ordered for piece in self.job.pieces):
            return mail
        told, count, batches = dict[int, tuple[int, float]](), 0, 0.0
        for client in cohort:
            told[client] = count, batches
            examples, local = self.roster.size(client), self.job.local
            steps = local.planned(mail.round, client, examples)
            count, batches = count + 1, batches + local.samples(mail.round, client, examples) / steps
        return replace(mail, before=told)

    def samples(self, t: int, clients: Sequence[int]) -> int:
        """How many examples these clients go through in their visits of round ``t``, epochs counted."""
        return sum(self.exp.local.samples(t, client, self.roster.size(client)) for client in clients)

    def asked(self, t: int) -> Asked:
        """Who is asked in round ``t``: the chains that start from each slot of the server."""
        asked = self.exp.topology.asked(self.crowd, t)
        clients = [client for chains in asked.values() for chain in chains for client in set(chain)]
        strange = set(asked) - set(self.slots)
        if strange or not clients or len(set(clients)) < len(clients) or not all(map(all, asked.values())):
            raise FedflatError(
                f"{self.exp.topology} must ask different clients in round {t}, from slots among "
                f"{', '.join(self.slots)}, found {shown(asked)}."
            )
        return asked

    @cached_property
    def slots(self) -> Mapping[str, Sequence[int]]:
        """The server's models by name, and whose they are."""
        return self.exp.topology.slots(self.crowd)

    @cached_property
    def shares(self) -> bool:
        """Whether a client may be asked by several slots."""
        return sum(map(len, self.slots.values())) > self.fed.population

    def merged(self, t: int, models: Mapping[str, Model], new: Mapping[str, Stepped]) -> dict[str, Model]:
        """The server's models after round ``t``, in which some slots have stepped."""
        weights = {slot: one.replies.weight for slot, one in new.items()}
        return self.exp.topology.merge(self.crowd, t, {**models, **{s: one.model for s, one in new.items()}}, weights)

    @property
    def told(self) -> Mapping[str, Sequence[int]]:
        """Slots whose models are told each by itself, and whose they are."""
        return self.slots if len(self.slots) > 1 and self.exp.topology.tells_slots else {}

    def standing(self, done: int, models: Mapping[str, Model]) -> Tensor:
        """The parameters of the model that stands for all of the server's when ``done`` rounds are done."""
        centre = self.centre(done, models)
        assert centre is not None, "shadows of no model"
        return centre.params

    def centre(self, done: int, models: Mapping[str, Model]) -> Model | None:
        """The model that stands for all of the server's when ``done`` rounds are done."""
        return self.exp.topology.centre(self.crowd, done, models)

    @property
    def client_memory(self) -> int:
        """Bytes that all clients together will remember, once each has been seen or the run has ended."""
        vectors = self.exp.method.cost.client_state + sum(shadow.keeps for shadow in self.exp.method.shadows)
        seen = min(self.fed.population, self.exp.topology.visits(self.supposed.crowd))
        return seen * vectors * self.scene.layout.dim * self.learner.dtype.itemsize


def make_ready(exp: Experiment, device: str = "cpu") -> Ready:
    """Open and check; a mistake is refused here, before anything is written."""
    source = exp.source(device)
    fed = source()
    learner = exp.open_learner(fed, device)
    crowd = gathered(exp, fed, learner)
    known = not exp.topology.describers  # else what hangs on groups is made and checked when clients have been asked
    if known:
        check_crowd(exp, fed, crowd)
    else:
        exp.topology.check_before(crowd)
    try_out(learner, fed, exp.method.client)
    check_batches(exp, fed, learner)
    shows = any(shadow.looks for shadow in exp.method.shadows)
    mean = mean_examples(exp, fed)
    attackers = attackers_in(exp, fed, learner, crowd) if known else {}
    job = ClientJob(learner, exp.pieces(), exp.local, exp.seed, mean, shows, exp.as_json(), attackers)
    for protocol in exp.method.protocols:
        protocol.check(exp.on, fed)
    for piece in job.pieces:
        piece.check(Site(job.pieces, learner.flat.module, learner.flat.layout, exp.task, learner.sample))
    scene = Scene(exp.rounds, fed.population, learner.flat.layout)
    withheld = sum(piece.withheld(learner.flat.layout) for piece in job.pieces)
    ready = Ready(exp, fed, source, learner, crowd, job, scene, withheld, held_by_server(exp, learner))
    check_fitting(fitting_piece(job.pieces), fed, ready.homes)
    check_describers(ready)
    exp.init.check(ready)
    return ready


def check_describers(ready: Ready) -> None:
    """Refuse data that clients cannot describe as they will be asked."""
    public = ready.holding.data if ready.holding else None
    for describer in ready.describers:
        if public is None and (describer.uses_data or describer.probe):
            raise SettingError(f"{describer} needs data of the server's own. Name some: --server-data 'digits()'.")
        describer.check(ready.fed, ready.learner, public)


def held_by_server(exp: Experiment, learner: Learner) -> Holding | None:
    """The server's own data; refused where a piece needs some and there are none, or where they do not fit."""
    if exp.server_data is None:
        for piece in exp.method.server:
            if piece.uses_data:
                raise SettingError(f"{piece} needs data of the server's own. Name some: --server-data 'digits()'.")
        return None
    data = open_federation(exp.server_data, exp.seed, True, learner.device, data_place()).data(0)
    try:
        next(outputs(learner, data))
    except Exception as error:
        raise SettingError(
            f"the server's data {exp.server_data}, with inputs of shape {data.examples.shape}, do not fit the model "
            f"({error}). Take data like the clients'."
        ) from error
    return Holding(learner, data)


def victim_of(exp: Experiment, fed: Federation, learner: Learner, crowd: Crowd) -> Victim:
    """The run as those see it who attack it."""
    return Victim(exp.on, fed, learner, exp.topology.superclients(crowd), exp.seed)


def attackers_in(exp: Experiment, fed: Federation, learner: Learner, crowd: Crowd) -> Mapping[int, Attacker]:
    """The clients that lie, if there is an attack; one that cannot be made is refused."""
    if exp.attack is None:
        return {}
    if exp.method.pooled:
        raise SettingError("centralised training has no clients that could attack. Leave --attack out.")
    victim = victim_of(exp, fed, learner, crowd)
    exp.attack.check(victim)
    return exp.attack.attackers(victim)


def mean_examples(exp: Experiment, fed: Federation) -> float:
    """How many examples a client holds on average, if a piece must know; counting may be refused."""
    for piece in exp.pieces():
        if piece.compares:
            try:
                return fmean(fed.sizes())
            except SettingError as error:
                raise SettingError(f"{piece}: {error}") from None
    return 0.0
