"""Learning from images without labels, after LADD (Shenaj et al., WACV 2023, arXiv:2210.02326).

The pseudo-label of a pixel is the teacher's most likely class. It counts if the teacher is
confident enough:

    "ladd"   its probability is above 0.9, or among the floor(0.66 n) largest of the n pixels
             of its class and image
    "fda"    its probability is at least min(0.9, the 66 % quantile of its class over all
             images), as in FDA

    pseudo        1/P  sum over counted pixels of CE(z, pseudo-label)         P: pixels of the batch
    distillation  1/P  sum over counted pixels of 1/C sum_j -softmax(z_0 / 2)_j log softmax(z)_j

``z`` are the student's scores, ``z_0`` those of the model before the first round. The pseudo-labels
of that model decide which pixels count in the distillation. Mask, 1/C and the halved scores follow
the authors' code.
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
    """The teacher's classes ``(N, h, w)``, and a mask of the pixels that count."""

    classes: Tensor
    counted: Tensor

    @property
    def labels(self) -> Tensor:
        """The classes of counted pixels, `IGNORE` elsewhere."""
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

    ``thresholds`` are for ``rule="fda"``, one per class (see `fda_thresholds`). Without them, the
    quantiles of this batch are used.
    """
    choice("pseudo-labels", "rule", rule, ["ladd", "fda"])
    number("pseudo-labels", "sure", sure, low=0, high=1)
    number("pseudo-labels", "share", share, low=0, high=1)
    if scores.dim() != 4 or scores.shape[1] >= IGNORE:
        raise SettingError(
            f"pseudo-labels: a score for each of fewer than {IGNORE} classes at each pixel (N, "
            f"classes, h, w) is needed, found {tuple(scores.shape)}."
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
    """Mask of the ``floor(share n)`` most confident of the n pixels of each class and image."""
    sure, label = confidence.flatten(1), classes.flatten(1)
    # Sort by class, and within a class by confidence; ties keep the order of the pixels.
    order = sure.argsort(dim=1, descending=True, stable=True)
    order = order.gather(1, label.gather(1, order).argsort(dim=1, stable=True))
    label = label.gather(1, order)
    counts = torch.zeros(len(label), width, dtype=torch.long, device=label.device)
    counts.scatter_add_(1, label, torch.ones_like(label))
    rank = torch.arange(label.shape[1], device=label.device) - (counts.cumsum(1) - counts).gather(
        1, label
    )
    selected = rank < (counts.double() * share).floor().long().gather(1, label)
    return torch.empty_like(selected).scatter_(1, order, selected).view_as(classes)


def fda_thresholds(
    confidence: Tensor, classes: Tensor, width: int, *, sure: float = UNSURE, share: float = SHARE
) -> Tensor:
    """The least confidence that counts, per class.

    Entry ``round(share n)`` of the n sorted confidences of the class, at most ``sure``.
    """
    thresholds = torch.full((width,), sure, dtype=confidence.dtype, device=confidence.device)
    for c in classes.unique().tolist():
        ranked = confidence[classes == c].sort().values
        thresholds[c] = ranked[min(round(share * len(ranked)), len(ranked) - 1)].clamp(max=sure)
    return thresholds


def pseudo_loss(student: Tensor, labels: PseudoLabels) -> tuple[Tensor, Tensor]:
    """Summed cross entropy of the counted pixels, and the number of all pixels."""
    total = cross_entropy(student, labels.labels, ignore_index=IGNORE, reduction="sum")
    return total, torch.tensor(labels.classes.numel(), device=student.device)


def distillation_loss(
    student: Tensor, before: Tensor, given: PseudoLabels | None, *, sharpness: float = 0.5
) -> tuple[Tensor, Tensor]:
    """Summed distillation losses of the counted pixels, and the number of all pixels.

    ``given`` says which pixels count; None counts all. ``before`` are the scores of the model
    before the first round, multiplied by ``sharpness``.
    """
    each = -((before * sharpness).softmax(1) * student.log_softmax(1)).mean(1)
    total = each.sum() if given is None else torch.where(given.counted, each, 0).sum()
    return total, torch.tensor(each.numel(), device=student.device)
