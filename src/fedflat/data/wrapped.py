"""Base class of examples that delegate to other examples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from torch import Tensor

from fedflat.data.batch import Tensors
from fedflat.data.domains import Domains
from fedflat.data.examples import AnyExamples, Examples


@dataclass(frozen=True)
class Wrapped(AnyExamples):
    """Delegates to ``examples`` what a subclass does not override."""

    examples: AnyExamples

    @property
    def classes(self) -> int:  # type: ignore[override]
        return self.examples.classes

    @property
    def targets(self) -> Tensors:
        return self.examples.targets

    @property
    def domains(self) -> Domains | None:  # type: ignore[override]
        return self.examples.domains

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.examples.shape

    def raw(self, index: Tensor) -> Examples:
        return self.examples.raw(index)

    def like(self, inputs: Tensor) -> Examples:
        return self.examples.like(inputs)

    def expect(self, index: Tensor) -> None:
        self.examples.expect(index)

    def plain(self) -> Self:
        return replace(self, examples=self.examples.plain())

    def part(self, where: slice) -> Self:
        return replace(self, examples=self.examples.part(where))

    def to(self, device: str) -> Self:
        return replace(self, examples=self.examples.to(device))
