"""The common table: what holds for every method. A new method is one new row."""

from __future__ import annotations

import math
import pickle
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fedflat.client.local import LocalTraining
from fedflat.client.local_adam import AveragedLocalAdam, LocalAdam, PersistentLocalAdam
from fedflat.client.piece import ClientState
from fedflat.client.private_parameters import Private
from fedflat.client.styles import Cfsi, Lab
from fedflat.client.training import ClientJob, Request, run_client
from fedflat.composition.disclosure import disclosed
from fedflat.composition.method import Method
from fedflat.core.messages import Reply
from fedflat.data.federation import DataSpec, Federation
from fedflat.data.sets.in_memory import clients_of
from fedflat.data.sets.transformed import Transformed
from fedflat.execution.client_pool import ClientPool, Executor, PoolOutcome, Source
from fedflat.execution.in_process import InProcess
from fedflat.execution.workers import Workers
from fedflat.experiments.experiment import EvaluationSchedule, Experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.progress import Progress
from fedflat.experiments.results.results import Result
from fedflat.experiments.run_folder.checkpoints import Store
from fedflat.experiments.run_folder.record import read_rows
from fedflat.experiments.run_folder.run_folder import DiskRunFolder, RunFolder
from fedflat.experiments.run_setup import RunSetup
from fedflat.experiments.state import RunState
from fedflat.experiments.train import train
from fedflat.methods.domain_models import SeparateModels
from fedflat.methods.fedcg import Branches
from fedflat.methods.fedcr import CommonRepresentation
from fedflat.methods.fedswa import MomentumVariate
from fedflat.methods.fedwmsam import TargetSam
from fedflat.methods.mcd import Discrepancy
from fedflat.methods.scaffold import Scaffold
from fedflat.models.simple import mlp
from fedflat.models.wrapped import stochastic
from fedflat.registry.specs import RegisteredName, parse, registered
from fedflat.server.aggregators import Krum, TrimmedMean
from fedflat.server.client_evaluation import PersonalizedEvaluation
from fedflat.server.client_selection import ClientSampler

