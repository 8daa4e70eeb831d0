"""Methods that are nothing but pieces put together."""

from __future__ import annotations

from fedflat.composition.method import Method, method
from fedflat.language.schedules import Scalar
from fedflat.methods import pieces
from fedflat.methods.fedcm import fedcm
from fedflat.methods.feddyn import feddyn
from fedflat.methods.scaffold import scaffold


@method
def fedavg() -> Method:
    """Plain averaging (McMahan et al., AISTATS 2017)."""
    return Method()


@method
def fedavgm(beta: Scalar = 0.9, lr: Scalar = 1.0) -> Method:
    """FedAvg with server momentum (Hsu et al., 2019)."""
    return pieces.server_momentum(beta, lr)


@method
def fedadam(
    lr: Scalar = 0.1, b1: float = 0.9, b2: float = 0.99, tau: float | None = None, flavour: str = "paper"
) -> Method:
    """FedAvg with Adam at the server (Reddi et al., ICLR 2021)."""
    return pieces.adam(lr, b1, b2, tau, flavour)


@method
def fedadagrad(lr: Scalar = 0.1, b1: float = 0.0, tau: float | None = None, flavour: str = "paper") -> Method:
    """FedAvg with AdaGrad at the server (Reddi et al., ICLR 2021)."""
    return pieces.adagrad(lr, b1, tau, flavour)


@method
def fedyogi(lr: Scalar = 0.1, b1: float = 0.9, b2: float = 0.99, tau: float = 1e-3) -> Method:
    """FedAvg with Yogi at the server (Reddi et al., ICLR 2021)."""
    return pieces.yogi(lr, b1, b2, tau)


@method
def fedprox(mu: Scalar = 0.1) -> Method:
    """FedAvg with a proximal term (Li et al., MLSys 2020); the gradient of ``mu/2 ||w - w_sent||^2``."""
    return pieces.prox(mu)


@method
def fedsam(rho: Scalar = 0.05) -> Method:
    """FedAvg with local SAM (Caldarola et al., ECCV 2022; Qu et al., ICML 2022)."""
    return pieces.sam(rho)


@method
def fedasam(rho: Scalar = 0.5, eta: Scalar = 0.2, variant: str = "weights") -> Method:
    """FedAvg with local ASAM (Caldarola et al., ECCV 2022)."""
    return pieces.asam(rho, eta, variant)


@method
def feddc(alpha: Scalar = 0.01) -> Method:
    """FedDyn with SCAFFOLD's control variates (Gao et al., CVPR 2022)."""
    return feddyn(alpha) + scaffold()


@method
def mofedsam(rho: Scalar = 0.1, a: Scalar = 0.1) -> Method:
    """FedCM with local SAM (Qu et al., ICML 2022)."""
    return pieces.sam(rho) + fedcm(a)


@method
def fedgamma(rho: Scalar = 0.05) -> Method:
    """SCAFFOLD with local SAM (Dai et al., TNNLS 2023)."""
    return pieces.sam(rho) + scaffold()


@method
def fedavg_ft() -> Method:
    """FedAvg under the personalised protocol, whose last round fine-tunes the classifier (Xing et al., AAAI 2025)."""
    return fedavg() + pieces.personal()


@method
def centralised() -> Method:
    """All data in one place, trained by the same local steps: the upper bound of the papers.

    A round is the local work (epochs or steps) over everybody's examples; momentum is kept between rounds
    and nothing is sent. Local pieces can be added: ``centralised() + sam(rho=0.05)``.
    """
    return Method(pooled=True)
