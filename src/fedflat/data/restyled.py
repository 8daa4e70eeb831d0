"""Examples that get random styles of other examples in training, as on LADD's server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from fedflat.data.derived import DelegatingExamples, DerivedSet
from fedflat.data.examples import AnyExamples, Batch
from fedflat.data.federation import PartitionedFederation
from fedflat.data.styles import restyled


@dataclass(frozen=True)
class Restyled(DelegatingExamples):
    """Images that get a random style whenever they are trained on, before augmentation."""

    styles: Tensor
    """``(styles, channels, rows, columns)``: amplitudes of low frequencies."""
    size: tuple[int, int] | None = None
    """Height and width of the images that the styles come from; None: those of these images."""

    @property
    def augments(self) -> bool:
        return True

    def batch(self, index: Tensor, dtype: torch.dtype, rng: torch.Generator | None = None) -> Batch:
        if rng is None:
            return self.examples.batch(index, dtype)
        raw = self.examples.raw(index)
        styles = self.styles[torch.randint(len(self.styles), (len(index),), generator=rng)]
        changed = replace(raw, inputs=in_styles(raw.inputs, styles, self.size))
        return changed.batch(torch.arange(len(index), device=index.device), dtype, rng)

    def plain(self) -> AnyExamples:  # type: ignore[override]
        return self.examples.plain()

    def retargeted(self, targets: Tensor) -> Restyled:
        return replace(self, examples=self.examples.retargeted(targets))

    def traces(self) -> Sequence[Any]:
        return [*self.examples.traces(), self.styles]


def in_styles(images: Tensor, styles: Tensor, size: tuple[int, int] | None) -> Tensor:
    """Images (bytes, or 0 to 1), each in one of the ``styles``, which were computed at ``size``."""
    if images.dtype == torch.uint8:
        return restyled(images, styles, size)
    return restyled(images * 255, styles, size).to(images.dtype) / 255


@dataclass(frozen=True, repr=False)
class InStyles(DerivedSet):
    """A data set at one client whose images get the styles of others; created during a run."""

    styles: Tensor = field(compare=False)
    size: tuple[int, int] | None = None

    def open(self, seed: int) -> PartitionedFederation:
        """All examples at one client, in styles."""
        fed = self.on.open(seed).pooled()
        assert isinstance(fed, PartitionedFederation)
        return replace(fed, train=Restyled(fed.train, self.styles, self.size))
