"""Examples that are given the styles of others in training, at random: LADD's server, before the rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from fedflat.data.batch import Batch, Tensors
from fedflat.data.domains import Domains
from fedflat.data.examples import AnyExamples, Examples
from fedflat.data.federation import DataSpec, Dealt
from fedflat.data.styles.frequencies import restyled


@dataclass(frozen=True)
class Restyled(AnyExamples):
    """Images that are each given a style, drawn anew whenever they are trained on, before they are augmented."""

    examples: AnyExamples
    styles: Tensor
    """``(styles, channels, rows, columns)``: amplitudes of low frequencies."""
    size: tuple[int, int] | None = None
    """The height and width at which they were taken; None: as the images are."""

    @property
    def classes(self) -> int:  # type: ignore[override]
        """See `AnyExamples.classes`."""
        return self.examples.classes

    @property
    def targets(self) -> Tensors:
        """See `AnyExamples.targets`."""
        return self.examples.targets

    @property
    def domains(self) -> Domains | None:  # type: ignore[override]
        """See `AnyExamples.domains`."""
        return self.examples.domains

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def shape(self) -> tuple[int, ...]:
        """See `AnyExamples.shape`."""
        return self.examples.shape

    @property
    def augments(self) -> bool:
        """They do."""
        return True

    def batch(self, index: Tensor, dtype: torch.dtype, rng: torch.Generator | None = None) -> Batch:
        """See `AnyExamples.batch`."""
        if rng is None:
            return self.examples.batch(index, dtype)
        some = self.examples.raw(index)
        drawn = self.styles[torch.randint(len(self.styles), (len(index),), generator=rng)]
        changed = replace(some, inputs=in_styles(some.inputs, drawn, self.size))
        return changed.batch(torch.arange(len(index), device=index.device), dtype, rng)

    def raw(self, index: Tensor) -> Examples:
        """See `AnyExamples.raw`; in their own styles."""
        return self.examples.raw(index)

    def expect(self, index: Tensor) -> None:
        """See `AnyExamples.expect`."""
        self.examples.expect(index)

    def plain(self) -> AnyExamples:  # type: ignore[override]
        """See `AnyExamples.plain`."""
        return self.examples.plain()

    def part(self, where: slice) -> Restyled:
        """See `AnyExamples.part`."""
        return replace(self, examples=self.examples.part(where))

    def retargeted(self, targets: Tensor) -> Restyled:
        """See `AnyExamples.retargeted`."""
        return replace(self, examples=self.examples.retargeted(targets))

    def to(self, device: str) -> Restyled:
        """See `AnyExamples.to`."""
        return replace(self, examples=self.examples.to(device))

    def like(self, inputs: Tensor) -> Examples:
        """See `AnyExamples.like`."""
        return self.examples.like(inputs)

    def traces(self) -> Sequence[Any]:
        """See `AnyExamples.traces`."""
        return [*self.examples.traces(), self.styles]


def in_styles(images: Tensor, styles: Tensor, size: tuple[int, int] | None) -> Tensor:
    """Images, of bytes or from 0 to 1, each in a style that was taken at ``size``."""
    if images.dtype == torch.uint8:
        return restyled(images, styles, size)
    return restyled(images * 255, styles, size).to(images.dtype) / 255


@dataclass(frozen=True, repr=False)
class InStyles(DataSpec):
    """A data set in one place whose images are trained on in the styles of others; made in the course of a run."""

    stored = False

    on: DataSpec
    styles: Tensor = field(compare=False)
    size: tuple[int, int] | None = None

    def class_names(self) -> tuple[str, ...]:
        """See `DataSpec.class_names`."""
        return self.on.class_names()

    def open(self, seed: int) -> Dealt:
        """Everything at one client, in styles."""
        fed = self.on.open(seed).pooled()
        assert isinstance(fed, Dealt)
        return replace(fed, train=Restyled(fed.train, self.styles, self.size))
