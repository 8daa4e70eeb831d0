"""Residual networks: sizes by formula, a network written out, normalisation and start."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import batch_norm, conv2d, group_norm

from fedflat import resnet18, resnet20
from fedflat.core.flat import Layout
from fedflat.errors import SettingError
from fedflat.models.spec import ModelSpec


def parameters(channels: int, stages: tuple[int, ...], blocks: int, classes: int) -> int:
    """Stem, two 3x3 convolutions and two norms a block, 1x1 shortcuts with a norm between stages,
    linear."""
    total = channels * stages[0] * 9 + 2 * stages[0]
    before = stages[0]
    for after in stages:
        total += before * after * 9 + (2 * blocks - 1) * after * after * 9 + 2 * blocks * 2 * after
        if before != after:
            total += before * after + 2 * after
        before = after
    return total + before * classes + classes


def size(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("norm", ["group", "batch"])
@pytest.mark.parametrize(("classes", "published"), [(10, 11_173_962), (100, 11_220_132)])
def test_resnet18_parameters(norm: str, classes: int, published: int) -> None:
    with torch.device("meta"):
        module = resnet18(norm=norm).build((3, 32, 32), classes)
    assert size(module) == parameters(3, (64, 128, 256, 512), 2, classes) == published


@pytest.mark.parametrize("norm", ["group", "batch"])
@pytest.mark.parametrize(("channels", "classes"), [(3, 10), (3, 100), (1, 62)])
def test_resnet20_parameters(norm: str, channels: int, classes: int) -> None:
    module = resnet20(norm=norm).build((channels, 32, 32), classes)
    assert size(module) == parameters(channels, (16, 32, 64), 3, classes)


def test_resnet20_has_the_papers_parameters_and_its_shortcuts() -> None:
    module = resnet20().build((3, 32, 32), 10)
    shortcuts = sum(p.numel() for name, p in module.named_parameters() if "shortcut" in name)
    assert shortcuts == (16 * 32 + 2 * 32) + (32 * 64 + 2 * 64) == 2752
    # Stem, 6 + 1 + 5 + 1 + 5 convolutions, 7 + 6 + 6 norms, linear. He et al., Table 6: 0.27
    # million.
    by_hand = 9 * (3 * 16 + 6 * 16**2 + 16 * 32 + 5 * 32**2 + 32 * 64 + 5 * 64**2)
    by_hand += 2 * (7 * 16 + 6 * 32 + 6 * 64) + 64 * 10 + 10
    assert size(module) - shortcuts == by_hand
    assert round(by_hand / 1e6, 2) == 0.27


@pytest.mark.parametrize("norm", ["group", "batch"])
@pytest.mark.parametrize(
    ("spec", "stages", "blocks"), [(resnet20, 3, 3), (resnet18, 4, 2)], ids=["resnet20", "resnet18"]
)
def test_the_network_is_written_out(
    spec: type[ModelSpec], stages: int, blocks: int, norm: str
) -> None:
    module = spec(norm=norm).build((3, 16, 16), 5).double()  # type: ignore[call-arg]
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():  # norms start as 1 and 0; draw them, so that a forgotten one shows
        for name, p in module.named_parameters():
            if "norm" in name:
                p.add_(0.3 * torch.randn(p.shape, generator=generator))
    w = dict(module.named_parameters())
    x = torch.randn(4, 3, 16, 16, dtype=torch.float64, generator=generator)

    def normed(y: torch.Tensor, name: str) -> torch.Tensor:
        if norm == "group":
            return group_norm(y, 2, w[f"{name}.weight"], w[f"{name}.bias"])
        return batch_norm(y, None, None, w[f"{name}.weight"], w[f"{name}.bias"], training=True)

    y = normed(conv2d(x, w["conv.weight"], padding=1), "norm").relu()
    for s in range(1, stages + 1):
        for b in range(blocks):
            name, stride = f"stage{s}.{b}", 2 if s > 1 and b == 0 else 1
            z = normed(
                conv2d(y, w[f"{name}.conv1.weight"], stride=stride, padding=1), f"{name}.norm1"
            )
            z = normed(conv2d(z.relu(), w[f"{name}.conv2.weight"], padding=1), f"{name}.norm2")
            if stride == 2:
                y = normed(
                    conv2d(y, w[f"{name}.shortcut.conv.weight"], stride=2), f"{name}.shortcut.norm"
                )
            y = (y + z).relu()
    expected = y.mean((2, 3)) @ w["fc.weight"].T + w["fc.bias"]
    torch.testing.assert_close(module(x), expected, rtol=1e-10, atol=1e-10)


def test_image_sizes_after_every_stage() -> None:
    module = resnet18().build((3, 32, 32), 10)
    sizes = []
    for name, part in module.named_children():
        if name.startswith("stage"):
            part.register_forward_hook(lambda part, args, out: sizes.append(tuple(out.shape[1:])))
    with torch.no_grad():
        module(torch.zeros(1, 3, 32, 32))
    assert sizes == [(64, 32, 32), (128, 16, 16), (256, 8, 8), (512, 4, 4)]


def test_the_large_stem_is_torchvisions() -> None:
    """Its ResNet-18 has 11,689,512 parameters with 1,000 classes."""
    module = resnet18(stem="large").build((3, 32, 32), 1000)
    assert sum(p.numel() for p in module.parameters()) == 11_689_512
    sizes = []
    x = torch.zeros(1, 3, 32, 32)
    for name, part in module.named_children():
        x = part(x)
        if name in ("conv", "pool") or name.startswith("stage"):
            sizes.append((name, x.shape[-1]))
    assert sizes == [("conv", 16), ("pool", 8), *zip(STAGES, (8, 4, 2, 1), strict=True)]
    with pytest.raises(SettingError, match=r"resnet18: stem must be .* found 'big'"):
        resnet18(stem="big")


STAGES = ("stage1", "stage2", "stage3", "stage4")


def test_start() -> None:
    module = resnet18().build((3, 32, 32), 10)
    for name, p in module.named_parameters():
        if "norm" in name:
            assert (p == (1 if name.endswith("weight") else 0)).all(), name
        elif "conv" in name:
            std = math.sqrt(
                2 / (p.shape[0] * p.shape[2] * p.shape[3])
            )  # Kaiming: gain sqrt(2), fan-out
            # The relative error of an estimated deviation is about 1 / sqrt(2 n): allow five times
            # that.
            assert p.std().item() == pytest.approx(std, rel=5 / math.sqrt(2 * p.numel())), name
            assert abs(p.mean().item()) < 5 * std / math.sqrt(p.numel()), name


def test_batch_norm_keeps_statistics_and_group_norm_none() -> None:
    batch, group = (resnet20(norm=norm).build((3, 8, 8), 4) for norm in ("batch", "group"))
    # A mean and a variance for every norm: 7 of 16, 6 + 1 of 32 and 6 + 1 of 64 channels.
    assert sum(map(math.prod, Layout.of(batch).buffer_shapes)) == 2 * (7 * 16 + 7 * 32 + 7 * 64)
    assert Layout.of(group).buffer_shapes == ()
    norms = [part for part in batch.modules() if isinstance(part, nn.BatchNorm2d)]
    assert {part.momentum for part in norms} == {0.1}
    groups = {part.num_groups for part in group.modules() if isinstance(part, nn.GroupNorm)}
    assert groups == {2}


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(
        SettingError, match=r"resnet18: norm must be .* found 'bach'\. Did you mean 'batch'"
    ):
        resnet18(norm="bach")
    with pytest.raises(SettingError, match="resnet20: groups must divide 16 channels, found 32"):
        resnet20(groups=32)
    with pytest.raises(
        SettingError, match="resnet18: groups must be a whole number of at least 1, found -2"
    ):
        resnet18(groups=-2)
