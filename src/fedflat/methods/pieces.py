"""Methods of one piece, which can be added to any method with ``+``."""

from __future__ import annotations

from fedflat.client.batch_transforms import Cutout, Mixup
from fedflat.client.compression import Bfloat16, Int8, TopK
from fedflat.client.gradient_transforms import Clip, PolyRate, Prox
from fedflat.client.loss_terms import Man
from fedflat.client.private_parameters import Private
from fedflat.client.sharpness import Asam, LastSam, LayerwiseSam, Sam
from fedflat.client.styles import Cfsi, Lab
from fedflat.composition.method import Method, made_of, method
from fedflat.core.schedules import Scalar
from fedflat.errors import SettingError
from fedflat.server import aggregators, averaging, optimizers
from fedflat.server.client_evaluation import PersonalizedEvaluation


@made_of(Sam)
def sam() -> None:
    """Local sharpness-aware steps (Foret et al., ICLR 2021)."""


@made_of(Asam)
def asam() -> None:
    """Local adaptive sharpness-aware steps (Kwon et al., ICML 2021)."""


@made_of(LayerwiseSam)
def layerwise_sam() -> None:
    """Local SAM whose perturbation has its radius in every tensor separately."""


@made_of(LastSam)
def last_sam() -> None:
    """Local SAM along the previous step's gradient: FedGloSS's centralised control."""


@method
def man(zeta: Scalar = 0.15, man_scale: str = Man.man_scale) -> Method:
    """A penalty on the mean squared activations of hidden layers (Yashwanth et al., WACV 2024)."""
    return Method(client=(Man(zeta, man_scale),))


@made_of(Prox)
def prox() -> None:
    """A proximal term that pulls towards the model the server sent."""


@made_of(Clip)
def clip() -> None:
    """Local gradients no longer than ``norm``; weight decay is added afterwards."""


@made_of(PolyRate)
def poly_rate() -> None:
    """Local learning rate that decreases: step i of tau has ``(1 - i / (factor tau))^power`` of it.

    ``factor=1`` is what papers on segmentation print, ``factor=10000`` what FedDrive's code has:
    there it hardly decreases.
    """


@made_of(Mixup)
def mixup() -> None:
    """Blended examples and losses (Zhang et al., ICLR 2018)."""


@made_of(Cutout)
def cutout() -> None:
    """A square set to 0 in each image (DeVries and Taylor, 2017)."""


@made_of(Bfloat16)
def bfloat16() -> None:
    """Updates rounded to bfloat16, with error feedback: half of the bytes."""


@made_of(Int8)
def int8() -> None:
    """Updates rounded to 8 bits, with error feedback: a quarter of the bytes.

    Blocks of 1024 entries share a scale.
    """


@method
def top_k(share: float = TopK.share, feedback: bool = TopK.feedback) -> Method:
    """The largest entries of each update only, with error feedback (Stich et al., NeurIPS 2018).

    ``share`` is the part of the entries that is sent. Each entry takes its own bytes and four for
    its position.
    """
    return Method(client=(TopK(feedback, share),))


@made_of(optimizers.ServerSgd)
def server_sgd() -> None:
    """A server learning rate."""


@made_of(optimizers.ServerMomentum)
def server_momentum() -> None:
    """Heavy-ball momentum at the server (Hsu et al., 2019)."""


@method
def adam(
    lr: Scalar = optimizers.Adam.lr,
    b1: float = optimizers.Adam.b1,
    b2: float = optimizers.Adam.b2,
    tau: float | None = None,
    flavour: str = "paper",
) -> Method:
    """Adam at the server (Reddi et al., ICLR 2021); ``tau`` is 1e-3, or 0.1 in torch's flavour."""
    if optimizers.adaptive_optimizer("adam", flavour):
        return Method(
            server=(
                optimizers.TorchAdam(lr, b1, b2, optimizers.TorchAdam.eps if tau is None else tau),
            )
        )
    return Method(
        server=(optimizers.Adam(lr, b1, b2, optimizers.Adam.tau if tau is None else tau),)
    )


