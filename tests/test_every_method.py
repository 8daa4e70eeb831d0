"""The common table: what holds for every method. A new method is one new row."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import fedflat.methods  # noqa: F401 (registers the names)
from fedflat.client.local import Local
from fedflat.client.piece import Memory
from fedflat.client.visit import ClientJob, Letter, visit
from fedflat.data.federation import Federation
from fedflat.data.given import clients_of
from fedflat.data.sampling import Sampler
from fedflat.errors import SettingError
from fedflat.mail import Mail, Reply
from fedflat.method import Method
from fedflat.models.simple import mlp
from fedflat.run.book import FolderBook, RunBook, read_rows
from fedflat.run.executors import Crew, InProcess, Source, Visited, Workers
from fedflat.run.experiment import Evaluate, Experiment
from fedflat.run.ready import make_ready
from fedflat.run.results import Result
from fedflat.run.state import Run
from fedflat.run.store import Store
from fedflat.run.train import Tick, train
from fedflat.spelling import Entry, parse, registered

ROWS = {
    "active_clients": "active_clients()",
    "adagrad": "adagrad(lr=0.05)",
    "adam": "adam(lr=0.05, flavour='torch')",
    "all_clients": "all_clients()",
    "asam": "asam(rho=0.2, eta=0.1)",
    "centralised": "centralised() + sam(rho=0.05)",
    "chain": "chain(sam(rho=0.05), feddyn(alpha=0.1))",
    "clip": "clip(norm=0.5)",
    "cutout": "cutout(side=3)",
    "ema": "ema(gamma=0.7)",
    "fedadagrad": "fedadagrad(lr=0.05, flavour='torch')",
    "fedadam": "fedadam(lr=0.05)",
    "fedasam": "fedasam(rho=0.2, variant='elementwise')",
    "fedavg": "fedavg()",
    "fedavgm": "fedavgm(beta=0.9)",
    "feddyn": "feddyn(alpha=0.1)",
    "fedgloss": "fedgloss(rho_s=0.1, rho_l=0.1, beta=10.0, T_s=2, delta_eps=True)",
    "fedprox": "fedprox(mu=0.1)",
    "fedsam": "fedsam(rho=0.05)",
    "fedyogi": "fedyogi(lr=0.05)",
    "mixup": "mixup(alpha=0.5)",
    "naive_fedgloss": "naive_fedgloss(rho_s=0.1, beta=10.0)",
    "prox": "prox(mu=decay(0.5, 0.9))",
    "sam": "sam(rho=warmup(0.0, 0.1, 2))",
    "server_momentum": "server_momentum(beta=0.5, lr=0.8)",
    "server_sgd": "server_sgd(lr=steps([0, 1], [1.0, 0.5]))",
    "swa": "swa(start=1, cycle=1, high=0.05, low=0.01)",
    "wima": "wima(window=2, scope='classifier')",
    "yogi": "yogi(lr=0.05)",
}
"""A row for every name."""

TOGETHER = [
    "feddyn(alpha=0.1) + sam(rho=0.05)",
    "feddyn(alpha=0.1) + all_clients()",
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
]
"""Combinations of the papers, and some of our own."""

OURS = [entry for entry in registered("method") if entry.make.__module__.startswith("fedflat.")]
EVERY = [*ROWS.values(), *TOGETHER]
POPULATION, COHORT, ROUNDS = 4, 2, 4


def said(text: str) -> Method:
    method = parse(text, "method")
    assert isinstance(method, Method)
    return method


def experiment(method: Method) -> Experiment:
    """Four clients of unequal sizes with small images of three classes, two a round."""
    rng = torch.Generator().manual_seed(0)
    data = []
    for size in (6, 9, 12, 7):
        y = torch.arange(size) % 3
        data.append((torch.randn(size, 1, 8, 8, generator=rng) + y.view(-1, 1, 1, 1), y))
    return Experiment(
        method=method, on=clients_of(data, test=data[2], classes=3), model=mlp([5]), rounds=ROUNDS, seed=3,
        local=Local(batch_size=4, lr=0.05, momentum=0.5, weight_decay=0.01), sampler=Sampler(clients=COHORT),
        evaluate=Evaluate(every=1),
    )  # fmt: skip


@dataclass
class Listening:
    """Visits here, and keeps every letter with its reply and memory."""

    heard: list[tuple[Letter, Reply, Memory]] = field(default_factory=list)

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[Crew]:
        with InProcess(threads=1).open(job, fed, source) as crew:
            self.crew = crew
            yield self

    def visit(self, letters: Sequence[Letter]) -> Iterator[Visited]:
        for letter, (reply, memory) in zip(letters, self.crew.visit(letters), strict=True):
            self.heard.append((letter, reply, memory))
            yield reply, memory


class Costs(RunBook):
    """Keeps the bytes spent by the end of each round."""

    def __init__(self) -> None:
        super().__init__()
        self.spent = [(0, 0)]

    def checkpoint(self, run: Run, *, force: bool = False) -> None:
        if not force:
            self.spent.append((run.ledger.down, run.ledger.up))

    @property
    def rounds(self) -> list[tuple[int, int]]:
        pairs = zip(self.spent, self.spent[1:], strict=False)
        return [(after[0] - before[0], after[1] - before[1]) for before, after in pairs]


def test_the_table_has_a_row_for_every_method() -> None:
    assert set(ROWS) == {entry.name for entry in OURS}
    for name, text in ROWS.items():
        assert text.startswith(f"{name}(")


@pytest.mark.parametrize("entry", OURS, ids=lambda entry: entry.name)
def test_arguments(entry: Entry) -> None:
    """Each argument has a name to be said by, a type and a default that changes nothing when said."""
    assert entry.summary.endswith(".")
    for name, parameter in entry.signature.parameters.items():
        assert parameter.annotation is not parameter.empty
        if parameter.kind is not parameter.VAR_POSITIONAL:
            assert said(f"{entry.name}({name}={parameter.default!r})") == said(entry.name)
            with_other = f"{entry.name}({name}_=1)"
            with pytest.raises(ValueError, match=f"Did you mean '{name}'"):
                said(with_other)


@pytest.mark.parametrize("text", EVERY)
def test_a_method_is_a_value(text: str) -> None:
    method = said(text)
    again = pickle.loads(pickle.dumps(method))
    assert again == method == said(text)
    assert hash(again) == hash(method)
    assert repr(again) == repr(method)
    printed = said(repr(method))
    assert printed == method
    assert repr(printed) == repr(method)
    assert printed.chained == method.chained
    for piece in (*method.client, *method.server, *method.shadows):
        assert pickle.loads(pickle.dumps(piece)) == piece


@pytest.mark.parametrize("text", EVERY)
def test_a_run(text: str) -> None:
    """Finite numbers; nothing in a message that was not declared; bytes as declared."""
    method = said(text)
    exp, ears, book = experiment(method), Listening(), Costs()
    result = train(exp, executor=ears, book=book)
    _finite_and_moved(exp, result)
    for letter, reply, memory in ears.heard:
        _nothing_private(method, letter, reply, memory)
    _declared_cost(method, result, book, ears)


def _finite_and_moved(exp: Experiment, result: Result) -> None:
    assert result.status == "done"
    assert result.model is not None
    assert bool(torch.isfinite(result.model.params).all())
    assert not torch.equal(result.model.params, make_ready(exp).task.initial().params)
    assert len(result.rows) == ROUNDS
    for row in result.rows:
        assert all(math.isfinite(v) for v in row.values() if isinstance(v, float))
        for scores in row["models"].values():
            assert math.isfinite(scores["loss"])
            assert 0 <= scores["accuracy"] <= 1
    shadows = [shadow.key for shadow in exp.method.shadows]
    assert list(result.rows[-1]["models"]) == ["server", *shadows]
    assert result.rows[-1]["model"] == (shadows or ["server"])[-1]


def _nothing_private(method: Method, letter: Letter, reply: Reply, memory: Memory) -> None:
    dim = len(letter.mail.params)
    sent = {piece.key: piece.up for piece in method.client if piece.up}
    received = {piece.key: piece.down for piece in method.server if piece.down}
    assert {key: len(named) for key, named in reply.extras.items()} == sent
    assert {key: len(named) for key, named in letter.mail.extras.items()} == received
    for extras in (reply.extras, letter.mail.extras):
        assert all(len(t) == dim for named in extras.values() for t in named.values())
    assert set(reply.metrics) == {"loss"}
    assert reply.delta.shape == letter.mail.params.shape
    parts: list[Tensor] = [reply.delta, reply.buffers]
    for remembered in (t for named in memory.values() for t in named.values()):
        for part in parts:
            assert part.data_ptr() != remembered.data_ptr() or not len(part)
            assert not torch.equal(part, remembered)


def _declared_cost(method: Method, result: Result, book: Costs, ears: Listening) -> None:
    assert result.model is not None
    cost, dim = method.cost, len(result.model.params)
    declared = (COHORT * cost.down * dim * 4, COHORT * cost.up * dim * 4)
    first, *later = book.rounds
    assert later == [declared] * (ROUNDS - 1)
    # Before there is a last round there is no staleness to measure, and nothing is asked for it.
    assert first == declared or ("delta_eps" in repr(method) and 2 * first[0] == declared[0])
    exchanges = len([1 for letter, *_ in ears.heard if letter.mail.round == ROUNDS - 1])
    assert exchanges == (1 if method.pooled else COHORT * cost.down)


@pytest.mark.parametrize("text", EVERY)
def test_gradients_asked_for(text: str) -> None:
    """The walk asks for as many gradients as declared."""
    method = said(text)
    exp = experiment(method)
    ready = make_ready(exp)
    task, asked = ready.task, []
    gradient = task.flat.gradient

    def counting(*args: Any, **kwargs: Any) -> Any:
        asked.append(1)
        return gradient(*args, **kwargs)

    task.flat.gradient = counting  # type: ignore[method-assign]
    start = task.initial()
    data = ready.fed.data(0)
    visit(ready.job, Letter(0, Mail(0, start.params, start.buffers, 0.1), {}), data)
    assert len(asked) == exp.local.planned(0, 0, len(data)) * method.cost.gradients


@pytest.mark.parametrize("text", EVERY)
def test_stop_and_resume_equals_going_on(text: str, tmp_path: Path) -> None:
    exp = experiment(said(text))
    through, broken = tmp_path / "through", tmp_path / "broken"

    def go(book: FolderBook, stop: int | None = None) -> None:
        def tell(tick: Tick) -> None:
            if tick.round == stop:
                raise KeyboardInterrupt

        with closing(book):
            train(exp, book=book, executor=InProcess(threads=1), tell=tell)

    go(FolderBook.create(through, exp.as_json(), {}, pause=math.inf))
    with pytest.raises(KeyboardInterrupt):
        go(FolderBook.create(broken, exp.as_json(), {}, pause=math.inf), stop=2)
    assert Store(broken / "checkpoint").rounds() == [2]
    go(FolderBook.open(broken, pause=math.inf))
    assert (through / "final.safetensors").read_bytes() == (broken / "final.safetensors").read_bytes()
    one, other = (Store(folder / "checkpoint").read(ROUNDS)[0] for folder in (through, broken))
    assert one.keys() == other.keys()
    for name, group in one.items():
        assert group.keys() == other[name].keys()
        assert all(torch.equal(tensor, other[name][entry]) for entry, tensor in group.items())
    assert [_timeless(row) for row in read_rows(through)] == [_timeless(row) for row in read_rows(broken)]


@dataclass
class Stumbling(Listening):
    """Breaks off at the given visit, as Ctrl-C would."""

    at: int = 0

    def visit(self, letters: Sequence[Letter]) -> Iterator[Visited]:
        for visited in super().visit(letters):
            if len(self.heard) == self.at:
                raise KeyboardInterrupt
            yield visited


@pytest.mark.parametrize("at", [1, 2, 6, 8])
@pytest.mark.parametrize(
    "text",
    [
        "feddyn(alpha=0.1) + all_clients() + active_clients() + wima(window=2)",
        "naive_fedgloss(rho_s=0.1) + ema(gamma=0.5)",
        "fedgloss(rho_s=0.1) + server_momentum() + swa(start=3, cycle=1)",
    ],
)
def test_a_round_that_is_broken_off_leaves_nothing_behind(text: str, at: int, tmp_path: Path) -> None:
    exp = experiment(said(text))
    through = train(exp, executor=InProcess(threads=1))
    new = FolderBook.create(tmp_path / "run", exp.as_json(), {}, pause=math.inf)
    with closing(new) as book, pytest.raises(KeyboardInterrupt):
        train(exp, book=book, executor=Stumbling(at=at))
    with closing(FolderBook.open(tmp_path / "run", pause=math.inf)) as book:
        resumed = train(exp, book=book, executor=InProcess(threads=1))
    assert through.model is not None
    assert resumed.model is not None
    assert torch.equal(through.model.params, resumed.model.params)
    assert [_timeless(row) for row in through.rows] == [_timeless(row) for row in resumed.rows]


def _timeless(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in ("training", "seconds")}


def bundles() -> list[Method]:
    """As few methods as possible that have, together, every client piece and server probe of the table."""
    covered: set[type] = set()
    whole: list[Method] = []
    for text in EVERY:
        method = said(text)
        kinds = {type(piece) for piece in (*method.client, *method.server)}
        if method.pooled or method.chained or kinds <= covered:
            continue
        covered |= kinds
        for i, bundle in enumerate(whole):
            try:
                whole[i] = bundle + method
            except SettingError:
                continue
            break
        else:
            whole.append(method)
    return whole


def test_worker_processes_give_the_same_bits() -> None:
    """Starting processes takes seconds, and a worker sees nothing of a method but its client pieces and
    its mail: a few bundles that have every piece of the table stand for all rows."""
    found = {type(piece) for bundle in bundles() for piece in (*bundle.client, *bundle.server)}
    assert found == {type(piece) for text in EVERY for piece in (*said(text).client, *said(text).server)}
    for bundle in bundles():
        exp = replace(experiment(bundle), sampler=Sampler(clients=3))
        here, there = RunBook(), RunBook()
        one = train(exp, executor=InProcess(threads=1), book=here)
        other = train(exp, executor=Workers(2, threads=1), book=there)
        assert one.model is not None
        assert other.model is not None
        assert torch.equal(one.model.params, other.model.params), bundle
        assert [_timeless(row) for row in here.rows] == [_timeless(row) for row in there.rows]
