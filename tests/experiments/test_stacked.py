"""Requests in stacks: the numbers of single requests for every method, and whatever else a run has
to keep to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from fedflat.client import stacked_gradients as batched
from fedflat.client.gradient_transforms import Prox
from fedflat.client.local import LocalTraining
from fedflat.client.piece import ClientContext
from fedflat.client.training import Request
from fedflat.composition.method import Method
from fedflat.core.flat import GradFn
from fedflat.core.messages import Broadcast, ReplyBatch
from fedflat.data.sets.in_memory import clients_of
from fedflat.errors import FedflatError, NotFinite, SettingError
from fedflat.execution import stacked_pool
from fedflat.execution.client_states import ClientStates
from fedflat.execution.in_process import InProcess
from fedflat.execution.scheduler import run_requests
from fedflat.execution.stacked import Stacked
from fedflat.experiments.experiment import EvaluationSchedule, Experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.progress import Progress
from fedflat.experiments.run_folder.run_folder import DiskRunFolder
from fedflat.experiments.state import RunState
from fedflat.experiments.train import train
from fedflat.models.simple import mlp
from fedflat.server.client_selection import ClientSampler
from fedflat.server.exchange import RequestBatch
from test_every_method import EVERY, Costs, experiment, method_of

STACKED = [text for text in EVERY if all(piece.stackable for piece in method_of(text).client)]
CLOSE = {"float32": {"rtol": 1e-5, "atol": 1e-5}, "float64": {"rtol": 1e-9, "atol": 1e-11}}
SIZES = (9, 9, 6, 9, 6)


def federation(sizes: tuple[int, ...] = SIZES, split: float | None = None) -> Any:
    """Clients with small images of three classes."""
    rng = torch.Generator().manual_seed(1)
    data = []
    for size in sizes:
        y = torch.randperm(size, generator=rng) % 3
        data.append((torch.randn(size, 1, 8, 8, generator=rng) + y.view(-1, 1, 1, 1), y))
    return clients_of(data, test=data[0], classes=3, split=split)


def four_of_five(text: str, **more: Any) -> Experiment:
    """A method with four of five clients a round, some of one size and some of another."""
    exp = experiment(method_of(text))
    on = federation(split=0.6 if exp.method.evaluations else None)
    return replace(exp, **{"on": on, "sampler": ClientSampler(clients=4), "rounds": 3, **more})


class Snapshots(Costs):
    """Keeps what there is after each round."""

    def __init__(self) -> None:
        super().__init__()
        self.models: list[Any] = []
        self.states: list[dict[int, Any]] = []

    def checkpoint(self, run: RunState, *, force: bool = False) -> None:
        super().checkpoint(run, force=force)
        if not force:
            self.models.append(run.model)
            self.states.append({client: run.clients.state(client) for client in range(len(SIZES))})


def ran(exp: Experiment, executor: Any) -> Snapshots:
    run_folder = Snapshots()
    train(exp, executor=executor, run_folder=run_folder)
    return run_folder


def alike(one: Any, other: Any, config: dict[str, float]) -> None:
    """The same names, and the same numbers up to rounding; times left out."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one.keys() - {"training", "seconds", "evaluation"}:
            alike(one[key], other[key], config)
    elif isinstance(one, float):
        assert other == pytest.approx(one, rel=config["rtol"], abs=config["atol"], nan_ok=True)
    elif isinstance(one, Tensor):
        torch.testing.assert_close(other, one, **config)
    else:
        assert one == other


def same_run(exp: Experiment, config: dict[str, float], executor: Stacked = Stacked()) -> None:
    """Models, states, bytes and metrics of a run in stacks are those of single requests."""
    singly, together = ran(exp, InProcess(threads=1)), ran(exp, executor)
    assert len(together.models) == exp.rounds
    for one, other in zip(singly.models, together.models, strict=True):
        alike(vars(one), vars(other), config)
    for mine, theirs in zip(singly.states, together.states, strict=True):
        alike(mine, theirs, config)
    assert together.spent == singly.spent
    assert len(together.rows) == len(singly.rows)
    for row, its in zip(singly.rows, together.rows, strict=True):
        alike(row, its, config)


@pytest.mark.parametrize("text", STACKED)
def test_every_method_has_the_numbers_of_single_requests(text: str) -> None:
    same_run(four_of_five(text, dtype="float64"), CLOSE["float64"])


@pytest.mark.slow
@pytest.mark.parametrize("text", STACKED)
def test_every_method_in_single_precision(text: str) -> None:
    same_run(four_of_five(text, rounds=1), CLOSE["float32"])


