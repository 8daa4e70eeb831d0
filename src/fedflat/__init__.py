"""Federated learning that generalises: flat-minima methods, exact, combinable and fast.

    import fedflat as ff

    ff.run(ff.fedsam(rho=0.1) + ff.swa(), on=ff.cifar10(ff.lda(0), clients=100), rounds=1000)

Names are imported when they are first used, so that ``import fedflat`` itself costs nothing. What can be said in text
is public as soon as ``python -m fedflat.public`` has listed it; the rest is listed here.
"""

from importlib import import_module
from typing import Any

from fedflat.sayable import SAYABLE
from fedflat.version import __version__

_HOMES = {
    "fedflat.attacks.attack": ("Attack", "Victim"),
    "fedflat.client.asks": ("Describe", "Describer", "Gradient", "Train"),
    "fedflat.client.attacker": ("Attacker",),
    "fedflat.client.piece": ("Piece", "Site", "Term", "Visit"),
    "fedflat.clock.clock": ("Clock",),
    "fedflat.clock.device": ("Device",),
    "fedflat.clock.presence": ("Presence",),
    "fedflat.clock.spread": ("Spread",),
    "fedflat.composition.method": ("Method", "made_of", "method"),
    "fedflat.data.batch": ("Batch", "Mixed"),
    "fedflat.data.examples": ("AnyExamples", "ClientData", "Examples"),
    "fedflat.data.federation": ("DataSpec", "Dealt", "Federation", "OnDemand"),
    "fedflat.data.on_disk": ("OnDisk",),
    "fedflat.data.partitions.partition": ("Partition",),
    "fedflat.data.sets.given": ("clients_from", "clients_of", "tensors"),
    "fedflat.data.splitting": ("federate",),
    "fedflat.errors": ("DataError", "FedflatError", "NotFinite", "RunError", "SettingError", "SpellingError"),
    "fedflat.flatness.curvature": ("curvature",),
    "fedflat.flatness.hessian": ("Hessian",),
    "fedflat.flatness.line": ("Line",),
    "fedflat.flatness.plane": ("Plane",),
    "fedflat.flatness.points": ("losses",),
    "fedflat.flatness.surface": ("Surface",),
    "fedflat.engine.ask": ("Ask",),
    "fedflat.engine.mail": ("Mail", "Replies"),
    "fedflat.models.spec": ("ModelSpec",),
    "fedflat.language.plugins": ("load_plugin",),
    "fedflat.report": ("write_report",),
    "fedflat.corruptions.corruptions": ("corrupt",),
    "fedflat.studies.api": ("compare", "experiment", "resume", "run"),
    "fedflat.executors.crew": ("Crew", "Executor"),
    "fedflat.executors.in_process": ("InProcess",),
    "fedflat.executors.rows": ("Stacked",),
    "fedflat.executors.workers": ("Workers",),
    "fedflat.running.experiment": ("Experiment",),
    "fedflat.running.loading": ("load",),
    "fedflat.running.results": ("Result", "Results", "summarise"),
    "fedflat.running.starts": ("Start",),
    "fedflat.running.train": ("train",),
    "fedflat.language.schedules": ("Schedule", "at"),
    "fedflat.server.piece": ("Desk", "Holding", "ServerPiece"),
    "fedflat.tasks.headline": ("Headline",),
    "fedflat.tasks.task": ("Meter", "Supply", "Task"),
    "fedflat.server.protocol": ("Protocol",),
    "fedflat.server.rules": ("Rule",),
    "fedflat.server.shadows": ("Shadow",),
    "fedflat.language.spelling": ("parse", "register"),
    "fedflat.engine.stage": ("Stage",),
    "fedflat.topology.grouping.grouping": ("Grouping",),
    "fedflat.topology.crowd": ("Crowd",),
    "fedflat.topology.topology": ("Topology",),
}  # fmt: skip
"""The public names that cannot be said in text; those that can are in `SAYABLE`."""
_HOME = SAYABLE | {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'fedflat' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
