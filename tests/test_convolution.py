"""Convolutions by fewer products, against torch's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck
from torch.nn.functional import conv2d, cross_entropy

import fedflat as ff
from fedflat.client.learner import Learner
from fedflat.data.examples import Batch
from fedflat.kernels.convolution import convolving
from fedflat.kernels.winograd import TilePlan, plan_tiles, transform_for

ONE, NONE = (1, 1), (0, 0)
KINDS = ("auto", "direct", "quick")


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(
        shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    ).to(dtype)


def quickly(
    x: Tensor, weight: Tensor, bias: Tensor | None, padding: Any = NONE, **more: Any
) -> Tensor:
    output = {"stride": ONE, "padding": padding, "dilation": ONE, "groups": 1} | more
    with convolving(always=True):
        return conv2d(
            x,
            weight,
            bias,
            output["stride"],
            output["padding"],
            output["dilation"],
            output["groups"],
        )  # type: ignore[call-overload, no-any-return]


def slopes(made: Callable[..., Tensor], *given: Tensor) -> list[Tensor]:
    """The output, and its slopes by all that was given, along a fixed direction."""
    leaves = [part.detach().requires_grad_() for part in given]
    y = made(*leaves)
    along = drawn(*y.shape, seed=9, dtype=y.dtype)
    return [y.detach(), *torch.autograd.grad(y, leaves, along)]


@pytest.mark.parametrize(
    ("tile", "width"), [(t, r) for r in range(1, 8) for t in range(1, 15) if (t + r) % 2]
)
def test_a_rule_is_a_correlation(tile: int, width: int) -> None:
    pixels, weights, outputs = transform_for(tile, width)
    x, w = drawn(tile + width - 1), drawn(width, seed=1)
    found = outputs.T @ ((pixels @ x) * (weights @ w))
    np.testing.assert_allclose(
        found.numpy(), np.correlate(x.numpy(), w.numpy(), mode="valid"), rtol=0, atol=1e-12
    )


def test_a_rule_takes_one_product_for_a_real_point_and_three_for_a_pair() -> None:
    assert [len(transform_for(m, 3).pixels) for m in (2, 4, 6, 8)] == [4, 6, 6 + 3, 6 + 2 * 3]
    assert len(transform_for(10, 5).pixels) == 6 + 4 * 3


@settings(max_examples=60)
@given(
    batch=st.integers(1, 3),
    channels=st.integers(1, 4),
    outputs=st.integers(1, 4),
    size=st.tuples(*[st.integers(5, 34)] * 2),
    kernel=st.tuples(*[st.integers(1, 5)] * 2),
    padding=st.tuples(*[st.integers(0, 2)] * 2),
    last=st.booleans(),
)
def test_output_and_slopes_are_those_of_torch(
    batch: int,
    channels: int,
    outputs: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    padding: tuple[int, int],
    last: bool,
) -> None:
    x, weight, bias = (
        drawn(batch, channels, *size),
        drawn(outputs, channels, *kernel, seed=1),
        drawn(outputs, seed=2),
    )
    x = x.contiguous(memory_format=torch.channels_last) if last else x
    plain = slopes(lambda *parts: conv2d(*parts, padding=padding), x, weight, bias)
    for found, wanted in zip(
        slopes(lambda *parts: quickly(*parts, padding), x, weight, bias), plain, strict=True
    ):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kernel", [(r, s) for r in range(1, 6) for s in range(1, 6) if r + s > 2])
def test_outputs_that_do_not_fill_the_last_tiles(
    kernel: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tiles down and across, and every number of rows and columns of outputs in the last of
    them."""
    tiles = [4 + width % 2 - 1 for width in kernel]  # tile and width: one is even, one is odd
    weight, bias = drawn(3, 2, *kernel, seed=1), drawn(3, seed=2)
    for height in range(tiles[0] + 1, 2 * tiles[0] + 1):
        for width in range(tiles[1] + 1, 2 * tiles[1] + 1):
            plan = TilePlan(height, width, (tiles[0], kernel[0]), (tiles[1], kernel[1]))
            monkeypatch.setattr(
                "fedflat.kernels.convolution.plan_tiles", lambda *_, found=plan, **__: found
            )
            x = drawn(2, 2, height + kernel[0] - 1, width + kernel[1] - 1)
            for found, wanted in zip(
                slopes(quickly, x, weight, bias), slopes(conv2d, x, weight, bias), strict=True
            ):
                torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("last", [True, False])
def test_images_come_out_as_they_lay(last: bool) -> None:
    form = torch.channels_last if last else torch.contiguous_format
    y = quickly(drawn(2, 3, 9, 9).contiguous(memory_format=form), drawn(4, 3, 5, 5), None)
    assert y.is_contiguous(memory_format=form)


@pytest.mark.parametrize(("size", "kernel"), [(14, 5), (12, 5), (10, 3)])
def test_rounding_is_that_of_plain_sums(size: int, kernel: int) -> None:
    """Of the papers' second layers, in float32: at most twice as far from the truth as torch's
    own."""
    given = (
        drawn(32, 64, size, size).relu(),
        drawn(64, 64, kernel, kernel, seed=1) / 40,
        drawn(64, seed=2),
    )
    truth = slopes(conv2d, *given)
    single = [part.float() for part in given]
    plain, found = slopes(conv2d, *single), slopes(quickly, *single)
    for exact, usual, ours in zip(truth, plain, found, strict=True):
        spread = exact.std()
        assert (ours - exact).std() / spread < max(2.2 * (usual - exact).std() / spread, 1.5e-6)