@method
def adagrad(
    lr: Scalar = optimizers.Adagrad.lr,
    b1: float = optimizers.Adagrad.b1,
    tau: float | None = None,
    flavour: str = "paper",
) -> Method:
    """AdaGrad at the server (Reddi et al., ICLR 2021); ``tau`` is 1e-3, or 1e-2 as in torch.

    flavour
        "paper", or "torch": as torch.optim does, see `fedflat.server.optimizers`.
    """
    if optimizers.adaptive_optimizer("adagrad", flavour):
        if b1 != 0:
            raise SettingError(
                f"adagrad: flavour='torch' has no first moment, found b1={b1!r}. Leave b1 out."
            )
        return Method(
            server=(
                optimizers.TorchAdagrad(lr, optimizers.TorchAdagrad.eps if tau is None else tau),
            )
        )
    return Method(
        server=(optimizers.Adagrad(lr, b1, tau=optimizers.Adagrad.tau if tau is None else tau),)
    )


@made_of(optimizers.Yogi)
def yogi() -> None:
    """Yogi at the server (Reddi et al., ICLR 2021)."""


@made_of(averaging.Swa)
def swa() -> None:
    """Stochastic weight averaging at the server (Caldarola et al., ECCV 2022).

    From ``start`` on (a share of the run, or a round) the local learning rate falls from ``high``
    to ``low`` in every ``cycle`` rounds, and the mean of the models at the cycles' ends is
    evaluated. The ablations of the paper: ``cycle_lr=False`` averages only, ``average=False`` only
    cycles the rate.
    """


@made_of(averaging.Wima)
def wima() -> None:
    """Evaluates the mean of the last ``window`` global models.

    ``scope`` limits it to the classifier or the features.
    """


@made_of(averaging.Ema)
def ema() -> None:
    """Evaluates an exponential mean of the global models."""


@made_of(averaging.AllClients)
def all_clients() -> None:
    """Evaluates the mean of every client's last model, as FedDyn's authors do."""


@made_of(averaging.ActiveClients)
def active_clients() -> None:
    """Evaluates the mean of the models that were returned in the round."""


@made_of(aggregators.Median)
def median() -> None:
    """The coordinate-wise median of the replies in place of their mean (Yin et al., ICML 2018)."""


@method
def trimmed_mean(trim: int = 1) -> Method:
    """The mean of the replies without the extremes of each coordinate (Yin et al., ICML 2018)."""
    return Method(aggregator=aggregators.TrimmedMean(trim))


@method
def krum(attackers: int = 1, keep: int = aggregators.Krum.keep) -> Method:
    """The most central reply, or the mean of the ``keep`` most central (Blanchard et al., 2017)."""
    return Method(aggregator=aggregators.Krum(attackers, keep))


@method
def norm_clip(norm: float = 1.0) -> Method:
    """No reply longer than ``norm`` (Sun et al., 2019).

    Sun et al., Can You Really Backdoor Federated Learning?, 2019.
    """
    return Method(aggregator=aggregators.NormClip(norm))


@made_of(Cfsi)
def cfsi() -> None:
    """Images with low frequencies of other clients' images (FedDrive, Fantauzzo et al., IROS 2022).

    After Liu et al., CVPR 2021. A bank of the amplitudes of all clients' images is shared before
    round 0.

    exclude
        "domain": styles of other domains only; "none": of all domains.
    """


@made_of(Lab)
def lab() -> None:
    """Images with the colours of other clients' images, in LAB (FedDrive, Fantauzzo et al., IROS
    2022).

    A bank of the means and standard deviations of all clients' images is shared before round 0.

    exclude
        "domain": styles of other domains only; "none": of all domains.
    """


@method
def fedbn(only_named: str = Private.only_named) -> Method:
    """Batch normalisation stays with the client, statistics and scales (Li et al., ICLR 2021).

    Domains that clients have are evaluated with those clients' values; other domains are not
    evaluated. If no domains are known, the server's own model is evaluated. ``only_named="bn"``:
    only layers whose name contains this text.
    """
    return Method(client=(Private("bn", only_named),))


@method
def silobn(only_named: str = Private.only_named, seen: str = Private.seen) -> Method:
    """The statistics of batch normalisation stay with the client (Andreux et al., 2020).

    Domains that clients have are evaluated with the mean of those clients' statistics. Others, and
    those whose clients have not trained yet, use the statistics of each batch of 8 test images.
    ``seen="batch"`` evaluates all of them that way. ``only_named="bn"``: only layers whose name
    contains this text, as in FedDrive's code.
    """
    return Method(client=(Private("bn_statistics", only_named, seen),))


@method
def personal() -> Method:
    """Personalized evaluation: each client's own last model is tested on its own test examples.

    After the last round every client fine-tunes the last layer of the global model once. The data
    must be split inside the clients, as in ``digits(lda(1), split=0.7)``.
    """
    return Method(evaluations=(PersonalizedEvaluation(),))
