from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from torch import Tensor

from fedflat.data.augment import CropFlip, cutout, mixup
from fedflat.data.examples import Batch
from fedflat.errors import SettingError


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def candidates(image: Tensor, padding: int) -> dict[bytes, tuple[int, int, bool]]:
    """Every crop of the zero-padded image and its mirror image, cut out one by one."""
    c, h, w = image.shape
    wide = torch.zeros(c, h + 2 * padding, w + 2 * padding, dtype=image.dtype)
    wide[:, padding : padding + h, padding : padding + w] = image
    found = {}
    for top in range(2 * padding + 1):
        for left in range(2 * padding + 1):
            crop = wide[:, top : top + h, left : left + w]
            found[crop.contiguous().numpy().tobytes()] = (top, left, False)
            found[crop.flip(2).contiguous().numpy().tobytes()] = (top, left, True)
    return found


def test_crop_flip_gives_crops_of_the_padded_image_all_equally_often():
    image = torch.randint(1, 256, (3, 7, 5), generator=generator(1), dtype=torch.uint8)
    known = candidates(image, padding=2)
    assert len(known) == 25 * 2
    n = 20_000
    out = CropFlip(padding=2)(image.expand(n, -1, -1, -1), None, generator())[0]
    assert out.shape == (n, 3, 7, 5)
    assert out.dtype == torch.uint8
    counts = dict.fromkeys(known.values(), 0)
    for one in out:
        counts[known[one.numpy().tobytes()]] += 1
    expected = n / 50
    chi2 = sum((c - expected) ** 2 / expected for c in counts.values())
    assert chi2 < 49 + 5 * np.sqrt(2 * 49)


def test_crop_flip_changes_each_image_on_its_own_and_never_mixes_them():
    x = torch.stack([torch.full((3, 8, 8), k, dtype=torch.uint8) for k in range(1, 30)])
    out = CropFlip()(x, None, generator())[0]
    for k, image in enumerate(out, start=1):
        assert set(image.unique().tolist()) <= {0, k}


def test_crop_flip_of_all_images_alike() -> None:
    """All are cropped and mirrored as the first is, and over many batches the first as it is on its
    own."""
    x = torch.randint(1, 256, (5, 3, 7, 5), generator=generator(1), dtype=torch.uint8)
    known = [candidates(image, padding=1) for image in x]
    counts = dict.fromkeys(known[0].values(), 0)
    rng, n = generator(), 3_000
    for _ in range(n):
        out = CropFlip(padding=1, alike=True)(x, None, rng)[0]
        ways = {known[k][image.numpy().tobytes()] for k, image in enumerate(out)}
        assert len(ways) == 1
        counts[ways.pop()] += 1
    chi2 = sum((c - n / 18) ** 2 / (n / 18) for c in counts.values())
    assert chi2 < 17 + 5 * np.sqrt(2 * 17)
    images, masks = CropFlip(padding=1, mask=255, alike=True)(x, x[:, 0], rng)
    assert torch.equal(torch.where(masks == 255, 0, masks), images[:, 0])


def test_crop_flip_of_some_images_with_a_border_of_a_colour() -> None:
    n, colour = 4_000, torch.tensor([7, 8, 9], dtype=torch.uint8).view(3, 1, 1)
    image = torch.randint(10, 256, (3, 5, 5), generator=generator(1), dtype=torch.uint8)
    out = CropFlip(padding=1, flip=0, crop=0.25, border=(7, 8, 9))(
        image.expand(n, -1, -1, -1), None, generator()
    )[0]
    wide = colour.expand(3, 7, 7).clone()
    wide[:, 1:6, 1:6] = image
    known = {
        wide[:, y : y + 5, x : x + 5].numpy().tobytes(): (y, x) for y in range(3) for x in range(3)
    }
    counts = dict.fromkeys(known.values(), 0)
    for one in out:
        counts[known[one.numpy().tobytes()]] += 1
    stays = counts.pop((1, 1)) / n
    expected = 0.75 + 0.25 / 9  # in the middle by chance too
    assert abs(stays - expected) < 5 * np.sqrt(expected * (1 - expected) / n)
    assert all(abs(count / n - 0.25 / 9) < 5 * np.sqrt(0.25 / 9 / n) for count in counts.values())


def test_crop_flip_without_padding_and_flip_is_the_identity():
    x = torch.randint(256, (4, 3, 8, 6), dtype=torch.uint8, generator=generator())
    assert torch.equal(CropFlip(padding=0, flip=0)(x, None, generator())[0], x)
    assert torch.equal(CropFlip(padding=0, flip=1)(x, None, generator())[0], x.flip(3))


