"""A client that attacks, where it is visited: what it makes of the data it holds before it trains
on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from fedflat.data.examples import ClientData
from fedflat.errors import SettingError
from fedflat.registry.specs import TextSpec, register

Pairs = tuple[tuple[int, int], ...]
"""Classes that change places, two by two."""


class Attacker(TextSpec, ABC):
    """A frozen dataclass. Its text makes it again: that is how clients elsewhere are told what they
    are."""

    @abstractmethod
    def data(self, data: ClientData) -> ClientData:
        """What it trains on in place of what it holds; what it keeps for testing stays as it is."""


def poisoned(attackers: Mapping[int, Attacker], client: int, data: ClientData) -> ClientData:
    """What ``client`` trains on: what it holds, or what it makes of that if it is one of the
    attackers."""
    return attackers[client].data(data) if client in attackers else data


def pairs_of(said: str, pairs: object) -> Pairs:
    """The pairs as tuples; whatever is not made of pairs of different classes is refused in the
    name of ``said``."""
    rows = pairs if isinstance(pairs, list | tuple) else ()
    fits = bool(rows) and all(isinstance(row, list | tuple) and len(row) == 2 for row in rows)
    named = [label for row in rows for label in row] if fits else []
    if (
        not fits
        or not all(type(label) is int and label >= 0 for label in named)
        or len(set(named)) != len(named)
    ):
        raise SettingError(f"{said}: pairs must be pairs of different classes, found {pairs!r}.")
    return tuple((a, b) for a, b in rows)


@register("attacker", "swaps")
@dataclass(frozen=True, repr=False)
class Swaps(Attacker):
    """Swaps the labels of pairs of classes in all it trains on. Other labels stay, and swapped
    twice all do."""

    pairs: Pairs

    def __post_init__(self) -> None:
        object.__setattr__(self, "pairs", pairs_of("swaps", self.pairs))

    def data(self, data: ClientData) -> ClientData:
        """The same examples under the other labels."""
        labels = data.examples.labels.clone()
        swap = torch.arange(
            max(data.examples.classes, 1 + max(map(max, self.pairs))), device=labels.device
        )
        for a, b in self.pairs:
            swap[a], swap[b] = b, a
        labels[data.index] = swap[labels[data.index].long()].to(labels.dtype)
        return replace(data, examples=data.examples.retargeted(labels))
