"""Our convolutions have the derivatives of torch's own, of the first and the second order."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from fedflat.kernels.convolution import _Convolution, convolving

SHAPES = [
    {"in_channels": 2, "out_channels": 4, "kernel_size": 3},
    {
        "in_channels": 2,
        "out_channels": 4,
        "kernel_size": 3,
        "bias": False,
        "stride": 2,
        "padding": 1,
    },
    {
        "in_channels": 4,
        "out_channels": 4,
        "kernel_size": (2, 3),
        "padding": (0, 2),
        "dilation": (2, 1),
    },
    {"in_channels": 4, "out_channels": 6, "kernel_size": 3, "groups": 2, "padding": 1},
    {"in_channels": 2, "out_channels": 2, "kernel_size": 3, "padding": "same"},
    {
        "in_channels": 2,
        "out_channels": 2,
        "kernel_size": 3,
        "padding": 1,
        "padding_mode": "circular",
    },
]


def seen(shape: dict, leaves: bool) -> list[Tensor]:
    """Outputs, slopes, and the slopes of a sum of all slopes, each weighted at random."""
    rng = torch.Generator().manual_seed(3)
    layer = nn.Conv2d(**shape).double()
    for p in layer.parameters():
        p.data = torch.randn(p.shape, generator=rng, dtype=torch.float64)
    x = torch.randn(
        3, shape["in_channels"], 6, 7, generator=rng, dtype=torch.float64
    ).requires_grad_(leaves)
    inputs = [*layer.parameters(), *([x] if leaves else [])]
    out = layer(x)
    loss = out.square().mul(torch.randn(out.shape, generator=rng)).sum()
    slopes = torch.autograd.grad(loss, inputs, create_graph=True)
    along = [torch.randn(s.shape, generator=rng, dtype=torch.float64) for s in slopes]
    return [out, *slopes, *torch.autograd.grad(slopes, inputs, along)]


@pytest.mark.parametrize("always", [True, False], ids=["by fewer products", "by torch's kernels"])
@pytest.mark.parametrize("leaves", [True, False], ids=["input with slope", "input without"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: " ".join(map(str, s.values())))
def test_both_orders(shape: dict, leaves: bool, always: bool) -> None:
    with convolving(always=always, twice=True):
        ours = seen(shape, leaves)
    for mine, theirs in zip(ours, seen(shape, leaves), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("always", [True, False])
def test_finite_differences_agree(always: bool) -> None:
    sizes = [(2, 2, 4, 4), (3, 2, 3, 3), (3,)]
    x, weight, bias = (torch.randn(size, dtype=torch.float64, requires_grad=True) for size in sizes)

    def convolved(*inputs: Tensor) -> Tensor:
        with convolving(always=always, twice=True):
            return nn.functional.conv2d(*inputs, (1, 1), (1, 1), (1, 1), 1)

    assert torch.autograd.gradgradcheck(convolved, (x, weight, bias))


def test_it_takes_the_place_of_a_layer_and_of_nothing_else() -> None:
    x = torch.randn(2, 2, 5, 5)
    with convolving(twice=True):
        layer = nn.Conv2d(2, 3, 3)(x)
        spelt = conv2d(x, torch.ones(1, 2, 3, 3, requires_grad=True))
        single = nn.Conv2d(2, 3, 3)(x[0])
    ours = [
        str(out.grad_fn).startswith(f"<torch.autograd.function.{_Convolution.__name__}")
        for out in (layer, spelt, single)
    ]
    assert ours == [True, False, False]
