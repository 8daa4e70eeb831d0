"""Devices by distributions: what is a number is alike for all clients, what is a distribution is
drawn for each."""

from __future__ import annotations

from dataclasses import dataclass

from fedflat.core.seeds import numpy_generator
from fedflat.errors import LONGEST_WAIT, SettingError, is_number, number, shown
from fedflat.registry.specs import register
from fedflat.simulation.clock import Clock
from fedflat.simulation.device import Device
from fedflat.simulation.distributions import LEAST, MOST, Distribution

Amount = float | Distribution
"""The same for everybody, or spread over the clients."""


@dataclass(frozen=True, repr=False)
class Devices(Clock):
    """Each client's speed (examples' gradients a second), link (bytes a second) and latency
    (seconds)."""

    speed: Amount = 100.0
    down: Amount = 2.5e6
    up: Amount = 6.25e5
    latency: Amount = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("speed", "down", "up", "latency"):
            value = getattr(self, name)
            if isinstance(value, Distribution):
                continue
            if not is_number(value):
                raise SettingError(
                    f"devices: {name} must be a number or a distribution such as lognormal(100, 0.5), found "
                    f"{shown(value)}."
                )
            if name == "latency":
                number("devices", name, value, low=0, high=LONGEST_WAIT)
            else:
                number("devices", name, value, low=LEAST, high=MOST)

    def device(self, client: int, seed: int) -> Device:
        """Drawn for each property by itself."""
        return Device(
            *(self._of(name, client, seed) for name in ("speed", "down", "up", "latency"))
        )

    def _of(self, name: str, client: int, seed: int) -> float:
        value = getattr(self, name)
        if isinstance(value, Distribution):
            return value.draw(numpy_generator(seed, f"clock/{name}", client))
        return float(value)


devices = register("clock", "devices")(Devices)
