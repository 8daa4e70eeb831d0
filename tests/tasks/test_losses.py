"""Losses as sums and counts: what is ignored weighs nothing within a batch, over batches and in
every mean of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import fedflat as ff
from fedflat.client.evaluate import scores
from fedflat.client.full_gradient import full_gradient
from fedflat.client.learner import Learner
from fedflat.client.local import LocalTraining
from fedflat.client.training import ClientJob
from fedflat.data.examples import Batch, ClientData, Examples
from fedflat.flatness.hessian import Hessian
from fedflat.flatness.objective import Objective
from fedflat.flatness.points import losses
from fedflat.tasks.classification import Classification
from fedflat.tasks.segmentation import Segmentation
from fedflat.tasks.task import Task

RNG = np.random.default_rng(0)


def log_softmax(scores: np.ndarray, axis: int) -> np.ndarray:
    shifted = scores - scores.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def summed(task: Task, output: np.ndarray, targets: np.ndarray) -> tuple[float, int]:
    total, count = task.loss(
        torch.from_numpy(output), Batch(torch.zeros(len(output), 1), torch.from_numpy(targets))
    )
    return float(total), int(count)


def test_classification_has_the_bits_of_the_mean() -> None:
    for rows, classes in ((1, 3), (7, 10), (64, 62)):
        output = torch.randn(
            rows, classes, generator=torch.Generator().manual_seed(rows), requires_grad=True
        )
        y = torch.arange(rows) % classes
        mean, count = Classification().mean(output, Batch(output, y))
        assert count == rows
        assert torch.equal(mean, cross_entropy(output, y))
        ours, theirs = (
            torch.autograd.grad(loss, output)[0] for loss in (mean, cross_entropy(output, y))
        )
        assert torch.equal(ours, theirs)


def test_segmentation_by_hand() -> None:
    output, labels = RNG.normal(size=(3, 4, 5, 6)), RNG.integers(0, 4, size=(3, 5, 6))
    labels[RNG.random(labels.shape) < 0.3] = 9
    each = -np.take_along_axis(
        log_softmax(output, 1), np.where(labels == 9, 0, labels)[:, None], 1
    )[:, 0]
    total, count = summed(ff.segmentation(ignore=9), output, labels)
    assert count == (labels != 9).sum()
    assert total == pytest.approx(each[labels != 9].sum(), rel=1e-12)


@pytest.mark.parametrize("shape", [(4, 7), (5,)], ids=["every letter", "the last letter"])
def test_next_character_by_hand(shape: tuple[int, ...]) -> None:
    output, targets = RNG.normal(size=(*shape, 11)), RNG.integers(0, 11, size=shape)
    targets[RNG.random(shape) < 0.4] = -1
    each = -np.take_along_axis(log_softmax(output, -1), np.maximum(targets, 0)[..., None], -1)[
        ..., 0
    ]
    total, count = summed(ff.next_character(), output, targets)
    assert count == (targets >= 0).sum()
    assert total == pytest.approx(each[targets >= 0].sum(), rel=1e-12)


def test_regression_by_hand() -> None:
    output, targets = RNG.normal(size=(6, 1)), RNG.normal(size=6)
    assert summed(ff.regression(), output, targets) == (
        pytest.approx(((output[:, 0] - targets) ** 2).sum()),
        6,
    )
    output, targets = RNG.normal(size=(6, 3)), RNG.normal(size=(6, 3))
    assert summed(ff.regression(), output, targets) == (
        pytest.approx(((output - targets) ** 2).sum()),
        18,
    )


@pytest.mark.parametrize(
    "task", [ff.segmentation(), ff.next_character(ignore=255), ff.retrieval()], ids=repr
)
def test_where_nothing_counts_loss_and_gradient_are_zero(task: Task) -> None:
    shape = {"segmentation": (2, 3, 4, 4), "next_character": (2, 5, 3)}.get(
        repr(task).partition("(")[0], (2, 3)
    )
    output = torch.randn(shape, requires_grad=True)
    targets = torch.full(
        (2, 4, 4) if len(shape) == 4 else shape[:-1], 255
    )  # one place only, for retrieval
    loss, count = task.mean(output, Batch(output, targets))
    assert (float(loss.detach()), int(count)) == (0, 0)
    assert torch.equal(torch.autograd.grad(loss, output)[0], torch.zeros(shape))


class PerPixel(nn.Module):
    """Scores of each pixel from its three channels: a small problem with masks."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


