"""Every method: one file per paper, and `recipes` and `pieces` for what is mere combination."""

from fedflat.composition.method import Method, chain
from fedflat.methods.adabest import adabest
from fedflat.methods.fedacg import fedacg
from fedflat.methods.fedala import fedala
from fedflat.methods.fedcm import fedcm
from fedflat.methods.fedcr import fedcr
from fedflat.methods.feddyn import feddyn
from fedflat.methods.fedfsa import fedfsa, fsa
from fedflat.methods.fedgloss import fedgloss, naive_fedgloss
from fedflat.methods.fedlesam import fedlesam
from fedflat.methods.fedsmoo import fedsmoo
from fedflat.methods.fedspeed import fedspeed
from fedflat.methods.mime import mime, mimelite
from fedflat.methods.pieces import (
    active_clients,
    adagrad,
    adam,
    all_clients,
    asam,
    clip,
    cutout,
    ema,
    fedbn,
    krum,
    last_sam,
    layerwise_sam,
    man,
    median,
    mixup,
    norm_clip,
    personal,
    prox,
    sam,
    server_momentum,
    server_sgd,
    silobn,
    swa,
    trimmed_mean,
    wima,
    yogi,
)
from fedflat.methods.recipes import (
    centralised,
    fedadagrad,
    fedadam,
    fedasam,
    fedavg,
    fedavg_ft,
    fedavgm,
    feddc,
    fedgamma,
    fedprox,
    fedsam,
    fedyogi,
    mofedsam,
)
from fedflat.methods.scaffold import scaffold

__all__ = [
    "Method", "active_clients", "adabest", "adagrad", "adam", "all_clients", "asam", "centralised", "chain", "clip",
    "cutout", "ema", "fedacg", "fedadagrad", "fedadam", "fedala", "fedasam", "fedavg", "fedavg_ft", "fedavgm",
    "fedbn", "fedcm", "fedcr", "feddc", "feddyn", "fedfsa", "fedgamma", "fedgloss", "fedlesam", "fedprox", "fedsam",
    "fedsmoo", "fedspeed", "fedyogi", "fsa", "krum", "last_sam", "layerwise_sam", "man", "median", "mime",
    "mimelite", "mixup", "mofedsam", "naive_fedgloss", "norm_clip", "personal", "prox", "sam", "scaffold",
    "server_momentum", "server_sgd", "silobn", "swa", "trimmed_mean", "wima", "yogi",
]  # fmt: skip
