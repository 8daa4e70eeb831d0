"""Pseudo-labels and distillation in numbers, and against loops."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedflat.errors import SettingError
from fedflat.tasks.pseudo_labels import (
    distillation_loss,
    fda_thresholds,
    pseudo_labels,
    pseudo_loss,
    surest,
)

TEACHER = [
    (0.95, 0.03, 0.02),
    (0.6, 0.3, 0.1),
    (0.5, 0.4, 0.1),
    (0.1, 0.8, 0.1),
    (0.2, 0.7, 0.1),
    (0.3, 0.3, 0.4),
]
STUDENT = [(2, 0, -1), (1, 0, 0), (0, 0, 0), (0, 1, 0), (1, 1, 0), (0, 0, 2)]


def image(pixels: list[tuple[float, ...]]) -> Tensor:
    """One image of one row."""
    return torch.tensor(pixels, dtype=torch.float64).T.view(1, -1, 1, len(pixels)).clone()


SCORES, Z = image(TEACHER).log(), image(STUDENT)


def test_pixels_with_a_pseudo_label() -> None:
    assert pseudo_labels(SCORES).counted.flatten().nonzero().flatten().tolist() == [0, 3]
    assert pseudo_labels(SCORES, rule="fda").counted.flatten().nonzero().flatten().tolist() == [
        0,
        3,
        5,
    ]
    assert pseudo_labels(SCORES).labels.flatten().tolist() == [0, 255, 255, 1, 255, 255]


def test_the_losses_in_numbers() -> None:
    given = pseudo_labels(SCORES)
    z = Z.clone().requires_grad_()
    total, pixels = pseudo_loss(z, given)
    pseudo = total / pixels
    pseudo.backward()
    assert pseudo.item() == pytest.approx(0.12021512, abs=6e-9)
    assert z.grad is not None
    assert z.grad[0, :, 0, 0].tolist() == pytest.approx(
        [-0.02603421, 0.01903253, 0.00700168], abs=6e-9
    )
    total, pixels = distillation_loss(Z, SCORES, given)
    distilled = total / pixels
    assert distilled.item() == pytest.approx(0.09629155, abs=6e-9)
    assert (pseudo + 20 * distilled).item() == pytest.approx(2.04604603, abs=6e-8)
    total, pixels = distillation_loss(Z, SCORES, None)
    assert (total / pixels).item() == pytest.approx(0.35987164, abs=6e-9)
    total, pixels = distillation_loss(image([(2, 0, -1)]), image([(1, 1, 0)]), None)
    assert (total / pixels).item() == pytest.approx(0.54507970, abs=6e-9)


def test_the_surest_of_each_class_and_image() -> None:
    rng = torch.Generator().manual_seed(0)
    sure, label = torch.rand(3, 6, 7, generator=rng), torch.randint(4, (3, 6, 7), generator=rng)
    found = surest(sure, label, 4)
    for n in range(3):
        for c in range(4):
            of_class = [i for i, y in enumerate(label[n].flatten().tolist()) if y == c]
            ranked = sorted(of_class, key=lambda i: -float(sure[n].flatten()[i]))
            kept = set(ranked[: int(0.66 * len(ranked))])
            assert {i for i in of_class if found[n].flatten()[i]} == kept


def test_thresholds_over_all_images() -> None:
    """Ten pixels of class 1 over two images: entry round(6.6) = 7 of the sorted ones; class 0 has
    none."""
    sure = torch.arange(10, 0, -1).view(2, 1, 5) / 20
    found = fda_thresholds(sure, torch.ones(2, 1, 5, dtype=torch.long), 2)
    assert found.tolist() == pytest.approx([0.9, 8 / 20])
    given = pseudo_labels(SCORES, rule="fda", thresholds=torch.tensor([0.55, 0.9, 0.9]))
    assert given.counted.flatten().nonzero().flatten().tolist() == [0, 1]


def test_a_teacher_sure_of_nothing_teaches_nothing() -> None:
    given = pseudo_labels(torch.zeros(2, 3, 4, 4), share=0)
    assert not given.counted.any()
    z = torch.randn(2, 3, 4, 4).requires_grad_()
    for total, pixels in (
        pseudo_loss(z, given),
        distillation_loss(z, torch.zeros(2, 3, 4, 4), given),
    ):
        assert total.item() == 0
        assert pixels.item() == 32


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(
        SettingError, match=r"rule must be 'ladd' or 'fda', found 'lad'\. Did you mean 'ladd'"
    ):
        pseudo_labels(SCORES, rule="lad")
    with pytest.raises(
        SettingError, match=r"fewer than 255 classes at each pixel .* found \(1, 3\)"
    ):
        pseudo_labels(SCORES[..., 0, 0])
