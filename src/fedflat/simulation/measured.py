"""Measured devices: a JSON file with an entry for every client.

    {"0": {"speed": 120.0, "down": 1.2e6, "up": 4.0e5, "latency": 0.04}, "1": ...}

Speed is in example gradients per second, for the model of the run. Down and up are in bytes per
second. Latency is in seconds and optional.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

from fedflat.errors import LONGEST_WAIT, DataError, number, shown
from fedflat.registry.specs import register
from fedflat.simulation.clock import Clock, Device
from fedflat.simulation.devices import LEAST, MOST
from fedflat.simulation.json_file import check_path, digest_of, entries_of, refuse_missing

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
        """Return the digests of its files."""
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
