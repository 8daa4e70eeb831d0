"""Examples of which nobody is told what should come out.

The targets are taken away where the data are opened: masks on disk are not read, those in memory
are put down. Whoever asks such examples for one is refused. So are the clients of a method that
learns without targets (`Piece.unsupervised`), and of a data set that says so
(``unlabelled(street())``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor

from fedflat.data.batch import Batch
from fedflat.data.changed import changed
from fedflat.data.examples import AnyExamples
from fedflat.data.federation import Federation
from fedflat.data.wrapped import Wrapped
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


class Targetless(Wrapped):
    """Examples that refuse to say what should come out."""

    @property
    def targets(self) -> NoReturn:
        """Refused: there are none."""
        raise SettingError(WHY)

    @property
    def labelled(self) -> bool:
        """They are not."""
        return False

    @property
    def labels(self) -> NoReturn:
        """Refused: there are none."""
        raise SettingError(WHY)

    def retargeted(self, targets: Tensor) -> NoReturn:
        """Refused: there are none to be changed."""
        raise SettingError(WHY)


@dataclass(frozen=True)
class Unlabelled(Targetless):
    """Examples without targets."""

    unlabelled = True

    @property
    def augments(self) -> bool:
        return self.examples.augments

    def batch(self, index: Tensor, dtype: torch.dtype, rng: torch.Generator | None = None) -> Batch:
        """See `AnyExamples.batch`; nothing should come out."""
        return Batch(self.examples.batch(index, dtype, rng).inputs, Absent())

    def stripped(self) -> Unlabelled:
        return self

    def traces(self) -> Sequence[Any]:
        return [*self.examples.traces(), "unlabelled"]


def without_targets(examples: AnyExamples) -> AnyExamples:
    """The same inputs, and nothing that should come out."""
    return Unlabelled(examples.stripped())


def without_labels(fed: Federation) -> Federation:
    """The same federation with clients that have no targets, nor tests of their own; its test sets
    stay."""
    return changed(fed, without_targets, "unlabelled: labels can be taken from clients")