ROWS = {
    "active_clients": "active_clients()",
    "adabest": "adabest(beta=0.5, mu=0.1)",
    "adagrad": "adagrad(lr=0.05)",
    "adam": "adam(lr=0.05, flavour='torch')",
    "all_clients": "all_clients()",
    "asam": "asam(rho=0.2, eta=0.1)",
    "centralised": "centralised() + sam(rho=0.05)",
    "bfloat16": "bfloat16()",
    "cfsi": "cfsi(share=0.2)",
    "chain": "chain(sam(rho=0.05), feddyn(alpha=0.1))",
    "clip": "clip(norm=0.5)",
    "cutout": "cutout(side=3)",
    "domain_models": "domain_models(domains=2)",
    "dp": "dp(noise=0.5, clip=0.1)",
    "dp_fedsam": "dp_fedsam(rho=0.05, noise=0.5, clip=0.1)",
    "ema": "ema(gamma=0.7)",
    "fedacg": "fedacg(lam=0.8, beta=0.1)",
    "fedadagrad": "fedadagrad(lr=0.05, flavour='torch')",
    "fedadam": "fedadam(lr=0.05)",
    "fedala": "fedala(share=0.5, layers=2, eta=0.5)",
    "fedasam": "fedasam(rho=0.2, variant='elementwise')",
    "fedavg": "fedavg()",
    "fedavg_ft": "fedavg_ft()",
    "fedavgm": "fedavgm(beta=0.9)",
    "fedbn": "fedbn()",
    "fedcg": "fedcg(domains=3, every=2, weight=0.5)",
    "fedcm": "fedcm(a=0.3)",
    "fedcr": "fedcr(beta=0.01, mix=0.3)",
    "feddc": "feddc(alpha=0.1)",
    "feddyn": "feddyn(alpha=0.1)",
    "fedfsa": "fedfsa(rho=0.05, rho_larger=0.3, top=1, a=0.5, selection='random')",
    "fedgamma": "fedgamma(rho=0.05)",
    "fedgloss": "fedgloss(rho_s=0.1, rho_l=0.1, beta=10.0, T_s=2, delta_eps=True)",
    "fedlesam": "fedlesam(rho=0.1)",
    "feddecorr": "feddecorr(coef=0.2)",
    "fedexp": "fedexp(eps=0.0001, flavour='repo')",
    "fedgmt": "fedgmt(alpha=0.5, gamma=0.5)",
    "fedlc": "fedlc(tau=0.5)",
    "fedntd": "fedntd(beta=0.5, T=2.0)",
    "fedrs": "fedrs(alpha=0.3)",
    "fedsol": "fedsol(rho=0.5)",
    "fedtoga": "fedtoga(rho=0.05, beta=0.5)",
    "fedwmsam": "fedwmsam(rho=0.05, a=0.5, lam=0.2)",
    "moon": "moon(mu=0.5, projection=4)",
    "fedinit": "fedinit(beta=0.2, origin='start')",
    "fedlesam_d": "fedlesam_d(rho=0.1, alpha=0.1)",
    "fedlesam_s": "fedlesam_s(rho=0.1, flavour='repo')",
    "fedmoswa": "fedmoswa(rho=0.2, alpha=1.2, gamma=0.3)",
    "fednova": "fednova()",
    "fednsam": "fednsam(lam=0.5, rho=0.05, ascent='momentum')",
    "fedprox": "fedprox(mu=0.1)",
    "fedsam": "fedsam(rho=0.05)",
    "fedsmoo": "fedsmoo(rho=warmup(0.01, 0.1, 2), beta=10.0)",
    "fedspeed": "fedspeed(rho=0.1, a=0.9, lam=10.0)",
    "fedswa": "fedswa(rho=0.2, alpha=1.2)",
    "fedvc": "fedvc(n=5)",
    "fedyogi": "fedyogi(lr=0.05)",
    "fsa": "fsa(rho=0.05, rho_larger=0.3, top=1, score='mse')",
    "int8": "int8()",
    "ifca": "ifca(models=2)",
    "krum": "krum(attackers=0, keep=2)",
    "lab": "lab()",
    "last_sam": "last_sam(rho=0.05)",
    "layerwise_sam": "layerwise_sam(rho=0.05)",
    "local_adam": "local_adam(b2=0.9, state='server')",
    "local_adamw": "local_adamw(weight_decay=0.1, state='client')",
    "man": "man(zeta=0.2)",
    "mcd": "mcd(weight=0.5, form='reversed')",
    "median": "median()",
    "mime": "mime(b=0.5)",
    "mimelite": "mimelite(b=0.5, dampening=0.5)",
    "mixup": "mixup(alpha=0.5)",
    "mofedsam": "mofedsam(rho=0.1, a=0.5)",
    "naive_fedgloss": "naive_fedgloss(rho_s=0.1, beta=10.0)",
    "norm_clip": "norm_clip(norm=0.01)",
    "personal": "personal()",
    "poly_rate": "poly_rate(power=0.5)",
    "prox": "prox(mu=decay(0.5, 0.9))",
    "sam": "sam(rho=warmup(0.0, 0.1, 2))",
    "scaffold": "scaffold()",
    "self_training": "self_training(kd=2.0, omega=2, t_start=2, sure=0.5)",
    "server_momentum": "server_momentum(beta=0.5, lr=0.8)",
    "server_sgd": "server_sgd(lr=steps([0, 1], [1.0, 0.5]))",
    "silobn": "silobn()",
    "swa": "swa(start=1, cycle=1, high=0.05, low=0.01)",
    "top_k": "top_k(share=0.1)",
    "trimmed_mean": "trimmed_mean(trim=1)",
    "wima": "wima(window=2, scope='classifier')",
    "yogi": "yogi(lr=0.05)",
}
"""A row for every name, but for those that bring their topology (tests/topology/test_words.py)."""

