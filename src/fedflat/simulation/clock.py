"""What a clock is: a device for every client, who is there when, and how long the server waits.

A clock changes no trained number, except where its deadline cuts a reply off, more clients are
asked than are waited for, or a client is away; and with a server that does not wait, where it says
whose reply comes when.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, floor

from fedflat.errors import LONGEST_WAIT, SettingError, number, shown
from fedflat.registry.specs import TextSpec
from fedflat.simulation.availability import Availability
from fedflat.simulation.device import Device

ROUNDING = 1e-9
"""10 * 1.1 is 11 and 13 / 1.3 is 10, though floating point may have it a little above or below."""
MOST_EXTRA = 10
"""Times as many clients as are waited for, at most, that may be asked besides."""


@dataclass(frozen=True, repr=False, kw_only=True)
class Clock(TextSpec, ABC):
    """A frozen dataclass. What is common to all clocks is how long a server waits, and for whom."""

    deadline: float | None = None
    """Seconds after which an exchange is over: a reply that would come later is cut off."""
    extra: float = 0.0
    """So many more clients are asked than are waited for, as a share: 0.3 asks 13 for the first
    10."""
    present: Availability | None = None
    """When clients are there; None: always."""

    def __post_init__(self) -> None:
        if self.deadline is not None:
            number("clock", "deadline", self.deadline, low=0, open_low=True, high=LONGEST_WAIT)
        number("clock", "extra", self.extra, low=0, high=MOST_EXTRA)
        if self.present is not None and not isinstance(self.present, Availability):
            raise SettingError(
                f"clock: present must say when clients are there, as on_off(on=600, off=60) does, found "
                f"{shown(self.present)}."
            )

    @abstractmethod
    def device(self, client: int, seed: int) -> Device:
        """A client's device, the same whenever it is asked for."""

    def check(self, population: int) -> None:
        """Refuse clients that it knows no device of."""
        if self.present is not None:
            self.present.check(population)

    def digest(self) -> str:
        """A digest of what it reads from files; "" if it reads none."""
        return self.present.digest() if self.present is not None else ""

    @property
    def drops_clients(self) -> bool:
        """Whether replies may be lost."""
        return self.deadline is not None or self.present is not None

    def selected_for(self, count: int) -> int:
        """How many are asked so that ``count`` are waited for."""
        return ceil(count * (1 + self.extra) - ROUNDING)

    def waited_for(self, count: int) -> int:
        """Of how many the server waits if ``count`` are asked."""
        return max(1, floor(count / (1 + self.extra) + ROUNDING))


class Fleet:
    """The devices of one run: a clock and the seed by which it draws."""

    def __init__(self, clock: Clock, seed: int) -> None:
        self.clock, self.seed = clock, seed
        self._devices: dict[int, Device] = {}

    def __getitem__(self, client: int) -> Device:
        """A client's device."""
        found = self._devices.get(client)
        if found is None:
            found = self._devices[client] = self.clock.device(client, self.seed)
        return found

    @cached_property
    def patient(self) -> Fleet:
        """The same devices, always there, of a server that waits for all of them."""
        return Fleet(replace(self.clock, deadline=None, extra=0.0, present=None), self.seed)

    def seconds(self, client: int, work: float, down: float, up: float) -> float:
        """How long a visit takes by itself: bytes to the client, gradients of single examples,
        bytes back."""
        device = self[client]
        return device.receives(down) + device.computes(work) + device.sends(up)

    def until(self, client: int, t: int, at: float) -> float | None:
        """Until when a client stays that is there at a time in round ``t``; None if it is away."""
        present = self.clock.present
        return float("inf") if present is None else present.until(client, self.seed, t, at)
