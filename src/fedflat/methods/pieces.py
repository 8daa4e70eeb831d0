"""Pieces that can be added to any method with ``+``."""

from __future__ import annotations

from fedflat.client.batch_transforms import Cutout, Mixup
from fedflat.client.gradient_transforms import Clip, Prox
from fedflat.client.loss_terms import Man
from fedflat.client.lr_schedules import PolyRate
from fedflat.client.private_parameters import Private
from fedflat.client.sharpness import Asam, LastSam, LayerwiseSam, Sam
from fedflat.client.styles import Cfsi, Lab
from fedflat.composition.method import Method, made_of, method
from fedflat.core.schedules import Scalar
from fedflat.errors import SettingError
from fedflat.server import aggregators as rules
from fedflat.server import averaging as shadows
from fedflat.server import optimizers as pace
from fedflat.server.client_evaluation import PersonalizedEvaluation


@made_of(Sam)
def sam() -> None:
    """Local sharpness-aware steps (Foret et al., ICLR 2021)."""


@made_of(Asam)
def asam() -> None:
    """Local adaptive sharpness-aware steps (Kwon et al., ICML 2021)."""


@made_of(LayerwiseSam)
def layerwise_sam() -> None:
    """Local SAM whose perturbation has its radius in every tensor by itself."""


@made_of(LastSam)
def last_sam() -> None:
    """Local SAM along the gradient of the step before: the centralised control of FedGloSS, one
    gradient a step."""


@method
def man(zeta: Scalar = 0.15, man_scale: str = Man.man_scale) -> Method:
    """A penalty on the mean squared activations of hidden layers (Yashwanth et al., WACV 2024)."""
    return Method(client=(Man(zeta, man_scale),))


@made_of(Prox)
def prox() -> None:
    """A pull towards the model the server sent."""


@made_of(Clip)
def clip() -> None:
    """Local directions no longer than ``norm``; weight decay is added after."""


@made_of(PolyRate)
def poly_rate() -> None:
    """A local rate that falls within each visit: step i of tau has ``(1 - i / (factor tau))^power``
    of it.

    ``factor=1`` is what papers on segmentation print, ``factor=10000`` what FedDrive's code has: it
    hardly falls.
    """


@made_of(Mixup)
def mixup() -> None:
    """Blended examples and losses (Zhang et al., ICLR 2018)."""


@made_of(Cutout)
def cutout() -> None:
    """A blanked square in each image (DeVries and Taylor, 2017)."""


@made_of(pace.ServerSgd)
def server_sgd() -> None:
    """A server learning rate."""


@made_of(pace.ServerMomentum)
def server_momentum() -> None:
    """Heavy-ball momentum at the server (Hsu et al., 2019)."""


@method
def adam(
    lr: Scalar = pace.Adam.lr,
    b1: float = pace.Adam.b1,
    b2: float = pace.Adam.b2,
    tau: float | None = None,
    flavour: str = "paper",
) -> Method:
    """Adam at the server (Reddi et al., ICLR 2021); ``tau`` is 1e-3, or 0.1 in torch's flavour."""
    if pace.adaptive_optimizer("adam", flavour):
        return Method(
            server=(pace.TorchAdam(lr, b1, b2, pace.TorchAdam.eps if tau is None else tau),)
        )
    return Method(server=(pace.Adam(lr, b1, b2, pace.Adam.tau if tau is None else tau),))


@method
def adagrad(
    lr: Scalar = pace.Adagrad.lr,
    b1: float = pace.Adagrad.b1,
    tau: float | None = None,
    flavour: str = "paper",
) -> Method:
    """AdaGrad at the server (Reddi et al., ICLR 2021); ``tau`` is 1e-3, or 1e-2 in torch's
    flavour."""
    if pace.adaptive_optimizer("adagrad", flavour):
        if b1 != 0:
            raise SettingError(
                f"adagrad: torch's flavour has no first moment, found b1={b1!r}. Leave b1 out."
            )
        return Method(
            server=(pace.TorchAdagrad(lr, pace.TorchAdagrad.eps if tau is None else tau),)
        )
    return Method(server=(pace.Adagrad(lr, b1, tau=pace.Adagrad.tau if tau is None else tau),))


