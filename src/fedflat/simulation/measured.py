"""Devices that were measured: a JSON file with an entry for every client.

    {"0": {"speed": 120.0, "down": 1.2e6, "up": 4.0e5, "latency": 0.04}, "1": ...}

Speed is in examples' gradients a second of the model at hand, down and up are in bytes a second,
latency, which may be left out, is in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from fedflat.errors import LONGEST_WAIT, DataError, number, shown
from fedflat.registry.specs import register
from fedflat.simulation.clock import Clock
from fedflat.simulation.device import Device
from fedflat.simulation.distributions import LEAST, MOST
from fedflat.simulation.json_file import check_path, digest_of, entries_of, refuse_missing

NAMES = tuple(field.name for field in fields(Device))
EXAMPLE = '{"speed": 120.0, "down": 1.2e6, "up": 4.0e5, "latency": 0.04}'


@dataclass(frozen=True, repr=False)
class Measured(Clock):
    """The speeds and links that a JSON file lists for every client."""

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
        """Refuse a file without a device for each of them."""
        super().check(population)
        refuse_missing("measured", self.path, self._devices, population)

    def digest(self) -> str:
        """That of the files."""
        return " ".join(filter(None, [digest_of("measured", self.path), super().digest()]))

    def device(self, client: int, seed: int) -> Device:
        """As the file has it."""
        return self._devices[str(client)]


def _device(where: str, said: Any) -> Device:
    if not isinstance(said, dict) or not set(NAMES[:3]) <= set(said) <= set(NAMES):
        raise DataError(
            f"{where} must have speed, down and up, and perhaps latency, as in {EXAMPLE}, found {shown(said)}."
        )
    for name, value in said.items():
        low, high = (0, LONGEST_WAIT) if name == "latency" else (LEAST, MOST)
        number(where, name, value, low=low, high=high)
    return Device(*(float(said.get(name, 0.0)) for name in NAMES))


measured = register("clock", "measured")(Measured)
