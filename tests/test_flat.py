"""A module as two vectors gives the gradients torch gives, whatever is in it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedflat.core.flat import FlatModule, Layout, Model, unit
from fedflat.errors import SettingError


class Tied(nn.Module):
    """Two layers that share their weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 5), nn.Linear(5, 5)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(x)))


class Frozen(nn.Module):
    """A layer that is not trained, one that is, and one that is never used."""

    def __init__(self) -> None:
        super().__init__()
        self.fixed, self.head, self.idle = nn.Linear(5, 4), nn.Linear(4, 5), nn.Linear(2, 2)
        self.fixed.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.fixed(x)))


def make(name: str) -> nn.Module:
    torch.manual_seed(0)
    if name == "tied":
        return Tied()
    if name == "frozen":
        return Frozen()
    norm = {
        "batch": nn.BatchNorm1d(6),
        "group": nn.GroupNorm(2, 6),
        "layer": nn.LayerNorm(6),
        "none": nn.Identity(),
    }
    return nn.Sequential(nn.Linear(5, 6), norm[name], nn.ReLU(), nn.Linear(6, 5))


MODULES = ["none", "batch", "group", "layer", "tied", "frozen"]
X, Y = torch.randn(7, 5, generator=torch.Generator().manual_seed(1)).double(), torch.arange(7) % 5


def loss(module: nn.Module) -> Tensor:
    return cross_entropy(module(X), Y)


@pytest.mark.parametrize("name", MODULES)
def test_the_gradient_is_torchs(name: str) -> None:
    module = make(name).double()
    flat = FlatModule(module, dtype=torch.float64)
    shift = torch.randn(flat.layout.dim, generator=torch.Generator().manual_seed(2)).double()
    w = flat.model().params + 0.1 * shift
    value, gradient = flat.gradient(w, loss, move_buffers=True)
    trained = [p for p in module.parameters() if p.requires_grad]
    nn.utils.vector_to_parameters(w, trained)
    expected = loss(module)
    parts = torch.autograd.grad(expected, trained, allow_unused=True)
    pairs = zip(trained, parts, strict=True)
    whole = torch.cat([(torch.zeros_like(p) if g is None else g).view(-1) for p, g in pairs])
    assert torch.equal(value, expected.detach())
    torch.testing.assert_close(gradient, whole, rtol=1e-12, atol=1e-14)
    again = flat.gradient(w, loss, move_buffers=False)[1]
    torch.testing.assert_close(again, gradient, rtol=1e-12, atol=1e-14)


