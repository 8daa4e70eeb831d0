"""FedSOL: the gradient is taken where a small step along a proximal loss leads.

Lee et al., FedSOL: Stabilized Orthogonal Learning with Proximal Restrictions in Federated Learning,
CVPR 2024.

    q(w) = KL( softmax(z_g / 3) || softmax(z / 3) )             proximal="kl"; z_g: scores of the sent model
           ||w - w_sent||^2 / 2                                 proximal="l2"
    eps  = rho grad q / ||grad q||                              form="fixed"
           rho (n(|w - w_sent|) * grad q) / ||grad q||          form="adaptive"
    u    = g_k(w + eps)                                         on the same batch

``n`` divides each tensor by its Euclidean norms along the first axis. In the first step of a
request ``w = w_sent``, so ``eps = 0``. ``scope`` limits the perturbation to the last layer ("head")
or to the others ("body"), as the authors' code can. With ``proximal="l2"`` a step costs one
gradient.

Running statistics of batch normalisation move in the pass at ``w``, as in the authors' code; with
``proximal="l2"`` in the only pass, at ``w + eps``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedflat.client.distillation import check_classes, divergence, scores_of
from fedflat.client.piece import ClientContext, ModelInfo, Piece
from fedflat.composition.method import made_of
from fedflat.core.flat import TINY, GradFn, Layout, Model
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.data.examples import Batch, arguments
from fedflat.errors import choice

TEMPERATURE = 3.0
"""Of the proximal loss."""


@dataclass(frozen=True, repr=False)
class ProximalProbe(Piece):
    """The gradient at a perturbation along the gradient of a proximal loss.

    rho
        Radius, at least 0.
    form
        "adaptive": scaled by the change of each weight; or "fixed".
    proximal
        The proximal loss: "kl" or "l2".
    scope
        What is perturbed: "all", "head" (the last layer) or "body" (the others).
    """

    rho: Scalar = 1.0
    form: str = "adaptive"
    proximal: str = "kl"
    scope: str = "all"

    stage, key = Stage.PROBE, "fedsol"

    def __post_init__(self) -> None:
        scalar("fedsol", "rho", self.rho)
        choice("fedsol", "form", self.form, ["adaptive", "fixed"])
        choice("fedsol", "proximal", self.proximal, ["kl", "l2"])
        choice("fedsol", "scope", self.scope, ["all", "head", "body"])

    @property
    def stackable(self) -> bool:  # type: ignore[override]
        """True if the proximal loss does not need the network."""
        return self.proximal == "l2"

    @property
    def extra_gradients(self) -> int:  # type: ignore[override]
        """One if the proximal loss needs the network."""
        return int(self.proximal == "kl")

    def check(self, model_info: ModelInfo) -> None:
        """Refuse a task without classes, if scores are compared."""
        if self.proximal == "kl":
            check_classes("fedsol", model_info)

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        """Compute the mask of what is perturbed."""
        if self.scope != "all":
            head = v.layout.classifier().to(w.device)
            v.scratch["mask"] = head if self.scope == "head" else ~head
        return w

    def batch(self, v: ClientContext, batch: Batch) -> Batch:
        """Keep the batch for the gradient of the proximal loss."""
        v.scratch["now"] = batch
        return batch

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        change = w - v.sent
        ascent = change if self.proximal == "l2" else self._divergence_gradient(v, w)
        if "mask" in v.scratch:
            ascent = torch.where(v.scratch["mask"], ascent, 0.0)
        # Rounding would give the gradient of a divergence of 0 a direction.
        moved = (change != 0).any(dim=-1, keepdim=True)
        length = torch.linalg.vector_norm(ascent, dim=-1, keepdim=True)
        if self.form == "adaptive":
            ascent = along_first_axis(change.abs(), v.layout) * ascent
        eps = torch.where(moved, ascent / (length + TINY), 0.0)
        return grad(torch.add(w, eps, alpha=at(self.rho, v.round)))

    def _divergence_gradient(self, v: ClientContext, w: Tensor) -> Tensor:
        batch: Batch = v.scratch["now"]
        known = scores_of(v, Model(v.sent, v.sent_buffers), batch)

        def loss(module: nn.Module) -> Tensor:
            return divergence(known, module(*arguments(batch.inputs)), TEMPERATURE)

        return v.gradient_of(loss, w, first_pass=True)


def along_first_axis(w: Tensor, layout: Layout) -> Tensor:
    """Return each tensor of a vector divided by its Euclidean norms along its first axis."""
    lead = w.shape[:-1]
    found = []
    for part, shape in zip(w.split(list(layout.sizes), dim=-1), layout.shapes, strict=True):
        tensor = part.reshape(*lead, *(shape or (1,)))
        length = torch.linalg.vector_norm(tensor, dim=len(lead), keepdim=True)
        found.append((tensor / length.clamp(min=TINY)).reshape(*lead, -1))
    return torch.cat(found, dim=-1)


@made_of(ProximalProbe)
def fedsol() -> None:
    """Gradients at a step along a proximal loss (Lee et al., CVPR 2024).

    ``proximal="kl"`` costs a second gradient and a forward pass of the sent model, ``"l2"``
    nothing.
    """
