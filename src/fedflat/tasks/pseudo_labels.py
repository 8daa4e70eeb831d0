"""Learning from images without labels, after LADD (Shenaj et al., WACV 2023, arXiv:2210.02326).

A teacher's most likely class is a pixel's pseudo-label. It counts if the teacher is sure enough:

    "ladd"   its probability is above 0.9, or among the floor(0.66 n) largest of the n pixels of its class and image
    "fda"    its probability is at least min(0.9, the 66 % quantile of its class over all images), as in FDA

    pseudo        1/P  sum over counted pixels of CE(z, pseudo-label)                     P: all pixels of the batch
    distillation  1/P  sum over counted pixels of 1/C sum_j -softmax(z_0 / 2)_j log softmax(z)_j

``z`` are the student's scores, ``z_0`` those of the model from before the rounds, by whose own
pseudo-labels pixels count in the distillation. Mask, 1/C and the halved scores are those of the
authors' code.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fedflat.errors import SettingError, choice, number

IGNORE = 255
UNSURE = 0.9
SHARE = 0.66


@dataclass(frozen=True)
class PseudoLabels:
    """The teacher's classes ``(N, h, w)``, and which pixels of them count."""

    classes: Tensor
    counted: Tensor

    @property
    def labels(self) -> Tensor:
        """The classes where they count, and `IGNORE` elsewhere."""
        return self.classes.masked_fill(~self.counted, IGNORE)


def pseudo_labels(
    scores: Tensor,
    *,
    rule: str = "ladd",
    sure: float = UNSURE,
    share: float = SHARE,
    thresholds: Tensor | None = None,
) -> PseudoLabels:
    """A teacher's labels from its scores ``(N, C, h, w)``.

    ``thresholds`` are for ``rule="fda"``, one for each class (see `fda_thresholds`); without them
    the quantiles are those of this batch.
    """
    choice("pseudo-labels", "rule", rule, ["ladd", "fda"])
    number("pseudo-labels", "sure", sure, low=0, high=1)
    number("pseudo-labels", "share", share, low=0, high=1)
    if scores.dim() != 4 or scores.shape[1] >= IGNORE:
        raise SettingError(
            f"pseudo-labels: a score for each of fewer than {IGNORE} classes at each pixel (N, classes, h, w) is "
            f"needed, found {tuple(scores.shape)}."
        )
    confidence, classes = scores.softmax(1).max(1)
    if rule == "ladd":
        return PseudoLabels(
            classes, (confidence > sure) | surest(confidence, classes, scores.shape[1], share)
        )
    if thresholds is None:
        thresholds = fda_thresholds(confidence, classes, scores.shape[1], sure=sure, share=share)
    return PseudoLabels(classes, confidence >= thresholds.to(confidence)[classes])


def surest(confidence: Tensor, classes: Tensor, width: int, share: float = SHARE) -> Tensor:
    """Where a pixel is among the ``floor(share n)`` most confident of the n pixels of its class in
    its image."""
    sure, label = confidence.flatten(1), classes.flatten(1)
    # Sorted by class, and within a class by confidence; the first pixel wins between equals.
    order = sure.argsort(dim=1, descending=True, stable=True)
    order = order.gather(1, label.gather(1, order).argsort(dim=1, stable=True))
    label = label.gather(1, order)
    counts = torch.zeros(len(label), width, dtype=torch.long, device=label.device)
    counts.scatter_add_(1, label, torch.ones_like(label))
    rank = torch.arange(label.shape[1], device=label.device) - (counts.cumsum(1) - counts).gather(
        1, label
    )
    kept = rank < (counts.double() * share).floor().long().gather(1, label)
    return torch.empty_like(kept).scatter_(1, order, kept).view_as(classes)


def fda_thresholds(
    confidence: Tensor, classes: Tensor, width: int, *, sure: float = UNSURE, share: float = SHARE
) -> Tensor:
    """The least confidence that counts for each class: ``sure``, or entry ``round(share n)`` of its
    n sorted ones."""
    found = torch.full((width,), sure, dtype=confidence.dtype, device=confidence.device)
    for c in classes.unique().tolist():
        ranked = confidence[classes == c].sort().values
        found[c] = ranked[min(round(share * len(ranked)), len(ranked) - 1)].clamp(max=sure)
    return found


def pseudo_loss(student: Tensor, given: PseudoLabels) -> tuple[Tensor, Tensor]:
    """Summed cross entropies of the counted pixels, and how many pixels there are in all."""
    total = cross_entropy(student, given.labels, ignore_index=IGNORE, reduction="sum")
    return total, torch.tensor(given.classes.numel(), device=student.device)


def distillation_loss(
    student: Tensor, before: Tensor, given: PseudoLabels | None, *, sharpness: float = 0.5
) -> tuple[Tensor, Tensor]:
    """Summed distillation losses of the pixels that count by ``given`` (``None``: of all), and the
    number of all.

    ``before`` are the scores of the model from before the rounds, multiplied by ``sharpness``.
    """
    each = -((before * sharpness).softmax(1) * student.log_softmax(1)).mean(1)
    total = each.sum() if given is None else torch.where(given.counted, each, 0).sum()
    return total, torch.tensor(each.numel(), device=student.device)