TOGETHER = [
    "feddyn(alpha=0.1) + sam(rho=0.05)",
    "feddyn(alpha=0.1) + all_clients()",
    "fedcg(domains=2, every=1, layers='all') + sam(rho=0.05) + wima(window=2)",
    "fedcg(domains=2, labels='oracle', agnostic=False, adjacency='hamming')",
    "fedcg(domains=2) + scaffold()",
    "fedcg(domains=2) + fedadam(lr=0.05) + prox(mu=0.1)",
    "feddyn(alpha=0.1, by_size=True) + all_clients()",
    "feddyn(alpha=0.1, penalty='distance') + sam(rho=0.05)",
    "adabest(beta=0.5, mu=0.1, mu_mode='per_sample') + active_clients()",
    "fedspeed(rho=0.1, lam=10.0) + all_clients()",
    "fedbn() + all_clients() + active_clients()",
    "fedgloss(rho_s=0.1, beta=10.0) + local_adam()",
    "fedasam(rho=0.2) + local_adamw(weight_decay=0.1) + server_momentum(beta=0.5)",
    "feddyn(alpha=0.1) + server_sgd(lr=0.5) + clip(norm=1.0)",
    "fedavgm(beta=0.9) + asam(rho=0.2) + swa(start=1, cycle=2, high=0.05, low=0.01)",
    "fedprox(mu=0.1) + asam(rho=0.2) + swa(start=0.5, cycle=1)",
    "fedgloss(rho_s=0.1, beta=10.0) + asam(rho=0.2) + wima(window=2)",
    "fedgloss(rho_s=0.1, admm=False) + ema(gamma=0.5)",
    "fedgloss(rho_s=0.1, dual_scale='repo', server_rho='repo', rho_l=0.1, T_s=1)",
    "naive_fedgloss(rho_s=0.1, rho_l=0.1) + server_momentum(beta=0.5)",
    "fedsam(rho=0.05) + mixup() + cutout(side=3)",
    "fedasam(rho=0.2) + mixup() + swa(start=1, cycle=1)",
    "fedadam(lr=0.05) + prox(mu=0.1) + active_clients()",
    "chain(prox(mu=0.1), asam(rho=0.1)) + wima(window=2, scope='features')",
    "fedspeed(rho=0.1, lam=10.0, server='feddyn') + man(zeta=0.1)",
    "fedlesam(rho=0.1) + scaffold()",
    "fedlesam(rho=0.1) + feddyn(alpha=0.1)",
    "mime(b=0.0) + man(zeta=0.1) + wima(window=2)",
    "mime(b=0.5) + naive_fedgloss(rho_s=0.1, admm=False)",
    "fedfsa(rho=0.05, rho_larger=0.3, top=1) + personal()",
    "fedala(layers=2) + personal()",
    "fedbn() + sam(rho=0.05)",
    "fedasam(rho=0.2) + cfsi(share=0.3, exclude='none') + lab()",
    "fedsmoo(rho=0.1) + median()",
    "centralised() + last_sam(rho=0.05)",
    "self_training(sure=0.5) + sam(rho=0.05) + swa(start=1, cycle=1)",
    "fedgloss(rho_s=0.1, beta=10.0) + dp(noise=0.5, clip=0.1) + wima(window=2)",
    "fedgloss(rho_s=0.1, beta=10.0) + top_k(share=0.1) + swa(start=1, cycle=1)",
    "scaffold() + int8() + sam(rho=0.05)",
    "fedavg() + dp(noise=0.5, clip=0.1) + int8()",
    "fedexp() + scaffold() + sam(rho=0.05) + int8()",
    "fedexp() + dp(noise=0.5, clip=0.1)",
    "fedinit(beta=0.1) + fedsam(rho=0.05) + scaffold()",
    "fedinit(beta=0.1, origin='start') + fedsmoo(rho=0.1) + swa(start=1, cycle=1)",
    "fedinit(beta=0.1, first='sent') + fedbn()",
    "fednova(tau_eff='steps') + prox(mu=0.1) + fedexp() + sam(rho=0.05)",
    "fedntd() + feddyn(alpha=0.1) + sam(rho=0.05)",
    "fedlc() + moon(projection=0) + feddecorr() + sam(rho=0.05) + swa(start=1, cycle=1)",
    "fedgmt(dual='active') + sam(rho=0.05) + swa(start=1, cycle=1)",
    "fedsol(form='fixed', proximal='l2', scope='head') + feddyn(alpha=0.1)",
    "fedtoga() + fedinit() + server_momentum(beta=0.5)",
    "fedwmsam(flavour='repo') + feddyn(alpha=0.1) + wima(window=2)",
    "fednova() + scaffold() + server_momentum(beta=0.5) + swa(start=1, cycle=1)",
    "fednsam(rho=0.05) + swa(start=1, cycle=1)",
    "fedmoswa() + sam(rho=0.05) + swa(start=1, cycle=1)",
    "fedswa() + feddyn(alpha=0.1) + asam(rho=0.1)",
    "feddyn(alpha=0.1) + sam(rho=0.05) + dp(noise=0.5, clip=0.1) + server_momentum(beta=0.5)",
]
"""Combinations of the papers, and some of our own."""

