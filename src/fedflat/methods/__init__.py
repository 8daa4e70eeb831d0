"""Every method: one file per paper, and `recipes` and `pieces` for what is mere combination."""

from fedflat.method import Method, chain
from fedflat.methods.feddyn import feddyn
from fedflat.methods.fedgloss import fedgloss, naive_fedgloss
from fedflat.methods.pieces import (
    active_clients,
    adagrad,
    adam,
    all_clients,
    asam,
    clip,
    cutout,
    ema,
    mixup,
    prox,
    sam,
    server_momentum,
    server_sgd,
    swa,
    wima,
    yogi,
)
from fedflat.methods.recipes import (
    centralised,
    fedadagrad,
    fedadam,
    fedasam,
    fedavg,
    fedavgm,
    fedprox,
    fedsam,
    fedyogi,
)

__all__ = [
    "Method", "active_clients", "adagrad", "adam", "all_clients", "asam", "centralised", "chain", "clip",
    "cutout", "ema", "fedadagrad", "fedadam", "fedasam", "fedavg", "fedavgm", "feddyn", "fedgloss", "fedprox",
    "fedsam", "fedyogi", "mixup", "naive_fedgloss", "prox", "sam", "server_momentum", "server_sgd", "swa",
    "wima", "yogi",
]  # fmt: skip
