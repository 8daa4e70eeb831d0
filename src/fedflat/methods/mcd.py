"""MCD: features are adapted by the discrepancy of two classifiers.

Saito et al., Maximum Classifier Discrepancy for Unsupervised Domain Adaptation, CVPR 2018,
arXiv:1712.02560.

    d          mean over pixels and classes of |softmax(F_1) - softmax(F_2)| on images without labels
    step A     features and classifiers fit the labelled images
    step B     classifiers fit the labelled images and raise d; the features are fixed
    step C     features lower d, ``repeats`` times; the classifiers are fixed

Every batch has these steps one after the other, ``form="steps"``. Features and classifiers have
their own momentum, which moves only in their own steps, as the authors' two optimizers do. So
``momentum`` and ``weight_decay`` are arguments here and must be 0 in the run.

``form="reversed"`` is one step, an option of the authors' code: the gradient is reversed where the
images without labels enter the last layer, so that one step raises d by the classifiers and lowers
it by the features. Momentum and weight decay are then those of the run.

Both need `twofold(...)` for the task and `with_source(...)` for the data: the second half of each
batch has no labels. The classifiers are the two halves of the last layer. The paper evaluates the
first classifier or the sum of both outputs; here it is the mean of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fedflat.client.gradient_transforms import Momentum, WeightDecay
from fedflat.client.piece import ClientContext, ModelInfo, Piece, Term
from fedflat.composition.method import made_of
from fedflat.core.flat import GradFn
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.data.examples import Batch
from fedflat.errors import SettingError, choice, number
from fedflat.tasks.wrapped import Twofold, halves

FIT, RAISE, LOWER = "fit", "raise", "lower"
"""Steps A, B and C."""
_STEP: ContextVar[str] = ContextVar("mcd step", default="")
"""The step whose gradient is computed; hooks of a module cannot be given it."""


class Turned(torch.autograd.Function):
    """The identity whose gradient is reversed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return the input."""
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """Return the negative gradient."""
        return -gradients[0]


@dataclass(frozen=True, repr=False)
class Discrepancy(Term):
    """``weight`` times the classifiers' disagreement on the half without labels.

    Classifiers raise it and features lower it.
    """

    weight: Scalar = 1.0
    form: str = "steps"
    repeats: int = 4
    momentum: float = 0.0
    weight_decay: float = 0.0

    key = "mcd"

    def __post_init__(self) -> None:
        scalar("mcd", "weight", self.weight)
        choice("mcd", "form", self.form, ["steps", "reversed"])
        number("mcd", "repeats", self.repeats, low=1, high=1000, whole=True)
        number("mcd", "momentum", self.momentum, low=0, high=1)
        number("mcd", "weight_decay", self.weight_decay, low=0)
        if self.form == "reversed" and (self.momentum or self.weight_decay):
            raise SettingError(
                "mcd: form='reversed' is one step, whose momentum and weight decay are those of "
                "the run. Use --momentum and --weight-decay."
            )

    @property
    def oracle_calls(self) -> int:
        """One gradient for each of the steps."""
        return 1 if self.form == "reversed" else 2 + self.repeats

    def check(self, model_info: ModelInfo) -> None:
        """Refuse a task with one classifier, and what would change the steps."""
        if not isinstance(model_info.task, Twofold):
            raise SettingError(
                f"mcd needs two classifiers, but {model_info.task} has one. Use --task 'twofold(...)'."
            )
        if self.form == "reversed":
            return
        for piece in model_info.pieces:
            if isinstance(piece, Momentum | WeightDecay):
                raise SettingError(
                    "mcd: its steps have momentum and weight decay of their own. Use "
                    "mcd(momentum=..., weight_decay=...) and leave those of the run at 0, or "
                    "form='reversed'."
                )
            if piece.stage is Stage.PROBE or type(piece).lr_factor is not Piece.lr_factor:
                raise SettingError(
                    f"mcd: its three steps cannot be combined with {piece}, which changes single "
                    "steps. Leave it out, or use form='reversed'."
                )

    @contextmanager
    def hooks(self, module: nn.Module) -> Iterator[None]:
        """Decide which gradients pass from the last layer to the features."""
        *_, name = (name for name, _ in module.named_parameters())
        step = _STEP.get() or self.form
        passes = {"reversed": _reverse, RAISE: _stop_all, LOWER: _stop_labelled}.get(step)
        if passes is None:
            yield
            return
        hook = module.get_submodule(name.rpartition(".")[0]).register_forward_pre_hook(passes)
        try:
            yield
        finally:
            hook.remove()

    def loss(self, v: ClientContext, batch: Batch, output: Tensor, seen: Any) -> Tensor:
        step = _STEP.get() or self.form
        if step in (FIT, "steps"):
            return output.new_zeros(())
        one, other = (half.softmax(1) for half in halves(output[len(output) // 2 :]))
        apart = at(self.weight, v.round) * (one - other).abs().mean()
        return apart if step == LOWER else -apart

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """Return the change by all steps, divided by the learning rate."""
        if self.form == "reversed":
            return grad(w)
        classifiers = v.layout.classifier().to(w.device)
        moving = {FIT: torch.ones_like(classifiers), RAISE: classifiers, LOWER: ~classifiers}
        buffer = v.scratch.get("momentum", torch.zeros_like(w))
        point = w
        for step in (FIT, RAISE, *[LOWER] * self.repeats):
            part = moving[step]
            g = torch.add(_gradient_of(step, grad, point), point, alpha=self.weight_decay)
            buffer = torch.where(part, self.momentum * buffer + g, buffer)
            point = torch.where(part, point - v.lr * buffer, point)
        v.scratch["momentum"] = buffer
        return (w - point) / v.lr if v.lr else torch.zeros_like(w)


def _gradient_of(step: str, grad: GradFn, w: Tensor) -> Tensor:
    token = _STEP.set(step)
    try:
        return grad(w)
    finally:
        _STEP.reset(token)


def _reverse(part: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
    features = inputs[0]
    labelled = len(features) // 2
    turned: Tensor = Turned.apply(features[labelled:])  # type: ignore[no-untyped-call]
    return (torch.cat([features[:labelled], turned]),)


def _stop_all(part: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
    return (inputs[0].detach(),)


def _stop_labelled(part: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
    """The labelled half gives the features no gradient, so that they only lower d."""
    features = inputs[0]
    labelled = len(features) // 2
    return (torch.cat([features[:labelled].detach(), features[labelled:]]),)


@made_of(Discrepancy)
def mcd() -> None:
    """Features on which two classifiers agree, without labels (Saito et al., CVPR 2018)."""
