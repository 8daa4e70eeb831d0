"""Federated learning that generalises: flat-minima methods, exact, combinable and fast.

    import fedflat as ff

    ff.run(ff.fedsam(rho=0.1) + ff.swa(), on=ff.cifar10(ff.lda(0), clients=100), rounds=1000)

Names are imported when they are first used, so that ``import fedflat`` itself costs nothing. Names
that texts can use are listed by ``python -m fedflat.public``, the others here.
"""

from importlib import import_module
from typing import Any

from fedflat.exports import TEXT_NAMES
from fedflat.version import __version__

_HOMES = {
    "fedflat.simulation.attacks.attack": ("Attack", "AttackedRun"),
    "fedflat.client.instructions": ("Describe", "Describer", "Gradient"),
    "fedflat.client.attacker": ("Attacker",),
    "fedflat.client.piece": ("Piece", "ModelInfo", "Term", "ClientContext"),
    "fedflat.simulation.clock": ("Clock", "Device"),
    "fedflat.simulation.availability": ("Availability",),
    "fedflat.simulation.devices": ("Distribution",),
    "fedflat.composition.method": ("Method", "made_of", "method"),
    "fedflat.data.examples": ("AnyExamples", "Batch", "ClientData", "Examples", "Mixed"),
    "fedflat.data.federation": ("DataSpec", "PartitionedFederation", "Federation", "OnDemand"),
    "fedflat.data.on_disk": ("OnDisk",),
    "fedflat.data.partitions.partition": ("Partition",),
    "fedflat.data.sets.in_memory": ("clients_from", "clients_of", "tensors"),
    "fedflat.data.sets.csv_file": ("table",),
    "fedflat.data.splitting": ("federate",),
    "fedflat.errors": (
        "DataError",
        "FedflatError",
        "NotFinite",
        "RunError",
        "SettingError",
        "SpellingError",
    ),
    "fedflat.flatness.curvature": ("curvature",),
    "fedflat.flatness.hessian": ("Hessian",),
    "fedflat.flatness.points": ("losses",),
    "fedflat.flatness.surface": ("Line", "Plane", "Surface"),
    "fedflat.core.messages": (
        "Broadcast",
        "Instruction",
        "Replies",
        "Reply",
        "ReplyBatch",
        "Train",
        "single_replies",
    ),
    "fedflat.models.spec": ("ModelSpec",),
    "fedflat.registry.plugins": ("load_plugin",),
    "fedflat.report.page": ("InlineReport", "report", "write_report"),
    "fedflat.analysis.analysis": ("Analysis", "AnalysisJob", "Scope"),
    "fedflat.analysis.api": ("analyse",),
    "fedflat.data.shown_data": ("ShownData", "show_data"),
    "fedflat.plot_style": ("ShownFigure",),
    "fedflat.analysis.corruptions.corruptions": ("corrupt",),
    "fedflat.experiments.api": ("compare", "experiment", "resume", "run"),
    "fedflat.execution.client_pool": ("ClientPool", "Executor"),
    "fedflat.execution.in_process": ("InProcess", "run_or_fail"),
    "fedflat.execution.stacked": ("Stacked",),
    "fedflat.execution.ray_cluster.executor": ("Ray",),
    "fedflat.execution.workers": ("Workers",),
    "fedflat.experiments.experiment": ("Experiment",),
    "fedflat.experiments.job_spec": ("Loopback",),
    "fedflat.experiments.callbacks": ("RoundEnd",),
    "fedflat.experiments.run_folder.load": ("load",),
    "fedflat.experiments.run_folder.export": ("export",),
    "fedflat.experiments.predictions": ("predict",),
    "fedflat.experiments.results.results": ("Result", "Results"),
    "fedflat.experiments.results.summary": ("summarise",),
    "fedflat.experiments.initializers": ("Initializer",),
    "fedflat.experiments.train": ("train",),
    "fedflat.core.schedules": ("Schedule", "at"),
    "fedflat.server.piece": ("ServerContext", "ServerData", "ServerPiece"),
    "fedflat.tasks.headline": ("Headline",),
    "fedflat.tasks.task": ("Meter", "Supply", "Task"),
    "fedflat.server.client_evaluation": ("ClientEvaluation",),
    "fedflat.server.aggregators": ("Aggregator",),
    "fedflat.server.averaging": ("ModelAverage",),
    "fedflat.registry.specs": ("TextSpec", "parse", "register"),
    "fedflat.experiments.loggers.logger": ("Logger",),
    "fedflat.experiments.recording.recorder": ("Metric", "RoundView"),
    "fedflat.core.stage": ("Stage",),
    "fedflat.topologies.groupings.grouping": ("Grouping",),
    "fedflat.topologies.topology": ("ClientPopulation", "Topology"),
    "fedflat.sweeps.sweep": ("Sweep", "sweep"),
}
"""The public names that texts cannot use; those that they can use are in `TEXT_NAMES`."""
_HOME = TEXT_NAMES | {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'fedflat' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