OURS = [entry for entry in registered("method") if entry.make.__module__.startswith("fedflat.")]
WITH_TOPOLOGY = (
    "fedflat.methods.fedseq",
    "fedflat.methods.fedseq",
    "fedflat.methods.fedbuff",
    "fedflat.methods.style_clusters",
)
"""The modules of the methods that bring a topology."""
STARS = [entry for entry in OURS if entry.make.__module__ not in WITH_TOPOLOGY]
EVERY = [*ROWS.values(), *TOGETHER]
POPULATION, COHORT, ROUNDS = 4, 2, 4
FEATURES = 3
"""Of the network that FedCR needs."""
SMALL = ("fedcr", "domain_models", "fednova", "fedwmsam")
"""Keys of the pieces whose replies have tensors smaller than a model."""


def method_of(text: str) -> Method:
    method = parse(text, "method")
    assert isinstance(method, Method)
    return method


def normalised() -> nn.Module:
    """A small network with batch normalisation."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3)
    )


LOCAL = LocalTraining(batch_size=4, lr=0.05, momentum=0.5, weight_decay=0.01)
NEEDS: dict[type, dict[str, Any]] = {
    Scaffold: {"local": replace(LOCAL, momentum=0.0)},
    MomentumVariate: {"local": replace(LOCAL, momentum=0.0)},
    TargetSam: {"local": replace(LOCAL, momentum=0.0)},
    LocalAdam: {"local": replace(LOCAL, momentum=0.0)},
    PersistentLocalAdam: {"local": replace(LOCAL, momentum=0.0)},
    AveragedLocalAdam: {"local": replace(LOCAL, momentum=0.0)},
    Private: {
        "model": normalised,
        "local": replace(LOCAL, drop_last=True),
    },  # it cannot normalise one example
    CommonRepresentation: {
        "model": stochastic(mlp([5]), dim=FEATURES, train_samples=2, test_samples=3),
        "local": LOCAL,
    },
    Discrepancy: {"task": "twofold(classification())"},
    PersonalizedEvaluation: {"split": 0.6},
    SeparateModels: {"domains": True},
    Cfsi: {"pictures": True},
    Lab: {"pictures": True},
    TrimmedMean: {"sampler": ClientSampler(clients=3)},
    Krum: {"sampler": ClientSampler(clients=3)},
}
"""What the pieces of some methods need to work."""


def experiment(method: Method) -> Experiment:
    """Four clients of unequal sizes with small images of three classes, two a round."""
    rng = torch.Generator().manual_seed(0)
    data = []
    for size in (6, 9, 12, 7):
        y = torch.arange(size) % 3
        data.append((torch.randn(size, 1, 8, 8, generator=rng) + y.view(-1, 1, 1, 1), y))
    settings: dict[str, Any] = {
        "model": mlp([5]),
        "local": LOCAL,
        "sampler": ClientSampler(clients=COHORT),
    }
    pieces = {
        type(piece)
        for piece in (*method.client, *method.averages, *method.evaluations, method.aggregator)
    }
    for kind, needs in NEEDS.items():
        settings |= needs if kind in pieces else {}
    if settings.pop("pictures", False):
        data = [
            ((64 * x + 100).clamp(0, 255).to(torch.uint8).repeat(1, 3, 1, 1), y) for x, y in data
        ]
    on: DataSpec = clients_of(data, test=data[2], classes=3, split=settings.pop("split", None))
    oracle = any(piece.known_domains for piece in method.client)
    on = Transformed(on, ink=2, by="image") if settings.pop("domains", oracle) else on
    return Experiment(
        method=method,
        on=on,
        rounds=ROUNDS,
        seed=3,
        evaluate=EvaluationSchedule(every=1),
        **settings,
    )


@dataclass
class RecordingPool:
    """Runs clients in this process, keeps every request with its reply and state, and counts the
    gradients of each request."""

    received: list[tuple[Request, Reply, ClientState]] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    gradients: int = 0

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[ClientPool]:
        gradient = job.learner.flat.gradient

        def counting(*args: Any, **kwargs: Any) -> Any:
            self.gradients += 1
            return gradient(*args, **kwargs)

        job.learner.flat.gradient = counting  # type: ignore[method-assign]
        with InProcess(threads=1).open(job, fed, source) as pool:
            self.pool = pool
            yield self
        job.learner.flat.gradient = gradient  # type: ignore[method-assign]

    def run(self, requests: Sequence[Request]) -> Iterator[PoolOutcome]:
        for request in requests:
            self.gradients = 0
            ((reply, memory),) = self.pool.run([request])
            if (
                request.broadcast.instruction.upload_vectors
            ):  # else scores come back, and nothing of a model
                self.received.append((request, reply, memory))
                self.asked.append(self.gradients)
            yield reply, memory


class Costs(RunFolder):
    """Keeps the bytes spent by the end of each round."""

    def __init__(self, *folder: Any) -> None:
        super().__init__(*folder)
        self.spent = [(0, 0)]

    def checkpoint(self, run: RunState, *, force: bool = False) -> None:
        super().checkpoint(run, force=force)
        if not force:
            self.spent.append((run.ledger.down, run.ledger.up))

    @property
    def rounds(self) -> list[tuple[int, int]]:
        pairs = zip(self.spent, self.spent[1:], strict=False)
        return [(after[0] - before[0], after[1] - before[1]) for before, after in pairs]


class CostsOnDisk(Costs, DiskRunFolder):
    """The same of a run in a folder."""


@dataclass
class Ran:
    """A run in a folder, in one go and in this process, and all that clients sent."""

    setup: RunSetup
    pool: RecordingPool
    costs: CostsOnDisk
    result: Result


@pytest.fixture(scope="module", params=EVERY)
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    exp, pool = experiment(method_of(request.param)), RecordingPool()
    setup, folder = prepare(exp), tmp_path_factory.mktemp("ran") / "through"
    with closing(CostsOnDisk.create(folder, exp.texts(), {}, pause=math.inf)) as costs:
        return Ran(setup, pool, costs, train(setup, executor=pool, run_folder=costs))


def test_the_table_has_a_row_for_every_method() -> None:
    assert set(ROWS) == {entry.name for entry in STARS}
    for name, text in ROWS.items():
        assert text.startswith(f"{name}(")


@pytest.mark.parametrize("entry", OURS, ids=lambda entry: entry.name)
def test_arguments(entry: RegisteredName) -> None:
    """Each argument has a name, a type, and a default that changes nothing when it is given."""
    assert entry.summary.endswith(".")
    for name, parameter in entry.signature.parameters.items():
        assert parameter.annotation is not parameter.empty
        if parameter.kind is not parameter.VAR_POSITIONAL:
            assert method_of(f"{entry.name}({name}={parameter.default!r})") == method_of(entry.name)
            with_other = f"{entry.name}({name}_=1)"
            with pytest.raises(ValueError, match=f"Did you mean '{name}'"):
                method_of(with_other)


@pytest.mark.parametrize("text", EVERY)
def test_a_method_is_a_value(text: str) -> None:
    method = method_of(text)
    again = pickle.loads(pickle.dumps(method))
    assert again == method == method_of(text)
    assert hash(again) == hash(method)
    assert repr(again) == repr(method)
    printed = method_of(repr(method))
    assert printed == method
    assert repr(printed) == repr(method)
    assert printed.chained == method.chained
    for piece in (
        *method.client,
        *method.server,
        *method.averages,
        *method.evaluations,
        method.aggregator,
    ):
        assert pickle.loads(pickle.dumps(piece)) == piece


def test_a_run(ran: Ran) -> None:
    """Finite numbers; nothing in a message that was not declared; bytes and gradients as
    declared."""
    exp = ran.setup.exp
    _finite_and_moved(exp, ran.result)
    for request, reply, memory in ran.pool.received:
        _nothing_private(exp, request, reply, memory)
    _declared_cost(ran.setup, ran.costs, ran.pool)
    _declared_gradients(ran.setup, ran.pool)
    _disclosed(exp, ran.pool)


def _disclosed(exp: Experiment, pool: RecordingPool) -> None:
    """All that was in the replies to one client in the last round is in the table of the method."""
    if exp.method.pooled:
        assert disclosed(exp.method) == []
        return
    last = [
        (request, reply)
        for request, reply, _ in pool.received
        if request.broadcast.round == ROUNDS - 1
    ]
    replies = [reply for request, reply in last if request.client == last[0][0].client]
    with_buffers = any(reply.buffers.numel() for reply in replies)
    table = [
        one for one in disclosed(exp.method, batch_norm=with_buffers) if one.when == "every round"
    ]
    vectors = [tensor for reply in replies for tensor in _vectors_of(reply)]
    assert sum(one.count for one in table if one.kind == "vector") == len(vectors)
    small = {key for reply in replies for key in reply.extras if key in SMALL}
    statistics = sum(one.count for one in table if one.kind == "statistics")
    assert statistics == len(small) + with_buffers
    [numbers] = [one.what for one in table if one.kind == "numbers"]
    assert ("own test" in numbers) == any("own_accuracy" in reply.metrics for reply in replies)


def _vectors_of(reply: Reply) -> list[torch.Tensor]:
    extras = [tensor for named in reply.extras.values() for tensor in named.values()]
    return [reply.delta, *(tensor for tensor in extras if tensor.shape == reply.delta.shape)]


def _finite_and_moved(exp: Experiment, result: Result) -> None:
    assert result.status == "done"
    assert result.model is not None
    assert bool(torch.isfinite(result.model.params).all())
    assert not torch.equal(result.model.params, prepare(exp).job.learner.initial().params)
    rows = [row for row in result.rows if not row.get("tuned")]
    assert len(rows) == ROUNDS == len(result.rows) - len(exp.method.evaluations)
    for row in rows:
        assert all(math.isfinite(v) for v in row.values() if isinstance(v, float))
        for scores in row["models"].values():
            assert math.isfinite(scores["loss"])
            assert 0 <= scores["accuracy"] <= 1
    averages = [average.key for average in exp.method.averages]
    assert list(rows[-1]["models"]) == ["server", *averages]
    assert rows[-1]["model"] == (averages or ["server"])[-1]
    assert all(("personal" in row) == bool(exp.method.evaluations) for row in result.rows)


def _nothing_private(exp: Experiment, request: Request, reply: Reply, memory: ClientState) -> None:
    dim, method = len(request.broadcast.params), exp.method
    walking = request.broadcast.instruction.trains
    sent = {
        piece.key: piece.upload_vectors
        for piece in method.client
        if piece.upload_vectors and walking
    }
    statistics = [piece.key for piece in method.client if piece.uploads_statistics]
    small = {key: 1 if key == "domain_models" else 2 for key in statistics} if walking else {}
    assert {key: len(named) for key, named in reply.extras.items()} == sent | small
    for extras in (reply.extras, request.broadcast.extras):
        for key, named in extras.items():
            small_shapes = {
                "fedcr": (3, FEATURES),
                "adabest": (),
                "dp": (),
                "fedcg": (_teacher(method),),
                "domain_models": (2,),
                "fednova": (),
            }
            shape = small_shapes.get(key, (dim,))
            numbers = {"a", "aligned"} if key == "fedwmsam" else set()
            assert all(
                t.shape == (() if name in numbers else shape)
                for name, t in named.items()
                if not name.endswith("_buffers")
            )
    assert (reply.client_params is not None) == (
        walking and any(average.needs_client_models for average in method.averages)
    )
    tested = exp.method.evaluations and not request.broadcast.instruction.full_gradients
    assert set(reply.metrics) == ({"loss", "own_accuracy"} if tested else {"loss"})
    assert reply.delta.shape == request.broadcast.params.shape
    for key, named in memory.items():
        for remembered in named.values():
            for part in (reply.delta, reply.buffers):
                assert part.data_ptr() != remembered.data_ptr() or not len(part)
                # What AdaBest keeps of a first request is the update itself.
                assert not torch.equal(part, remembered) or not len(part) or key == "adabest"


def _teacher(method: Method) -> int:
    """Numbers in FedCG's teacher, which is sent beside the model: mlp([5]), an output a domain."""
    return sum(
        65 * 5 + 6 * piece.domains
        for piece in method.client
        if isinstance(piece, Branches) and piece.labels == "classifier"
    )


