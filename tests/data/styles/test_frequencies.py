"""Amplitude windows against whole Fourier transforms written out, and against numbers worked out by
hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from fedflat.data.styles import (
    amplitudes,
    exchange,
    halves,
    levels,
    mix,
    resized,
    restyled,
)
from fedflat.errors import SettingError

S = [[12, 200, 45, 90], [33, 7, 160, 80], [250, 61, 19, 140], [5, 77, 210, 128]]
T = [[200, 10, 40, 90], [30, 80, 120, 60], [150, 20, 70, 110], [10, 220, 50, 130]]
NEAR = {"rtol": 0, "atol": 6e-9}


def image(rows: list[list[int]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64).view(1, 1, len(rows), -1)


def photo(*shape: int) -> Tensor:
    return torch.randint(256, shape, generator=torch.Generator().manual_seed(0)).double()


def by_whole_transform(
    x: np.ndarray, style: np.ndarray, lam: float, rows: int, columns: int
) -> np.ndarray:
    """The exchange as papers write it: shift, replace the middle, shift back, transform back."""
    spectrum = np.fft.fft2(x)
    shifted, phase = np.fft.fftshift(np.abs(spectrum)), np.angle(spectrum)
    i, j = x.shape[0] // 2, x.shape[1] // 2
    middle = np.s_[i - rows : i + rows + 1, j - columns : j + columns + 1]
    shifted[middle] = (1 - lam) * shifted[middle] + lam * style
    return np.real(np.fft.ifft2(np.fft.ifftshift(shifted) * np.exp(1j * phase)))


def test_styles_in_numbers() -> None:
    style = amplitudes(image(S))[0, 0]
    assert style[0].tolist() == pytest.approx([360.35121756, 186.35718392, 306.78494096], abs=6e-9)
    assert style[1].tolist() == pytest.approx([163.11039207, 1517, 163.11039207], abs=6e-9)
    torch.testing.assert_close(style, style.flip(0, 1), **NEAR)
    other = amplitudes(image(T))[0, 0]
    assert other[0].tolist() == pytest.approx([155.24174696, 120.41594579, 60.82762530], abs=6e-9)
    assert other[1].tolist() == pytest.approx([125.29964086, 1390, 125.29964086], abs=6e-9)
    both = amplitudes(torch.cat([image(S), image(T)])).mean(0)
    assert both[0, 0, 0].item() == pytest.approx(257.79648226, abs=6e-9)


def test_an_odd_height() -> None:
    style = amplitudes(image([*S, [99, 3, 150, 60]]))[0, 0]
    assert style[0].tolist() == pytest.approx([367.23565086, 190.08993424, 141.00150346], abs=6e-9)
    assert style[1, 1].item() == 1829


def test_an_exchange_in_numbers() -> None:
    found = exchange(image(S), amplitudes(image(T)))[0, 0]
    assert found[0].tolist() == pytest.approx(
        [59.26545371, 170.07687576, -7.25977270, 114.92880525], abs=6e-9
    )
    assert found[3].tolist() == pytest.approx(
        [2.62595571, 54.12145082, 184.11452931, 122.61903421], abs=6e-9
    )
    rounded = restyled(image(S), amplitudes(image(T)), size=None)[0, 0]
    assert rounded[[0, 3]].tolist() == [[59, 170, 0, 115], [3, 54, 184, 123]]


@pytest.mark.parametrize(
    ("size", "half"), [((9, 12), (1, 1)), ((8, 15), (3, 7)), ((20, 40), (1, 2)), ((7, 5), (0, 2))]
)
@pytest.mark.parametrize("lam", [0.3, 1.0])
def test_whole_transforms_agree(size: tuple[int, int], half: tuple[int, int], lam: float) -> None:
    x, y = photo(2, 3, *size), photo(2, 3, *size).flip(-1) ** 1.1
    styles = amplitudes(y, half)
    found = exchange(x, styles, lam)
    for n, c in np.ndindex(2, 3):
        expected = by_whole_transform(x[n, c].numpy(), styles[n, c].numpy(), lam, *half)
        np.testing.assert_allclose(found[n, c].numpy(), expected, rtol=0, atol=1e-9)


def test_its_own_style_changes_nothing() -> None:
    x = photo(3, 3, 16, 24)
    assert torch.equal(exchange(x, amplitudes(x)), x)
    assert torch.equal(exchange(x, amplitudes(x.flip(0)), 0.0), x)
    assert torch.equal(restyled(x, amplitudes(x), size=None), x.byte())
    assert torch.equal(mix(x.byte(), amplitudes(x.byte()), 0.7), x.byte())


def test_with_frequency_0_alone_the_means_are_exchanged() -> None:
    x, y = photo(2, 3, 6, 10), photo(2, 3, 6, 10).flip(-1) / 2
    moved = exchange(x, amplitudes(y, (0, 0)))
    torch.testing.assert_close(moved, x + (y.mean((2, 3)) - x.mean((2, 3)))[..., None, None])


def test_mixing_in_numbers() -> None:
    centre = exchange(image(S), amplitudes(image(T), (0, 0)), 0.25)[0, 0, 0]
    assert centre.tolist() == pytest.approx(
        [10.015625, 198.015625, 43.015625, 88.015625], abs=1e-12
    )
    assert halves(4, 4, 0.05) == (0, 0)
    assert halves(180, 240, 0.05) == (9, 12)  # 19 x 25: CamVid
    i, j = (
        torch.arange(20.0, dtype=torch.float64).view(-1, 1),
        torch.arange(40.0, dtype=torch.float64),
    )
    x, y = (7 * i**2 + 3 * j**2 + i * j) % 256, (11 * i * j + 5 * i + 2 * j**2) % 256
    x, y = x.view(1, 1, 20, 40), y.view(1, 1, 20, 40)
    assert halves(20, 40, 0.05) == (1, 2)
    found = exchange(x, amplitudes(y, (1, 2)), 0.5).abs()
    first = [7.49415959, 4.89929331, 4.08063923, 19.44752224]
    assert found[0, 0, 0, :4].tolist() == pytest.approx(first, abs=6e-9)
    assert found[0, 0, -1, -1].item() == pytest.approx(144.19158445, abs=6e-9)
    assert found.mean().item() == pytest.approx(123.03141865, abs=6e-9)
    assert found.max().item() == pytest.approx(256.76278963, abs=6e-9)
    mixed = mix(x, amplitudes(y, (1, 2)), 0.5)
    assert mixed.max() == 255
    assert mixed[0, 0, 0, :4].tolist() == [7, 4, 4, 19]


def test_each_image_may_have_a_share_of_its_own() -> None:
    x = photo(2, 3, 8, 8)
    styles = amplitudes(x.flip(0))
    found = exchange(x, styles, torch.tensor([0.0, 1.0]))
    assert torch.equal(found[0], x[0])
    torch.testing.assert_close(found[1], exchange(x, styles)[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_constant_image_has_nothing_but_its_mean(dtype: torch.dtype) -> None:
    flat = torch.full((1, 3, 15, 21), 77.3, dtype=dtype)
    style = amplitudes(flat)
    assert (style > 0).sum() == 3
    bright = exchange(flat, amplitudes(photo(1, 3, 15, 21).to(dtype)))
    assert bright.isfinite().all()
    # The phase of what is not there is 0: waves begin at the corner, so it is the brightest point.
    assert (bright.flatten(2).argmax(-1) == 0).all()
    given = exchange(photo(1, 3, 15, 21).to(dtype), style)
    torch.testing.assert_close(given.mean((2, 3)), flat.mean((2, 3)))


def test_single_precision_is_near_double() -> None:
    x, y = photo(2, 3, 64, 128), photo(2, 3, 64, 128).flip(0)
    exact = exchange(x, amplitudes(y))
    torch.testing.assert_close(
        exchange(x.float(), amplitudes(y.float())).double(), exact, rtol=0, atol=1e-3
    )


def test_styles_at_another_size() -> None:
    x = photo(1, 3, 20, 30).byte()
    style = amplitudes(resized(x, (32, 64))).mean(0)
    assert style.shape == (3, 3, 3)
    # The middle is the number of pixels times the mean, which resizing hardly changes.
    torch.testing.assert_close(
        style[:, 1, 1] / (32 * 64), x.float().mean((0, 2, 3)), rtol=0.02, atol=0
    )
    assert restyled(x, style, size=(32, 64)).shape == x.shape


def test_what_cannot_be_is_refused() -> None:
    x = photo(1, 3, 8, 8)
    with pytest.raises(
        SettingError,
        match=r"frequencies up to 4 cannot be distinguished in images of height 8. Use at",
    ):
        amplitudes(x, (4, 1))
    with pytest.raises(
        SettingError, match=r"must have 3 channels, as the images, and odd sides, found \(1, 3, 3\)"
    ):
        exchange(x, amplitudes(x[:, :1]))
    with pytest.raises(SettingError, match=r"images must be a batch .* found \(3, 8, 8\)"):
        amplitudes(x[0])


def test_levels_are_cut_off_and_truncated() -> None:
    assert levels(torch.tensor([-1.0, 0.5, 254.9, 300.0])).tolist() == [0, 0, 254, 255]