def test_the_convolution_has_a_second_derivative() -> None:
    given = [
        part.requires_grad_()
        for part in (drawn(2, 2, 7, 6), drawn(3, 2, 3, 3, seed=1), drawn(3, seed=2))
    ]
    assert gradcheck(lambda *parts: quickly(*parts, ONE), given)
    assert gradgradcheck(lambda *parts: quickly(*parts, ONE), given)


@pytest.mark.parametrize("which", [0, 1])
def test_one_slope_alone(which: int) -> None:
    given = [drawn(2, 2, 7, 7), drawn(3, 2, 3, 3, seed=1)]
    given[which].requires_grad_()
    made = quickly(*given, None), conv2d(*given)
    found, wanted = (torch.autograd.grad(y.square().sum(), given[which])[0] for y in made)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "more",
    [
        {"stride": (2, 2)},
        {"dilation": (2, 2)},
        {"groups": 2},
        {"padding": "same"},
        {"padding": "valid"},
    ],
)
def test_other_convolutions_are_left_to_torch(more: dict[str, Any]) -> None:
    x, weight = drawn(3, 4, 12, 12), drawn(6, 4 // more.get("groups", 1), 3, 3, seed=1)
    assert torch.equal(
        quickly(x, weight, None, **({"padding": NONE} | more)), conv2d(x, weight, **more)
    )


def test_a_single_image_is_left_to_torch() -> None:
    x, weight = drawn(4, 12, 12), drawn(6, 4, 3, 3, seed=1)
    assert torch.equal(quickly(x, weight, None), conv2d(x, weight))


@pytest.mark.parametrize(
    ("image", "kernel"),
    [
        (
            (64, 3, 32, 32),
            (64, 3, 5, 5),
        ),  # hardly any channels: transforms would take longer than they save
        ((1, 64, 14, 14), (64, 64, 5, 5)),  # one image: the weights' transforms would
        ((64, 64, 14, 14), (64, 64, 1, 1)),  # nothing to save
        ((64, 16, 10, 10), (16, 16, 3, 3)),
        ((8, 64, 130, 258), (64, 64, 3, 3)),  # too many tiles
        ((4, 64, 3, 3), (64, 64, 5, 5)),  # nothing comes out; torch says so
    ],
)
def test_where_plain_sums_are_quicker(image: tuple[int, ...], kernel: tuple[int, ...]) -> None:
    assert plan_tiles(image, kernel) is None


def batch_of(shape: tuple[int, ...], dtype: torch.dtype = torch.float64) -> Batch:
    return Batch(drawn(24, *shape, dtype=dtype), torch.arange(24) % 5)


@pytest.mark.parametrize("text", ["cnn()", "cnn(pool_first=False)", "fsa_cnn()"])
def test_the_papers_networks_have_the_gradients_of_plain_torch(text: str) -> None:
    spec, shape = ff.parse(text, "model"), (3, 20, 20)
    batch = batch_of(shape)
    made = {
        kind: Learner(spec, shape, 5, seed=0, dtype="float64", convolutions=kind) for kind in KINDS
    }
    w = made["auto"].initial().params
    gradients = {kind: learner.oracle(batch, ())(w) for kind, learner in made.items()}
    module = made["direct"].module().double().train()
    cross_entropy(module(batch.inputs), batch.targets).backward()  # type: ignore[arg-type]
    plain = torch.cat([p.grad.reshape(-1) for p in module.parameters() if p.grad is not None])
    for gradient in gradients.values():
        torch.testing.assert_close(gradient, plain, rtol=0, atol=1e-12)
    assert not torch.equal(gradients["auto"], gradients["direct"]), "fewer products were not taken"


def test_winograd_is_not_used_where_it_is_not_faster() -> None:
    small = lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 16, 5))  # noqa: E731
    batch = batch_of((3, 6, 6))
    made = [
        Learner(small, (3, 6, 6), 5, seed=0, dtype="float64", convolutions=kind) for kind in KINDS
    ]
    auto, direct, always = (learner.oracle(batch, ())(made[0].initial().params) for learner in made)
    assert torch.equal(auto, direct)
    assert not torch.equal(always, direct)
    torch.testing.assert_close(always, direct, rtol=0, atol=1e-12)


def data() -> Any:
    return ff.clients_of(
        [
            (drawn(24, 3, 20, 20, seed=k, dtype=torch.float32), torch.arange(24) % 5)
            for k in range(4)
        ],
        test=(drawn(30, 3, 20, 20, seed=9, dtype=torch.float32), torch.arange(30) % 5),
    )


@pytest.mark.slow
def test_a_run_is_the_same_but_for_rounding_and_the_same_bits_in_workers() -> None:
    output: dict[str, Any] = {
        "on": data(),
        "model": "cnn()",
        "rounds": 2,
        "clients_per_round": 2,
        "batch_size": 24,
        "lr": 0.05,
        "threads": 1,
    }
    method = "fedsam(rho=0.1) + man(zeta=0.1)"
    runs = {kind: ff.run(method, convolutions=kind, **output) for kind in ("auto", "direct")}
    in_workers = ff.run(method, workers=1, **output)
    ends = {kind: run.model.params for kind, run in runs.items()}
    assert torch.equal(ends["auto"], in_workers.model.params)
    assert not torch.equal(ends["auto"], ends["direct"])
    torch.testing.assert_close(ends["auto"], ends["direct"], rtol=0, atol=2e-6)
    losses = [run.rows[-1]["loss"] for run in runs.values()]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