def _exchanges(method: Method) -> int:
    """How often the server writes to a client in a round."""
    at_client = sum(piece.full_gradients for piece in method.client)
    return method.cost.local_trainings * (1 - at_client) + method.cost.full_gradients


def _packed_bytes(method: Method, dim: int) -> int:
    """Bytes of an update of fewer than 1024 numbers: values, scale or places, dtype or size."""
    sizes = {
        "bfloat16": 2 * dim + 4,
        "int8": dim + 4 + 4,
        "top_k": 8 * math.ceil(0.1 * dim) + 8,
    }
    return next((sizes[piece.key] for piece in method.client if piece.key in sizes), 4 * dim)


def _declared_cost(setup: RunSetup, run_folder: Costs, pool: RecordingPool) -> None:
    exp, cost = setup.exp, setup.exp.method.cost
    model = setup.job.learner.initial()
    clients, exchanges = setup.server.population.sampler.clients, _exchanges(exp.method)
    numbers = [vectors * len(model.params) for vectors in (cost.down, cost.up)]
    small = 2 * 3 * FEATURES if any(piece.key == "fedcr" for piece in exp.method.client) else 0
    whole = exchanges * (len(model.buffers) - setup.job.private_size) + small
    numbers[0] += (
        4 if any(piece.needs_cohort_order for piece in exp.method.client) else 0
    )  # two numbers in double precision
    numbers[0] += exchanges * _teacher(exp.method)
    numbers[0] += 2 if any(piece.key == "dp" for piece in exp.method.client) else 0  # a double
    numbers[1] -= len(model.params) - _packed_bytes(exp.method, len(model.params)) / 4
    shares = sum(p.domains for p in exp.method.client if isinstance(p, SeparateModels))
    numbers[1] += shares
    numbers[1] += 2 if any(piece.key == "fednova" for piece in exp.method.client) else 0
    weighted = any(piece.key == "fedwmsam" for piece in exp.method.client)
    numbers[0] += 2 if weighted else 0  # a double
    numbers[1] += 1 if weighted else 0
    declared = tuple(4 * clients * (n + whole) if cost.down else 0 for n in numbers)
    requests = [
        request
        for request, *_ in pool.received
        if request.broadcast.instruction.trains and "private" not in request.state
    ]
    new = [
        4 * setup.job.private_size * sum(request.broadcast.round == t for request in requests)
        for t in range(ROUNDS)
    ]
    first, *later = [
        (down - initial, up) for (down, up), initial in zip(run_folder.rounds, new, strict=True)
    ]
    assert later == [declared] * (ROUNDS - 1)
    # Before there is a last round there is no staleness to measure, and nothing is asked for it;
    # and there are no common Gaussians to send yet.
    if "delta_eps" in repr(exp.method):
        assert 2 * first[0] == declared[0]
    else:
        bank = _bank(exp.method)
        assert first == (declared[0] - 4 * clients * small + POPULATION * bank, declared[1] + bank)
    assert (
        len([1 for request, *_ in pool.received if request.broadcast.round == ROUNDS - 1])
        == clients * exchanges
    )


