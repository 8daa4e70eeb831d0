"""Devices from distributions, and measured devices.

In `devices` a number is the same for all clients, a distribution is sampled. `measured` reads a
JSON file with an entry for every client:

    {"0": {"speed": 120.0, "down": 1.2e6, "up": 4.0e5, "latency": 0.04}, "1": ...}

Speed is in example gradients per second, for the model of the run. Down and up are in bytes per
second. Latency is in seconds and optional.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import cached_property
from math import exp

import numpy as np

from fedflat.core.seeds import numpy_generator
from fedflat.errors import LONGEST_WAIT, DataError, SettingError, is_number, number, shown
from fedflat.registry.specs import TextSpec, register
from fedflat.simulation.availability import check_path, digest_of, entries_of, refuse_missing
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


NAMES = tuple(field.name for field in fields(Device))
EXAMPLE = '{"speed": 120.0, "down": 1.2e6, "up": 4.0e5, "latency": 0.04}'


@dataclass(frozen=True, repr=False)
class Measured(Clock):
    """Speeds and links of every client from a JSON file.

    path
        Path of the JSON file.
    """

    path: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_path("measured", self.path)

    @cached_property
    def _devices(self) -> dict[str, Device]:
        entries = entries_of("measured", self.path)
        return {
            client: _device(f"measured: {self.path}: client {shown(client)}", e)
            for client, e in entries.items()
        }

    def check(self, population: int) -> None:
        """Raise an error if the file has no device for one of the clients."""
        super().check(population)
        refuse_missing("measured", self.path, self._devices, population)

    def digest(self) -> str:
        return " ".join(filter(None, [digest_of("measured", self.path), super().digest()]))

    def device(self, client: int, seed: int) -> Device:
        """Return the device of a client as given in the file."""
        return self._devices[str(client)]


def _device(where: str, entry: object) -> Device:
    if not isinstance(entry, dict) or not set(NAMES[:3]) <= set(entry) <= set(NAMES):
        raise DataError(
            f"{where} must have speed, down and up, and optionally latency, as in {EXAMPLE}, "
            f"found {shown(entry)}."
        )
    for name, value in entry.items():
        low, high = (0, LONGEST_WAIT) if name == "latency" else (LEAST, MOST)
        number(where, name, value, low=low, high=high)
    return Device(*(float(entry.get(name, 0.0)) for name in NAMES))


measured = register("clock", "measured")(Measured)