@pytest.mark.parametrize("text", ["fedsam(rho=0.05) + mixup()", "fedbn()"])
def test_tracing_changes_no_bit(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exp = four_of_five(text)
    untraced = train(exp, executor=Stacked()).model
    monkeypatch.setattr(batched, "PATIENCE", 0)
    traced = train(exp, executor=Stacked()).model
    assert traced is not None
    assert untraced is not None
    assert torch.equal(traced.params, untraced.params)
    assert torch.equal(traced.buffers, untraced.buffers)


@settings(max_examples=8)
@given(
    sizes=st.lists(st.integers(2, 6), min_size=2, max_size=5),
    local=st.builds(
        LocalTraining,
        epochs=st.integers(1, 2),
        batch_size=st.integers(2, 6),
        lr=st.just(0.1),
        drop_last=st.booleans(),
        steps=st.none() | st.integers(1, 3),
        virtual=st.none() | st.integers(1, 5),
    ),
    most=st.integers(1, 4),
)
def test_any_sizes_any_local_work_any_room(
    sizes: list[int], local: LocalTraining, most: int
) -> None:
    exp = four_of_five(
        "feddyn(alpha=0.1)",
        dtype="float64",
        on=federation(tuple(sizes)),
        local=local,
        rounds=2,
        sampler=ClientSampler(clients=len(sizes)),
    )
    room = most * batched.footprint(prepare(exp).job.learner, local.batch_size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stacked_pool, "ROOM", room)
        same_run(exp, CLOSE["float64"])


def test_given_batches() -> None:
    """Clients with other batches are in other stacks."""
    orders = [{0: [[0, 1], [2]], 1: [[3, 4], [5]], 3: [[0, 1, 2]], 2: [[1]]}] * 2
    exp = four_of_five(
        "fedavg()", dtype="float64", rounds=2, local=LocalTraining(orders=orders, lr=0.1)
    )
    same_run(
        replace(exp, sampler=ClientSampler(clients=4, cohorts=[[3, 1, 0, 2]] * 2)), CLOSE["float64"]
    )


def stacks_of(
    exp: Experiment, cohort: Sequence[int] = range(len(SIZES))
) -> list[tuple[list[int], int]]:
    """The clients that were trained together in one exchange, and how many steps they took."""
    setup, start = prepare(exp), prepare(exp).job.learner.initial()
    broadcasts = dict.fromkeys(cohort, Broadcast(0, start.params, start.buffers, 0.1))
    requests = RequestBatch(broadcasts, list(cohort), ClientStates())
    with Stacked().open(setup.job, setup.fed, setup.source) as pool:
        replies = [reply for reply, _ in pool.run(requests)]
    return [
        (list(r.clients) if isinstance(r, ReplyBatch) else [r.client], r.steps) for r in replies
    ]


def test_equal_clients_share_a_stack_as_long_as_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exp = four_of_five("fedavg()", local=LocalTraining(batch_size=4))
    assert stacks_of(exp) == [([0, 1, 3], 3), ([2, 4], 2)]
    monkeypatch.setattr(stacked_pool, "ROOM", 2 * batched.footprint(prepare(exp).job.learner, 4))
    assert stacks_of(exp) == [([0, 1], 3), ([2, 4], 2), ([3], 3)]
    monkeypatch.setattr(stacked_pool, "ROOM", 1)
    assert [clients for clients, _ in stacks_of(exp)] == [[0], [1], [2], [3], [4]]


def test_stacks_come_in_the_order_of_their_first_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full stack waits for no other to fill, but clients that were asked before it are trained
    before it."""
    exp = four_of_five("fedavg()", local=LocalTraining(batch_size=4))
    monkeypatch.setattr(stacked_pool, "ROOM", 2 * batched.footprint(prepare(exp).job.learner, 4))
    assert [clients for clients, _ in stacks_of(exp, [0, 2, 4, 1, 3])] == [[0], [2, 4], [1, 3]]
    assert [clients for clients, _ in stacks_of(exp, [2, 3, 1, 4, 0])] == [[2], [3, 1], [4], [0]]


def requests_to(cohort: Sequence[int], *, with_state: Sequence[int] = ()) -> RequestBatch:
    """Requests of FedDyn; some clients have a state."""
    start = prepare(four_of_five("feddyn")).job.learner.initial()
    states = ClientStates()
    for client in with_state:
        states.stage(client, {"dual": {"sigma": torch.full_like(start.params, 0.01 * client)}})
    broadcasts = dict.fromkeys(cohort, Broadcast(0, start.params, start.buffers, 0.1))
    return RequestBatch(broadcasts, cohort, states)


@pytest.mark.parametrize("sizes", [SIZES, (9, 9, 9, 9, 9)])
@pytest.mark.parametrize("clients", [None, 2])
@pytest.mark.parametrize(
    "requests",
    [
        requests_to([0, 1, 3]),
        requests_to([0, 1, 3], with_state=[0, 1, 3]),
        requests_to([0, 1, 3], with_state=[1, 3]),
        requests_to([3, 0, 2, 4, 1], with_state=[2]),
        requests_to([0, 1, 2, 4, 3]),
    ],
)
def test_a_cohort_forms_the_stacks_of_its_single_requests(
    requests: RequestBatch, clients: int | None, sizes: tuple[int, ...]
) -> None:
    setup = prepare(four_of_five("feddyn", on=federation(sizes)))
    with Stacked(clients=clients).open(setup.job, setup.fed, setup.source) as pool:
        expected = list(run_requests(pool, list(requests)))
        found = list(pool.run(requests))
    assert len(found) == len(expected)
    for (reply, state), (single, kept) in zip(found, expected, strict=True):
        assert vars(reply).keys() == vars(single).keys()
        exact = {"rtol": 0.0, "atol": 0.0}
        alike(vars(single) | {"clients": 0}, vars(reply) | {"clients": 0}, exact)
        assert clients_of_reply(reply) == clients_of_reply(single)
        alike(kept, state, exact)


def clients_of_reply(reply: Any) -> list[int]:
    return list(reply.clients) if isinstance(reply, ReplyBatch) else [reply.client]


def test_a_cohort_of_equal_clients_needs_no_single_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def single(*args: Any) -> Any:
        raise AssertionError("a single request was made")

    monkeypatch.setattr(RequestBatch, "_request", single)
    setup = prepare(four_of_five("feddyn"))
    with Stacked(clients=2).open(setup.job, setup.fed, setup.source) as pool:
        replies = [reply for reply, _ in pool.run(requests_to([0, 1, 3], with_state=[0, 1]))]
        with pytest.raises(AssertionError, match="a single request was made"):
            list(pool.run(requests_to([0, 2])))
    assert [clients_of_reply(reply) for reply in replies] == [[0, 1], [3]]


def test_the_data_of_a_client_are_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In equal and in unequal cohorts."""
    setup = prepare(four_of_five("feddyn"))
    opened, data = list[int](), type(setup.fed).data
    monkeypatch.setattr(
        type(setup.fed), "data", lambda fed, client: opened.append(client) or data(fed, client)
    )
    with Stacked().open(setup.job, setup.fed, setup.source) as pool:
        cohorts = [requests_to([0, 1, 3]), requests_to([3, 0, 2, 4, 1])]
        opened.clear()
        for requests in cohorts:
            list(pool.run(requests))
    assert opened == [0, 1, 3, 3, 0, 2, 4, 1]


def test_two_broadcasts_are_two_stacks() -> None:
    """Every other client is sent another model: none gets its neighbour's."""
    setup = prepare(four_of_five("feddyn(alpha=0.1)", dtype="float64"))
    start = setup.job.learner.initial()
    broadcasts = [Broadcast(t, start.params + t, start.buffers, 0.1 + t) for t in range(2)]
    requests = [Request(client, broadcasts[client % 2], {}, str(client)) for client in range(5)]
    with InProcess(1).open(setup.job, setup.fed, setup.source) as pool:
        singly = {reply.client: reply.delta for reply, _ in pool.run(requests)}
    with Stacked().open(setup.job, setup.fed, setup.source) as pool:
        found = [
            one
            for reply, _ in pool.run(requests)
            for one in (reply if isinstance(reply, ReplyBatch) else (reply,))
        ]
    assert sorted(one.client for one in found) == [0, 1, 2, 3, 4]
    for one in found:
        torch.testing.assert_close(one.delta, singly[one.client], **CLOSE["float64"])


def test_threads_are_put_back() -> None:
    before = torch.get_num_threads()
    setup = prepare(four_of_five("fedavg()"))
    for wanted, threads in ((None, 1), (2, 2)):
        with Stacked(threads=wanted).open(setup.job, setup.fed, setup.source):
            assert torch.get_num_threads() == threads
        assert torch.get_num_threads() == before
    with pytest.raises(SettingError, match="threads"):
        Stacked(threads=0)


class Dropped(nn.Module):
    """Dropout as a function."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(nn.functional.dropout(x.flatten(1), 0.5, self.training))


class Branching(nn.Module):
    """Does one thing or another, by its input."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        out = self.fc(x.flatten(1))
        return out if out.sum() > 0 else -out


def peeking(output: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output, y) * (1.0 + float(output.detach().sum()))


@dataclass(frozen=True, repr=False)
class Mine(Prox):
    """A piece that does not declare `stackable`."""

    stackable = False


@pytest.mark.parametrize(
    ("text", "more", "why"),
    [
        ("fedcr(beta=0.01)", {}, "works on one client at a time"),
        (
            "fedfsa(top=1, selection='reverse')",
            {},
            r"fsa\(.*selection='reverse'\) works on one client at a time",
        ),
        ("fedavg()", {"model": Dropped}, "draws random numbers in training"),
        (
            "fedavg()",
            {"model": lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 3), nn.Dropout())},
            "draws random",
        ),
        (
            "fedavg()",
            {"model": Branching},
            "network or its loss cannot be run for many clients at once",
        ),
        (
            "fedavg()",
            {"loss": peeking},
            "network or its loss cannot be run for many clients at once",
        ),
    ],
)
def test_what_is_refused(text: str, more: dict[str, Any], why: str) -> None:
    exp = experiment(method_of(text))
    with pytest.raises(
        SettingError, match=f"cannot train in stacks: .*{why}.*one by one, in this process"
    ):
        train(replace(exp, **more), executor=Stacked())


