"""What an attack is: who of the clients attacks, what attackers do, and what is measured because of
it.

An attack is said with ``--attack``. It sees the run as a `AttackedRun`, before round 0. Attackers
that lie are told to those who visit them (`Attacker`); an attacker that only listens is shown what
it is sent (`Attack.observe`).
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
"""Where an attack's notes are, among those of the shadows."""
AttackState = dict[str, Tensor]
"""What an attack remembers from visit to visit. Replace tensors, never change them in place."""


@dataclass(frozen=True)
class AttackedRun:
    """A run as those see it who attack it."""

    on: DataSpec
    fed: Federation
    learner: Learner
    superclients: Sequence[Sequence[int]]
    """Clients that train one after the other and stay together; none in a star."""
    seed: int


class Attack(TextSpec, ABC):
    """A frozen dataclass. The base class does nothing."""

    key: ClassVar[str]
    """Its name in messages."""

    def check(self, attacked: AttackedRun) -> None:
        """Refuse a run that cannot be attacked in this way."""

    def attackers(self, attacked: AttackedRun) -> Mapping[int, Attacker]:
        """The clients that lie, and how."""
        return {}

    def remark(self, attacked: AttackedRun) -> str:
        """What is good to know before the first round."""
        return ""

    def tests(self, attacked: AttackedRun) -> dict[str, dict[str, float]]:
        """What is measured because of it, of the learner's module where it stands: scores on
        further test sets."""
        return {}

    def measure(self, notes: AttackState) -> dict[str, float]:
        """What is written of it with every evaluation, from what it remembers."""
        return {}

    @property
    def observes_broadcasts(self) -> bool:
        """Whether it wants to see what clients are sent."""
        return False

    def observe(
        self, attacked: AttackedRun, notes: AttackState, client: int, broadcast: Broadcast
    ) -> None:
        """A client was visited and sent this mail; what is remembered goes into ``notes``."""


def share(count: int, *fractions: float) -> int:
    """So large a part of ``count``, rounded down, but one at least; 0.29 is 29 hundredths and not a
    little less.

    >>> share(100, 0.29), share(50, 0.1, 0.5), share(7, 0.1)
    (29, 2, 1)
    """
    return max(1, floor(count * prod(Fraction(str(fraction)) for fraction in fractions)))


def refuse_elsewhere(attack: Attack, attacked: AttackedRun) -> None:
    """Refuse to attack with data that are not here."""
    if not attacked.fed.here:
        raise SettingError(
            f"{attack.key}: the attack looks at what clients hold, and that is not here but with those who visit them. "
            "Leave --attack out."
        )
