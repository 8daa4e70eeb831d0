"""Intersection over union in numbers, and against sets of pixels."""

from __future__ import annotations

import math

import pytest
import torch

from fedflat.tasks.segmentation import class_ious, confusion, mean_iou, pixel_accuracy


def test_in_numbers() -> None:
    labels = torch.tensor([0, 0, 0, 1, 1, 2, 255, 0])
    matrix = confusion(torch.tensor([0, 1, 0, 1, 1, 1, 2, 3]), labels, 4)
    ious = class_ious(matrix).tolist()
    assert ious[:3] == pytest.approx([0.5, 0.5, 0], abs=1e-6)
    assert math.isnan(ious[3])
    assert mean_iou(matrix) == pytest.approx(0.33333325, abs=6e-9)
    assert pixel_accuracy(matrix) == 4 / 7


def test_pixel_accuracy_is_exact_for_more_pixels_than_float32_can_count() -> None:
    """Float32 rounds both counts to the same number."""
    right = 2**30 + 1
    assert pixel_accuracy(torch.tensor([[right, 3], [0, 0]])) == right / (right + 3)


def test_against_sets_of_pixels() -> None:
    rng = torch.Generator().manual_seed(0)
    labels, predicted = (torch.randint(5, (3, 7, 8), generator=rng) for _ in range(2))
    labels[0, 0] = 255
    found = class_ious(confusion(predicted, labels, 5))
    counted = (labels != 255).flatten()
    for c in range(5):
        truth = {i for i, y in enumerate(labels.flatten()) if y == c}
        output = {i for i, y in enumerate(predicted.flatten()) if y == c and counted[i]}
        assert float(found[c]) == pytest.approx(len(truth & output) / (len(truth | output) + 1e-6))


def test_the_labels_themselves_and_nothing_at_all() -> None:
    labels = torch.arange(12).view(3, 4) % 4
    assert mean_iou(confusion(labels, labels, 6)) == pytest.approx(1, abs=1e-6)
    nothing = confusion(labels, torch.full_like(labels, 255), 6)
    assert math.isnan(mean_iou(nothing))
    assert math.isnan(pixel_accuracy(nothing))