def test_a_gradient_is_a_function_of_the_point() -> None:
    flat = FlatModule(make("group"))
    x = X.float()
    w = flat.model().params
    first = flat.gradient(w, lambda m: cross_entropy(m(x), Y), move_buffers=True)[1]
    kept = first.clone()
    flat.gradient(w + 1, lambda m: cross_entropy(m(x), Y), move_buffers=True)
    assert torch.equal(first, kept)
    assert torch.equal(
        flat.gradient(w, lambda m: cross_entropy(m(x), Y), move_buffers=True)[1], kept
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_sparse_slopes_are_handed_out_in_full(sparse: bool) -> None:
    flat = FlatModule(nn.EmbeddingBag(5, 2, mode="sum", sparse=sparse))
    bags = torch.tensor([[0, 3], [3, 3]])
    gradient = flat.gradient(torch.zeros(10), lambda module: module(bags).sum(), move_buffers=True)[
        1
    ]
    assert gradient.view(5, 2).tolist() == [[1, 1], [0, 0], [0, 0], [3, 3], [0, 0]]


def test_running_statistics_move_only_when_asked() -> None:
    module = make("batch").double()
    flat = FlatModule(module, dtype=torch.float64)
    before = flat.buffers
    flat.gradient(flat.model().params, loss, move_buffers=False)
    assert torch.equal(flat.buffers, before)
    flat.gradient(flat.model().params, loss, move_buffers=True)
    module.train()
    module(X)
    assert isinstance(module[1], nn.BatchNorm1d)
    expected = torch.cat([module[1].running_mean, module[1].running_var])
    torch.testing.assert_close(flat.buffers, expected, rtol=1e-12, atol=1e-14)
    assert not torch.equal(flat.buffers, before)


def test_buffers_are_taken_over_and_used() -> None:
    module = make("batch").double()
    flat = FlatModule(module, dtype=torch.float64)
    flat.load(flat.model().params)
    flat.buffers = torch.arange(12).double() + 1
    assert isinstance(module[1], nn.BatchNorm1d)
    assert module[1].running_mean is not None
    assert module[1].running_var is not None
    module[1].running_mean.copy_(torch.arange(6).double() + 1)
    module[1].running_var.copy_(torch.arange(6).double() + 7)
    torch.testing.assert_close(flat.forward(X), module.eval()(X), rtol=1e-12, atol=1e-14)
    handed_out = flat.buffers
    handed_out.zero_()
    assert not torch.equal(flat.buffers, handed_out)


def test_the_users_module_is_left_alone() -> None:
    module = make("batch")
    before = {name: value.clone() for name, value in module.state_dict().items()}
    flat = FlatModule(module)
    flat.load(torch.zeros(flat.layout.dim))
    flat.gradient(
        torch.ones(flat.layout.dim), lambda m: cross_entropy(m(X.float()), Y), move_buffers=True
    )
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert all(p.grad is None for p in module.parameters())


def test_layouts() -> None:
    layout = Layout.of(make("batch"))
    assert layout.names == ("0.weight", "0.bias", "1.weight", "1.bias", "3.weight", "3.bias")
    assert layout.sizes == (30, 6, 6, 6, 30, 5)
    assert layout.dim == 83
    assert layout.buffer_names == ("1.running_mean", "1.running_var")
    assert layout.buffer_sizes == (6, 6)
    assert layout.slices["1.bias"] == slice(42, 48)
    assert layout.where(lambda name, shape: len(shape) == 2).sum() == 60
    assert layout.classifier().nonzero().view(-1).tolist() == list(range(48, 83))


def test_tied_weights_are_one_and_frozen_ones_stay_out() -> None:
    assert Layout.of(Tied()).names == ("first.weight", "first.bias", "second.bias")
    frozen = FlatModule(make("frozen"))
    assert frozen.layout.names == ("head.weight", "head.bias", "idle.weight", "idle.bias")
    assert isinstance(frozen.module, Frozen)
    fixed = frozen.module.fixed.weight.clone()
    frozen.load(torch.zeros(frozen.layout.dim))
    assert torch.equal(frozen.module.fixed.weight, fixed)
    tied = FlatModule(Tied())
    tied.load(torch.zeros(tied.layout.dim))
    assert isinstance(tied.module, Tied)
    assert tied.module.second.weight is tied.module.first.weight
    assert not tied.module.second.weight.any()


def test_what_cannot_be_trained_is_refused() -> None:
    with pytest.raises(SettingError, match="BatchNorm layer '1' has momentum=None"):
        FlatModule(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2, momentum=None)))
    FlatModule(
        nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2, momentum=None, track_running_stats=False))
    )
    with pytest.raises(SettingError, match="no trainable parameter"):
        Layout.of(nn.ReLU())


def test_models_are_copies() -> None:
    flat = FlatModule(make("none"))
    model = flat.model()
    assert isinstance(model, Model)
    flat.load(torch.zeros_like(model.params))
    assert model.params.any()
    assert not flat.model().params.any()


@pytest.mark.parametrize("shape", [(4,), (3, 4)])
def test_unit_vectors(shape: tuple[int, ...]) -> None:
    v = torch.randn(shape, generator=torch.Generator().manual_seed(0)).double()
    torch.testing.assert_close(unit(v).norm(dim=-1), torch.ones(shape[:-1]).double())
    torch.testing.assert_close(unit(v), unit(3 * v))
    assert not unit(torch.zeros(shape)).any()


def test_statistics_of_batch_normalisation_are_found() -> None:
    class Counted(nn.Module):
        """Batch normalisation, and a buffer of its own before and after it."""

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.ones(2))
            self.inner = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.GroupNorm(2, 4))
            self.outer = nn.Module()
            self.outer.register_buffer("running_mean", torch.zeros(1))

    layout = Layout.of(Counted())
    assert layout.batchnorms == ("inner.1",)
    assert layout.statistics().tolist() == [False] * 2 + [True] * 8 + [False]
    assert not Layout.of(nn.Sequential(nn.Linear(2, 2), nn.GroupNorm(1, 2))).batchnorms
    assert len(Layout.of(nn.Linear(2, 2)).statistics()) == 0
