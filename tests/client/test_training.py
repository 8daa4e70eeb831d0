"""One request: a pure function; its failures name the cause, and bad numbers are diagnosed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedflat import clip, feddyn, sam
from fedflat.client.diagnosis import diagnose
from fedflat.client.full_gradient import full_gradient
from fedflat.client.instructions import FineTune, Gradient
from fedflat.client.learner import Learner
from fedflat.client.local import LocalTraining
from fedflat.client.piece import ClientContext, Piece, Term
from fedflat.client.sharpness import Sam
from fedflat.client.training import ClientJob, Request, run_client
from fedflat.composition.method import Method
from fedflat.core.flat import GradFn
from fedflat.core.messages import Broadcast, Instruction, Train
from fedflat.core.stage import Stage
from fedflat.data.examples import Batch
from fedflat.data.sets.in_memory import clients_of
from fedflat.errors import FedflatError, NotFinite
from fedflat.experiments.experiment import EvaluationSchedule, Experiment
from fedflat.experiments.run_folder.run_folder import RunFolder
from fedflat.experiments.train import train
from fedflat.server.client_selection import ClientSampler

RNG = torch.Generator().manual_seed(0)
DATA = [
    (torch.randn(9, 4, generator=RNG, dtype=torch.float64), torch.arange(9) % 3) for _ in range(3)
]
ON = clients_of(DATA, test=DATA[0], classes=3)


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def job(
    *pieces: Piece,
    local: LocalTraining = LocalTraining(batch_size=4, lr=0.1),
    model: nn.Module | None = None,
) -> ClientJob:
    return ClientJob(
        Learner(model or network(), (4,), 3, seed=0, dtype="float64"), pieces, local, seed=1
    )


def request(what: ClientJob, client: int = 2, t: int = 5, **more: Any) -> Request:
    model = what.learner.initial()
    return Request(client, Broadcast(t, model.params, model.buffers, 0.1, **more), {})


FED = ON.open(0)


def test_a_request_is_a_pure_function() -> None:
    torch.manual_seed(0)
    dropout = nn.Sequential(
        nn.Linear(4, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.Linear(8, 3)
    ).double()
    what = job(*(feddyn(0.1) + sam(0.1)).client, model=dropout, local=LocalTraining(batch_size=3))
    torch.manual_seed(1)
    one, memory = run_client(what, request(what), FED.data(2))
    state = torch.random.get_rng_state()
    run_client(what, request(what, client=1), FED.data(1))
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(2)
    again, same = run_client(what, request(what), FED.data(2))
    assert torch.equal(one.delta, again.delta)
    assert torch.equal(one.buffers, again.buffers)
    assert one.metrics == again.metrics
    assert torch.equal(memory["dual"]["sigma"], same["dual"]["sigma"])
    other, _ = run_client(what, request(what, t=6), FED.data(2))
    assert not torch.equal(one.delta, other.delta)


def test_neither_the_broadcast_nor_the_state_is_changed() -> None:
    what = job(*feddyn(0.1).client)
    start = request(what)
    params = start.broadcast.params.clone()
    _, state = run_client(what, start, FED.data(2))
    kept = state["dual"]["sigma"].clone()
    run_client(what, replace(start, state=state), FED.data(2))
    assert torch.equal(start.broadcast.params, params)
    assert torch.equal(state["dual"]["sigma"], kept)
    assert start.state == {}


@dataclass(frozen=True, repr=False)
class LogPiece(Piece):
    """Writes down when it is called and what it is handed."""

    name: str
    offset: float = 0.0

    stage, key = Stage.CORRECT, "log"

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        NOTES.append(f"begin {self.name}")
        return w + self.offset

    def batch(self, v: ClientContext, batch: Batch) -> Batch:
        NOTES.append(f"batch {self.name} {v.steps}")
        return batch

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        NOTES.append(f"gradient {self.name}")
        SEEN.append(v)
        return torch.zeros_like(grad(w))

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        NOTES.append(f"end {self.name}")
        v.outbox["note"] = torch.ones(2)
        return w


NOTES: list[str] = []
SEEN: list[ClientContext] = []


class Second(LogPiece):
    """The same under another key."""

    key = "second"


def test_the_order_of_calls() -> None:
    NOTES.clear()
    SEEN.clear()
    what = job(LogPiece("a"), Second("b", 0.5), local=LocalTraining(batch_size=5))
    start = request(what)
    start = replace(start, broadcast=start.broadcast.enclose("second", hint=torch.ones(1)))
    reply, _ = run_client(what, start, FED.data(2))
    step = ["gradient b", "gradient a"]  # the outer piece is asked first
    assert [
        "begin a",
        "begin b",
        "batch a 0",
        "batch b 0",
        *step,
        "batch a 1",
        "batch b 1",
        *step,
        "end b",
        "end a",
    ] == NOTES
    torch.testing.assert_close(reply.delta, torch.full_like(reply.delta, -0.5))
    outer, inner = SEEN[0], SEEN[1]
    assert (outer.planned_steps, outer.lr, outer.round, outer.client) == (2, 0.1, 5, 2)
    assert outer.steps == 2
    assert outer.lr_sum == pytest.approx(0.2)
    assert outer.inbox.keys() == {"hint"}
    assert inner.inbox == {}
    assert torch.equal(inner.sent, start.broadcast.params)
    torch.testing.assert_close(inner.start, start.broadcast.params + 0.5)
    assert {key: set(named) for key, named in reply.extras.items()} == {
        "log": {"note"},
        "second": {"note"},
    }


@dataclass(frozen=True, repr=False)
class Hidden(Term):
    """``zeta`` times the mean square of the hidden activations, seen by a forward hook."""

    zeta: float

    key = "hidden"

    @contextmanager
    def hooks(self, module: nn.Module) -> Iterator[list[Tensor]]:
        seen: list[Tensor] = []
        assert isinstance(module, nn.Sequential)
        handle = module[1].register_forward_hook(lambda layer, inputs, output: seen.append(output))
        try:
            yield seen
        finally:
            handle.remove()

    def loss(self, v: ClientContext, batch: Batch, output: Tensor, seen: list[Tensor]) -> Tensor:
        assert len(output) == len(batch)
        return self.zeta * seen[0].square().mean()


@pytest.mark.parametrize("rho", [0.0, 0.3])
def test_a_term_is_part_of_the_loss(rho: float) -> None:
    """One full-batch step against autograd; with SAM the term is in the ascent as in the
    descent."""
    what = job(Hidden(2.0), *((Sam(rho),) if rho else ()), local=LocalTraining(batch_size=9))
    reply, _ = run_client(what, request(what), FED.data(2))
    module, (x, y) = network(), DATA[2]
    params = list(module.parameters())

    def value() -> Tensor:
        hidden = torch.tanh(module[0](x))  # type: ignore[index]
        return cross_entropy(module[2](hidden), y) + 2 * hidden.square().mean()  # type: ignore[index]

    first = value()
    g = torch.autograd.grad(first, params)
    if rho:
        norm = torch.cat([part.view(-1) for part in g]).norm()
        with torch.no_grad():
            for p, part in zip(params, g, strict=True):
                p += rho * part / norm
        g = torch.autograd.grad(value(), params)
    torch.testing.assert_close(
        reply.delta, 0.1 * torch.cat([part.view(-1) for part in g]), rtol=1e-10, atol=1e-12
    )
    assert reply.metrics["loss"] == pytest.approx(first.item())
    assert not any(layer._forward_hooks for layer in what.learner.flat.module.modules())


def test_the_gradient_over_all_examples() -> None:
    what = job(model=nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)).double())
    before = what.learner.flat.buffers
    w = what.learner.initial().params
    found = full_gradient(what.learner, FED.data(1), w)
    module, (x, y) = what.learner.module(), DATA[1]
    expected = torch.autograd.grad(cross_entropy(module(x), y), list(module.parameters()))
    torch.testing.assert_close(
        found, torch.cat([g.view(-1) for g in expected]), rtol=1e-10, atol=1e-12
    )
    assert torch.equal(what.learner.flat.buffers, before)


def test_a_broadcast_may_ask_for_the_gradient_instead_of_local_training() -> None:
    what = job(*feddyn(0.1).client)
    state = {"dual": {"sigma": torch.ones(3)}}
    asking = replace(request(what, instruction=Gradient()), state=state)
    reply, after = run_client(what, asking, FED.data(2))
    assert torch.equal(
        reply.delta, full_gradient(what.learner, FED.data(2), asking.broadcast.params)
    )
    assert after is state
    assert reply.samples == reply.examples == 9
    assert reply.extras == {}


def test_asking_for_the_gradient_is_a_pure_function() -> None:
    """Dropout draws by seed, round and client, and torch's own random state is left alone."""
    torch.manual_seed(0)
    what = job(model=nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3)).double())
    torch.manual_seed(1)
    state = torch.random.get_rng_state()
    one, _ = run_client(what, request(what, instruction=Gradient()), FED.data(2))
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(2)
    again, _ = run_client(what, request(what, instruction=Gradient()), FED.data(2))
    assert torch.equal(one.delta, again.delta)
    other, _ = run_client(what, request(what, t=6, instruction=Gradient()), FED.data(2))
    assert not torch.equal(one.delta, other.delta)


