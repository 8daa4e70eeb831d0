"""Products with the Hessian are exact for every kind of layer, leave no trace, and can be had by
layer."""

from __future__ import annotations

import weakref

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, hessian
from torch.nn.functional import cross_entropy

from fedflat.client.learner import Learner
from fedflat.core.flat import Model
from fedflat.errors import SettingError
from fedflat.flatness.hessian import Hessian
from fedflat.tasks.wrapped import OwnLoss
from flatness.networks import NETWORKS, dense, network, plain, plain_gradient, toy


class Canary:
    """Something to tell whether a graph lives."""


@pytest.mark.parametrize("kind", NETWORKS)
def test_columns_are_those_of_finite_differences(kind: str) -> None:
    learner, model, data = network(kind)
    ours = Hessian(learner, model, data, batch_size=8)
    whole = ours @ torch.eye(len(model.params), dtype=torch.float64)
    torch.testing.assert_close(whole, whole.T, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(whole, dense(kind), rtol=1e-5, atol=1e-7)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
def test_the_dense_hessian_of_forward_mode() -> None:
    learner, model, data = network("mlp")
    module, x, y = plain(learner, model, data)
    sizes = [p.numel() for p in module.parameters()]

    def loss(w: Tensor) -> Tensor:
        named = {
            n: v.view_as(p)
            for (n, p), v in zip(module.named_parameters(), w.split(sizes), strict=True)
        }
        return cross_entropy(functional_call(module, named, (x,)), y)

    ours = Hessian(learner, model, data, batch_size=3) @ torch.eye(
        len(model.params), dtype=torch.float64
    )
    torch.testing.assert_close(ours, hessian(loss)(model.params), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", ["batch norm", "group norm", "dropout", "lstm"])
def test_loss_and_gradient_are_those_of_the_whole_set_in_evaluation_mode(kind: str) -> None:
    learner, model, data = network(kind)
    ours = Hessian(learner, model, data, batch_size=4)
    module, x, y = plain(learner, model, data)
    assert ours.loss == pytest.approx(float(cross_entropy(module(x), y).detach()), rel=1e-12)
    torch.testing.assert_close(ours.gradient, plain_gradient(module, x, y), rtol=1e-10, atol=1e-13)


def test_the_quadratic() -> None:
    ours = Hessian(*toy(), batch_size=1)
    assert (ours @ torch.tensor([1.0, 2.0], dtype=torch.float64)).tolist() == [1.5, 5.0]
    assert ours.loss == pytest.approx(7.5, abs=1e-12)
    assert ours.gradient.tolist() == [3.5, 3.5]


@pytest.mark.parametrize("kind", ["group norm", "lstm"])
def test_float32_is_close_to_float64(kind: str) -> None:
    learner, model, data = network(kind)
    single = network(kind, dtype="float32")[0]
    v = torch.randn(len(model.params), generator=torch.Generator().manual_seed(0))
    ours = Hessian(single, model, data) @ v
    assert ours.dtype == torch.float32
    torch.testing.assert_close(
        ours.double(), Hessian(learner, model, data) @ v, rtol=1e-3, atol=1e-5
    )


def test_a_block_is_its_columns_and_batches_do_not_matter() -> None:
    learner, model, data = network("group norm")
    block = torch.randn(
        len(model.params), 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    ours, other = Hessian(learner, model, data), Hessian(learner, model, data, batch_size=2)
    assert torch.equal(ours @ block, torch.stack([ours @ v for v in block.T], dim=1))
    torch.testing.assert_close(ours @ block, other @ block, rtol=1e-10, atol=1e-12)


def test_layers_are_blocks_of_the_diagonal() -> None:
    learner, model, data = network("lstm")
    ours = Hessian(learner, model, data)
    whole = ours @ torch.eye(len(model.params), dtype=torch.float64)
    begin = 0
    for name, block in ours.layers().items():
        end = begin + block.shape[0]
        part = ours.layer(name) @ torch.eye(block.shape[0], dtype=torch.float64)
        torch.testing.assert_close(part, whole[begin:end, begin:end], rtol=1e-10, atol=1e-13)
        begin = end
    assert list(ours.layers()) == ["words", "lstm", "out"]
    assert begin == len(whole)


def test_the_task_notices_nothing() -> None:
    learner, model, data = network("batch norm")
    learner.flat.module.train()
    before, params = learner.flat.model(), model.params.clone()
    Hessian(learner, model, data) @ model.params
    assert learner.flat.module.training
    assert torch.equal(learner.flat.model().params, before.params)
    assert torch.equal(learner.flat.model().buffers, before.buffers)
    assert torch.equal(model.params, params)
    assert not model.params.requires_grad


@pytest.mark.parametrize("hold", [0, 2**30])
def test_nothing_is_left_behind_from_product_to_product(
    hold: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A canary sits in every graph, and dies with it."""
    learner, model, data = network("group norm")
    ours = Hessian(learner, model, data, batch_size=4, hold=hold)
    canaries: list[weakref.ref[Canary]] = []

    def loss(output: Tensor, y: Tensor) -> Tensor:
        assert output.grad_fn is not None
        output.grad_fn.metadata["canary"] = canary = Canary()
        canaries.append(weakref.ref(canary))
        return cross_entropy(output, y)

    monkeypatch.setattr(learner, "task", OwnLoss(learner.task, loss))
    for products in range(1, 4):
        ours @ model.params
        assert len(canaries) == (3 if hold else 3 * products)
        assert sum(canary() is not None for canary in canaries) == (3 if hold else 0)


def test_only_so_much_is_held() -> None:
    learner, model, data = network("group norm", count=12)
    whole = Hessian(learner, model, data, batch_size=4)
    whole @ model.params
    assert len(whole._graphs) == 3
    two_thirds = Hessian(learner, model, data, batch_size=4, hold=whole._bytes * 3 // 4)
    assert torch.equal(two_thirds @ model.params, whole @ model.params)
    assert len(two_thirds._graphs) == 2


def test_parameters_without_curvature() -> None:
    """One that the loss does not reach, and a loss that is linear in all it reaches."""

    class Linear(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.idle = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2))

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.used

    _, _, data = network("mlp")
    learner = Learner(
        Linear, (3,), 1, seed=0, loss=lambda output, y: output.mean(), dtype="float64"
    )
    ours = Hessian(learner, learner.initial(), data)
    assert (ours @ torch.ones(5, dtype=torch.float64)).tolist() == [0.0] * 5
    torch.testing.assert_close(ours.gradient[:3], data.examples.inputs.double().mean(dim=0))
    assert ours.gradient[3:].tolist() == [0.0, 0.0]


def test_refusals() -> None:
    learner, model, data = network("mlp")
    with pytest.raises(SettingError, match="no layer '1' with parameters"):
        Hessian(learner, model, data).layer("1")
    with pytest.raises(SettingError, match=r"needs a vector of that length.*found shape \(3,\)"):
        Hessian(learner, model, data) @ torch.ones(3)
    with pytest.raises(SettingError, match="empty set is not defined: found 0 examples"):
        Hessian(
            learner, Model(model.params, model.buffers), type(data)(data.examples, data.index[:0])
        )
