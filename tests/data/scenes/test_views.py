"""Random views: image and mask stay together, and each view is what its formula says."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from fedflat.data.scenes.augment import AreaCrop, Jitter, ScaleCrop, view
from fedflat.errors import SettingError


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def scenes(n: int = 6, height: int = 12, width: int = 20) -> tuple[Tensor, Tensor]:
    """Images whose colours are the mask's class in every channel: whatever moves one must move the
    other."""
    masks = torch.randint(19, (n, height, width), generator=rng(1), dtype=torch.uint8)
    return masks.unsqueeze(1).expand(n, 3, height, width) * 13, masks


def test_without_scaling_a_view_is_a_crop() -> None:
    x, y = scenes()
    crops, masks = ScaleCrop(5, 7, 1, 1, flip=0)(x, y, rng())
    assert crops.shape == (6, 3, 5, 7)
    assert crops.dtype == torch.uint8
    assert torch.equal(crops[:, 0], masks * 13)
    for image in range(6):
        windows = y[image].unfold(0, 5, 1).unfold(1, 7, 1).reshape(-1, 5, 7)
        assert (windows == masks[image]).flatten(1).all(1).any()


def test_all_places_are_met() -> None:
    x, y = scenes(400, 4, 5)
    y = torch.arange(20, dtype=torch.uint8).view(4, 5).expand(400, 4, 5)
    _, masks = ScaleCrop(3, 3, 1, 1, flip=0)(x, y, rng())
    assert masks[:, 0, 0].unique().tolist() == [0, 1, 2, 5, 6, 7]


def test_mirrored_with_its_mask() -> None:
    x, y = scenes(4)
    crops, masks = ScaleCrop(12, 20, 1, 1, flip=1)(x, y, rng())
    assert torch.equal(masks, y.flip(-1))
    assert torch.equal(crops, x.flip(-1))


def test_small_images_are_filled_up() -> None:
    x, y = scenes(2)
    crops, masks = ScaleCrop(20, 30, 1, 1, flip=0)(x + 1, y, rng())
    assert torch.equal(masks[:, :12, :20], y)
    assert torch.equal(crops[:, :, :12, :20], x + 1)
    assert (masks[:, 12:] == 255).all()
    assert (masks[:, :, 20:] == 255).all()
    assert not crops[:, :, 12:].any()


def test_twice_the_size_against_torch() -> None:
    x, y = (
        torch.randint(256, (2, 3, 6, 8), generator=rng(2), dtype=torch.uint8),
        scenes(2, 6, 8)[1],
    )
    large, masks = ScaleCrop(12, 16, 2, 2, flip=0)(x, y, rng())
    expected = interpolate(x.float(), scale_factor=2, mode="bilinear", align_corners=False)
    assert (large.float() - expected).abs().max() <= 0.5 + 1e-4
    assert torch.equal(masks, y.repeat_interleave(2, 1).repeat_interleave(2, 2))


def test_half_the_size_takes_the_pixels_in_the_middle() -> None:
    x, y = scenes(1, 8, 8)
    _, masks = ScaleCrop(4, 4, 0.5, 0.5, flip=0)(x, y, rng())
    assert torch.equal(masks, y[:, 1::2, 1::2])


def test_a_window_stretched() -> None:
    """Rows 2 to 6 and columns 3 to 13, at twice the size."""
    x, y = scenes(1)
    corner, spans = torch.tensor([[2.0], [3.0]]), torch.tensor([[4.0], [10.0]])
    _, masks = view(x, y, corner, spans, (8, 20), torch.tensor([False]))
    assert torch.equal(masks, y[:, 2:6, 3:13].repeat_interleave(2, 1).repeat_interleave(2, 2))


def test_windows_of_an_area() -> None:
    """A column index for a mask tells how wide each window was, a row index how high."""
    n, height, width = 80, 90, 120
    columns = torch.arange(width, dtype=torch.uint8).expand(n, height, width)
    rows = torch.arange(height, dtype=torch.uint8).view(1, height, 1).expand(n, height, width)
    x = torch.zeros(n, 3, height, width, dtype=torch.uint8)
    spans = []
    for masks in (rows, columns):
        _, seen = AreaCrop(90, 120, flip=0)(x, masks, rng(5))
        assert not (seen == 255).any()
        spans.append(seen.flatten(1).max(1).values.int() - seen.flatten(1).min(1).values.int() + 1)
    high, wide = spans
    share = high * wide / (height * width)
    assert share.min() > 0.45
    assert share.max() < 1.06
    aspect = wide / high
    assert aspect.min() > 3 / 4 - 0.05
    assert aspect.max() < 4 / 3 + 0.05


def test_no_window_fits() -> None:
    """Of an image as wide as four times its height, the largest window has the aspect 4/3 and is in
    the middle."""
    columns = torch.arange(80, dtype=torch.uint8).expand(3, 20, 80)
    x = torch.zeros(3, 3, 20, 80, dtype=torch.uint8)
    _, seen = AreaCrop(20, 26, low=1.9, high=2.0, flip=0)(x, columns, rng())
    middle = (seen[:, 0, 0].int() + seen[:, 0, -1].int()) / 2
    assert torch.allclose(middle, torch.tensor(39.5), atol=0.6)
    assert ((seen[:, 0, -1].int() - seen[:, 0, 0].int() + 1) - 80 / 3).abs().max() <= 1


def test_colours_by_their_formula() -> None:
    x = torch.randint(256, (3, 3, 4, 5), generator=rng(3), dtype=torch.uint8)
    found = Jitter(0.4)(x, rng(7))
    factors = 1 + 0.4 * (2 * torch.rand(3, 3, 1, 1, 1, generator=rng(7)).flatten(1) - 1)
    for n in range(3):
        bright, contrast, colour = factors[:, n].tolist()
        assert all(0.6 <= f <= 1.4 for f in (bright, contrast, colour))
        for i in range(4):
            for j in range(5):
                rgb = [min(float(v) * bright, 255) for v in x[n, :, i, j]]
                rgb = [min(max((v - 74) * contrast + 74, 0), 255) for v in rgb]
                grey = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2]
                rgb = [min(max(grey + (v - grey) * colour, 0), 255) for v in rgb]
                assert all(
                    math.isclose(a, float(b), abs_tol=0.51)
                    for a, b in zip(rgb, found[n, :, i, j], strict=True)
                )


def test_no_jitter_changes_nothing() -> None:
    x, _ = scenes()
    assert torch.equal(Jitter(0)(x, rng()), x)


def test_the_same_numbers_give_the_same_views() -> None:
    x, y = scenes()
    change = ScaleCrop(5, 7, jitter=Jitter())
    one, two, other = (change(x, y, rng(seed)) for seed in (0, 0, 1))
    assert torch.equal(one[0], two[0])
    assert torch.equal(one[1], two[1])
    assert not torch.equal(one[1], other[1])


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(SettingError, match="ScaleCrop: high must not be below low, found 2 and 1"):
        ScaleCrop(4, 4, 2, 1)
    with pytest.raises(SettingError, match="AreaCrop: height must be a whole number of at least 1"):
        AreaCrop(0, 4)
