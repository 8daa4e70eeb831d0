"""Losses of pixels against loops over pixels and numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from fedflat.errors import SettingError
from fedflat.tasks.segmentation import hard_loss, hardest, mean_loss, pixel_losses

RNG = torch.Generator().manual_seed(0)
LOGITS = torch.randn(2, 3, 4, 5, generator=RNG, dtype=torch.float64)
LABELS = torch.randint(3, (2, 4, 5), generator=RNG)
LABELS[0, 0] = 255
WEIGHTS = torch.tensor([0.5, 1.0, 3.0], dtype=torch.float64)


def by_hand(logits: Tensor, labels: Tensor, weights: list[float]) -> list[list[float]]:
    """One loss after the other, image by image; 0 for the ignored."""
    found = []
    for n in range(len(labels)):
        row = []
        for y, x in [(y, x) for y in range(labels.shape[1]) for x in range(labels.shape[2])]:
            label, scores = int(labels[n, y, x]), logits[n, :, y, x].tolist()
            log_sum = math.log(sum(math.exp(s) for s in scores))
            row.append(0.0 if label == 255 else weights[label] * (log_sum - scores[label]))
        found.append(row)
    return found


def test_the_mean_over_pixels_that_count() -> None:
    total, count = mean_loss(LOGITS, LABELS)
    rows = by_hand(LOGITS, LABELS, [1, 1, 1])
    assert int(count) == 35
    assert float(total) == pytest.approx(sum(map(sum, rows)))


def test_class_weights_weigh_loss_and_count() -> None:
    total, count = mean_loss(LOGITS, LABELS, weights=WEIGHTS)
    rows = by_hand(LOGITS, LABELS, WEIGHTS.tolist())
    assert float(total) == pytest.approx(sum(map(sum, rows)))
    counted = [int(label) for label in LABELS.flatten() if label != 255]
    assert float(count) == pytest.approx(sum(WEIGHTS.tolist()[label] for label in counted))


def test_the_hardest_pixels_in_numbers() -> None:
    losses = torch.tensor([[0.1, 0.9, 0.5, 0.3, 0.7, 0.2, 0.4, 0.8]], dtype=torch.float64)
    assert hardest(losses).tolist() == pytest.approx([0.85])
    assert hardest(losses, 1.0).tolist() == pytest.approx([losses.mean().item()])
    assert hardest(losses, 0.01).tolist() == pytest.approx([0.9])


def test_the_hardest_pixels_of_each_image() -> None:
    """A quarter of 20 pixels is 5; the five ignored ones are among the 20 and count 0."""
    total, count = hard_loss(LOGITS, LABELS)
    rows = by_hand(LOGITS, LABELS, [1, 1, 1])
    assert float(total) == pytest.approx(sum(sum(sorted(row)[-5:]) / 5 for row in rows))
    assert int(count) == 2
    torch.testing.assert_close(
        hard_loss(LOGITS, LABELS, share=1)[0], pixel_losses(LOGITS, LABELS).sum() / 20
    )


def test_several_outputs_are_added() -> None:
    other = LOGITS.flip(1)
    for loss in (mean_loss, hard_loss):
        both, count = loss((LOGITS, other), LABELS)
        assert float(both) == pytest.approx(
            float(loss(LOGITS, LABELS)[0]) + float(loss(other, LABELS)[0])
        )
        assert int(count) == int(loss(LOGITS, LABELS)[1])


@pytest.mark.parametrize("loss", [mean_loss, hard_loss])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_nothing_to_learn_from_is_zero(loss: object, weights: Tensor | None) -> None:
    logits = LOGITS.clone().requires_grad_()
    total, _ = loss(logits, torch.full_like(LABELS, 255), weights=weights)  # type: ignore[operator]
    total.backward()
    assert float(total.detach()) == 0
    assert logits.grad is not None
    assert not logits.grad.any()
    assert float(mean_loss(LOGITS, torch.full_like(LABELS, 255), weights=weights)[1]) == 0


def test_a_model_that_does_not_fit_is_named() -> None:
    with pytest.raises(SettingError, match=r"the model gives \(2, 3\) for labels of \(2, 4, 5\)"):
        mean_loss(LOGITS[:, :, 0, 0], LABELS)
    with pytest.raises(SettingError, match="a score for each class at each pixel is needed"):
        mean_loss(LOGITS[..., :3], LABELS)
