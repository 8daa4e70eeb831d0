"""The drift of clients: the toy problem's number, and a plain loop."""

from __future__ import annotations

from statistics import fmean

import pytest

from experiments.recording.record_one import cohort, experiment, local_train, record, seen
from fedflat.client.local import LocalTraining
from fedflat.execution.client_pool import Executor
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.experiments.prepare import prepare
from fedflat.experiments.recording import Recorder, recording_callback
from fedflat.experiments.run_folder.run_folder import RunFolder
from fedflat.experiments.train import train
from fedflat.registry.specs import parse
from literal.problem import toy_q
from quadratic import experiment as quadratic


@pytest.mark.parametrize(
    "executor", [InProcess(threads=1), Stacked()], ids=["one by one", "stacked"]
)
def test_the_toy_problem(executor: Executor) -> None:
    """Q, one step an epoch, two epochs: the mean of ||(0.4, 0.3)||, ||(0.72, 0.57)|| and their like
    of client 2."""
    run_folder = RunFolder()
    train(
        quadratic(parse("fedavg", "method"), *toy_q()),
        run_folder=run_folder,
        executor=executor,
        callbacks=recording_callback("drift"),
    )
    assert run_folder.recorded[0]["drift"] == pytest.approx(0.69383586, abs=1e-7)


@pytest.mark.parametrize(
    "executor", [InProcess(threads=1), Stacked()], ids=["one by one", "stacked"]
)
def test_a_plain_loop(executor: Executor) -> None:
    """Unequal clients, several batches an epoch, a short last one."""
    exp = experiment(local=LocalTraining(epochs=3, batch_size=4, lr=0.05))
    run_folder = record(exp, "drift", executor)
    assert list(seen(run_folder, "drift")) == [1, 2, 3, 4]
    for t, sent in enumerate(run_folder.models[:-1]):
        paths = [local_train(exp, t, client, sent) for client in cohort(exp, t)]
        ends = [[points[(e + 1) * len(points) // 3 - 1] for e in range(3)] for points in paths]
        expected = fmean(fmean(float((w - sent).norm()) for w in mine) for mine in ends)
        assert seen(run_folder, "drift")[t + 1] == pytest.approx(expected, rel=1e-9)


def test_steps_end_when_the_request_does() -> None:
    """Four steps of three examples are two whole epochs of a client with six, and yet its end is
    all that counts."""
    exp = experiment(local=LocalTraining(steps=4, batch_size=3, lr=0.05))
    run_folder = record(exp, "drift")
    for t, sent in enumerate(run_folder.models[:-1]):
        ends = [local_train(exp, t, client, sent)[-1] for client in cohort(exp, t)]
        assert seen(run_folder, "drift")[t + 1] == pytest.approx(
            fmean(float((w - sent).norm()) for w in ends), rel=1e-9
        )
    costs = Recorder.of(prepare(exp), "drift").costs()
    assert costs == ["recording drift: one norm at the end of each local training"]


def test_drift_starts_at_the_sent_model_and_probes_do_not_count() -> None:
    """NaiveFedGloSS sends a perturbed model in its second exchange; the first, from the model
    itself, is a probe."""
    exp = experiment("naive_fedgloss(rho_s=0.5, admm=False)")
    run_folder = record(exp, "drift")
    sent = run_folder.models[0]
    answers = [sent - local_train(exp, 0, client, sent)[-1] for client in cohort(exp, 0)]
    sizes = [len(prepare(exp).fed.data(client)) for client in cohort(exp, 0)]
    delta = sum(size * answer for size, answer in zip(sizes, answers, strict=True)) / sum(sizes)
    moved = sent + 0.5 * delta / delta.norm()
    paths = [local_train(exp, 0, client, moved) for client in cohort(exp, 0)]
    ends = [(points[len(points) // 2 - 1], points[-1]) for points in paths]
    expected = fmean(fmean(float((w - moved).norm()) for w in mine) for mine in ends)
    assert seen(run_folder, "drift")[1] == pytest.approx(expected, rel=1e-9)


def test_a_method_that_asks_for_gradients_too() -> None:
    """The replies with Mime's full gradients have no update."""
    drifts = seen(record(experiment("mime(b=0.9)"), "drift"), "drift")
    assert len(drifts) == 4
    assert all(drift > 0 for drift in drifts.values())
