"""FedFSA: a larger perturbation for the layers that changed most, on top of MoFedSAM.

Xing et al., Flexible Sharpness-Aware Personalized Federated Learning, AAAI 2025.

    client   eps_j = rho_j g_j / ||g||      rho_j = rho_larger in the client's chosen layers,
                                            else rho
             u = a g_k(w + eps) + (1-a) D                                      D as in FedCM
             afterwards: chosen <- the ``top`` eligible layers of largest score, used next time
    server   as FedCM

A layer is one weight of a convolution or a linear layer: no bias, no normalisation, no 1x1
shortcut. The paper's score is the squared change of a weight, but it does not say how that becomes
one number. Its code uses the mean squared difference of the min-max scaled tensors
(``score="minmax_mse"``); ``"mse"`` is without scaling. ``"local"`` is Eq. 8, which the paper
discards: ``|grad_l L(w + eps) . eps_l|``, here the mean over the steps of the last local epoch.
``selection``: "fsa" the largest scores,
"reverse" the smallest that are not 0, "random" any. The paper's Algorithm 1 adds the momentum
uphill; its code does not, and neither do we.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.piece import ClientContext, ModelInfo, Piece
from fedflat.composition.method import Method, method
from fedflat.core.flat import GradFn, Layout, unit
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.errors import SettingError, choice, number
from fedflat.methods.fedcm import fedcm

LEFT_OUT = ("bn", "norm", "bias", "downsample", "shortcut")
"""Parts of names of layers that are not eligible."""


def eligible(layout: Layout) -> list[str]:
    """Return the names of the layers that can be chosen."""
    pairs = zip(layout.names, layout.shapes, strict=True)
    return [
        name
        for name, shape in pairs
        if len(shape) >= 2 and not any(word in name for word in LEFT_OUT)
    ]


def _owners(layout: Layout) -> Tensor:
    """The index of each coordinate's layer among the eligible ones, or -1."""
    owners = torch.full((layout.dim,), -1)
    for i, name in enumerate(eligible(layout)):
        owners[layout.slices[name]] = i
    return owners


@dataclass(frozen=True, repr=False)
class Fsa(Piece):
    """SAM with two radii: the larger one in the chosen layers."""

    rho: Scalar
    rho_larger: Scalar
    top: int
    score: str = "minmax_mse"
    selection: str = "fsa"

    stage, key = Stage.PROBE, "fsa"
    needs_server_model = True

    def __post_init__(self) -> None:
        scalar("fsa", "rho", self.rho)
        scalar("fsa", "rho_larger", self.rho_larger)
        number("fsa", "top", self.top, low=1, whole=True)
        choice("fsa", "score", self.score, ["minmax_mse", "mse", "local"])
        choice("fsa", "selection", self.selection, ["fsa", "random", "reverse"])

    @property
    def stackable(self) -> bool:  # type: ignore[override]
        """False for "reverse", where clients may choose different numbers of layers."""
        return self.selection != "reverse"

    def check(self, model_info: ModelInfo) -> None:
        """Refuse to choose more layers than there are."""
        names = eligible(model_info.layout)
        if self.top > len(names):
            raise SettingError(
                f"fsa: {self.top} layers are to be chosen, but the model has only {len(names)} "
                f"eligible ones ({', '.join(names) or 'none'}). Use top={len(names) or 1} or a "
                "larger model."
            )

    @property
    def oracle_calls(self) -> int:
        return 2

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        """Compute the radius of every coordinate."""
        radii = torch.full_like(w, at(self.rho, v.round))
        if "chosen" in v.state:
            larger = (_owners(v.layout).to(w.device) == v.state["chosen"].unsqueeze(-1)).any(dim=-2)
            radii = torch.where(larger, at(self.rho_larger, v.round), radii)
        v.scratch["radii"] = radii
        return w

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """Return the gradient at ``w + rho_j g_j / ||g||``."""
        return self.perturbed(v, grad, w, grad(w))

    def perturbed(self, v: ClientContext, grad: GradFn, w: Tensor, g: Tensor) -> Tensor:
        """Return the gradient at the perturbed point, given the gradient ``g`` at ``w``."""
        radii, direction = v.scratch["radii"], unit(g)
        found = grad(torch.addcmul(w, radii, direction))
        if self.score == "local" and v.steps >= v.planned_steps - _steps_of_an_epoch(v):
            effect = found * radii * direction
            scores = [effect[..., p].sum(dim=-1).abs() for p in _slices(v.layout)]
            v.scratch.setdefault("local", []).append(torch.stack(scores, dim=-1))
        return found

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        """Choose the layers for the next time."""
        if self.score == "local":
            scores = torch.stack(v.scratch["local"]).mean(dim=0)
        else:
            changes = [self._score(v.start[..., p], v.end[..., p]) for p in _slices(v.layout)]
            scores = torch.stack(changes, dim=-1)
        v.state["chosen"] = self._choose(scores, v)
        return w

    def _score(self, before: Tensor, after: Tensor) -> Tensor:
        if self.score == "mse":
            return (after - before).square().mean(dim=-1)
        varied = (before.amax(-1) > before.amin(-1)) & (after.amax(-1) > after.amin(-1))
        return torch.where(varied, (_minmax(after) - _minmax(before)).square().mean(dim=-1), 0.0)

    def _choose(self, scores: Tensor, v: ClientContext) -> Tensor:
        if self.selection == "random":
            order = v.draw(lambda rng: torch.randperm(scores.shape[-1], generator=rng)).to(
                scores.device
            )
        elif self.selection == "reverse":
            order = torch.where(scores > 0, scores, torch.inf).argsort(stable=True)
            order = order[: int((scores > 0).sum())]
        else:
            order = scores.argsort(descending=True, stable=True)
        return order[..., : self.top].sort().values


def _slices(layout: Layout) -> list[slice]:
    return [layout.slices[name] for name in eligible(layout)]


def _steps_of_an_epoch(v: ClientContext) -> int:
    """The number of steps of the last local epoch; all steps if there is no whole epoch."""
    return max(round(v.planned_steps / max(v.epochs, 1)), 1)


def _minmax(x: Tensor) -> Tensor:
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    return (x - low) / (high - low).clamp(min=torch.finfo(x.dtype).tiny)


@method
def fsa(
    rho: Scalar = 0.1,
    rho_larger: Scalar = 0.2,
    top: int = 2,
    score: str = Fsa.score,
    selection: str = Fsa.selection,
) -> Method:
    """Local SAM with a larger radius in the layers that changed most (Xing et al., AAAI 2025)."""
    return Method(client=(Fsa(rho, rho_larger, top, score, selection),))


@method
def fedfsa(
    rho: Scalar = 0.1,
    rho_larger: Scalar = 0.2,
    top: int = 2,
    a: Scalar = 0.1,
    score: str = Fsa.score,
    selection: str = Fsa.selection,
) -> Method:
    """Flexible sharpness-aware steps mixed with the global momentum (Xing et al., AAAI 2025)."""
    return fsa(rho, rho_larger, top, score, selection) + fedcm(a)
