"""A weighted mean over batches, each weighted by the number of things it is the mean of.

A batch with ``n`` of ``N`` examples and a count of ``c`` is added with the weight ``n / N * (c /
n)``. At the end the sum is divided by ``C / N``. If every example counts once, these factors are
exactly 1, and the result equals a mean over examples bit for bit.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fedflat.tasks.task import Count


class Average:
    """Weights of batches out of ``examples`` examples, and the final division."""

    def __init__(self, examples: int) -> None:
        self.examples, self.counted = examples, 0.0 * examples
        self._counted_tensors: Tensor | None = None

    def weight(self, examples: int, count: Count | float) -> Any:
        """The weight of a batch: a number, or a tensor if ``count`` is one."""
        share = examples / self.examples
        if isinstance(count, Tensor):
            part = count.to(torch.float64)
            self._counted_tensors = (
                part if self._counted_tensors is None else self._counted_tensors + part
            )
            return share * (part / examples)
        self.counted += count
        return share * (count / examples)

    def add(self, total: Tensor, part: Tensor, examples: int, count: Count) -> None:
        """Add a batch's vector to ``total``; in stacks, each row with its own weight."""
        weight = self.weight(examples, count)
        if isinstance(weight, Tensor):
            total.add_(part * _along(weight, part))
        else:
            total.add_(part, alpha=weight)

    @property
    def scale(self) -> float:
        """The divisor at the end, if all counts were numbers."""
        return self.counted / self.examples or 1.0

    def finish(self, total: Tensor) -> Tensor:
        """Divide the complete sum by the total weight, in place."""
        if self._counted_tensors is None:
            return total.div_(self.scale)
        scales = (self._counted_tensors + self.counted) / self.examples
        return total.div_(_along(torch.where(scales > 0, scales, 1.0), total))


def _along(weight: Tensor, like: Tensor) -> Tensor:
    return weight.to(like.dtype).reshape(*weight.shape, *(1,) * (like.dim() - weight.dim()))
