"""MAN: what it measures, what it costs, and that it leaves no hooks behind."""

from __future__ import annotations

from contextlib import suppress

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import fedflat
from client.stages import vector, visiting
from fedflat import cnn, mlp, resnet20, tiny_convnet
from fedflat.client.instructions import Gradient
from fedflat.client.learner import Learner
from fedflat.client.local import LocalTraining
from fedflat.client.loss_terms import ACTIVATIONS, Man, activations
from fedflat.client.piece import ClientContext, ModelInfo, Piece
from fedflat.client.sharpness import Sam
from fedflat.client.training import ClientJob, Request, run_client
from fedflat.core.flat import Layout
from fedflat.core.messages import Broadcast
from fedflat.core.schedules import warmup
from fedflat.data.examples import Batch
from fedflat.data.sets.in_memory import clients_of
from fedflat.errors import SettingError
from fedflat.experiments.prepare import prepare
from fedflat.experiments.run_cost import remarks

IMAGES = torch.tensor([[[[1.0, 0.0], [2.0, 1.0]]], [[[0.0, 0.0], [0.0, 2.0]]]], dtype=torch.float64)
ROWS = torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]], dtype=torch.float64)


class Two(nn.Module):
    """A network whose two activations come out as given; the logits are large and must not
    count."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.pool, self.second = nn.ReLU(), nn.MaxPool2d(2), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        self.pool(self.first(IMAGES - 0 * x.sum()))
        return 100 * self.second(ROWS)


def seen_by(man: Man, module: nn.Module, x: Tensor, t: int = 0) -> tuple[list[float], float]:
    """Each activation's mean square, and the term's value."""
    with man.hooks(module) as seen:
        output = module(x)
    value = man.loss(
        visiting(man, vector(0.0), round=t), Batch(x, torch.zeros(len(x))), output, seen
    )
    return [float(part.detach()) for part in seen], float(value.detach())


def test_the_numbers() -> None:
    parts, value = seen_by(Man(0.15), Two(), torch.zeros(2, 1))
    assert parts == pytest.approx([1.25, 1.16666667])
    assert sum(parts) == pytest.approx(2.41666667)
    assert value == pytest.approx(0.3625)
    assert seen_by(Man(0.15, "repo"), Two(), torch.zeros(2, 1))[1] == pytest.approx(0.3625 / 2)
    assert seen_by(Man(warmup(0.0, 0.3, 2)), Two(), torch.zeros(2, 1), t=1)[1] == pytest.approx(
        0.3625
    )
    assert seen_by(Man(0), Two(), torch.zeros(2, 1))[1] == 0


@pytest.mark.parametrize(
    ("spec", "shape", "terms"),
    [
        (mlp([4]), (5,), 1),
        (mlp([4, 3]), (5,), 2),
        (cnn(), (3, 32, 32), 4),
        (tiny_convnet(), (3, 64, 64), 5),
        (resnet20(), (3, 8, 8), 19),
    ],
)
def test_one_term_for_each_hidden_layer(spec: object, shape: tuple[int, ...], terms: int) -> None:
    module = spec.build(shape, 10)  # type: ignore[attr-defined]
    parts, value = seen_by(Man(1.0), module, torch.randn(2, *shape))
    assert len(parts) == len(activations(module)) == terms
    assert value == pytest.approx(sum(parts), rel=1e-5)


def test_hooks_are_removed_even_after_an_error() -> None:
    module = mlp([4]).build((5,), 3)
    with suppress(ZeroDivisionError), Man(1.0).hooks(module):
        assert any(part._forward_hooks for part in module.modules())
        raise ZeroDivisionError
    assert not any(part._forward_hooks for part in module.modules())


def test_activations_must_be_modules() -> None:
    class Functional(nn.Module):
        """Has its non-linearity in a function."""

        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(self.fc(x))

    module = Functional()
    with pytest.raises(SettingError, match="found none"):
        Man(0.1).check(ModelInfo((), module, Layout.of(module)))
    seen = mlp([3]).build((2,), 2)
    Man(0.1).check(ModelInfo((), seen, Layout.of(seen)))
    assert all(issubclass(kind, nn.Module) for kind in ACTIVATIONS)


@pytest.mark.parametrize("wrong", [{"zeta": -1}, {"zeta": 0.1, "man_scale": "half"}])
def test_settings(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingError, match="man: "):
        Man(**wrong)  # type: ignore[arg-type]


RNG = torch.Generator().manual_seed(0)
X, Y = torch.randn(6, 4, generator=RNG, dtype=torch.float64), torch.arange(6) % 3
DATA = clients_of([(X, Y)], test=(X, Y), classes=3).open(0).data(0)


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 3)
    ).double()


def gradient(module: nn.Module, zeta: float) -> tuple[Tensor, ...]:
    """Of cross-entropy plus the term, written out."""
    one = torch.tanh(module[0](X))  # type: ignore[index]
    two = torch.relu(module[2](one))  # type: ignore[index]
    value = cross_entropy(module[4](two), Y) + zeta * (one.square().mean() + two.square().mean())  # type: ignore[index]
    return torch.autograd.grad(value, list(module.parameters()))


@pytest.mark.parametrize("rho", [0.0, 0.4])
@pytest.mark.parametrize("scale", ["paper", "repo"])
def test_the_term_is_in_ascent_and_descent(rho: float, scale: str) -> None:
    pieces: tuple[Piece, ...] = (Man(2.0, scale), Sam(rho))
    job = ClientJob(
        Learner(network(), (4,), 3, seed=0, dtype="float64"),
        pieces,
        LocalTraining(batch_size=6),
        seed=0,
    )
    start = job.learner.initial().params
    reply, _ = run_client(job, Request(0, Broadcast(0, start, torch.zeros(0), 0.1), {}), DATA)
    module, zeta = network(), 2.0 if scale == "paper" else 1.0
    g = gradient(module, zeta)
    norm = torch.cat([part.view(-1) for part in g]).norm()
    with torch.no_grad():
        for p, part in zip(module.parameters(), g, strict=True):
            p += rho * part / norm
    expected = torch.cat([part.reshape(-1) for part in gradient(module, zeta)])
    torch.testing.assert_close(reply.delta, 0.1 * expected, rtol=1e-10, atol=1e-12)
    assert not any(part._forward_hooks for part in job.learner.flat.module.modules())


def test_the_term_is_in_the_gradient_over_all_data() -> None:
    """Mime's first exchange asks for the gradient of the very loss the clients train on."""
    job = ClientJob(
        Learner(network(), (4,), 3, seed=0, dtype="float64"), (Man(2.0),), LocalTraining(), seed=0
    )
    start = job.learner.initial().params
    reply, _ = run_client(
        job, Request(0, Broadcast(0, start, torch.zeros(0), 0.1, instruction=Gradient()), {}), DATA
    )
    expected = torch.cat([part.reshape(-1) for part in gradient(network(), 2.0)])
    torch.testing.assert_close(reply.delta, expected, rtol=1e-10, atol=1e-12)


