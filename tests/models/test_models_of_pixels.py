"""Networks with scores at every pixel, against the papers' tables of layers, added up here by
hand."""

from __future__ import annotations

import pickle

import pytest
import torch
from torch import Tensor, nn

from fedflat import bisenetv2, deeplabv3, mobilenetv2
from fedflat.core.flat import Layout
from fedflat.errors import SettingError
from fedflat.models.spec import ModelSpec
from fedflat.registry.specs import parse

SMALL: list[ModelSpec] = [
    bisenetv2(width=0.25),
    bisenetv2(auxiliary=False, norm="group", groups=4, width=0.5),
    deeplabv3(width=0.25),
    deeplabv3(norm="group", width=0.25, stride=32, rates=[12, 24, 36]),
]
every_model = pytest.mark.parametrize("spec", SMALL, ids=repr)


def images(height: int = 48, width: int = 70, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(3, 3, height, width, generator=torch.Generator().manual_seed(1)).to(dtype)


def conv(size: int, before: int, after: int, fans: int = 1) -> int:
    """Weights of a convolution without bias and of its norm."""
    return size * size * before * after // fans + 2 * after


def size(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def mobile_features() -> int:
    """Table 2 of the MobileNetV2 paper, down to the row before the last 1x1 convolution."""
    total, before = conv(3, 3, 32), 32
    for t, c, n in (
        (1, 16, 1),
        (6, 24, 2),
        (6, 32, 3),
        (6, 64, 4),
        (6, 96, 3),
        (6, 160, 3),
        (6, 320, 1),
    ):
        for _ in range(n):
            inside = t * before
            total += (
                conv(1, before, inside) * (t > 1)
                + conv(3, inside, inside, inside)
                + conv(1, inside, c)
            )
            before = c
    return total


def test_mobilenet_by_the_papers_table() -> None:
    assert mobile_features() == 1_811_712
    expected = mobile_features() + conv(1, 320, 1280) + 1280 * 1000 + 1000
    assert expected == 3_504_872
    for norm in ("batch", "group"):
        assert size(mobilenetv2(norm=norm).build((3, 64, 64), 1000)) == expected


def test_deeplab_by_the_papers_figure() -> None:
    """Five views of 256 channels, a 1x1, a 3x3, and the scores; dilation and stride cost
    nothing."""
    aspp = 2 * conv(1, 320, 256) + 3 * conv(3, 320, 256) + conv(1, 5 * 256, 256)
    expected = mobile_features() + aspp + conv(3, 256, 256) + 256 * 19 + 19
    assert size(deeplabv3().build((3, 64, 64), 19)) == expected == 5_113_363
    assert size(deeplabv3(stride=32, rates=[12, 24, 36]).build((3, 64, 64), 19)) == expected


def gather(c: int) -> int:
    return conv(3, c, c) + conv(3, c, 6 * c, c) + conv(1, 6 * c, c)


def gather_down(c: int, o: int) -> int:
    branch = conv(3, c, c) + conv(3, c, 6 * c, c) + conv(3, 6 * c, 6 * c, 6 * c) + conv(1, 6 * c, o)
    return branch + conv(3, c, c, c) + conv(1, c, o)


def bisenet_by_hand(classes: int, auxiliary: bool) -> int:
    """Tables 1 and 2 of the BiSeNetV2 paper; 1024 channels in the head, 128 in the auxiliary
    ones."""
    detail = conv(3, 3, 64) + 4 * conv(3, 64, 64) + conv(3, 64, 128) + 2 * conv(3, 128, 128)
    stem = conv(3, 3, 16) + conv(1, 16, 8) + conv(3, 8, 16) + conv(3, 32, 16)
    stages = gather_down(16, 32) + gather_down(32, 64) + gather_down(64, 128)
    stages += gather(32) + gather(64) + 3 * gather(128)
    context = 2 * 128 + conv(1, 128, 128) + conv(3, 128, 128)
    keep = conv(3, 128, 128, 128) + 128 * 128
    aggregation = 2 * keep + 2 * conv(3, 128, 128) + conv(3, 128, 128)
    total = detail + stem + stages + context + aggregation + head(128, 1024, 8, classes)
    if auxiliary:
        total += sum(head(c, 128, up, classes) for c, up in ((16, 4), (32, 8), (64, 16), (128, 32)))
    return total


def head(before: int, inside: int, up: int, classes: int) -> int:
    return conv(3, before, inside) + (inside + 1) * up * up * classes


PUBLISHED = [
    (19, True, 8_196_416),
    (19, False, 4_585_552),
    (16, True, 7_473_296),
    (16, False, 4_388_752),
    (11, True, 6_268_096),
    (11, False, 4_060_752),
]


@pytest.mark.parametrize(("classes", "auxiliary", "published"), PUBLISHED)
def test_bisenet_by_the_papers_tables(classes: int, auxiliary: bool, published: int) -> None:
    assert bisenet_by_hand(classes, auxiliary) == published
    module = bisenetv2(auxiliary=auxiliary).build((3, 64, 64), classes)
    assert size(module) == published
    norms = [part for part in module.modules() if isinstance(part, nn.BatchNorm2d)]
    assert (len(norms), sum(part.num_features for part in norms)) == (
        (58, 9176) if auxiliary else (54, 8664)
    )


@torch.no_grad()
def test_bisenet_at_a_size_of_the_papers() -> None:
    """64x128 pixels: detail at 1/8, meaning at 1/32, scores at every pixel; five outputs in
    training only."""
    module = bisenetv2().build((3, 64, 128), 19).eval()
    x = torch.zeros(1, 3, 64, 128)
    seen = [x]
    for stage in module.semantic:  # type: ignore[union-attr]
        seen.append(stage(seen[-1]))
    shapes = [(16, 16, 32), (32, 8, 16), (64, 4, 8), (128, 2, 4), (128, 2, 4)]
    assert [tuple(y.shape[1:]) for y in seen[1:]] == shapes
    detail = module.detail(x)  # type: ignore[operator]
    assert detail.shape[1:] == (128, 8, 16)
    assert module.aggregation(detail, seen[-1]).shape[1:] == (128, 8, 16)  # type: ignore[operator]
    assert module(x).shape == (1, 19, 64, 128)
    outputs = module.train()(x.expand(2, -1, -1, -1))
    assert [tuple(y.shape) for y in outputs] == [(2, 19, 64, 128)] * 5


@torch.no_grad()
def test_bisenet_starts_with_blocks_that_are_their_shortcuts() -> None:
    module = bisenetv2(width=0.5).build((3, 64, 64), 4).eval()
    block = module.semantic[1][1]  # type: ignore[index]
    x = torch.rand(2, 16, 8, 8)
    assert torch.equal(block(x), x)  # type: ignore[operator]
    silent = [
        p for name, p in module.named_parameters() if name.endswith("norm.weight") and not p.any()
    ]
    assert len(silent) == 3 + 1 + 1 + 3


@torch.no_grad()
@pytest.mark.parametrize(("stride", "expected"), [(8, (8, 16)), (16, (4, 8)), (32, (2, 4))])
def test_deeplab_keeps_the_stride_that_is_asked_for(stride: int, expected: tuple[int, int]) -> None:
    module = deeplabv3(stride=stride, width=0.25).build((3, 64, 128), 5).eval()
    assert module.features(torch.zeros(1, 3, 64, 128)).shape[-2:] == expected  # type: ignore[operator]
    dilations = {
        part.dilation[0] for part in module.features.modules() if isinstance(part, nn.Conv2d)
    }
    assert dilations == {8: {1, 2, 4}, 16: {1, 2}, 32: {1}}[stride]


@torch.no_grad()
def test_a_dilated_trunk_sees_what_the_strided_one_sees() -> None:
    """Where the strided features have a place, the dilated ones have the same numbers."""
    wide, dense = (
        deeplabv3(stride=stride, width=0.25).build((3, 64, 64), 5).double().eval()
        for stride in (32, 16)
    )
    dense.load_state_dict(wide.state_dict())
    x = images(64, 64, torch.float64)
    coarse, fine = wide.features(x), dense.features(x)  # type: ignore[operator]
    torch.testing.assert_close(fine[..., ::2, ::2], coarse, rtol=1e-9, atol=1e-9)


@every_model
def test_spelling_and_pickle(spec: ModelSpec) -> None:
    assert parse(repr(spec), "model") == spec
    assert pickle.loads(pickle.dumps(spec)) == spec


@every_model
def test_float64_outputs_and_gradients(spec: ModelSpec) -> None:
    module = spec.build((3, 48, 70), 6).double()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d | nn.GroupNorm):
            nn.init.ones_(
                part.weight
            )  # or the blocks that start as their shortcuts would learn nothing at once
    outputs = module(images(dtype=torch.float64))
    outputs = [outputs] if isinstance(outputs, Tensor) else outputs
    assert len(outputs) == (5 if "auxiliary" not in repr(spec) and "bisenet" in repr(spec) else 1)
    assert all(out.shape == (3, 6, 48, 70) and out.dtype == torch.float64 for out in outputs)
    labels = torch.arange(48 * 70).view(48, 70).expand(3, -1, -1) % 6
    sum(nn.functional.cross_entropy(out, labels) for out in outputs).backward()  # type: ignore[union-attr]
    for name, p in module.named_parameters():
        assert p.grad is not None, name
        assert p.grad.isfinite().all(), name
        assert p.grad.any(), name


@every_model
@torch.no_grad()
def test_evaluation_reads_each_image_alone(spec: ModelSpec) -> None:
    module = spec.build((3, 48, 70), 6).double().eval()
    x = images(dtype=torch.float64)
    out = module(x)
    assert isinstance(out, Tensor)
    torch.testing.assert_close(out[1:2], module(x[1:2]), rtol=1e-9, atol=1e-9)


@every_model
def test_the_last_layer_is_the_one_with_the_scores(spec: ModelSpec) -> None:
    module = spec.build((3, 64, 64), 6)
    scores = module.head.scores  # type: ignore[union-attr]
    assert int(Layout.of(module).classifier().sum()) == scores.weight.numel() + scores.bias.numel()  # type: ignore
    assert not scores.bias.any()  # type: ignore[union-attr]


@every_model
def test_every_activation_is_a_module_used_once(spec: ModelSpec) -> None:
    module = spec.build((3, 64, 64), 6)
    calls: list[nn.Module] = []
    found = [part for part in module.modules() if isinstance(part, nn.ReLU | nn.ReLU6)]
    for part in found:
        assert not part.inplace
        part.register_forward_hook(lambda part, args, out: calls.append(part))
    module(images(64, 64))
    assert len(calls) == len(set(calls)) == len(found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bisenetv2(groups=3)", "bisenetv2: groups must be 1, 2, 4 or 8"),
        ("bisenetv2(width=0)", "bisenetv2: width must be a number above 0"),
        ("bisenetv2(auxiliary='no')", "bisenetv2: auxiliary must be True or False"),
        ("deeplabv3(stride=4)", "deeplabv3: stride must be 8, 16 or 32, found 4"),
        ("deeplabv3(rates=[])", r"deeplabv3: rates must be a list such as \[6, 12, 18\]"),
        ("deeplabv3(norm='layer')", "deeplabv3: norm must be 'batch' or 'group'"),
        ("mobilenetv2(groups=5)", "mobilenetv2: groups must be 1, 2, 4 or 8"),
    ],
)
def test_what_cannot_be_is_refused(text: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        parse(text, "model")


@every_model
def test_small_images_are_refused(spec: ModelSpec) -> None:
    with pytest.raises(SettingError, match="at least 32x32 pixels, found 16x64"):
        spec.build((3, 16, 64), 6)