class Scaled(nn.Module):
    """A layer whose output hangs on a buffer in training too."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) * self.scale


@dataclass(frozen=True, repr=False)
class Early(Piece):
    """Asks for gradients before local training begins."""

    stage, key = Stage.CORRECT, "early"

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        v.outbox.update(batch=v.oracle(torch.arange(9))(w), whole=v.full_gradient(w))
        return w


@pytest.mark.parametrize("instruction", [Train(), Gradient()], ids=repr)
def test_a_request_starts_from_the_buffers_it_was_sent(instruction: Instruction) -> None:
    """Independent of which clients trained or were evaluated before."""
    torch.manual_seed(0)
    what = job(Early(), model=Scaled().double())
    found = []
    for before in (2.0, 50.0):
        what.learner.flat.buffers = torch.tensor([before])
        found.append(run_client(what, request(what, instruction=instruction), FED.data(2))[0])
    assert torch.equal(found[0].delta, found[1].delta)
    if instruction.trains:
        early = [reply.extras["early"] for reply in found]
        assert torch.equal(early[0]["batch"], early[1]["batch"])
        assert torch.equal(early[0]["whole"], early[1]["whole"])
        torch.testing.assert_close(early[0]["batch"], early[0]["whole"])


def test_a_broadcast_may_ask_for_the_last_layer_only() -> None:
    """Plain steps of the classifier: whatever pieces there are, and momentum and decay, have no
    part in it."""
    pieces = (
        *(feddyn(0.5) + sam(0.3)).client,
        *LocalTraining(momentum=0.9, weight_decay=0.1).pieces(keep=False),
    )
    local = LocalTraining(batch_size=4, epochs=2)
    tuned, state = run_client(
        what := job(*pieces, local=local), request(what, instruction=FineTune()), FED.data(2)
    )
    head = what.learner.flat.layout.classifier()
    assert not tuned.delta[~head].any()
    assert bool((tuned.delta[head] != 0).any())
    assert state == {}
    assert tuned.extras == {}
    module, (x, y) = network(), DATA[2]
    stepper = torch.optim.SGD(module[2].parameters(), lr=0.1)  # type: ignore[index]
    for places in local.batches(1, 5, 2, 9):
        stepper.zero_grad()
        cross_entropy(module(x[places]), y[places]).backward()
        stepper.step()
    end = nn.utils.parameters_to_vector(module.parameters()).detach()
    torch.testing.assert_close(
        request(what).broadcast.params - tuned.delta, end, rtol=0, atol=1e-12
    )


@dataclass(frozen=True, repr=False)
class Spoil(Piece):
    """Raises, or gives a bad number, at one client in one round."""

    config: str
    client: int = 1
    round: int = 1
    value: float = math.inf

    stage, key = Stage.CORRECT, "spoil"

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        g = grad(w)
        if v.client != self.client or v.round < self.round:
            return g
        if self.config == "raise" and v.steps == 1:
            raise ZeroDivisionError("oh dear")
        return g * self.value if self.config == "spoil" else g


def run(piece: Spoil, run_folder: RunFolder | None = None, **more: Any) -> Any:
    exp = Experiment(
        method=clip(10.0) + Method(client=(piece,), text="spoil()"),
        on=ON,
        model=network(),
        rounds=3,
        local=LocalTraining(batch_size=4, lr=0.1, momentum=0.5),
        sampler=ClientSampler(clients=3),
        dtype="float64",
        evaluate=EvaluationSchedule(every=1),
        **more,
    )
    return train(exp, run_folder=run_folder)


def test_an_error_names_round_client_step_and_piece() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run(Spoil("raise"))
    (note,) = caught.value.__notes__
    assert note == "(in round 2, client 1, step 1, piece spoil('raise'))"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_bad_reply_is_named_and_diagnosed(value: float) -> None:
    with pytest.raises(NotFinite) as caught:
        run(Spoil("spoil", value=value))
    message = str(caught.value)
    assert message.startswith("round 2, client 1: the reply is NaN or infinite;")
    assert "the first bad number came out of spoil(" in message
    assert "on_bad='skip'" in message


def test_where_the_first_bad_number_came_from() -> None:
    bad = job(Spoil("spoil", client=2, round=0))
    assert (
        diagnose(bad, request(bad), FED.data(2))
        == f"the first bad number came out of {bad.pieces[0]!r}"
    )
    huge = job(local=LocalTraining(batch_size=9))
    start = request(huge)
    spoilt = replace(
        start, broadcast=replace(start.broadcast, params=start.broadcast.params * math.nan)
    )
    assert "already not finite" in diagnose(huge, spoilt, FED.data(2))
    steep = replace(start, broadcast=replace(start.broadcast, lr=1e308))
    exploding = job(
        Spoil("spoil", client=2, round=0, value=1e10), local=LocalTraining(batch_size=9)
    )
    assert diagnose(exploding, steep, FED.data(2)) == "its steps were finite, but their sum is not"
    raw = ClientJob(
        Learner(network(), (4,), 3, seed=0, dtype="float64", loss=_bad_loss), (), LocalTraining(), 0
    )
    assert "came out of the batch gradient" in diagnose(raw, request(raw), FED.data(2))


def _bad_loss(output: Tensor, y: Tensor) -> Tensor:
    return output.sum() * math.nan


def test_skipping_bad_replies() -> None:
    """The run goes on with the others: as if the bad client had not been in the cohort."""
    skipped = run(Spoil("spoil"), on_bad="skip")
    without = [[0, 1, 2], [0, 2], [0, 2]]
    exp = Experiment(
        method=clip(10.0),
        on=ON,
        model=network(),
        rounds=3,
        local=LocalTraining(batch_size=4, lr=0.1, momentum=0.5),
        sampler=ClientSampler(cohorts=without),
        dtype="float64",
    )
    expected = train(exp)
    assert skipped.status == "done"
    assert torch.equal(skipped.model.params, expected.model.params)  # type: ignore[union-attr]


def test_a_bad_client_remembers_nothing_of_a_skipped_request() -> None:
    kept: list[set[int]] = []

    class RecordingRunFolder(RunFolder):
        def checkpoint(self, run: Any, *, force: bool = False) -> None:
            kept.append(set(run.clients.by_client))

    exp = Experiment(
        method=feddyn(0.1) + Method(client=(Spoil("spoil", round=0),), text="spoil()"),
        on=ON,
        model=network(),
        rounds=1,
        local=LocalTraining(batch_size=4),
        sampler=ClientSampler(clients=3),
        dtype="float64",
        on_bad="skip",
    )
    train(exp, run_folder=RecordingRunFolder())
    assert kept[-1] == {0, 2}


def test_stopping_at_a_bad_reply() -> None:
    run_folder = RunFolder()
    stopped = run(Spoil("spoil"), run_folder, on_bad="stop")
    assert stopped.status == run_folder.status == "diverged"
    assert stopped.diverged
    assert len(stopped.rows) == 1
    one_round = run(Spoil("nothing"), on_bad="stop")
    assert one_round.rows[0]["loss"] == stopped.rows[0]["loss"]
    assert bool(torch.isfinite(stopped.model.params).all())


def test_when_every_reply_is_bad() -> None:
    exp = Experiment(
        method=Method(client=(Spoil("spoil"),), text="spoil()"),
        on=ON,
        model=network(),
        rounds=3,
        dtype="float64",
        sampler=ClientSampler(cohorts=[[0], [1], [2]]),
        on_bad="skip",
        local=LocalTraining(),
    )
    with pytest.raises(FedflatError, match="round 2: no client's reply could be used"):
        train(exp)
