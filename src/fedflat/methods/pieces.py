"""Pieces that can be added to any method with ``+``."""

from __future__ import annotations

from fedflat.client.drift import Clip, Prox
from fedflat.client.mixing import Cutout, Mixup
from fedflat.client.private import Private
from fedflat.client.sharpness import Asam, LastSam, LayerwiseSam, Sam
from fedflat.client.terms import Man
from fedflat.composition.method import Method, method
from fedflat.errors import SettingError
from fedflat.language.schedules import Scalar
from fedflat.server import pace, rules, shadows


@method
def sam(rho: Scalar = 0.05) -> Method:
    """Local sharpness-aware steps (Foret et al., ICLR 2021)."""
    return Method(client=(Sam(rho),))


@method
def asam(rho: Scalar = 0.5, eta: Scalar = 0.2, variant: str = "weights") -> Method:
    """Local adaptive sharpness-aware steps (Kwon et al., ICML 2021)."""
    return Method(client=(Asam(rho, eta, variant),))


@method
def layerwise_sam(rho: Scalar = 0.05) -> Method:
    """Local SAM whose perturbation has its radius in every tensor by itself."""
    return Method(client=(LayerwiseSam(rho),))


@method
def last_sam(rho: Scalar = 0.05) -> Method:
    """Local SAM along the gradient of the step before: the centralised control of FedGloSS, one gradient a step."""
    return Method(client=(LastSam(rho),))


@method
def man(zeta: Scalar = 0.15, man_scale: str = "paper") -> Method:
    """A penalty on the mean squared activations of hidden layers (Yashwanth et al., WACV 2024)."""
    return Method(client=(Man(zeta, man_scale),))


@method
def prox(mu: Scalar = 0.1) -> Method:
    """A pull towards the model the server sent."""
    return Method(client=(Prox(mu),))


@method
def clip(norm: Scalar = 10.0) -> Method:
    """Local directions no longer than ``norm``; weight decay is added after."""
    return Method(client=(Clip(norm),))


@method
def mixup(alpha: Scalar = 1.0) -> Method:
    """Blended examples and losses (Zhang et al., ICLR 2018)."""
    return Method(client=(Mixup(alpha),))


@method
def cutout(side: int = 16) -> Method:
    """A blanked square in each image (DeVries and Taylor, 2017)."""
    return Method(client=(Cutout(side),))


@method
def server_sgd(lr: Scalar = 1.0) -> Method:
    """A server learning rate."""
    return Method(server=(pace.ServerSgd(lr),))


@method
def server_momentum(beta: Scalar = 0.9, lr: Scalar = 1.0) -> Method:
    """Heavy-ball momentum at the server (Hsu et al., 2019)."""
    return Method(server=(pace.ServerMomentum(beta, lr),))


@method
def adam(
    lr: Scalar = 0.1, b1: float = 0.9, b2: float = 0.99, tau: float | None = None, flavour: str = "paper"
) -> Method:
    """Adam at the server (Reddi et al., ICLR 2021); ``tau`` is 1e-3, or 0.1 in torch's flavour."""
    if pace.flavoured("adam", flavour):
        return Method(server=(pace.TorchAdam(lr, b1, b2, 0.1 if tau is None else tau),))
    return Method(server=(pace.Adam(lr, b1, b2, 1e-3 if tau is None else tau),))


@method
def adagrad(lr: Scalar = 0.1, b1: float = 0.0, tau: float | None = None, flavour: str = "paper") -> Method:
    """AdaGrad at the server (Reddi et al., ICLR 2021); ``tau`` is 1e-3, or 1e-2 in torch's flavour."""
    if pace.flavoured("adagrad", flavour):
        if b1 != 0:
            raise SettingError(f"adagrad: torch's flavour has no first moment, found b1={b1!r}. Leave b1 out.")
        return Method(server=(pace.TorchAdagrad(lr, 1e-2 if tau is None else tau),))
    return Method(server=(pace.Adagrad(lr, b1, tau=1e-3 if tau is None else tau),))


@method
def yogi(lr: Scalar = 0.1, b1: float = 0.9, b2: float = 0.99, tau: float = 1e-3) -> Method:
    """Yogi at the server (Reddi et al., ICLR 2021)."""
    return Method(server=(pace.Yogi(lr, b1, b2, tau),))


@method
def swa(
    start: float = 0.75, cycle: int = 10, high: float | None = None, low: float | None = None,
    cycle_lr: bool = True, average: bool = True,
) -> Method:  # fmt: skip
    """Stochastic weight averaging at the server (Caldarola et al., ECCV 2022).

    From ``start`` (a share of the run, or a round) the local rate falls from ``high`` to ``low`` in every
    ``cycle`` rounds and the mean of the models at the cycles' ends is evaluated. The ablations of the paper:
    ``cycle_lr=False`` averages only, ``average=False`` only cycles the rate.
    """
    return Method(shadows=(shadows.Swa(start, cycle, high, low, cycle_lr, average),))


@method
def wima(window: int = 100, scope: str = "all") -> Method:
    """The mean of the last ``window`` global models is evaluated; ``scope``: all, classifier or features."""
    return Method(shadows=(shadows.Wima(window, scope),))


@method
def ema(gamma: Scalar = 0.9) -> Method:
    """An exponential mean of the global models is evaluated."""
    return Method(shadows=(shadows.Ema(gamma),))


@method
def all_clients() -> Method:
    """The mean of every client's last model is evaluated, as FedDyn's authors do."""
    return Method(shadows=(shadows.AllClients(),))


@method
def active_clients() -> Method:
    """The mean of the models that came back in the round is evaluated."""
    return Method(shadows=(shadows.ActiveClients(),))


@method
def median() -> Method:
    """The coordinate-wise median of the replies in place of their mean (Yin et al., ICML 2018)."""
    return Method(rule=rules.Median())


@method
def trimmed_mean(trim: int = 1) -> Method:
    """The mean of the replies without the extremes of each coordinate (Yin et al., ICML 2018)."""
    return Method(rule=rules.TrimmedMean(trim))


@method
def krum(attackers: int = 1, keep: int = 1) -> Method:
    """The most central reply, or the mean of the ``keep`` most central (Blanchard et al., NeurIPS 2017)."""
    return Method(rule=rules.Krum(attackers, keep))


@method
def norm_clip(norm: float = 1.0) -> Method:
    """No reply longer than ``norm`` (Sun et al., Can You Really Backdoor Federated Learning?, 2019)."""
    return Method(rule=rules.NormClip(norm))


@method
def fedbn() -> Method:
    """Batch normalisation stays with the client, statistics and scales (Li et al., ICLR 2021)."""
    return Method(client=(Private("bn"),))


@method
def silobn() -> Method:
    """The statistics of batch normalisation stay with the client (Andreux et al., 2020)."""
    return Method(client=(Private("bn_statistics"),))


@method
def personal() -> Method:
    """The personalised protocol: each client's own last model is tested on its own held-out part.

    After the last round every client fine-tunes the last layer of the global model for one visit. The data
    must be split inside the clients, as in ``digits(lda(1), split=0.7)``.
    """
    return Method(shadows=(shadows.Personal(),))
