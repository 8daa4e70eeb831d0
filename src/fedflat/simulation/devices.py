"""Devices from distributions: a number is the same for all clients, a distribution is sampled."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import exp

import numpy as np

from fedflat.core.seeds import numpy_generator
from fedflat.errors import LONGEST_WAIT, SettingError, is_number, number, shown
from fedflat.registry.specs import TextSpec, register
from fedflat.simulation.clock import Clock, Device

LEAST, MOST = 1e-9, 1e18
"""Smallest and largest speed or rate. They keep quotients in a sensible range of seconds."""


class Distribution(TextSpec, ABC):
    """Base class: samples one positive number per client."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> float:
        """Sample the number of one client."""


@dataclass(frozen=True, repr=False)
class Lognormal(Distribution):
    """``median * exp(sigma * z)`` with standard normal z."""

    median: float
    sigma: float = 0.5

    def __post_init__(self) -> None:
        number("lognormal", "median", self.median, low=LEAST, high=MOST)
        number("lognormal", "sigma", self.sigma, low=0, high=5)

    def draw(self, rng: np.random.Generator) -> float:
        return self.median * exp(self.sigma * float(rng.standard_normal()))


@dataclass(frozen=True, repr=False)
class Uniform(Distribution):
    """Uniform between `low` and `high`."""

    low: float
    high: float

    def __post_init__(self) -> None:
        number("uniform", "low", self.low, low=LEAST, high=MOST)
        number("uniform", "high", self.high, low=self.low, high=MOST)

    def draw(self, rng: np.random.Generator) -> float:
        return float(rng.uniform(self.low, self.high))


@dataclass(frozen=True, repr=False)
class OneOf(Distribution):
    """One of several values, with the probabilities `shares` or equal ones: types of devices."""

    values: tuple[float, ...]
    shares: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for name, numbers in (("values", self.values), ("shares", self.shares)):
            if numbers is not None and (not isinstance(numbers, tuple | list) or not numbers):
                raise SettingError(
                    f"one_of: {name} must be a list of numbers, as in [10, 100], "
                    f"found {shown(numbers)}."
                )
        for value in self.values:
            number("one_of", "each value", value, low=LEAST, high=MOST)
        for share in self.shares or ():
            number("one_of", "each share", share, low=0, open_low=True, high=MOST)
        if self.shares is not None and len(self.shares) != len(self.values):
            raise SettingError(
                "one_of: there must be a share for each value, "
                f"found {len(self.shares)} for {len(self.values)}."
            )

    def draw(self, rng: np.random.Generator) -> float:
        shares = np.asarray(self.shares or [1.0] * len(self.values), dtype=float)
        return float(self.values[int(rng.choice(len(self.values), p=shares / shares.sum()))])


lognormal = register("distribution", "lognormal")(Lognormal)
uniform = register("distribution", "uniform")(Uniform)
one_of = register("distribution", "one_of")(OneOf)


Property = float | Distribution
"""The same number for all clients, or a distribution over the clients."""


@dataclass(frozen=True, repr=False)
class Devices(Clock):
    """Speed, link and latency of each client, as numbers or distributions.

    `speed` is in example gradients per second, `down` and `up` are in bytes per second, `latency`
    is in seconds.
    """

    speed: Property = 100.0
    down: Property = 2.5e6
    up: Property = 6.25e5
    latency: Property = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("speed", "down", "up", "latency"):
            value = getattr(self, name)
            if isinstance(value, Distribution):
                continue
            if not is_number(value):
                raise SettingError(
                    f"devices: {name} must be a number or a distribution such as "
                    f"lognormal(100, 0.5), found {shown(value)}."
                )
            if name == "latency":
                number("devices", name, value, low=0, high=LONGEST_WAIT)
            else:
                number("devices", name, value, low=LEAST, high=MOST)

    def device(self, client: int, seed: int) -> Device:
        """Return the device of a client. Each property is sampled independently."""
        return Device(
            *(self._value(name, client, seed) for name in ("speed", "down", "up", "latency"))
        )

    def _value(self, name: str, client: int, seed: int) -> float:
        value = getattr(self, name)
        if isinstance(value, Distribution):
            return value.draw(numpy_generator(seed, f"clock/{name}", client))
        return float(value)


devices = register("clock", "devices")(Devices)
