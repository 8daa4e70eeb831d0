"""Examples that are given the styles of others in training, at random: LADD's server, before the
rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from fedflat.data.batch import Batch
from fedflat.data.derived_set import DerivedSet
from fedflat.data.examples import AnyExamples
from fedflat.data.federation import PartitionedFederation
from fedflat.data.styles.frequencies import restyled
from fedflat.data.wrapped import Wrapped


@dataclass(frozen=True)
class Restyled(Wrapped):
    """Images that are each given a style, drawn anew whenever they are trained on, before they are
    augmented."""

    styles: Tensor
    """``(styles, channels, rows, columns)``: amplitudes of low frequencies."""
    size: tuple[int, int] | None = None
    """The height and width at which they were taken; None: as the images are."""

    @property
    def augments(self) -> bool:
        """They do."""
        return True

    def batch(self, index: Tensor, dtype: torch.dtype, rng: torch.Generator | None = None) -> Batch:
        if rng is None:
            return self.examples.batch(index, dtype)
        some = self.examples.raw(index)
        drawn = self.styles[torch.randint(len(self.styles), (len(index),), generator=rng)]
        changed = replace(some, inputs=in_styles(some.inputs, drawn, self.size))
        return changed.batch(torch.arange(len(index), device=index.device), dtype, rng)

    def plain(self) -> AnyExamples:  # type: ignore[override]
        return self.examples.plain()

    def retargeted(self, targets: Tensor) -> Restyled:
        return replace(self, examples=self.examples.retargeted(targets))

    def traces(self) -> Sequence[Any]:
        return [*self.examples.traces(), self.styles]


def in_styles(images: Tensor, styles: Tensor, size: tuple[int, int] | None) -> Tensor:
    """Images, of bytes or from 0 to 1, each in a style that was taken at ``size``."""
    if images.dtype == torch.uint8:
        return restyled(images, styles, size)
    return restyled(images * 255, styles, size).to(images.dtype) / 255


@dataclass(frozen=True, repr=False)
class InStyles(DerivedSet):
    """A data set in one place whose images are trained on in the styles of others; made in the
    course of a run."""

    styles: Tensor = field(compare=False)
    size: tuple[int, int] | None = None

    def open(self, seed: int) -> PartitionedFederation:
        """Everything at one client, in styles."""
        fed = self.on.open(seed).pooled()
        assert isinstance(fed, PartitionedFederation)
        return replace(fed, train=Restyled(fed.train, self.styles, self.size))