def _bank(method: Method) -> int:
    """Bytes of the styles of 34 images of 8x8 pixels, which all clients are sent before the first
    round."""
    numbers = 0
    for piece in method.client:
        if isinstance(piece, Cfsi):
            side = 2 * int(8 * piece.share) + 1
            numbers += 1 + 3 * (side * side + 1) // 2
        numbers += 1 + 6 if isinstance(piece, Lab) else 0
    return 4 * numbers * (6 + 9 + 12 + 7)


def _declared_gradients(setup: RunSetup, pool: RecordingPool) -> None:
    """The trainings and full gradients of the first round, in which FedALA has nothing to blend, as
    declared."""
    cost, local = setup.exp.method.cost, setup.exp.local
    at_client = sum(piece.full_gradients for piece in setup.exp.method.client)
    for (request, reply, _), asked in zip(pool.received, pool.asked, strict=True):
        if request.broadcast.round == 0:
            steps = local.planned_steps(0, request.client, reply.examples)
            assert asked == (
                1
                if request.broadcast.instruction.full_gradients
                else steps * cost.gradients + at_client
            )


@dataclass
class InterruptedPool(RecordingPool):
    """Breaks off at the given request, as Ctrl-C would."""

    at: int = 0

    def run(self, requests: Sequence[Request]) -> Iterator[PoolOutcome]:
        for outcome in super().run(requests):
            if len(self.received) == self.at:
                raise KeyboardInterrupt
            yield outcome