class Lite(Piece):
    """Asks for the gradient over all data as MimeLite does."""

    stage, key = Sam.stage, "lite"

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        v.outbox["c"] = v.full_gradient(w)
        return w


def test_full_gradients_include_the_term() -> None:
    job = ClientJob(
        Learner(network(), (4,), 3, seed=0, dtype="float64"),
        (Man(2.0), Lite()),
        LocalTraining(),
        seed=0,
    )
    start = job.learner.initial().params
    reply, _ = run_client(job, Request(0, Broadcast(0, start, torch.zeros(0), 0.1), {}), DATA)
    expected = torch.cat([part.reshape(-1) for part in gradient(network(), 2.0)])
    torch.testing.assert_close(reply.extras["lite"]["c"], expected, rtol=1e-10, atol=1e-12)


def test_a_run_says_which_activations_it_found() -> None:
    exp = fedflat.experiment(
        "fedavg + man", "digits(clients=10)", model="mlp(hidden=[8, 8])", rounds=1
    )
    (remark,) = remarks(prepare(exp))
    names = [
        name
        for name, part in prepare(exp).job.learner.flat.module.named_modules()
        if isinstance(part, nn.ReLU)
    ]
    assert remark == f"man penalises 2 activations: {names[0]} (ReLU), {names[1]} (ReLU)"
    assert remarks(prepare(fedflat.experiment("fedavg", "digits(clients=10)", rounds=1))) == []


def gradients(module: nn.Module, x: Tensor, value: Tensor) -> list[Tensor]:
    """The slopes of a value by the inputs and by every parameter, and those of their squares:
    derived twice."""
    leaves = [x, *module.parameters()]
    once = torch.autograd.grad(value, leaves, create_graph=True)
    twice = torch.autograd.grad(
        sum((one.square().sum() for one in once), value.new_zeros(())), leaves
    )
    return [*(one.detach() for one in once), *twice]


@pytest.mark.parametrize(
    "middle", [nn.ReLU(), nn.ReLU(inplace=True), nn.Tanh()], ids=["relu", "inplace", "tanh"]
)
@pytest.mark.parametrize(
    "form", [torch.contiguous_format, torch.channels_last], ids=["first", "last"]
)
def test_its_slopes_are_those_of_mean_squares(middle: nn.Module, form: torch.memory_format) -> None:
    module = nn.Sequential(
        nn.Conv2d(2, 3, 3), middle, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 4)
    ).double()
    x = torch.randn(5, 2, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x = x.contiguous(memory_format=form).requires_grad_()
    with Man(0.3).hooks(module) as seen:
        output = module(x)
    found = gradients(module, x, output.square().sum() + 0.3 * torch.stack(seen).sum())

    hidden = middle(module[0](x))
    output = module[2:](hidden)
    expected = gradients(module, x, output.square().sum() + 0.3 * (hidden * hidden).mean())
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