def masked(count: int = 300) -> ClientData:
    """Images whose masks are ignored in very different parts; some as a whole."""
    rng = torch.Generator().manual_seed(1)
    x = torch.randn(count, 3, 2, 2, generator=rng, dtype=torch.float64)
    y = torch.randint(4, (count, 2, 2), generator=rng)
    y[torch.rand(y.shape, generator=rng) < torch.linspace(0, 1, count).view(-1, 1, 1)] = 255
    y[-30:] = 255
    return ClientData(Examples(x, y, 4), torch.arange(count))


def whole(data: ClientData, w: Tensor) -> Tensor:
    """The mean loss over all pixels that count, at once and by torch alone."""
    weight, bias = w[:12].view(4, 3, 1, 1), w[12:]
    batch = data.batch(torch.arange(len(data)), torch.float64)
    output = nn.functional.conv2d(batch.inputs, weight, bias)
    return cross_entropy(output, batch.targets, ignore_index=255)


def test_every_mean_over_batches_is_the_whole_sum_by_the_whole_count() -> None:
    """Evaluation, the gradient over all data, objective, landscape and Hessian, in batches that
    count differently."""
    data = masked()
    learner = Learner(PerPixel, (3, 2, 2), 4, seed=0, task=Segmentation(), dtype="float64")
    w = learner.initial().params.requires_grad_()
    expected = whole(data, w)
    (gradient,) = torch.autograd.grad(expected, w, create_graph=True)
    w, loss = w.detach(), float(expected.detach())
    learner.flat.load(w)
    assert scores(learner, data)["loss"] == pytest.approx(loss, rel=1e-12)
    job = ClientJob(learner, (), LocalTraining(), 0)
    torch.testing.assert_close(
        full_gradient(job.learner, data, w), gradient.detach(), rtol=1e-10, atol=1e-12
    )
    objective = Objective(learner, torch.empty(0), data, batch_size=70)
    assert objective.loss(w) == pytest.approx(loss, rel=1e-12)
    torch.testing.assert_close(objective.gradient(w)[1], gradient.detach(), rtol=1e-10, atol=1e-12)
    (value,) = losses(learner, torch.empty(0), [w], data)
    assert value.loss == pytest.approx(loss, rel=1e-12)
    hessian = torch.autograd.functional.hessian(lambda at: whole(data, at), w)
    ours = Hessian(learner, learner.initial(), data, batch_size=70) @ torch.eye(
        len(w), dtype=torch.float64
    )
    torch.testing.assert_close(ours, hessian, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("executor", ["in-process", "stacked"])
def test_clients_weigh_what_is_counted_at_them(executor: str) -> None:
    """One step of everybody on all data is a step down the mean loss over everybody's pixels that
    count."""
    data = masked(40)
    x, y = data.examples.inputs, data.examples.targets  # type: ignore[attr-defined]
    y[:10] = 255  # a client without any
    on = _Pixels(Examples(x, y, 4))
    result = ff.run(
        "fedavg",
        on=on,
        task=Segmentation(),
        model=PerPixel,
        rounds=1,
        clients_per_round=4,
        batch_size=10,
        lr=0.5,
        dtype="float64",
        executor=executor,
        quiet=True,
    )
    learner = ff.experiment(
        "fedavg", on, rounds=1, task="segmentation()", model=PerPixel, dtype="float64"
    )
    w = learner.open_learner(on.open(0), "cpu").initial().params.requires_grad_()
    (gradient,) = torch.autograd.grad(whole(data, w), w)
    torch.testing.assert_close(
        result.model.params, w.detach() - 0.5 * gradient, rtol=1e-10, atol=1e-12
    )


@dataclass(frozen=True, repr=False, eq=False)
class _Pixels(ff.DataSpec):
    """Four clients with ten images each, in order."""

    examples: Examples

    def open(self, seed: int) -> ff.Federation:
        everything = torch.arange(len(self.examples))
        return ff.PartitionedFederation(
            self.examples, ClientData(self.examples, everything), everything.split(10)
        )


def test_a_loss_of_ones_own_keeps_its_mean_as_it_is() -> None:
    exp = ff.experiment(
        "fedavg", "digits(clients=5)", rounds=1, loss=lambda output, y: cross_entropy(output, y) * 3
    )
    learner = exp.open_learner(exp.on.open(0), "cpu")
    batch = exp.on.open(0).test.batch(torch.arange(7), torch.float32)
    output = learner.flat.forward(batch.inputs)
    mean, count = learner.mean(output, batch)
    assert count == 7
    assert torch.equal(mean, cross_entropy(output, batch.targets) * 3)
    assert "accuracy" in scores(learner, exp.on.open(0).test)
