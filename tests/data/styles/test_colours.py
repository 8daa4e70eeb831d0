"""LAB colours in published numbers, and statistics exchanged."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedflat.data.styles import (
    colour_style,
    lab_bytes,
    lab_to_rgb,
    levels,
    match_statistics,
    recoloured,
    rgb_to_lab,
    statistics,
)
from fedflat.errors import SettingError


def colour(*rgb: int) -> Tensor:
    return torch.tensor(rgb, dtype=torch.uint8).view(1, 3, 1, 1)


def photo(n: int = 2) -> Tensor:
    return torch.randint(
        256, (n, 3, 8, 10), generator=torch.Generator().manual_seed(3), dtype=torch.uint8
    )


@pytest.mark.parametrize(
    ("rgb", "lab"),
    [
        ((255, 0, 0), [136, 208, 195]),
        ((0, 255, 0), [224, 42, 211]),
        ((0, 0, 255), [82, 207, 20]),
        ((255, 255, 255), [255, 128, 128]),
        ((200, 100, 50), [137, 164, 173]),
        ((0, 0, 0), [0, 128, 128]),
    ],
)
def test_colours_in_8_bits(rgb: tuple[int, ...], lab: list[int]) -> None:
    assert lab_bytes(colour(*rgb)).flatten().tolist() == lab


def test_a_colour_not_rounded() -> None:
    found = rgb_to_lab(colour(200, 100, 50)).flatten().tolist()
    assert found == pytest.approx([136.755, 164.307, 173.379], abs=5e-4)


def test_there_and_back() -> None:
    x = photo(4)
    torch.testing.assert_close(lab_to_rgb(rgb_to_lab(x)), x.double(), rtol=0, atol=2e-3)


def test_a_mean_and_a_spread_in_numbers() -> None:
    x = torch.tensor([10.0, 20, 30, 40]).view(1, 1, 2, 2)
    assert [part.item() for part in statistics(x)] == pytest.approx([25, 125**0.5])
    found = match_statistics(x, torch.tensor([[5.0]]), torch.tensor([[2.0]])).flatten().tolist()
    assert found == pytest.approx([2.31671843, 4.10557281, 5.89442719, 7.68328157], abs=6e-9)


def test_its_own_statistics_change_nothing() -> None:
    lab = lab_bytes(photo())
    torch.testing.assert_close(match_statistics(lab, *statistics(lab)), lab, rtol=0, atol=1e-10)
    assert torch.equal(levels(match_statistics(lab, *statistics(lab))), lab.byte())
    back = lab_to_rgb(lab).round().clamp(0, 255).byte()
    assert torch.equal(
        recoloured(photo(), *colour_style(photo())), back
    )  # what 8 bits of LAB leave, and no more


def test_images_take_the_statistics_they_are_given() -> None:
    mean, std = torch.tensor([[100.0, 130, 120]]), torch.tensor([[12.0, 5, 7]])
    found_mean, found_std = statistics(match_statistics(lab_bytes(photo()), mean, std))
    torch.testing.assert_close(found_mean, mean.double().expand(2, 3))
    torch.testing.assert_close(found_std, std.double().expand(2, 3))


def test_a_constant_image_takes_the_mean() -> None:
    grey = torch.full((1, 3, 37, 41), 93, dtype=torch.uint8)
    mean, std = colour_style(grey)
    assert std.abs().max() < 1e-6
    found = match_statistics(
        lab_bytes(grey), torch.tensor([[101.0, 128, 128]]), torch.tensor([[40.0, 3, 3]])
    )
    assert torch.equal(
        found,
        torch.tensor([101.0, 128, 128], dtype=torch.float64).view(1, 3, 1, 1).expand_as(found),
    )
    flat = recoloured(photo(), mean, std)
    assert all(len(image[c].unique()) == 1 for image in flat for c in range(3))


def test_grey_images_are_refused() -> None:
    with pytest.raises(
        SettingError, match=r"must be a batch \(N, 3, h, w\) of colours, found \(2, 1, 8, 10\)"
    ):
        colour_style(photo()[:, :1])