@pytest.mark.parametrize("at", [1, 2, 6, 8])
@pytest.mark.parametrize(
    "text",
    [
        "feddyn(alpha=0.1) + all_clients() + active_clients() + wima(window=2)",
        "naive_fedgloss(rho_s=0.1) + ema(gamma=0.5)",
        "fedgloss(rho_s=0.1) + server_momentum() + swa(start=3, cycle=1)",
    ],
)
def test_a_round_that_is_broken_off_leaves_nothing_behind(
    text: str, at: int, tmp_path: Path
) -> None:
    exp = experiment(method_of(text))
    through = train(exp, executor=InProcess(threads=1))
    new = DiskRunFolder.create(tmp_path / "run", exp.texts(), {}, pause=math.inf)
    with closing(new) as run_folder, pytest.raises(KeyboardInterrupt):
        train(exp, run_folder=run_folder, executor=InterruptedPool(at=at))
    with closing(DiskRunFolder.open(tmp_path / "run", pause=math.inf)) as run_folder:
        resumed = train(exp, run_folder=run_folder, executor=InProcess(threads=1))
    assert through.model is not None
    assert resumed.model is not None
    assert torch.equal(through.model.params, resumed.model.params)
    assert [_timeless(row) for row in through.rows] == [_timeless(row) for row in resumed.rows]


