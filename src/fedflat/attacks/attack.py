"""What an attack is: who of the clients attacks, what attackers do, and what is measured because of it.

An attack is said with ``--attack``. It sees the run as a `Victim`, before round 0. Attackers that lie are told to those
who visit them (`Attacker`); an attacker that only listens is shown what it is sent (`Attack.overhear`).
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
from fedflat.data.federation import DataSpec, Federation
from fedflat.engine.mail import Mail
from fedflat.errors import SettingError
from fedflat.language.spelling import Spelled

ATTACK = "attack"
"""Where an attack's notes are, among those of the shadows."""
Notes = dict[str, Tensor]
"""What an attack remembers from visit to visit. Replace tensors, never change them in place."""


@dataclass(frozen=True)
class Victim:
    """A run as those see it who attack it."""

    on: DataSpec
    fed: Federation
    learner: Learner
    superclients: Sequence[Sequence[int]]
    """Clients that train one after the other and stay together; none in a star."""
    seed: int


class Attack(Spelled, ABC):
    """A frozen dataclass. The base class does nothing."""

    key: ClassVar[str]
    """Its name in messages."""

    def check(self, victim: Victim) -> None:
        """Refuse a run that cannot be attacked in this way."""

    def attackers(self, victim: Victim) -> Mapping[int, Attacker]:
        """The clients that lie, and how."""
        return {}

    def remark(self, victim: Victim) -> str:
        """What is good to know before the first round."""
        return ""

    def tests(self, victim: Victim) -> dict[str, dict[str, float]]:
        """What is measured because of it, of the learner's module where it stands: scores on further test sets."""
        return {}

    def tells(self, notes: Notes) -> dict[str, float]:
        """What is written of it with every evaluation, from what it remembers."""
        return {}

    @property
    def listens(self) -> bool:
        """Whether it wants to see what clients are sent."""
        return False

    def overhear(self, victim: Victim, notes: Notes, client: int, mail: Mail) -> None:
        """A client was visited and sent this mail; what is remembered goes into ``notes``."""


def share(count: int, *fractions: float) -> int:
    """So large a part of ``count``, rounded down, but one at least; 0.29 is 29 hundredths and not a little less.

    >>> share(100, 0.29), share(50, 0.1, 0.5), share(7, 0.1)
    (29, 2, 1)
    """
    return max(1, floor(count * prod(Fraction(str(fraction)) for fraction in fractions)))


def refuse_elsewhere(attack: Attack, victim: Victim) -> None:
    """Refuse to attack with data that are not here."""
    if not victim.fed.here:
        raise SettingError(
            f"{attack.key}: the attack looks at what clients hold, and that is not here but with those who visit them. "
            "Leave --attack out."
        )
