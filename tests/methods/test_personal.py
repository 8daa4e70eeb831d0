"""The personalised protocol against a loop written with torch alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedflat import fedavg, fedavg_ft, fedsam, personal
from fedflat.client.instructions import FineTune
from fedflat.client.local import LocalTraining
from fedflat.client.piece import ClientContext, Piece
from fedflat.client.training import Request, run_client
from fedflat.composition.method import Method
from fedflat.core.messages import Broadcast, Train
from fedflat.core.schedules import decay
from fedflat.core.stage import Stage
from fedflat.data.sets.in_memory import clients_of
from fedflat.errors import SettingError
from fedflat.experiments.experiment import EvaluationSchedule, Experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.results.results import Result
from fedflat.experiments.run_setup import RunSetup
from fedflat.experiments.train import train
from fedflat.models.simple import mlp
from fedflat.server.client_selection import ClientSampler
from methods.observers import method_of

SIZES = (10, 20, 16, 30)
ROUNDS = 3
COHORTS = [[0, 1], [1, 2], [0, 2]]
"""Client 3 is never seen."""


def data() -> list[tuple[Tensor, Tensor]]:
    rng = torch.Generator().manual_seed(0)
    given = []
    for k, size in enumerate(SIZES):
        y = (torch.arange(size) + k) % 4
        given.append(
            (torch.randn(size, 5, generator=rng) + 0.4 * y.view(-1, 1) * torch.arange(5), y)
        )
    return given


def experiment(text: str = "fedavg_ft()", split: float | None = 0.7, **more: Any) -> Experiment:
    settings: dict[str, Any] = {
        "local": LocalTraining(epochs=2, batch_size=4, lr=decay(0.2, 0.5)),
        "sampler": ClientSampler(cohorts=COHORTS),
        "evaluate": EvaluationSchedule(every=1),
    }
    on = clients_of(data(), test=data()[0], classes=4, split=split)
    return Experiment(
        method=method_of(text),
        on=on,
        model=mlp([6]),
        rounds=ROUNDS,
        seed=2,
        dtype="float64",
        **{**settings, **more},
    )


class ByHand:
    """FedAvg and the protocol around it, with torch's modules and optimiser."""

    def __init__(self, setup: RunSetup) -> None:
        self.setup = setup
        self.module = setup.job.learner.module().double()

    def load(self, w: Tensor) -> None:
        nn.utils.vector_to_parameters(w.clone(), self.module.parameters())

    def local_train(
        self, w: Tensor, t: int, client: int, lr: float, parts: list[nn.Parameter]
    ) -> Tensor:
        """Local SGD on some of the parameters."""
        self.load(w)
        own = self.setup.fed.data(client)
        x, y = own.examples.inputs[own.index].double(), own.labels
        stepper = torch.optim.SGD(parts, lr=lr)
        for places in self.setup.exp.local.batches(2, t, client, len(y)):
            stepper.zero_grad()
            cross_entropy(self.module(x[places]), y[places]).backward()
            stepper.step()
        return torch.cat([p.detach().view(-1) for p in self.module.parameters()])

    @torch.no_grad()
    def accuracy(self, w: Tensor, client: int) -> float:
        """On the client's own held-out examples."""
        self.load(w)
        test = self.setup.fed.own_test(client)
        assert test is not None
        x, y = test.examples.inputs[test.index].double(), test.labels
        return float((self.module(x).argmax(1) == y).double().mean())

    def run(self) -> tuple[list[float], list[float], list[float]]:
        """The clients' mean accuracy after each round and after tuning; the global model's; the
        accuracies tuned."""
        w = self.setup.job.learner.initial().params
        models = [w] * len(SIZES)
        personal, common = [], []
        for t, cohort in enumerate(COHORTS):
            for k in cohort:
                models[k] = self.local_train(w, t, k, 0.2 * 0.5**t, list(self.module.parameters()))
            sizes = [len(self.setup.fed.data(k)) for k in cohort]
            w = sum(n * models[k] for n, k in zip(sizes, cohort, strict=True)) / sum(sizes)  # type: ignore[assignment]
            personal.append(
                sum(self.accuracy(models[k], k) for k in range(len(SIZES))) / len(SIZES)
            )
            common.append(sum(self.accuracy(w, k) for k in range(len(SIZES))) / len(SIZES))
        last = list(self.module.parameters())[-2:]
        tuned = []
        for k in range(len(SIZES)):
            after = self.local_train(w, ROUNDS, k, 0.2 * 0.5 ** (ROUNDS - 1), last)
            assert not torch.equal(after, w)
            tuned.append(self.accuracy(after, k))
        return [*personal, sum(tuned) / len(tuned)], common, tuned


@pytest.fixture(scope="module")
def result() -> Result:
    return train(experiment())


def test_against_a_loop_by_hand(result: Result) -> None:
    expected, common, _ = ByHand(prepare(experiment())).run()
    assert [row["personal"] for row in result.rows] == pytest.approx(expected, abs=1e-12)
    assert [row["clients"] for row in result.rows[:-1]] == pytest.approx(common, abs=1e-12)
    assert len(set(expected)) > 2  # so that the rounds could not be confused
    assert result.best("personal") == max(expected)


