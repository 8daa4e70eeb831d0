"""Simulated clocks: the device of each client, its availability, and how long the server waits.

A clock changes no trained number, with these exceptions: its deadline drops a reply, `extra`
clients are selected, a client is unavailable, or the server is asynchronous, so that the clock
decides the order of the replies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, floor

from fedflat.errors import LONGEST_WAIT, SettingError, number, shown
from fedflat.registry.specs import TextSpec
from fedflat.simulation.availability import Availability


@dataclass(frozen=True)
class Device:
    """Speed and network link of one client.

    receives    latency + bytes / down
    computes    work / speed,   work: gradients of single examples
    sends       latency + bytes / up
    forwards    both latencies + bytes / min(up of the sender, down of the receiver)

    The link and the computation of the server take no time.
    """

    speed: float
    """Gradients of single examples per second, for the model of the run."""
    down: float
    """Bytes per second that it receives."""
    up: float
    """Bytes per second that it sends."""
    latency: float = 0.0
    """Additional seconds per message, to or from this device."""

    def receives(self, nbytes: float) -> float:
        """Return the seconds to receive `nbytes` from the server."""
        return self.latency + nbytes / self.down

    def computes(self, work: float) -> float:
        """Return the seconds to compute `work` gradients of single examples."""
        return work / self.speed

    def sends(self, nbytes: float) -> float:
        """Return the seconds to send `nbytes` to the server."""
        return self.latency + nbytes / self.up

    def forwards(self, to: Device, nbytes: float) -> float:
        """Return the seconds to send `nbytes` to another device."""
        return self.latency + to.latency + nbytes / min(self.up, to.down)


TOLERANCE = 1e-9
"""Tolerance of rounding: 10 * 1.1 is 11 and 13 / 1.3 is 10 despite floating point."""
MAX_EXTRA = 10
"""Largest value of `Clock.extra`."""


@dataclass(frozen=True, repr=False, kw_only=True)
class Clock(TextSpec, ABC):
    """Base class of clocks: how long the server waits, and for how many replies."""

    deadline: float | None = None
    """Seconds after which an exchange ends. Later replies are dropped."""
    extra: float = 0.0
    """Share of additional clients: with 0.3 the server selects 13 and waits for the first 10."""
    present: Availability | None = None
    """When clients are available. None: always."""

    def __post_init__(self) -> None:
        if self.deadline is not None:
            number("clock", "deadline", self.deadline, low=0, open_low=True, high=LONGEST_WAIT)
        number("clock", "extra", self.extra, low=0, high=MAX_EXTRA)
        if self.present is not None and not isinstance(self.present, Availability):
            raise SettingError(
                "clock: present must be an availability such as on_off(on=600, off=60), found "
                f"{shown(self.present)}."
            )

    @abstractmethod
    def device(self, client: int, seed: int) -> Device:
        """Return the device of a client. It is the same in every call."""

    def check(self, population: int) -> None:
        """Raise an error if there is no device for one of the clients."""
        if self.present is not None:
            self.present.check(population)

    def digest(self) -> str:
        """Return a digest of the files it reads, "" if it reads none."""
        return self.present.digest() if self.present is not None else ""

    @property
    def drops_clients(self) -> bool:
        """True if replies may be lost."""
        return self.deadline is not None or self.present is not None

    def selected_for(self, count: int) -> int:
        """Return how many clients to select to wait for `count` of them."""
        return ceil(count * (1 + self.extra) - TOLERANCE)

    def waited_for(self, count: int) -> int:
        """Return how many of `count` selected clients the server waits for."""
        return max(1, floor(count / (1 + self.extra) + TOLERANCE))


class Fleet:
    """The devices of one run: a clock and the seed of the run."""

    def __init__(self, clock: Clock, seed: int) -> None:
        self.clock, self.seed = clock, seed
        self._devices: dict[int, Device] = {}

    def __getitem__(self, client: int) -> Device:
        found = self._devices.get(client)
        if found is None:
            found = self._devices[client] = self.clock.device(client, self.seed)
        return found

    @cached_property
    def patient(self) -> Fleet:
        """The same devices, always available, with a server that waits for all replies."""
        return Fleet(replace(self.clock, deadline=None, extra=0.0, present=None), self.seed)

    def seconds(self, client: int, work: float, down: float, up: float) -> float:
        """Return the seconds that a request takes without waiting.

        `down` and `up` are bytes, `work` is gradients of single examples.
        """
        device = self[client]
        return device.receives(down) + device.computes(work) + device.sends(up)

    def until(self, client: int, t: int, at: float) -> float | None:
        """Return until when a client stays that is available at `at` in round `t`, or None."""
        present = self.clock.present
        return float("inf") if present is None else present.until(client, self.seed, t, at)
