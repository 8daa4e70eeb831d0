"""Where fedflat registers its own names: in a module, or in all modules of a package, found by
being there."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

HOMES = (
    "simulation.attacks",
    "client.instructions",
    "client.attacker",
    "client.describers",
    "client.measurements",
    "simulation",
    "data.partitions",
    "data.sets",
    "core.schedules",
    "methods",
    "models",
    "experiments.initializers",
    "tasks",
    "topologies",
    "topologies.groupings",
)


@cache
def import_homes() -> None:
    """Import all of them, once."""
    for home in HOMES:
        place = import_module(f"fedflat.{home}")
        for module in iter_modules(getattr(place, "__path__", ()), f"{place.__name__}."):
            import_module(module.name)
