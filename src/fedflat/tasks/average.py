"""A mean over batches that are met one after the other, each counting by what it is the mean of.

With ``n`` of ``N`` examples and ``c`` things counted in a batch, it is added with the weight ``n /
N * (c / n)``, and at the end all is divided by ``C / N``. Where every example is one thing, these
factors are exactly 1: the numbers are those of a mean by examples, to the last bit.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fedflat.tasks.task import Count


class Average:
    """Weights of the batches of ``examples`` examples, and what is left to be done at the end."""

    def __init__(self, examples: int) -> None:
        self.examples, self.counted = examples, 0.0 * examples
        self._tensors: Tensor | None = None

    def weight(self, examples: int, count: Count | float) -> Any:
        """The weight of a batch: a number, or a tensor if the count is one."""
        share = examples / self.examples
        if isinstance(count, Tensor):
            part = count.to(torch.float64)
            self._tensors = part if self._tensors is None else self._tensors + part
            return share * (part / examples)
        self.counted += count
        return share * (count / examples)

    def add(self, total: Tensor, part: Tensor, examples: int, count: Count) -> None:
        """Add a batch's vector to the sum; in stacks, rows by their own counts."""
        weight = self.weight(examples, count)
        if isinstance(weight, Tensor):
            total.add_(part * _along(weight, part))
        else:
            total.add_(part, alpha=weight)

    @property
    def scale(self) -> float:
        """What a sum of numbers is to be divided by at the end, where all counts were numbers."""
        return self.counted / self.examples or 1.0

    def finish(self, total: Tensor) -> Tensor:
        """The mean, where all has been added."""
        if self._tensors is None:
            return total.div_(self.scale)
        scales = (self._tensors + self.counted) / self.examples
        return total.div_(_along(torch.where(scales > 0, scales, 1.0), total))


def _along(weight: Tensor, like: Tensor) -> Tensor:
    return weight.to(like.dtype).reshape(*weight.shape, *(1,) * (like.dim() - weight.dim()))
