"""Examples without targets.

The targets are removed when the data are opened: masks on disk are not read, and targets in memory
are dropped. Reading a target is an error. This applies to the clients of methods that learn without
targets (`Piece.unsupervised`) and of data sets such as ``unlabelled(street())``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor

from fedflat.data.batch import Batch
from fedflat.data.derived import DelegatingExamples, changed
from fedflat.data.examples import AnyExamples
from fedflat.data.federation import Federation
from fedflat.errors import SettingError

WHY = (
    "The clients hold no labels here, and this needs some. Use a method that learns "
    "without, such as ladd() or self_training(), or data with labels."
)


class Absent:
    """Placeholder for targets; every access is an error."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)  # pickle and copy look for optional methods
        raise SettingError(WHY)

    def __getitem__(self, place: object) -> NoReturn:
        raise SettingError(WHY)

    def __len__(self) -> NoReturn:
        raise SettingError(WHY)


class Targetless(DelegatingExamples):
    """Examples that refuse access to their targets."""

    @property
    def targets(self) -> NoReturn:
        """Always an error."""
        raise SettingError(WHY)

    @property
    def has_classes(self) -> bool:
        return False

    @property
    def labels(self) -> NoReturn:
        raise SettingError(WHY)

    def retargeted(self, targets: Tensor) -> NoReturn:
        raise SettingError(WHY)


@dataclass(frozen=True)
class Unlabelled(Targetless):
    """Examples without targets."""

    unlabelled = True

    def batch(self, index: Tensor, dtype: torch.dtype, rng: torch.Generator | None = None) -> Batch:
        """See `AnyExamples.batch`; the targets are absent."""
        return Batch(self.examples.batch(index, dtype, rng).inputs, Absent())

    def with_blank_targets(self) -> Unlabelled:
        return self

    def traces(self) -> Sequence[Any]:
        return [*self.examples.traces(), "unlabelled"]


def without_targets(examples: AnyExamples) -> AnyExamples:
    """The same inputs without targets."""
    return Unlabelled(examples.with_blank_targets())


def without_labels(fed: Federation) -> Federation:
    """The same federation with clients that have no targets and no test sets; test sets stay."""
    return changed(fed, without_targets, "unlabelled: labels can be removed from clients")
