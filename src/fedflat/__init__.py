"""Federated learning that generalises: flat-minima methods, exact, combinable and fast.

    import fedflat as ff

    ff.run(ff.fedsam(rho=0.1) + ff.swa(), on=ff.cifar10(ff.lda(0), clients=100), rounds=1000)

Names are imported when they are first used, so that ``import fedflat`` itself costs nothing.
"""

from importlib import import_module
from typing import Any

from fedflat.version import __version__

_HOMES = {
    "fedflat.client.piece": ("Piece", "Site", "Term", "Visit"),
    "fedflat.composition.method": ("Method", "chain", "method"),
    "fedflat.data": (
        "by_user", "cifar10", "cifar100", "clients_from", "clients_of", "digits", "fashion_mnist", "from_file", "iid",
        "label_flip", "lda", "mnist", "pam", "pathological", "quantity_skew", "synthetic", "tensors",
    ),
    "fedflat.data.examples": ("Batch", "ClientData", "Examples"),
    "fedflat.data.federation": ("DataSpec", "Dealt", "Federation", "OnDemand"),
    "fedflat.data.partition": ("Partition",),
    "fedflat.data.splitting": ("federate",),
    "fedflat.errors": ("DataError", "FedflatError", "NotFinite", "RunError", "SettingError", "SpellingError"),
    "fedflat.flatness.curvature": ("curvature",),
    "fedflat.flatness.hessian": ("Hessian",),
    "fedflat.flatness.line": ("Line",),
    "fedflat.flatness.plane": ("Plane",),
    "fedflat.flatness.points": ("losses",),
    "fedflat.flatness.surface": ("Surface",),
    "fedflat.engine.mail": ("Mail", "Replies"),
    "fedflat.methods": (
        "active_clients", "adabest", "adagrad", "adam", "all_clients", "asam", "centralised", "clip", "cutout",
        "ema", "fedacg", "fedadagrad", "fedadam", "fedala", "fedasam", "fedavg", "fedavg_ft", "fedavgm", "fedbn",
        "fedcm", "fedcr", "feddc", "feddyn", "fedfsa", "fedgamma", "fedgloss", "fedlesam", "fedprox", "fedsam",
        "fedsmoo", "fedspeed", "fedyogi", "fsa", "krum", "last_sam", "layerwise_sam", "man", "median", "mime",
        "mimelite", "mixup", "mofedsam", "naive_fedgloss", "norm_clip", "personal", "prox", "sam", "scaffold",
        "server_momentum", "server_sgd", "silobn", "swa", "trimmed_mean", "wima", "yogi",
    ),
    "fedflat.models": ("cnn", "fsa_cnn", "logistic", "mlp", "resnet18", "resnet20", "stochastic", "tiny_convnet"),
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
    "fedflat.running.starts": ("Start", "fresh", "from_run", "from_weights", "pretrained"),
    "fedflat.running.train": ("train",),
    "fedflat.language.schedules": ("Schedule", "at", "cosine", "cyclic", "decay", "steps", "warmup"),
    "fedflat.server.piece": ("Desk", "ServerPiece"),
    "fedflat.server.rules": ("Rule",),
    "fedflat.server.shadows": ("Shadow",),
    "fedflat.language.spelling": ("parse", "register"),
    "fedflat.engine.stage": ("Stage",),
}  # fmt: skip
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'fedflat' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
