"""Examples of which nobody is told what should come out.

The targets are taken away where the data are opened: masks on disk are not read, those in memory are put down. Whoever
asks such examples for one is refused. So are the clients of a method that learns without targets (`Piece.blind`), and
of a data set that says so (``unlabelled(street())``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import torch
from torch import Tensor

from fedflat.data.batch import Batch
from fedflat.data.changed import changed
from fedflat.data.domains import Domains
from fedflat.data.examples import AnyExamples, Examples
from fedflat.data.federation import Federation
from fedflat.errors import SettingError

WHY = (
    "The clients hold no labels here, and what was asked for needs some. Use a method that learns without, such as "
    "ladd() or self_training(), or data with labels."
)


class Absent:
    """Stands where targets would be; whatever is asked of it is refused."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)  # pickle and copy ask for what is not there
        raise SettingError(WHY)

    def __getitem__(self, place: object) -> NoReturn:
        raise SettingError(WHY)

    def __len__(self) -> NoReturn:
        raise SettingError(WHY)


@dataclass(frozen=True)
class Unlabelled(AnyExamples):
    """Examples without targets."""

    examples: AnyExamples
    """The inputs; what stands there for targets says nothing."""

    unlabelled = True

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def classes(self) -> int:  # type: ignore[override]
        """How many there are is known."""
        return self.examples.classes

    @property
    def shape(self) -> tuple[int, ...]:
        """See `AnyExamples.shape`."""
        return self.examples.shape

    @property
    def augments(self) -> bool:
        """See `AnyExamples.augments`."""
        return self.examples.augments

    @property
    def targets(self) -> NoReturn:
        """Refused: there are none."""
        raise SettingError(WHY)

    @property
    def domains(self) -> Domains | None:  # type: ignore[override]
        """See `AnyExamples.domains`."""
        return self.examples.domains

    @property
    def labelled(self) -> bool:
        """They are not."""
        return False

    @property
    def labels(self) -> NoReturn:
        """Refused: there are none."""
        raise SettingError(WHY)

    def batch(self, index: Tensor, dtype: torch.dtype, rng: torch.Generator | None = None) -> Batch:
        """See `AnyExamples.batch`; nothing should come out."""
        return Batch(self.examples.batch(index, dtype, rng).inputs, Absent())

    def raw(self, index: Tensor) -> Examples:
        """See `AnyExamples.raw`; their targets say nothing."""
        return self.examples.raw(index)

    def like(self, inputs: Tensor) -> Examples:
        """See `AnyExamples.like`."""
        return self.examples.like(inputs)

    def expect(self, index: Tensor) -> None:
        """See `AnyExamples.expect`."""
        self.examples.expect(index)

    def plain(self) -> Unlabelled:
        """See `AnyExamples.plain`."""
        return replace(self, examples=self.examples.plain())

    def part(self, where: slice) -> Unlabelled:
        """See `AnyExamples.part`."""
        return replace(self, examples=self.examples.part(where))

    def retargeted(self, targets: Tensor) -> NoReturn:
        """Refused: there are none to be changed."""
        raise SettingError(WHY)

    def stripped(self) -> Unlabelled:
        """See `AnyExamples.stripped`."""
        return self

    def to(self, device: str) -> Unlabelled:
        """See `AnyExamples.to`."""
        return replace(self, examples=self.examples.to(device))

    def traces(self) -> Sequence[Any]:
        """See `AnyExamples.traces`."""
        return [*self.examples.traces(), "unlabelled"]


def without_targets(examples: AnyExamples) -> AnyExamples:
    """The same inputs, and nothing that should come out."""
    return Unlabelled(examples.stripped())


def without_labels(fed: Federation) -> Federation:
    """The same federation with clients that have no targets, nor tests of their own; its test sets stay."""
    return changed(fed, without_targets, "unlabelled: labels can be taken from clients")