@made_of(pace.Yogi)
def yogi() -> None:
    """Yogi at the server (Reddi et al., ICLR 2021)."""


@made_of(shadows.Swa)
def swa() -> None:
    """Stochastic weight averaging at the server (Caldarola et al., ECCV 2022).

    From ``start`` (a share of the run, or a round) the local rate falls from ``high`` to ``low`` in
    every ``cycle`` rounds and the mean of the models at the cycles' ends is evaluated. The
    ablations of the paper: ``cycle_lr=False`` averages only, ``average=False`` only cycles the
    rate.
    """


@made_of(shadows.Wima)
def wima() -> None:
    """The mean of the last ``window`` global models is evaluated; ``scope``: all, classifier or
    features."""


@made_of(shadows.Ema)
def ema() -> None:
    """An exponential mean of the global models is evaluated."""


@made_of(shadows.AllClients)
def all_clients() -> None:
    """The mean of every client's last model is evaluated, as FedDyn's authors do."""


@made_of(shadows.ActiveClients)
def active_clients() -> None:
    """The mean of the models that came back in the round is evaluated."""


@made_of(rules.Median)
def median() -> None:
    """The coordinate-wise median of the replies in place of their mean (Yin et al., ICML 2018)."""


@method
def trimmed_mean(trim: int = 1) -> Method:
    """The mean of the replies without the extremes of each coordinate (Yin et al., ICML 2018)."""
    return Method(aggregator=rules.TrimmedMean(trim))


@method
def krum(attackers: int = 1, keep: int = rules.Krum.keep) -> Method:
    """The most central reply, or the mean of the ``keep`` most central (Blanchard et al., NeurIPS
    2017)."""
    return Method(aggregator=rules.Krum(attackers, keep))


@method
def norm_clip(norm: float = 1.0) -> Method:
    """No reply longer than ``norm`` (Sun et al., Can You Really Backdoor Federated Learning?,
    2019)."""
    return Method(aggregator=rules.NormClip(norm))


@made_of(Cfsi)
def cfsi() -> None:
    """Images take on low frequencies of others' (Liu et al., CVPR 2021; FedDrive, Fantauzzo et al.,
    IROS 2022).

    A bank of the amplitudes of everybody's images is exchanged before round 0.
    """


@made_of(Lab)
def lab() -> None:
    """Images take on colours of others', by mean and spread in LAB space (FedDrive, Fantauzzo et
    al., IROS 2022).

    A bank of the means and spreads of everybody's images is exchanged before round 0.
    """


@method
def fedbn(only_named: str = Private.only_named) -> Method:
    """Batch normalisation stays with the client, statistics and scales (Li et al., ICLR 2021).

    Domains that clients have are tested with what their clients keep, others not at all; where no
    domains are known, the server's own model is tested. ``only_named="bn"``: only layers with these
    letters in their name.
    """
    return Method(client=(Private("bn", only_named),))


@method
def silobn(only_named: str = Private.only_named, seen: str = Private.seen) -> Method:
    """The statistics of batch normalisation stay with the client (Andreux et al., 2020).

    Domains that clients have are tested with the mean of what their clients keep; others, and those
    whose clients have not been visited yet, with the statistics of each batch of 8 test images.
    ``seen="batch"``: all of them so. ``only_named="bn"``: only layers with these letters in their
    name, as in FedDrive's code.
    """
    return Method(client=(Private("bn_statistics", only_named, seen),))


@method
def personal() -> Method:
    """The personalised protocol: each client's own last model is tested on its own held-out part.

    After the last round every client fine-tunes the last layer of the global model for one visit.
    The data must be split inside the clients, as in ``digits(lda(1), split=0.7)``.
    """
    return Method(evaluations=(PersonalizedEvaluation(),))
