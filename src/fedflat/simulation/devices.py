"""Devices from distributions: a number is the same for all clients, a distribution is sampled."""

from __future__ import annotations

from dataclasses import dataclass

from fedflat.core.seeds import numpy_generator
from fedflat.errors import LONGEST_WAIT, SettingError, is_number, number, shown
from fedflat.registry.specs import register
from fedflat.simulation.clock import Clock, Device
from fedflat.simulation.distributions import LEAST, MOST, Distribution

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
