"""Images in the channels-last or contiguous memory format give the same numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedflat.client.learner import Learner
from fedflat.data.examples import Batch
from fedflat.data.sets.in_memory import clients_of
from fedflat.errors import SettingError
from fedflat.execution.in_process import InProcess
from fedflat.execution.workers import Workers
from fedflat.experiments.api import experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.results.results import Result
from fedflat.experiments.train import train
from fedflat.kernels.memory_format import channels_last, gains
from fedflat.models.spec import ModelSpec
from fedflat.registry.specs import parse
from fedflat.settings.groups import CHANNELS_LAST, CONTIGUOUS


class Viewing(nn.Module):
    """Flattens in a way that asks for one order of memory."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv2d(3, 8, 3), nn.Linear(8 * 4 * 4, 5)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.out(self.conv(x).relu().view(len(x), -1))
        return scores


class Watching(nn.Module):
    """Notes how its images lie."""

    def __init__(self, channels: int = 3, width: int = 8) -> None:
        super().__init__()
        self.conv, self.norm, self.out = (
            nn.Conv2d(channels, width, 3),
            nn.BatchNorm2d(width),
            nn.Linear(width, 5),
        )
        self.seen: list[tuple[int, ...]] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x.stride())
        scores: Tensor = self.out(self.norm(self.conv(x)).amax((2, 3)))
        return scores


def batch_of(shape: tuple[int, ...], dtype: torch.dtype = torch.float32, classes: int = 5) -> Batch:
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(4, *shape, generator=rng, dtype=torch.float64).to(dtype)
    return Batch(x, torch.randint(classes, (4,), generator=rng))


@pytest.mark.parametrize("layout", [CONTIGUOUS, CHANNELS_LAST])
@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("cnn", (3, 16, 16)),
        ("cnn", (1, 16, 16)),
        ("cnn(pool_first=False)", (3, 16, 16)),
        ("resnet20", (3, 8, 8)),
        ("resnet20(norm='batch')", (3, 8, 8)),
        ("tiny_convnet", (3, 8, 8)),
        ("mlp([6])", (3, 4, 4)),
    ],
)
def test_the_gradient_is_that_of_plain_torch(
    text: str, shape: tuple[int, ...], layout: str
) -> None:
    spec = parse(text, "model")
    assert isinstance(spec, ModelSpec)
    learner, batch = (
        Learner(spec, shape, 5, seed=0, dtype="float64", layout=layout),
        batch_of(shape, torch.float64),
    )
    oracle = learner.oracle(batch, [])
    gradient = oracle(learner.initial().params)
    module = learner.module().double().train()
    loss = cross_entropy(module(batch.inputs), batch.targets)
    loss.backward()  # type: ignore[no-untyped-call]
    plain = torch.cat([p.grad.reshape(-1) for p in module.parameters() if p.grad is not None])
    assert torch.allclose(gradient, plain, rtol=1e-10, atol=1e-10 * float(plain.abs().max()))
    assert oracle.loss is not None
    assert float(oracle.loss) == pytest.approx(float(loss.detach()), rel=1e-10)


@pytest.mark.parametrize(
    ("layout", "channels", "width", "strides"),
    [
        ("auto", 3, 8, (108, 1, 18, 3)),
        ("auto", 1, 8, (36, 1, 6, 1)),
        ("auto", 3, 4, (108, 36, 6, 1)),
        ("contiguous", 3, 8, (108, 36, 6, 1)),
        ("channels-last", 3, 4, (108, 1, 18, 3)),
    ],
)
def test_how_they_lie_in_training(
    layout: str, channels: int, width: int, strides: tuple[int, ...]
) -> None:
    learner = Learner(lambda: Watching(channels, width), (channels, 6, 6), 5, seed=0, layout=layout)
    oracle = learner.oracle(batch_of((channels, 6, 6)), [])
    oracle(learner.initial().params)
    oracle(learner.initial().params)
    assert learner.flat.module.seen == [strides] * 2


def test_one_channel_goes_on_with_channels_last() -> None:
    """The format is known by the strides, which for one channel torch would leave as they are."""
    assert nn.Conv2d(1, 8, 3)(channels_last(torch.ones(2, 1, 6, 6))).stride() == (128, 1, 32, 8)


def test_trying_leaves_no_trace() -> None:
    learner, before = Learner(Watching, (3, 6, 6), 5, seed=0), torch.random.get_rng_state()
    start = learner.flat.model()
    assert learner.trains_channels_last
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(learner.flat.buffers, start.buffers)
    assert learner.flat.module.seen == []


def layers(*more: nn.Module, width: int = 16, groups: int = 1) -> nn.Module:
    return nn.Sequential(nn.Conv2d(16, width, 3, groups=groups), *more)


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (layers(nn.MaxPool2d(2)), True),
        (layers(groups=16), True),
        (layers(groups=2), False),
        (layers(width=4), False),
        (layers(width=128), False),
        (layers(nn.MaxPool2d(2), width=128), True),
        (layers(width=64), True),
        (layers(nn.InstanceNorm2d(16)), False),
        (layers(nn.ConvTranspose2d(16, 16, 3)), False),
        (nn.Sequential(nn.Flatten(), nn.Linear(48, 5)), False),
    ],
)
def test_what_gains(module: nn.Module, expected: bool) -> None:
    assert gains(module) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cnn", True),
        ("fsa_cnn", True),
        ("tiny_convnet", True),
        ("resnet20", True),
        ("resnet18", False),
        ("mlp", False),
    ],
)
def test_models_for_which_channels_last_is_chosen(text: str, expected: bool) -> None:
    spec = parse(text, "model")
    assert isinstance(spec, ModelSpec)
    with torch.device("meta"):
        assert gains(spec.build((3, 32, 32), 10)) is expected


def data_of(shape: tuple[int, ...]) -> Any:
    batch = batch_of(shape)
    x, y = batch.inputs, batch.targets
    return clients_of([(x, y), (x + 1, y)], test=(x, y), classes=5)


def test_a_module_with_view() -> None:
    learner = Learner(Viewing, (3, 6, 6), 5, seed=0)
    assert not learner.trains_channels_last
    assert bool(learner.oracle(batch_of((3, 6, 6)), [])(learner.initial().params).isfinite().all())
    exp = experiment(
        "fedavg",
        data_of((3, 6, 6)),
        model=Viewing,
        rounds=1,
        clients_per_round=2,
        layout="channels-last",
    )
    with pytest.raises(
        SettingError, match=r"the model cannot be trained so: .*view.* Use 'auto' or 'contiguous'"
    ):
        prepare(exp)
    prepare(replace(exp, layout="auto"))


def test_no_images() -> None:
    exp = experiment("fedavg", data_of((6,)), model="mlp([4])", rounds=1, clients_per_round=2)
    prepare(exp)
    with pytest.raises(SettingError, match=r"is for images, found inputs of shape \(6,\)"):
        prepare(replace(exp, layout="channels-last"))


@pytest.mark.usefixtures("warm_processes")
def test_the_same_bits_in_a_worker() -> None:
    exp = experiment(
        "fedsam(rho=0.05)",
        data_of((3, 16, 16)),
        model="cnn",
        rounds=1,
        clients_per_round=2,
        batch_size=3,
    )
    assert prepare(exp).job.learner.trains_channels_last
    here, there = (train(exp, executor=executor) for executor in (InProcess(1), Workers(1)))
    assert numbers(here) == numbers(there)


def numbers(result: Result) -> list[tuple[float, float]]:
    return [(row["loss"], row["train_loss"]) for row in result.rows]