def test_a_reason_can_be_asked_for() -> None:
    assert Stacked().refusal(prepare(four_of_five("feddyn() + mixup()")).job) is None
    job = prepare(replace(experiment(Method(client=(Mine(),))))).job
    assert Stacked().refusal(job) == f"{Mine()} works on one client at a time"


def wild(text: str, on_bad: str) -> Experiment:
    """Client 1 holds an infinite input; its reply cannot be finite."""
    rng = torch.Generator().manual_seed(1)
    data = [(torch.randn(6, 4, generator=rng), torch.arange(6) % 3) for _ in range(4)]
    data[1][0][2, 2] = math.inf
    return Experiment(
        method=method_of(text),
        on=clients_of(data, test=data[0], classes=3),
        rounds=2,
        seed=0,
        model=mlp([3]),
        evaluate=EvaluationSchedule(every=1),
        local=LocalTraining(batch_size=4, lr=0.1),
        sampler=ClientSampler(clients=4),
        on_bad=on_bad,
        dtype="float64",
    )


def test_a_reply_that_is_not_finite_is_named() -> None:
    with pytest.raises(
        NotFinite, match=r"round 1, client 1: .* first bad number came out of the batch gradient"
    ):
        train(wild("fedavg()", "raise"), executor=Stacked())


def test_a_reply_that_is_not_finite_ends_the_run_if_wanted() -> None:
    assert train(wild("fedavg()", "stop"), executor=Stacked()).status == "diverged"


