"""Losses of images with a class for every pixel.

    mean       over all pixels that are not ignored, weighted by class if weights are given
    hardest    per image, the mean of the floor(share P) largest of its P pixel losses, where
               ignored pixels have loss 0; then the mean over images that are not all ignored
               (online hard example mining, Shrivastava et al., CVPR 2016, arXiv:1604.03540)

Every loss is a pair of a sum and its divisor, so that batches without labelled pixels do not count.
A network with several outputs has the sum of their losses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fedflat.errors import DataError, SettingError, number

IGNORE = 255
"""The label of pixels that are ignored."""


def pixel_losses(
    logits: Tensor,
    labels: Tensor,
    *,
    ignore: int = IGNORE,
    weights: Tensor | None = None,
    summed: bool = False,
) -> Tensor:
    """Cross entropy of each pixel ``(N, h, w)`` times its class weight; 0 where ignored.

    ``summed`` returns the sum without storing the losses of all pixels.
    """
    if logits.dim() != 4 or labels.shape != (len(logits), *logits.shape[2:]):
        raise SettingError(
            f"segmentation: the model gives {tuple(logits.shape)} for labels of "
            f"{tuple(labels.shape)}; a score for each class at each pixel is needed. Use a model "
            "for segmentation, such as bisenetv2() or deeplabv3()."
        )
    reduction = "sum" if summed else "none"
    try:
        return cross_entropy(
            logits, labels.long(), weight=weights, ignore_index=ignore, reduction=reduction
        )
    except IndexError as error:
        raise DataError(
            f"segmentation: masks must have the classes 0 to {logits.shape[1] - 1}, or {ignore} "
            f"where a pixel is ignored: {str(error).rstrip('.')}. Correct the masks, or set the "
            "ignored label: segmentation(ignore=...)."
        ) from None


def mean_loss(
    outputs: Tensor | Sequence[Tensor],
    labels: Tensor,
    *,
    ignore: int = IGNORE,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Summed pixel losses, and the number of counted pixels or the sum of their weights."""
    total = _sum(
        pixel_losses(output, labels, ignore=ignore, weights=weights, summed=True)
        for output in _as_list(outputs)
    )
    counted = labels != ignore
    if weights is None:
        return total, counted.sum()
    return total, weights[torch.where(counted, labels, 0).long()].masked_fill(~counted, 0).sum()


def hard_loss(
    outputs: Tensor | Sequence[Tensor],
    labels: Tensor,
    *,
    share: float = 0.25,
    ignore: int = IGNORE,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Sum of the images' means over hard pixels, and the number of images with counted pixels."""
    total = _sum(
        hardest(pixel_losses(output, labels, ignore=ignore, weights=weights), share).sum()
        for output in _as_list(outputs)
    )
    return total, (labels != ignore).flatten(1).any(1).sum()


def hardest(losses: Tensor, share: float = 0.25) -> Tensor:
    """The mean of the largest ``floor(share P)`` losses of each image, at least one.

    >>> hardest(torch.tensor([[0.1, 0.9, 0.5, 0.3, 0.7, 0.2, 0.4, 0.8]])).tolist()
    [0.8500000238418579]
    """
    number("hard pixels", "share", share, low=0, high=1, open_low=True)
    flat = losses.flatten(1)
    count = max(math.floor(share * flat.shape[1]), 1)
    return (
        flat.mean(1)
        if count == flat.shape[1]
        else flat.topk(count, dim=1, sorted=False).values.mean(1)
    )


def _as_list(outputs: Tensor | Sequence[Tensor]) -> Sequence[Tensor]:
    return [outputs] if isinstance(outputs, Tensor) else outputs


def _sum(parts: Iterable[Tensor]) -> Tensor:
    return torch.stack(list(parts)).sum()
