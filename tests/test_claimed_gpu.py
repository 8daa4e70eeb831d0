"""Whole runs on a GPU that is not there: no operation mixes devices, and the bits are the CPU's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

import fedflat as ff
from claimed_gpu import DEVICE, ClaimedGpu, numbers
from fedflat.client.stacked_mlp import StackedMLP
from fedflat.core.flat import Model
from fedflat.data.augment import CropFlip
from fedflat.data.federation import DataSpec
from fedflat.data.partitions.iid import Iid
from fedflat.data.sets.in_memory import tensors
from fedflat.execution import stacked_pool
from fedflat.execution.client_pool import Executor
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.train import train
from test_every_method import EVERY, experiment, method_of

QUICK = [
    "fedavg()",
    "sam(rho=warmup(0.0, 0.1, 2))",
    "fedgloss(rho_s=0.1, rho_l=0.1, beta=10.0, T_s=2, delta_eps=True)",
    "scaffold()",
    "man(zeta=0.2)",
    "swa(start=1, cycle=1, high=0.05, low=0.01)",
    "fedbn() + sam(rho=0.05)",
    "fedsam(rho=0.05) + mixup() + cutout(side=3)",
    "fedadam(lr=0.05)",
]
STREET = (
    "street(towns=2, clients=4, examples={}, tests=4, width=32, height=16, unseen_weather='snow'{})"
)


def both(exp: Experiment, executor: Executor = InProcess(1)) -> tuple[Model, Model]:
    """The models of a run on the CPU and on the claimed GPU."""
    expected = train(prepare(exp), executor=executor).model
    with ClaimedGpu():
        found = train(prepare(exp, str(DEVICE)), executor=executor).model
    assert expected is not None
    assert found is not None
    assert found.params.device == found.buffers.device == DEVICE
    return expected, Model(numbers(found.params), numbers(found.buffers))


def assert_same_bits(exp: Experiment, executor: Executor = InProcess(1)) -> None:
    expected, found = both(exp, executor)
    assert torch.equal(found.params, expected.params)
    assert torch.equal(found.buffers, expected.buffers)


def of_run(method: str, on: DataSpec | str, **settings: Any) -> Experiment:
    given = {"rounds": 2, "clients_per_round": 2, "batch_size": 3, "lr": 0.05, "eval_every": 1}
    return ff.experiment(method, on=on, **given | settings)


@pytest.mark.parametrize(
    "text", [pytest.param(t, marks=[] if t in QUICK else [pytest.mark.slow]) for t in EVERY]
)
def test_methods(text: str) -> None:
    """Local steps, the server's step, averages, checks before the run, and evaluation."""
    assert_same_bits(replace(experiment(method_of(text)), rounds=2))


def test_all_quick_methods_are_in_the_table() -> None:
    assert set(QUICK) <= set(EVERY)


TASKS = {
    "segmentation": of_run("fedavg", STREET.format(2, ""), model="small_unet(width=4)"),
    "retrieval": of_run(
        "fedavg",
        STREET.format(8, ", targets='place', unseen_towns=0"),
        model="embedder(width=4)",
        task="retrieval(width=8)",
        rounds=1,
        local_steps=1,
    ),
    "chains": of_run("fedseq", "digits(lda(0.5), clients=20)", model="mlp([8])", batch_size=64),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "retrieval")) for n in TASKS]
)
def test_tasks_and_groups(name: str) -> None:
    """Confusion matrices, descriptors of places, and clients that describe themselves."""
    assert_same_bits(TASKS[name])


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")  # by deepcopy
def test_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Formulas written by hand are for CPUs; elsewhere the gradients of stacks are traced."""
    monkeypatch.setattr(StackedMLP, "of", lambda learner: None)
    monkeypatch.setattr(stacked_pool, "free_memory", lambda device: None)
    on = "synthetic(clients=8, examples=6, features=8)"
    assert_same_bits(of_run("fedsam + scaffold", on, model="mlp([4])"), Stacked())


def test_images_with_crops_and_batch_normalisation() -> None:
    """On the CPU the images are channels-last where that is faster, so sums have another order."""
    rng = torch.Generator().manual_seed(0)
    x = torch.randint(256, (8, 3, 16, 16), generator=rng, dtype=torch.uint8)
    y = torch.arange(8) % 2
    crops = CropFlip(padding=2)
    on = tensors(x, y, x[:4], y[:4], Iid(), clients=2, classes=2, augment=crops)
    expected, found = both(of_run("fedavg", on, model=normalised, rounds=1))
    torch.testing.assert_close(found.params, expected.params, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.buffers, expected.buffers, rtol=1e-4, atol=1e-5)


def normalised() -> nn.Module:
    """A small convolutional network with batch normalisation."""
    layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(784, 2)
    return nn.Sequential(*layers)


@pytest.fixture
def gpu() -> Iterator[ClaimedGpu]:
    with ClaimedGpu() as gpu:
        yield gpu


def test_mixed_devices_are_refused(gpu: ClaimedGpu) -> None:
    module = nn.Linear(3, 2).to(DEVICE)
    assert module(torch.ones(1, 3).to(DEVICE)).device == DEVICE
    with pytest.raises(RuntimeError, match="cpu and cuda:0"):
        module(torch.ones(1, 3))
    with pytest.raises(RuntimeError, match="cpu"):
        module.weight.detach().index_select(0, torch.tensor([0]))


def test_numbers_are_those_of_the_cpu(gpu: ClaimedGpu) -> None:
    x = torch.arange(6.0).view(2, 3)
    there = x.to(DEVICE).requires_grad_()
    (there.T @ there).square().sum().backward()
    here = x.clone().requires_grad_()
    (here.T @ here).square().sum().backward()
    assert there.grad is not None
    assert there.grad.device == DEVICE
    assert there.grad.cpu().tolist() == here.grad.tolist()
    assert gpu.reads == 0
    assert float(there.detach().sum()) == 15
    assert gpu.reads == 1