def _timeless(row: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value for key, value in row.items() if key not in ("training", "seconds", "evaluation")
    }


@dataclass
class Pickled:
    """Everything goes through pickle, as to another process, and every request meets a module made
    anew."""

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[ClientPool]:
        self.job, self.fed = pickle.dumps(job), source()
        yield self

    def run(self, requests: Sequence[Request]) -> Iterator[PoolOutcome]:
        for request in requests:
            job, copied = pickle.loads(self.job), pickle.loads(pickle.dumps(request))
            yield pickle.loads(pickle.dumps(run_client(job, copied, self.fed.data(copied.client))))


def test_elsewhere_and_stopped_and_resumed_equals_going_on_here(ran: Ran, tmp_path: Path) -> None:
    """A request can be made in any process, and a run goes on in any process."""
    exp, through, broken = ran.setup.exp, ran.costs.folder, tmp_path / "broken"

    def go(run_folder: DiskRunFolder, executor: Executor, stop: int | None = None) -> None:
        def on_progress(progress: Progress) -> None:
            if progress.round == stop:
                raise KeyboardInterrupt

        with closing(run_folder):
            train(exp, run_folder=run_folder, executor=executor, on_progress=on_progress)

    with pytest.raises(KeyboardInterrupt):
        go(DiskRunFolder.create(broken, exp.texts(), {}, pause=math.inf), Pickled(), stop=2)
    assert Store(broken / "checkpoint").rounds() == [2]
    here = Path(shutil.copytree(broken, tmp_path / "here"))
    for folder, executor in ((broken, Pickled()), (here, InProcess(threads=1))):
        go(DiskRunFolder.open(folder, pause=math.inf), executor)
        _same_folders(through, folder)


def _same_folders(through: Path, broken: Path) -> None:
    files = sorted(path.name for path in through.glob("final*.safetensors"))
    assert files == sorted(path.name for path in broken.glob("final*.safetensors"))
    assert all((through / name).read_bytes() == (broken / name).read_bytes() for name in files)
    one, other = (Store(folder / "checkpoint").read(ROUNDS)[0] for folder in (through, broken))
    assert one.keys() == other.keys()
    for name, group in one.items():
        assert group.keys() == other[name].keys()
        alike = group.keys() - {
            "offset"
        }  # a memory may lie elsewhere in the file; its digest may not differ
        assert all(torch.equal(group[entry], other[name][entry]) for entry in alike)
    assert [_timeless(row) for row in read_rows(through)] == [
        _timeless(row) for row in read_rows(broken)
    ]


def _same(exp: Experiment, one: Executor, other: Executor) -> None:
    here, there = RunFolder(), RunFolder()
    mine, theirs = (
        train(exp, executor=one, run_folder=here),
        train(exp, executor=other, run_folder=there),
    )
    assert mine.model is not None
    assert theirs.model is not None
    assert torch.equal(mine.model.params, theirs.model.params)
    assert torch.equal(mine.model.buffers, theirs.model.buffers)
    assert [_timeless(row) for row in here.rows] == [_timeless(row) for row in there.rows]


@pytest.mark.usefixtures("warm_processes")
@pytest.mark.parametrize(
    "text",
    [
        "fedgloss(rho_s=0.1, rho_l=0.1, beta=10.0) + man(zeta=0.1) + mixup() + all_clients()",
        "fedala(layers=2) + personal()",
        "fedcr(beta=0.01)",
    ],
)
def test_worker_processes_give_the_same_bits(text: str) -> None:
    """Starting processes takes seconds, and a worker sees nothing of a method but its client pieces
    and its broadcast: a few methods stand for all, which the test above has seen pickled."""
    exp = replace(experiment(method_of(text)), sampler=ClientSampler(clients=3))
    _same(exp, InProcess(threads=1), Workers(2, threads=1))