def test_every_round_tells_of_clients_own_models_and_some_of_the_global_one(result: Result) -> None:
    seldom = train(experiment(evaluate=EvaluationSchedule(every=2, last=1)))
    assert [row["personal"] for row in seldom.rows] == [row["personal"] for row in result.rows]
    assert [row["round"] for row in seldom.rows] == [1, 2, 3, 3]
    assert ["accuracy" in row for row in seldom.rows] == [False, True, True, False]
    assert seldom.best("personal") == result.best("personal")
    assert (seldom.latest(), seldom.diverged) == (result.latest(), False)


def test_the_last_row_is_the_fine_tuning(result: Result) -> None:
    *rows, last = result.rows
    assert [row["round"] for row in result.rows] == [1, 2, 3, 3]
    assert last["tuned"]
    assert not any("tuned" in row for row in rows)
    assert "accuracy" not in last  # there is no global model to test
    dim = len(result.model.params)  # type: ignore[union-attr]
    tuning = 8 * len(SIZES) * dim
    assert (last["down"] - rows[-1]["down"], last["up"] - rows[-1]["up"]) == (tuning, tuning)


def test_the_protocol_changes_no_model(result: Result) -> None:
    plain = train(experiment("fedavg()")).model
    assert plain is not None
    assert torch.equal(plain.params, result.model.params)  # type: ignore[union-attr]


def test_before_the_first_request_a_client_holds_the_first_model() -> None:
    """One round with one client: the others' accuracies are those of the initial model."""
    setup = prepare(experiment(sampler=ClientSampler(cohorts=[[1], [1], [1]])))
    hand = ByHand(setup)
    w = setup.job.learner.initial().params
    moved = hand.local_train(w, 0, 1, 0.2, list(hand.module.parameters()))
    expected = [hand.accuracy(moved if k == 1 else w, k) for k in range(len(SIZES))]
    assert train(setup).rows[0]["personal"] == pytest.approx(sum(expected) / len(SIZES), abs=1e-12)


@pytest.mark.parametrize(
    "text", ["fedavg()", "fedspeed(rho=0.1, lam=10)", "fedala()", "feddyn(0.1) + sam(0.1)"]
)
def test_a_clients_own_model_is_where_its_local_training_ended(text: str) -> None:
    """Not what it sends, which FedSpeed corrects."""
    setup = prepare(experiment(f"{text} + personal()"))
    start = setup.job.learner.initial()
    broadcast = Broadcast(0, start.params, start.buffers, 0.2, instruction=setup.exp.instruction)
    reply, state = run_client(setup.job, Request(1, broadcast, {}), setup.fed.data(1))
    end = start.params - reply.delta
    if "fedspeed" in text:
        end = end + 10 * state["dual"]["sigma"]
    assert reply.metrics["own_accuracy"] == pytest.approx(ByHand(setup).accuracy(end, 1))


@dataclass(frozen=True, repr=False)
class Elsewhere(Piece):
    """Sends back a model that always says class 0."""

    stage, key = Stage.CORRECT, "elsewhere"

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        return torch.zeros_like(w)


def test_the_personal_model_is_not_the_model_sent_back() -> None:
    setup = prepare(
        replace(
            experiment(), method=fedavg_ft() + Method(client=(Elsewhere(),), text="elsewhere()")
        )
    )
    hand, start = ByHand(setup), setup.job.learner.initial()
    moved = hand.local_train(start.params, 0, 1, 0.2, list(hand.module.parameters()))
    broadcast = Broadcast(0, start.params, start.buffers, 0.2, instruction=setup.exp.instruction)
    reply, _ = run_client(setup.job, Request(1, broadcast, {}), setup.fed.data(1))
    assert (
        reply.metrics["own_accuracy"]
        == hand.accuracy(moved, 1)
        != hand.accuracy(torch.zeros_like(moved), 1)
    )


def test_only_the_classifier_is_tuned() -> None:
    setup = prepare(experiment("fedsam(0.1) + personal()"))
    start = setup.job.learner.initial()
    broadcast = Broadcast(
        ROUNDS, start.params, start.buffers, 0.2, instruction=FineTune(tests=True)
    )
    reply, _ = run_client(setup.job, Request(3, broadcast, {}), setup.fed.data(3))
    head = setup.job.learner.flat.layout.classifier()
    assert not reply.delta[~head].any()
    assert bool((reply.delta[head] != 0).any())
    assert "own_accuracy" in reply.metrics


def test_the_data_must_be_split() -> None:
    with pytest.raises(
        SettingError, match=r"personal\(\) tests each client on a part of its own data.*split=0.7"
    ):
        prepare(experiment(split=None))


def test_names() -> None:
    assert fedavg_ft() == fedavg() + personal()
    assert experiment("fedsam(0.1) + personal()").instruction == Train(tests=True)
    assert (
        Experiment(method=fedsam(), on=experiment().on, model=mlp([6]), rounds=1).instruction
        == Train()
    )