@pytest.mark.parametrize("text", ["scaffold()", "fedavg() + all_clients()", "median()"])
def test_a_reply_that_is_not_finite_is_left_out_if_wanted(text: str) -> None:
    run_folder, other = Costs(), Costs()
    one = train(wild(text, "skip"), executor=InProcess(threads=1), run_folder=run_folder).model
    two = train(wild(text, "skip"), executor=Stacked(), run_folder=other).model
    assert one is not None
    assert two is not None
    alike(vars(one), vars(two), CLOSE["float64"])
    assert other.spent == run_folder.spent


def test_nothing_is_averaged_if_no_reply_is_finite() -> None:
    exp = replace(wild("fedavg()", "skip"), sampler=ClientSampler(clients=1, cohorts=[[1], [1]]))
    with pytest.raises(FedflatError, match="no client's reply could be used"):
        train(exp, executor=Stacked())


@dataclass(frozen=True, repr=False)
class Clumsy(Prox):
    """Cannot do its work."""

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        raise ArithmeticError("too hard")


def test_an_error_says_where_it_was() -> None:
    exp = replace(
        four_of_five("fedavg()"), method=Method(client=(Clumsy(),)), on=federation((9,) * 7)
    )
    with pytest.raises(ArithmeticError) as caught:
        train(replace(exp, sampler=ClientSampler(clients=7)), executor=Stacked())
    note = f"(in round 1, in a stack of clients 0, 1, 2, 3, 4, ..., step 0, piece {Clumsy()!r})"
    assert caught.value.__notes__ == [note]


@pytest.mark.parametrize("text", ["feddyn(alpha=0.1) + all_clients()", "fedbn() + sam(rho=0.05)"])
def test_stop_and_resume_equals_going_on(text: str, tmp_path: Path) -> None:
    exp = four_of_five(text, rounds=4)

    def go(run_folder: DiskRunFolder, stop: int | None = None) -> None:
        def on_progress(progress: Progress) -> None:
            if progress.round == stop:
                raise KeyboardInterrupt

        with closing(run_folder):
            train(exp, run_folder=run_folder, executor=Stacked(), on_progress=on_progress)

    go(DiskRunFolder.create(tmp_path / "through", exp.texts(), {}, pause=math.inf))
    with pytest.raises(KeyboardInterrupt):
        go(DiskRunFolder.create(tmp_path / "broken", exp.texts(), {}, pause=math.inf), stop=2)
    go(DiskRunFolder.open(tmp_path / "broken", pause=math.inf))
    through, broken = (tmp_path / name / "final.safetensors" for name in ("through", "broken"))
    assert through.read_bytes() == broken.read_bytes()
