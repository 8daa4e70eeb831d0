"""Everything that decides a run, as text and back."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import fedflat as ff
from experiments.small import begin, data, experiment, final, stop_at, timeless
from fedflat.client.local import LocalTraining
from fedflat.errors import RunError, SettingError
from fedflat.execution.in_process import InProcess
from fedflat.experiments.experiment import EvaluationSchedule, Experiment, default_model, from_json
from fedflat.experiments.study import Reporter
from fedflat.experiments.train import train
from fedflat.models.simple import Logistic, mlp
from fedflat.registry.specs import parse
from fedflat.server.client_selection import ClientSampler
from fedflat.tasks.classification import Classification

SCHEDULES = [
    "decay(0.1, 0.998)",
    "warmup(0.001, 0.15, 20)",
    "cosine(0.1, 0.001, 50)",
    "cyclic(0.01, 0.0001, 4)",
    "steps([0, 10], [0.1, 0.01])",
]

VARIANTS: list[dict[str, Any]] = [
    {},
    {"method": "fedgloss(rho_s=0.05, rho_l=0.05, beta=10) + wima(window=7)"},
    {"method": "chain(prox(mu=0.1), asam(rho=0.1)) + swa(start=0.5)"},
    {"method": "sam(rho=warmup(0.0, 0.1, 2)) + feddyn(alpha=0.1)"},
    {"on": "cifar100(pam(), clients=50, split=0.7, pool=True, seed=4)"},
    {"model": "mlp(hidden=[32, 16])"},
    {
        "local": LocalTraining(
            epochs=3, batch_size=7, momentum=0.9, weight_decay=0.01, clip=1.5, drop_last=True
        )
    },
    {"local": LocalTraining(steps=5)},
    *(
        {"local": LocalTraining(lr=parse(s, "schedule"), weight_decay=parse(s, "schedule"))}
        for s in SCHEDULES
    ),
    {"local": LocalTraining(momentum=ff.cosine(0.9, 0.1, 5), clip=ff.decay(1.0, 0.9))},
    {"local": LocalTraining(orders=[{0: [[1, 2], [0]], 13: [[5]]}, {2: [[0]]}])},
    {"sampler": ClientSampler(clients=3, kind="bernoulli", seeding="round")},
    {"sampler": ClientSampler(cohorts=[[0, 4], [3]])},
    {"evaluate": EvaluationSchedule(every=3, last=7)},
    {"rounds": 77, "seed": 12345},
    {"weighting": "uniform"},
    {"dtype": "float64", "on_bad": "skip", "layout": "channels-last", "convolutions": "quick"},
]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: ",".join(v) or "plain")
def test_written_and_read_again(variant: dict[str, Any]) -> None:
    """Through JSON text, as a run folder keeps it."""
    texts = {"method": "fedavg", "on": "digits(lda(0), clients=20)", "model": "mlp"}
    given = {**texts, "rounds": 5, **variant}
    exp = Experiment(
        method=parse(given.pop("method"), "method"),
        on=parse(given.pop("on"), "data set"),
        model=parse(given.pop("model"), "model"),
        **given,
    )
    again = from_json(json.loads(json.dumps(exp.as_json())))
    assert again == exp
    assert repr(again.method) == repr(exp.method)
    assert again.method.chained == exp.method.chained
    assert [again.lr(t) for t in range(60)] == [exp.lr(t) for t in range(60)]
    assert again.as_json() == exp.as_json()


def test_a_run_begun_before_layouts_and_quick_convolutions_keeps_its_own() -> None:
    saved = experiment(on=parse("digits", "data set")).as_json()
    del saved["layout"], saved["convolutions"]
    assert (from_json(saved).layout, from_json(saved).convolutions) == ("contiguous", "direct")


def test_orders_may_be_tensors() -> None:
    exp = experiment(local=LocalTraining(orders=[{0: (torch.tensor([1, 2]), torch.tensor([0]))}]))
    assert json.loads(json.dumps(exp.as_json()))["local"]["orders"] == [{"0": [[1, 2], [0]]}]


def squared(output: Tensor, y: Tensor) -> Tensor:
    return (output.softmax(1) - nn.functional.one_hot(y, 3)).pow(2).mean()


class Mine(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x)


def test_what_only_python_can_say_is_left_open() -> None:
    saved = experiment(model=Mine(), loss=squared).as_json()
    assert (saved["on"], saved["model"], saved["loss"]) == (None, None, None)
    given = {"on": data(), "model": Mine(), "loss": squared}
    for name in given:
        others = {key: value for key, value in given.items() if key != name}
        with pytest.raises(
            RunError,
            match=rf"the run's '{name}' was given in Python .*resume\(folder, {name}=...\)",
        ):
            from_json(saved, **others)
    assert from_json(saved, **given).loss is squared


def test_resumed_in_python_with_ones_own_model_data_and_loss(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "rounds": 5,
        "clients_per_round": 2,
        "batch_size": 4,
        "lr": ff.decay(0.1, 0.9),
    }
    mine = {"on": data(), "model": Mine(), "loss": squared}
    method = "feddyn(alpha=0.1) + ema()"
    whole = ff.run(method, out=tmp_path / "whole", threads=1, **mine, **settings)
    stopped = Reporter(announce=lambda exp, place, total: stop_at(2))
    with pytest.raises(KeyboardInterrupt):
        ff.run(method, out=tmp_path / "cut", threads=1, reporter=stopped, **mine, **settings)
    with pytest.raises(RunError, match="given in Python"):
        ff.resume(tmp_path / "cut")
    (resumed,) = ff.resume(tmp_path / "cut", on=data(), model=Mine(), loss=squared)
    assert final(tmp_path / "cut") == final(tmp_path / "whole")
    assert timeless(resumed.rows) == timeless(whole.rows)
    (read,) = ff.resume(tmp_path / "cut", **mine)  # what is done is only read
    assert timeless(read.rows) == timeless(whole.rows)


def test_a_module_starts_from_its_own_weights_and_keeps_them() -> None:
    module = Mine()
    before = module.fc.weight.clone()
    exp = experiment(model=module, rounds=2)
    learner = exp.open_learner(exp.source("cpu")(), "cpu")
    assert torch.equal(learner.initial().params[:12].view(3, 4), before)
    ff.train(exp)
    assert torch.equal(module.fc.weight, before)


def test_when_to_evaluate() -> None:
    """Every so many rounds, in each of the last ones, and at the end."""
    sparse = EvaluationSchedule(every=40, last=100).rounds(250)
    assert sorted(sparse) == [39, 79, 119, *range(150, 250)]
    assert EvaluationSchedule(every=3, last=1).rounds(7) == {2, 5, 6}
    assert EvaluationSchedule(every=3, last=1).rounds(5, 9) == {2, 4}
    assert EvaluationSchedule(every=100).rounds(7) == set(range(7))


def test_the_number_of_rounds_costs_nothing_before_the_first() -> None:
    """A list with an entry per round would take hours and all memory."""
    done = train(
        experiment("fedavg", rounds=10**12, evaluate=EvaluationSchedule(every=10**12)),
        until=1,
        executor=InProcess(threads=1),
    )
    assert done.status == "running"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rounds": 0}, "run: rounds must be a whole number of at least 1, found 0"),
        ({"rounds": 2.0}, "rounds must be a whole number"),
        ({"seed": -1}, "seed must be a whole number of at least 0, found -1"),
        ({"dtype": "float16"}, "dtype must be 'float32' or 'float64' or 'mixed', found 'float16'"),
        (
            {"layout": "chanels-last"},
            "layout must be .* found 'chanels-last'. Did you mean 'channels-last'",
        ),
        ({"on_bad": "skp"}, "on_bad must be .* found 'skp'. Did you mean 'skip'"),
        ({"weighting": "size"}, "weighting must be .* found 'size'. Did you mean 'sized'"),
    ],
)
def test_wrong_settings(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        experiment(**wrong)


@pytest.mark.parametrize("wrong", [{"every": 0}, {"last": 0}, {"every": 1.5}])
def test_wrong_evaluation(wrong: dict[str, Any]) -> None:
    with pytest.raises(
        SettingError, match=r"evaluation: (every|last) must be a whole number of at least 1"
    ):
        EvaluationSchedule(**wrong)


def test_local_pieces_are_sorted_behind_the_methods() -> None:
    exp = experiment(
        "sam(rho=0.1) + feddyn(alpha=0.1)",
        local=LocalTraining(momentum=0.9, clip=1.0, weight_decay=0.1),
    )
    assert [piece.key for piece in exp.pieces()] == ["sam", "dual", "clip", "decay", "momentum"]


def test_the_model_chosen_by_the_data() -> None:
    assert default_model(Classification(), (1, 8, 8)) == mlp([64])
    assert default_model(Classification(), (7,)) == mlp()
    assert default_model(Classification(), (3, 27, 32)) == mlp()
    for shape in ((1, 28, 28), (3, 32, 32)):
        assert repr(default_model(Classification(), shape)) == "cnn()"
    exp = ff.experiment("fedavg", "digits", rounds=1)
    assert exp.model == mlp()
    assert ff.experiment("fedavg", "digits", rounds=1, model="logistic").model == Logistic()


def test_about_a_hundred_evaluations_by_default() -> None:
    assert ff.experiment("fedavg", "digits", rounds=20_000).evaluate == EvaluationSchedule(
        every=200, last=100
    )
    assert ff.experiment("fedavg", "digits", rounds=30).evaluate == EvaluationSchedule(
        every=1, last=3
    )
    assert ff.experiment(
        "fedavg", "digits", rounds=30, eval_every=7, eval_last=2
    ).evaluate == EvaluationSchedule(every=7, last=2)


def test_rates_follow_the_schedule_and_swa() -> None:
    exp = experiment(
        "swa(start=0.5, cycle=2, high=0.2, low=0.1)", local=LocalTraining(lr=ff.decay(1.0, 0.5))
    )
    assert [exp.lr(t) for t in range(3)] == [1.0, 0.5, 0.25]
    assert [exp.lr(t) for t in range(3, 6)] == pytest.approx([0.15, 0.1, 0.15])


def test_infinite_pause(tmp_path: Path) -> None:
    exp = experiment(loss=cross_entropy)
    begin(exp, tmp_path / "run", pause=math.inf)
    assert exp.as_json()["loss"] == "cross_entropy"
