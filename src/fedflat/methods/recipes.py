"""Methods that only combine other methods and pieces.

FedVC: clients of all sizes act as virtual clients of one size. Hsu, Qi and Brown, Federated Visual
Classification with Real-World Data Distribution, ECCV 2020.

    selection  client k with probability N_k / N, without replacement within a round
    client     n of its examples, a new draw each time: without replacement if it has as many, else
               all of them repeatedly
    server     the plain mean

So every client makes the same number of steps, and every example is equally likely to be used.
"""

from __future__ import annotations

from fedflat.client.sharpness import Sam
from fedflat.composition.method import Method, made_of, method
from fedflat.core.schedules import Scalar
from fedflat.errors import MOST_AT_ONCE, number
from fedflat.methods import pieces
from fedflat.methods.fedcm import fedcm
from fedflat.methods.feddyn import feddyn
from fedflat.methods.scaffold import scaffold


@method
def fedavg() -> Method:
    """Federated averaging (McMahan et al., AISTATS 2017)."""
    return Method()


@made_of(pieces.server_momentum)
def fedavgm() -> None:
    """FedAvg with server momentum (Hsu et al., 2019)."""


@made_of(pieces.adam)
def fedadam() -> None:
    """FedAvg with Adam at the server (Reddi et al., ICLR 2021)."""


@made_of(pieces.adagrad)
def fedadagrad() -> None:
    """FedAvg with AdaGrad at the server (Reddi et al., ICLR 2021)."""


@made_of(pieces.yogi)
def fedyogi() -> None:
    """FedAvg with Yogi at the server (Reddi et al., ICLR 2021)."""


@made_of(pieces.prox)
def fedprox() -> None:
    """FedAvg with a proximal term, ``mu/2 ||w - w_sent||^2`` (Li et al., MLSys 2020)."""


@made_of(pieces.sam)
def fedsam() -> None:
    """FedAvg with local SAM (Caldarola et al., ECCV 2022; Qu et al., ICML 2022)."""


@made_of(pieces.asam)
def fedasam() -> None:
    """FedAvg with local ASAM (Caldarola et al., ECCV 2022)."""


@method
def feddc(alpha: Scalar = 0.01) -> Method:
    """FedDyn with SCAFFOLD's control variates (Gao et al., CVPR 2022)."""
    return feddyn(alpha) + scaffold()


@method
def mofedsam(rho: Scalar = 0.1, a: Scalar = 0.1) -> Method:
    """FedCM with local SAM (Qu et al., ICML 2022)."""
    return pieces.sam(rho) + fedcm(a)


@method
def fedgamma(rho: Scalar = Sam.rho) -> Method:
    """SCAFFOLD with local SAM (Dai et al., TNNLS 2023)."""
    return pieces.sam(rho) + scaffold()


@method
def fedavg_ft() -> Method:
    """FedAvg with personalized evaluation and a fine-tuned classifier (Xing et al., AAAI 2025)."""
    return fedavg() + pieces.personal()


@method
def centralised() -> Method:
    """All data in one place, trained by the same local steps: the upper bound of the papers.

    A round is the local work (epochs or steps) over all clients' examples. Momentum continues
    between rounds and nothing is sent. Local pieces can be added: ``centralised() +
    sam(rho=0.05)``.
    """
    return Method(pooled=True)


@method
def fedvc(n: int = 256) -> Method:
    """Clients selected by size, ``n`` examples and equal weight each (Hsu et al., ECCV 2020)."""
    number("fedvc", "n", n, low=1, high=MOST_AT_ONCE, whole=True)
    return Method(virtual=n, weighting="uniform")
