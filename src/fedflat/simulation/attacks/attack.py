"""Base class of attacks: which clients attack, what they do, and what is measured.

An attack is set with `--attack`. It gets the run as an `AttackedRun` before round 0. Clients that
manipulate their data are described by an `Attacker`. A passive attacker observes what it is sent
(`Attack.observe`).
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, prod
from typing import ClassVar

from torch import Tensor

from fedflat.client.attacker import Attacker
from fedflat.client.learner import Learner
from fedflat.core.messages import Broadcast
from fedflat.data.federation import DataSpec, Federation
from fedflat.errors import SettingError
from fedflat.registry.specs import TextSpec

ATTACK = "attack"
"""Key of the state of an attack, among the averaged models of a checkpoint."""
AttackState = dict[str, Tensor]
"""State of an attack between rounds. Replace tensors, never change them in place."""


@dataclass(frozen=True)
class AttackedRun:
    """What an attack knows of the run.

    on
        The data set as it was specified.
    fed
        The opened data set.
    learner
        Model and task of the clients.
    seed
        The seed of the run.
    """

    on: DataSpec
    fed: Federation
    learner: Learner
    superclients: Sequence[Sequence[int]]
    """Groups of clients that train one after the other in every round. Empty in a star."""
    seed: int


class Attack(TextSpec, ABC):
    """Base class of attacks, which are frozen dataclasses. It does nothing."""

    key: ClassVar[str]
    """Name in messages."""

    def check(self, attacked: AttackedRun) -> None:
        """Raise `SettingError` if the run cannot be attacked in this way."""

    def attackers(self, attacked: AttackedRun) -> Mapping[int, Attacker]:
        """Return the clients that manipulate their data, and how."""
        return {}

    def remark(self, attacked: AttackedRun) -> str:
        """Return a sentence to print before the first round, or ""."""
        return ""

    def tests(self, attacked: AttackedRun) -> dict[str, dict[str, float]]:
        """Return scores of the learner's current model on further test sets of the attack."""
        return {}

    def measure(self, notes: AttackState) -> dict[str, float]:
        """Return what is stored with every evaluation, from the state of the attack."""
        return {}

    @property
    def observes_broadcasts(self) -> bool:
        """True if the attack observes what clients are sent."""
        return False

    def observe(
        self, attacked: AttackedRun, notes: AttackState, client: int, broadcast: Broadcast
    ) -> None:
        """Handle that `client` was sent `broadcast`. The state is updated in `notes`."""


def share(count: int, *fractions: float) -> int:
    """Return this share of `count`, rounded down, but at least 1. Fractions are exact decimals.

    >>> share(100, 0.29), share(50, 0.1, 0.5), share(7, 0.1)
    (29, 2, 1)
    """
    return max(1, floor(count * prod(Fraction(str(fraction)) for fraction in fractions)))


def refuse_elsewhere(attack: Attack, attacked: AttackedRun) -> None:
    """Raise `SettingError` if the clients' data are not on this machine."""
    if not attacked.fed.here:
        raise SettingError(
            f"{attack.key}: the attack needs the clients' data, which are not on this machine. "
            "Leave --attack out."
        )
