"""Cross entropy of few classes against PyTorch's own."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from fedflat.kernels.cross_entropy import FEW, few_classes, mean_cross_entropy


@pytest.mark.parametrize("classes", [2, 10, FEW])
def test_values_and_gradients_are_pytorchs(classes: int) -> None:
    """To 1e-12 in float64: a few roundings of 1e-16, on scores that would overflow without a
    shift."""
    rng = torch.Generator().manual_seed(0)
    scores = 500 * torch.randn(7, classes, generator=rng, dtype=torch.float64)
    labels = torch.randint(classes, (7,), generator=rng)
    labels[3] = -100
    scores.requires_grad_()
    ours, theirs = mean_cross_entropy(scores, labels), cross_entropy(scores, labels)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    (one,), (other,) = (torch.autograd.grad(value, scores) for value in (ours, theirs))
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_the_context_leaves_other_losses_alone() -> None:
    """Weights, smoothing, sums, many classes and labels per pixel are PyTorch's."""
    scores, labels = torch.randn(5, 3, dtype=torch.float32), torch.tensor([0, 1, 2, 2, 1])
    cases = [
        ((scores, labels), {"label_smoothing": 0.1}),
        ((scores, labels), {"reduction": "sum"}),
        ((scores, labels), {"weight": torch.tensor([1.0, 2.0, 3.0])}),
        ((torch.randn(5, FEW + 1), labels), {}),
        ((torch.randn(1, 3, 5), labels.unsqueeze(0)), {}),
        ((scores, scores.softmax(1)), {}),
    ]
    for args, settings in cases:
        with few_classes():
            found = cross_entropy(*args, **settings)  # type: ignore[arg-type]
        assert torch.equal(found, cross_entropy(*args, **settings))  # type: ignore[arg-type]
