"""The papers' CNNs: sizes layer by layer, and the two orders of ReLU and max-pool."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import nn

from fedflat import cnn, femnist_cnn, fsa_cnn, tiny_convnet
from fedflat.errors import SettingError
from fedflat.models.spec import ModelSpec


def conv(before: int, after: int, size: int) -> int:
    """Entries of a convolution with bias."""
    return before * after * size * size + after


def linear(*widths: int) -> int:
    """Entries of linear layers in a row."""
    return sum(a * b + b for a, b in pairwise(widths))


def size(spec: ModelSpec, shape: tuple[int, ...], classes: int) -> int:
    return sum(p.numel() for p in spec.build(shape, classes).parameters())


# 32 -5x5-> 28 -pool-> 14 -5x5-> 10 -pool-> 5: 64 * 5 * 5 = 1600. 28 -> 24 -> 12 -> 8 -> 4: 64 * 4 *
# 4 = 1024.
@pytest.mark.parametrize(("classes", "published"), [(10, 797_962), (100, 815_332)])
@pytest.mark.parametrize("pool_first", [True, False])
def test_cnn_parameters(classes: int, published: int, pool_first: bool) -> None:
    expected = conv(3, 64, 5) + conv(64, 64, 5) + linear(1600, 384, 192, classes)
    assert size(cnn(pool_first=pool_first), (3, 32, 32), classes) == expected == published


# 28 -3x3-> 26 -3x3-> 24 -pool-> 12: 64 * 12 * 12 = 9216.
def test_femnist_cnn_parameters() -> None:
    expected = conv(1, 32, 3) + conv(32, 64, 3) + linear(9216, 128, 62)
    assert size(femnist_cnn(), (1, 28, 28), 62) == expected == 1_206_590


def test_femnist_cnn_is_written_out() -> None:
    module = femnist_cnn().build((1, 10, 9), 5).double().eval()
    x = torch.randn(4, 1, 10, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    w = dict(module.named_parameters())
    y = torch.conv2d(x, w["conv1.weight"], w["conv1.bias"]).relu()
    y = torch.conv2d(y, w["conv2.weight"], w["conv2.bias"]).relu()
    y = torch.max_pool2d(y, 2).flatten(1)
    y = (y @ w["fc1.weight"].T + w["fc1.bias"]).relu()
    torch.testing.assert_close(module(x), y @ w["fc2.weight"].T + w["fc2.bias"])
    assert [part.p for part in module.modules() if isinstance(part, nn.Dropout)] == [0.25, 0.5]
    assert [name for name, _ in module.named_children()][-3:] == ["relu3", "dropout2", "fc2"]


@pytest.mark.parametrize(("classes", "published"), [(10, 2_806_602), (100, 2_898_852)])
def test_fsa_cnn_parameters(classes: int, published: int) -> None:
    expected = conv(3, 64, 5) + conv(64, 64, 5) + linear(1600, 1024, 1024, classes)
    assert size(fsa_cnn(), (3, 32, 32), classes) == expected == published


def test_parameters_for_small_grey_images() -> None:
    both = conv(1, 64, 5) + conv(64, 64, 5)
    assert size(cnn(), (1, 28, 28), 10) == both + linear(1024, 384, 192, 10)
    assert size(fsa_cnn(), (1, 28, 28), 10) == both + linear(1024, 1024, 1024, 10)
    narrow = conv(1, 4, 5) + conv(4, 12, 5) + linear(192, 1024, 1024, 10)
    assert size(fsa_cnn(channels=[4, 12]), (1, 28, 28), 10) == narrow


@pytest.mark.parametrize("wrong", [64, [4], [4, 12, 12], [0, 12], [4, 1.5]])
def test_channels_of_fsa_cnn_that_cannot_be(wrong: object) -> None:
    with pytest.raises(SettingError, match=r"fsa_cnn: .*channels"):
        fsa_cnn(channels=wrong)  # type: ignore[arg-type]


def test_tiny_convnet_parameters() -> None:
    norms = 3 * 2 * 64
    expected = conv(3, 64, 3) + 2 * conv(64, 64, 3) + norms + linear(4096, 512, 384, 200)
    assert size(tiny_convnet(), (3, 64, 64), 200) == expected


def orders(shape: tuple[int, ...]) -> tuple[nn.Module, nn.Module, torch.Tensor]:
    """The CNN in both orders with equal parameters, and a batch that leaves some units dead."""
    pool_first, relu_first = cnn().build(shape, 10), cnn(pool_first=False).build(shape, 10)
    relu_first.load_state_dict(pool_first.state_dict())
    return (
        pool_first,
        relu_first,
        torch.randn(8, *shape, generator=torch.Generator().manual_seed(2)),
    )


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28)])
def test_both_orders_are_one_function(shape: tuple[int, ...]) -> None:
    pool_first, relu_first, x = orders(shape)
    one, two = pool_first(x), relu_first(x)
    assert torch.equal(one, two)
    target = torch.arange(8)
    nn.functional.cross_entropy(one, target).backward()
    nn.functional.cross_entropy(two, target).backward()
    pairs = zip(pool_first.named_parameters(), relu_first.named_parameters(), strict=True)
    for (name, p), (same, q) in pairs:
        assert name == same
        assert torch.equal(p.grad, q.grad), name


def test_the_orders_differ_in_what_the_relu_gives() -> None:
    def sizes(module: nn.Module, x: torch.Tensor) -> list[tuple[int, ...]]:
        seen: list[tuple[int, ...]] = []
        for part in module.modules():
            if isinstance(part, nn.ReLU):
                part.register_forward_hook(
                    lambda part, args, out: seen.append(tuple(out.shape[1:]))
                )
        module(x)
        return seen

    pool_first, relu_first, x = orders((3, 32, 32))
    assert sizes(pool_first, x) == [(64, 14, 14), (64, 5, 5), (384,), (192,)]
    assert sizes(relu_first, x) == [(64, 28, 28), (64, 10, 10), (384,), (192,)]


def test_tiny_convnet_normalises_before_the_relu() -> None:
    module = tiny_convnet().build((3, 64, 64), 200)
    kinds = [type(part) for part in list(module.children())[:4]]
    assert kinds == [nn.Conv2d, nn.GroupNorm, nn.ReLU, nn.MaxPool2d]
    norms = [part for part in module.modules() if isinstance(part, nn.GroupNorm)]
    assert [norm.num_groups for norm in norms] == [4, 4, 4]


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(SettingError, match="groups must divide 64 channels, found 5"):
        tiny_convnet(groups=5)
    with pytest.raises(SettingError, match="groups must be a whole number of at least 1, found 0"):
        tiny_convnet(groups=0)
    with pytest.raises(SettingError, match="pool_first must be True or False, found 1"):
        cnn(pool_first=1)
    with pytest.raises(
        SettingError, match=r"cnn: images must have at least 16x16 pixels, found 8x8"
    ):
        cnn().build((1, 8, 8), 10)


def test_fedfsas_networks() -> None:
    """Sizes counted by hand from the layers that its repository has."""
    sizes = {
        (3, 32, 32, 10): fsa_cnn(),
        (3, 32, 32, 100): fsa_cnn(),
        (1, 28, 28, 10): fsa_cnn(channels=[4, 12]),
        (3, 64, 64, 200): fsa_cnn(channels=[32, 32], hidden=[512, 1024]),
    }
    found = [
        sum(p.numel() for p in spec.build(shape[:3], shape[3]).parameters())
        for shape, spec in sizes.items()
    ]
    assert found == [2_806_602, 2_898_852, 1_258_798, 3_527_784]
    with pytest.raises(SettingError, match="hidden must be a list of two numbers"):
        fsa_cnn(hidden=[3])
