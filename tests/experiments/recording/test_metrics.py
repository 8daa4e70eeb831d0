"""Recorded metrics of global and client models, against plain loops."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean

import pytest
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cosine_similarity, cross_entropy

from experiments.recording.record_one import (
    cohort,
    examples,
    experiment,
    local_train,
    module_at,
    record,
    seen,
)
from experiments.small import data
from fedflat.client.training import Request, run_client
from fedflat.core.flat import Model
from fedflat.core.messages import Broadcast
from fedflat.data.sets.in_memory import clients_of
from fedflat.errors import SettingError
from fedflat.execution.client_pool import Executor
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.experiments.experiment import EvaluationSchedule
from fedflat.experiments.prepare import prepare
from fedflat.experiments.recording import Recorder
from fedflat.flatness.hessian import Hessian
from fedflat.flatness.spectrum import eigenvalues
from fedflat.registry.specs import parse, registered
from literal.problem import toy_q
from quadratic import experiment as quadratic

OF_DOMAINS = "fedflat.experiments.recording.found_domains"
"""The module of the metrics that are defined for FedCG only."""
METRICS = [e.name for e in registered("metric") if e.make.__module__ != OF_DOMAINS]


def cosine(a: Tensor, b: Tensor) -> float:
    return float(cosine_similarity(a, b, dim=0))


def test_alignment_and_norm() -> None:
    run_folder = record(experiment(), "alignment,norms")
    answers = [
        before - after
        for before, after in zip(run_folder.models, run_folder.models[1:], strict=False)
    ]
    expected = {t + 2: cosine(answers[t], answers[t + 1]) for t in range(3)}
    assert seen(run_folder, "alignment") == pytest.approx(expected, rel=1e-9)
    norms = {t: math.sqrt(sum(x * x for x in run_folder.models[t].tolist())) for t in range(1, 5)}
    assert seen(run_folder, "norms") == pytest.approx(norms, rel=1e-12)


def test_alignment_is_of_what_the_cohort_answers_not_of_the_step() -> None:
    """FedAvgM steps by v <- 0.5 v + delta."""
    run_folder = record(experiment("fedavgm(beta=0.5)"), "alignment")
    steps = [
        before - after
        for before, after in zip(run_folder.models, run_folder.models[1:], strict=False)
    ]
    deltas = [steps[0], *(steps[t] - 0.5 * steps[t - 1] for t in range(1, 4))]
    expected = {t + 2: cosine(deltas[t], deltas[t + 1]) for t in range(3)}
    assert seen(run_folder, "alignment") == pytest.approx(expected, rel=1e-7)


def test_features_of_the_clients_of_the_round() -> None:
    exp = experiment()
    run_folder = record(exp, "features")
    assert list(seen(run_folder, "features")) == [2, 4]
    for round, found in seen(run_folder, "features").items():
        module = module_at(exp, run_folder.models[round])
        expected = {
            str(client): fmean(float(module(x[None]).detach().norm()) for x in examples(client)[0])
            for client in cohort(exp, round - 1)
        }
        assert found == pytest.approx(expected, rel=1e-9)


def test_features_of_all_clients() -> None:
    exp = experiment()
    run_folder = record(exp, "features(everyone=True)")
    found = seen(run_folder, "features(everyone=True)")
    assert list(found) == [2, 4]
    module = module_at(exp, run_folder.models[4])
    expected = {
        str(client): fmean(float(module(x[None]).detach().norm()) for x in examples(client)[0])
        for client in range(data().open(0).population)
    }
    assert len(expected) > len(cohort(exp, 3))
    assert found[4] == pytest.approx(expected, rel=1e-9)


def test_scores_of_all_clients() -> None:
    exp = experiment()
    run_folder = record(exp, "client_scores")
    assert list(seen(run_folder, "client_scores")) == [2, 4]
    for round, found in seen(run_folder, "client_scores").items():
        module = module_at(exp, run_folder.models[round])
        expected = {}
        for client in range(data().open(0).population):
            x, y = examples(client)
            guesses = [int(module(one[None]).argmax()) for one in x]
            expected[str(client)] = fmean(
                guess == label for guess, label in zip(guesses, y.tolist(), strict=True)
            )
        assert found == pytest.approx(expected, rel=1e-12)


def test_metrics_of_all_clients_are_refused_for_a_million(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedflat.experiments.recording.recorder.MOST_CLIENTS", 2)
    for metric in ("client_scores", "features(everyone=True)"):
        with pytest.raises(SettingError, match="evaluates all clients, at most 2, and there are"):
            Recorder.of(prepare(experiment()), metric)
    Recorder.of(prepare(experiment()), "features")


def test_classes() -> None:
    exp = experiment()
    run_folder = record(exp, "classes")
    test = data().open(0).test
    batch = test.batch(torch.arange(len(test)), torch.float64)
    assert list(seen(run_folder, "classes")) == [2, 4]
    for round, found in seen(run_folder, "classes").items():
        guesses = module_at(exp, run_folder.models[round])(batch.inputs).argmax(1).tolist()
        pairs = list(zip(guesses, batch.targets.tolist(), strict=True))
        assert found == [fmean(guess == y for guess, y in pairs if y == c) for c in range(3)]


def test_a_class_that_is_not_tested() -> None:
    given = [(torch.randn(6, 4), torch.arange(6) % 3) for _ in range(3)]
    exp = experiment(
        on=clients_of(given, test=(torch.randn(4, 4), torch.tensor([0, 2, 2, 0])), classes=3)
    )
    for accuracies in seen(record(exp, "classes"), "classes").values():
        assert [math.isnan(accuracy) for accuracy in accuracies] == [False, True, False]


@pytest.mark.parametrize(
    "executor", [InProcess(threads=1), Stacked()], ids=["one by one", "stacked"]
)
def test_the_sharpness_of_clients_models(executor: Executor) -> None:
    """Against the largest eigenvalue of the whole Hessian, written out."""
    exp = experiment()
    run_folder = record(exp, "client_lambda", executor)
    assert list(seen(run_folder, "client_lambda")) == [2, 4]
    found, sent = seen(run_folder, "client_lambda")[2], run_folder.models[1]
    assert sorted(found) == sorted(map(str, cohort(exp, 1)))
    for client in cohort(exp, 1):
        module, (x, y) = module_at(exp, sent), examples(client)
        shapes = [(name, p.shape, p.numel()) for name, p in module.named_parameters()]

        def loss(w: Tensor) -> Tensor:
            parts = zip(shapes, w.split([n for *_, n in shapes]), strict=True)  # noqa: B023 (used in this turn only)
            named = {name: part.view(shape) for (name, shape, _), part in parts}
            return cross_entropy(functional_call(module, named, (x,)), y)  # noqa: B023

        whole = torch.autograd.functional.hessian(loss, local_train(exp, 1, client, sent)[-1])
        assert found[str(client)] == pytest.approx(
            float(torch.linalg.eigvalsh(whole)[-1]), rel=1e-4
        )


@pytest.mark.parametrize(
    "executor", [InProcess(threads=1), Stacked()], ids=["one by one", "stacked"]
)
def test_the_sharpness_is_that_of_the_end_of_local_training(executor: Executor) -> None:
    """FedSpeed sends ``w_k - lam sigma_k`` back, and the model is ``w_k``."""
    exp = replace(experiment("fedspeed(rho=0.1, lam=0.5)"), evaluate=EvaluationSchedule(every=1))
    setup, found = prepare(exp), seen(record(exp, "client_lambda", executor), "client_lambda")[1]
    sent = setup.job.learner.initial()
    for client in cohort(exp, 0):
        request = Request(client, Broadcast(0, sent.params, sent.buffers, exp.lr(0)), {})
        reply, memory = run_client(setup.job, request, setup.fed.data(client))
        model = Model(sent.params - reply.delta + 0.5 * memory["dual"]["sigma"], sent.buffers)
        top = eigenvalues(
            Hessian(setup.job.learner, model, setup.fed.data(client)), 1, seed=exp.seed
        ).values[0]
        assert found[str(client)] == pytest.approx(float(top), rel=1e-4)


def test_the_stale_perturbation() -> None:
    """What the method notes, in every round and not only in those that are evaluated."""
    run_folder = record(experiment("fedgloss(rho_s=0.1, rho_l=0.05, delta_eps=True)"), "delta_eps")
    assert list(seen(run_folder, "delta_eps")) == [2, 3, 4]
    assert {row["round"]: row["delta_eps"] for row in run_folder.rows}.items() <= seen(
        run_folder, "delta_eps"
    ).items()
    assert record(experiment(), "delta_eps").recorded == []


def test_costs_are_reported() -> None:
    output = Recorder.of(prepare(experiment()), "drift,classes,client_lambda").costs()
    assert output[0] == "recording drift: one norm at the end of each local epoch"
    assert output[1] == "recording classes: one more pass over the test set every evaluation"
    assert "expensive" in output[2]


def test_no_classes_to_record() -> None:
    exp = quadratic(parse("fedavg", "method"), *toy_q())
    with pytest.raises(
        SettingError, match=r"'classes' needs a score for each of .* has the shape \(1,\)"
    ):
        Recorder.of(prepare(exp), "classes")


def test_no_share_to_record_of_clients() -> None:
    setup = prepare(experiment())
    other = replace(setup, exp=replace(setup.exp, task=parse("regression", "task")))
    with pytest.raises(SettingError, match="client_scores needs a score between 0 and 1"):
        Recorder.of(other, "client_scores")


def test_all_there_is_to_see() -> None:
    """A metric that would be refused in a run is left out of it."""
    assert [metric.key for metric in Recorder.of(prepare(experiment()), "all").metrics] == METRICS
    exp = quadratic(parse("fedavg", "method"), *toy_q())
    without = [name for name in METRICS if name != "classes"]
    assert [metric.key for metric in Recorder.of(prepare(exp), "all").metrics] == without
