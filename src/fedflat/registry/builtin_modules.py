"""The modules that register fedflat's own names: a module, or all modules of a package, found by
being there."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

HOMES = (
    "simulation.attacks",
    "core.messages",
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
"""Modules with names that experiments use. Their texts can contain each other, so all of them are
imported."""
KIND_HOMES = {
    "executor": ("execution", "experiments.job_spec", "deploy.executor"),
    "metric": ("experiments.recording",),
    "logger": ("experiments.loggers",),
    "analysis": ("analysis.kinds",),
    "command": (),
    "schedule": ("core.schedules",),
    "partition": ("data.partitions",),
    "clock": ("simulation",),
    "availability": ("simulation",),
    "distribution": ("simulation",),
}
"""Kinds all of whose names are in these modules; others need not be imported to read them."""


@cache
def import_homes(kind: str | None = None) -> None:
    """Import the modules that register names of this kind; by default, all that experiments use."""
    for home in KIND_HOMES.get(kind or "", HOMES):
        _import(home)


def import_all() -> None:
    """Import every module that registers names."""
    for kind in (None, *KIND_HOMES):
        import_homes(kind)


def _import(home: str) -> None:
    place = import_module(f"fedflat.{home}")
    for module in iter_modules(getattr(place, "__path__", ()), f"{place.__name__}."):
        import_module(module.name)
