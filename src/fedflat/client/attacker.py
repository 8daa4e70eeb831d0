"""Attacking clients: how they change the data they train on.

A run with attackers gives its clients an `AttackedJob` in place of the plain `ClientJob`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import torch

from fedflat.client.training import ClientJob
from fedflat.data.examples import ClientData
from fedflat.errors import SettingError
from fedflat.registry.specs import TextSpec, register

Pairs = tuple[tuple[int, int], ...]
"""Pairs of classes that are exchanged."""


class Attacker(TextSpec, ABC):
    """Base class of attackers: a frozen dataclass.

    Clients on other machines build it from its text.
    """

    @abstractmethod
    def data(self, data: ClientData) -> ClientData:
        """Return the data to train on. The client's own test examples do not change."""


@dataclass(frozen=True)
class AttackedJob(ClientJob):
    """The job of a run in which some clients attack."""

    attackers: Mapping[int, Attacker] = field(default_factory=dict)
    """Attackers by client."""

    def client_data(self, client: int, data: ClientData) -> ClientData:
        """The data as the client's attacker changes them; those of other clients as they are."""
        attacker = self.attackers.get(client)
        return data if attacker is None else attacker.data(data)

    def cohort_data(
        self, clients: Sequence[int], data: Sequence[ClientData]
    ) -> Sequence[ClientData]:
        """The `client_data` of several clients."""
        return list(map(self.client_data, clients, data))


def attacked(job: ClientJob, attackers: Mapping[int, Attacker]) -> ClientJob:
    """The job with these attackers in place of those it has."""
    common = {one.name: getattr(job, one.name) for one in fields(ClientJob)}
    return AttackedJob(**common, attackers=attackers) if attackers else ClientJob(**common)


def attackers_in(job: ClientJob) -> Mapping[int, Attacker]:
    """The attackers of a job, by client."""
    return job.attackers if isinstance(job, AttackedJob) else {}


def pairs_of(owner: str, pairs: object) -> Pairs:
    """Return ``pairs`` as tuples.

    Raises `SettingError` in the name of ``owner`` unless all classes differ.
    """
    rows = pairs if isinstance(pairs, list | tuple) else ()
    valid = bool(rows) and all(isinstance(row, list | tuple) and len(row) == 2 for row in rows)
    labels = [label for row in rows for label in row] if valid else []
    if (
        not valid
        or not all(type(label) is int and label >= 0 for label in labels)
        or len(set(labels)) != len(labels)
    ):
        raise SettingError(f"{owner}: pairs must be pairs of different classes, found {pairs!r}.")
    return tuple((a, b) for a, b in rows)


@register("attacker", "swaps")
@dataclass(frozen=True, repr=False)
class Swaps(Attacker):
    """Exchanges the labels of pairs of classes in all training examples."""

    pairs: Pairs

    def __post_init__(self) -> None:
        object.__setattr__(self, "pairs", pairs_of("swaps", self.pairs))

    def data(self, data: ClientData) -> ClientData:
        """Return the same examples with the exchanged labels."""
        labels = data.examples.labels.clone()
        swap = torch.arange(
            max(data.examples.classes, 1 + max(map(max, self.pairs))), device=labels.device
        )
        for a, b in self.pairs:
            swap[a], swap[b] = b, a
        labels[data.index] = swap[labels[data.index].long()].to(labels.dtype)
        return replace(data, examples=data.examples.retargeted(labels))