def test_masks_move_with_their_images() -> None:
    """A mask that repeats its image is cropped and mirrored like it; outside is what was asked for,
    not black."""
    x = torch.randint(1, 200, (16, 1, 9, 7), dtype=torch.uint8, generator=generator())
    images, masks = CropFlip(padding=2, mask=255)(x, x[:, 0], generator(3))
    assert torch.equal(torch.where(masks == 255, 0, masks), images[:, 0])
    assert bool((masks == 255).any())
    assert torch.equal(masks == 255, images[:, 0] == 0)
    untouched = CropFlip(padding=2)(x, x[:, 0], generator(3))
    assert torch.equal(untouched[0], images)
    assert torch.equal(untouched[1], x[:, 0])


def test_crop_flip_depends_on_the_generator_alone():
    x = torch.randint(256, (16, 3, 32, 32), dtype=torch.uint8, generator=generator())
    change = pickle.loads(pickle.dumps(CropFlip()))
    assert torch.equal(change(x, None, generator(5))[0], CropFlip()(x, None, generator(5))[0])
    assert not torch.equal(change(x, None, generator(5))[0], change(x, None, generator(6))[0])


@pytest.mark.parametrize(
    "wrong", [{"padding": -1}, {"padding": 1.5}, {"flip": 1.1}, {"flip": -0.1}]
)
def test_crop_flip_refuses(wrong):
    with pytest.raises(SettingError, match=next(iter(wrong))):
        CropFlip(**wrong)


def test_a_border_has_the_channels_of_the_images() -> None:
    x = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
    with pytest.raises(SettingError, match=r"found 2 numbers and images of 3\."):
        CropFlip(border=(1, 2))(x, None, generator())
    grey = CropFlip(padding=1, border=(9,))(x.repeat(50, 1, 1, 1), None, generator())[0]
    assert set(grey.unique().tolist()) == {0, 9}


def test_cutout_makes_one_square_hole_clipped_at_the_border():
    side, n = 4, 3000
    out = cutout(torch.ones(n, 2, 10, 12), side, generator())
    assert torch.equal(out[:, 0], out[:, 1])
    holes = out[:, 0] == 0
    corners = {}
    for hole in holes:
        rows, columns = hole.any(1).nonzero()[:, 0], hole.any(0).nonzero()[:, 0]
        assert hole.sum() == len(rows) * len(columns)
        assert torch.equal(rows, torch.arange(int(rows[0]), int(rows[-1]) + 1))
        key = (int(rows[0]), int(rows[-1]), int(columns[0]), int(columns[-1]))
        corners[key] = corners.get(key, 0) + 1
    # A hole for each centre: from centre - 2 to centre + 1, cut at the border.
    rows = [(max(r - 2, 0), min(r + 1, 9)) for r in range(10)]
    columns = [(max(c - 2, 0), min(c + 1, 11)) for c in range(12)]
    centres = [(*r, *c) for r in rows for c in columns]
    assert set(corners) == set(centres)
    expected = n / len(centres)
    chi2 = sum((corners[k] - expected) ** 2 / expected for k in centres)
    assert chi2 < 119 + 5 * np.sqrt(2 * 119)


def test_cutout_larger_than_the_image_and_of_odd_side():
    assert cutout(torch.ones(5, 1, 4, 4), 9, generator()).sum() == 0
    assert set((cutout(torch.ones(50, 1, 9, 9), 1, generator()) == 0).sum((1, 2, 3)).tolist()) == {
        1
    }
    with pytest.raises(SettingError, match="side"):
        cutout(torch.ones(1, 1, 4, 4), 0, generator())


def test_mixup_mixes_with_a_permutation_and_keeps_both_labels():
    x = torch.randn(32, 3, 4, 4, dtype=torch.float64, generator=generator())
    mixed = mixup(Batch(x, torch.arange(32)), 1.0, generator(3))
    first, second, lam = mixed.targets.first, mixed.targets.second, mixed.targets.lam
    assert torch.equal(first, torch.arange(32))
    assert sorted(second.tolist()) == list(range(32))
    assert 0 < lam < 1
    torch.testing.assert_close(
        mixed.inputs, lam * x + (1 - lam) * x[second], rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("alpha", [0.2, 1.0, 4.0])
def test_mixup_draws_lam_from_beta(alpha):
    batch, rng = Batch(torch.zeros(2, 1), torch.tensor([0, 1])), generator()
    lams = np.array([mixup(batch, alpha, rng).targets.lam for _ in range(2000)])
    variance = 1 / (4 * (2 * alpha + 1))
    assert abs(lams.mean() - 0.5) < 5 * np.sqrt(variance / len(lams))
    assert lams.var() == pytest.approx(variance, rel=0.15)


def test_mixup_is_repeatable_and_refuses_alpha_zero():
    batch = Batch(torch.arange(8.0)[:, None], torch.arange(8))
    one, two = mixup(batch, 1.0, generator(7)), mixup(batch, 1.0, generator(7))
    assert one.targets.lam == two.targets.lam
    assert torch.equal(one.inputs, two.inputs)
    with pytest.raises(SettingError, match="alpha"):
        mixup(batch, 0, generator())
