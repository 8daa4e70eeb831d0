"""LADD's round: clients train on pseudo-labels, from a model trained on other, labelled images.

Shenaj et al., Learning Across Domains and Devices: Style-Driven Source-Free Domain Adaptation in
Clustered Federated Learning, WACV 2023, arXiv:2210.02326.

    before   each client sends its style; the server trains f_0 on its own images in these styles
    client   from (Phi, theta_c), one pass over images without labels:
             loss = pseudo(z; g_c) + kd distillation(z; f_0)         see `tasks.pseudo_labels`
    server   Phi <- mean over the cohort, theta_c <- mean over the cohort's members of cluster c
             every omega rounds  g_c <- (Phi, theta_c)                          before t_start
                                 g_c <- (n g_c + (Phi, theta_c)) / (n + 1)      from then on

``n`` counts from 0. The clusters are in `fedflat.methods.style_clusters`. ``g_c`` is ``f_0`` before
the first refresh, and its running statistics are always those of ``(Phi, theta_c)``. Teacher and
``f_0`` are sent and counted with every broadcast, so that clients need no state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedflat.client.piece import ClientContext, ModelInfo, Term
from fedflat.composition.method import Method, method
from fedflat.core.flat import Model
from fedflat.core.messages import Broadcast, Replies
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.data.examples import Batch, arguments
from fedflat.errors import SettingError, choice, flag, number
from fedflat.server.piece import Send, ServerContext, ServerPiece
from fedflat.tasks.pseudo_labels import (
    SHARE,
    UNSURE,
    PseudoLabels,
    distillation_loss,
    fda_thresholds,
    pseudo_labels,
    pseudo_loss,
)

KEY = "teacher"
CHUNK = 64
"""Number of examples in a batch of the teacher."""


@dataclass(frozen=True, repr=False)
class SelfTraining(Term):
    """The client's half: learns a teacher's confident labels and stays near the first model.

    kd
        Weight of the distillation from the first model, at least 0.
    rule
        How pseudo-labels are selected, see `fedflat.tasks.pseudo_labels`.
    mask
        Distil only pixels to which the first model gives a confident label.
    sure, share
        Least confidence of a pseudo-label, and share of each class that is used.
    """

    kd: Scalar = 10.0
    rule: str = "ladd"
    mask: bool = True
    sure: float = UNSURE
    share: float = SHARE

    key = KEY
    unsupervised = True

    def __post_init__(self) -> None:
        scalar("self_training", "kd", self.kd)
        choice("self_training", "rule", self.rule, ["ladd", "fda"])
        flag("self_training", "mask", self.mask)
        number("self_training", "sure", self.sure, low=0, high=1)
        number("self_training", "share", self.share, low=0, high=1)

    def check(self, model_info: ModelInfo) -> None:
        """Refuse a task without classes."""
        if not (model_info.task.classifies or model_info.task.headline.name == "miou"):
            raise SettingError(
                f"self_training uses a teacher's classes as labels, but {model_info.task} has no "
                "classes. Use segmentation()."
            )

    def loss(
        self, v: ClientContext, batch: Batch, output: Tensor | tuple[Tensor, ...], seen: Any
    ) -> Tensor:
        """Return the pseudo-label loss of all outputs and the distillation loss of the main one.

        Both are means over pixels.
        """
        labels, first, counted = self._targets(v, batch)
        value = torch.zeros(
            (), dtype=arguments(output)[0].dtype, device=arguments(output)[0].device
        )
        for one in arguments(output):
            total, pixels = pseudo_loss(as_images(one), labels)
            value = value + total / pixels
        if first is not None:
            total, pixels = distillation_loss(as_images(arguments(output)[0]), first, counted)
            value = value + at(self.kd, v.round) * (total / pixels)
        return value

    def _targets(
        self, v: ClientContext, batch: Batch
    ) -> tuple[PseudoLabels, Tensor | None, PseudoLabels | None]:
        """Pseudo-labels of a batch, the first model's scores, and where these count.

        Cached per batch.
        """
        if v.scratch.get("batch") is not batch:
            labels = self._labels(v, "teacher", self._scores(v, "teacher", batch.inputs))
            first = self._scores(v, "first", batch.inputs) if "first" in v.inbox else None
            counted = self._labels(v, "first", first) if first is not None and self.mask else None
            v.scratch |= {"batch": batch, "targets": (labels, first, counted)}
        found: tuple[PseudoLabels, Tensor | None, PseudoLabels | None] = v.scratch["targets"]
        return found

    def _scores(self, v: ClientContext, who: str, inputs: object) -> Tensor:
        return as_images(v.output_of(Model(v.inbox[who], v.inbox[f"{who}_buffers"]), inputs))

    def _labels(self, v: ClientContext, who: str, scores: Tensor) -> PseudoLabels:
        limits = self._thresholds(v, who) if self.rule == "fda" else None
        return pseudo_labels(
            scores, rule=self.rule, sure=self.sure, share=self.share, thresholds=limits
        )

    def _thresholds(self, v: ClientContext, who: str) -> Tensor:
        """FDA's thresholds over all the client's images, cached for the exchange."""
        if f"{who} thresholds" not in v.scratch:
            scores = [
                self._scores(v, who, v.inputs(indices))
                for indices in torch.arange(v.examples).split(CHUNK)
            ]
            sure, classes = zip(*((one.softmax(1).max(1)) for one in scores), strict=True)
            flat = (
                torch.cat([one.flatten() for one in sure]),
                torch.cat([one.flatten() for one in classes]),
            )
            limits = fda_thresholds(*flat, scores[0].shape[1], sure=self.sure, share=self.share)
            v.scratch[f"{who} thresholds"] = limits
        found: Tensor = v.scratch[f"{who} thresholds"]
        return found


def as_images(scores: Tensor) -> Tensor:
    """Return scores at pixels. A batch with one class per example becomes one image."""
    return scores if scores.dim() == 4 else scores.T.reshape(1, scores.shape[1], -1, 1)


@dataclass(frozen=True, repr=False)
class Teaching(ServerPiece):
    """The server's half: a teacher for each slot, which follows its model, and the first model if
    needed.

    ``t_start`` is a number of completed rounds or a share of the run. With None the teacher is
    never a mean.
    """

    omega: int = 1
    t_start: int | float | None = 0.5
    first: bool = True

    stage, key = Stage.TERM, KEY

    def __post_init__(self) -> None:
        number("self_training", "omega", self.omega, low=1, whole=True)
        flag("self_training", "first", self.first)
        if self.t_start is not None:
            number("self_training", "t_start", self.t_start, low=0)
            if isinstance(self.t_start, float) and self.t_start >= 1:
                raise SettingError(
                    "self_training: t_start must be a share of the run below 1.0 or a whole number "
                    f"of rounds, found {self.t_start!r}."
                )

    def begins(self, rounds: int) -> int | None:
        """Return the number of completed rounds from which the teacher is a mean."""
        return (
            int(self.t_start * rounds + 1e-9) if isinstance(self.t_start, float) else self.t_start
        )

    def after_round(
        self, state: Mapping[str, Tensor], model: Model, completed: int, rounds: int
    ) -> Mapping[str, Tensor]:
        """Update the teacher after a round."""
        if completed == 0:
            first = {"first": model.params, "first_buffers": model.buffers} if self.first else {}
            return {
                "teacher": model.params,
                "teacher_buffers": model.buffers,
                "averaged": torch.tensor(0),
                **first,
            }
        if completed % self.omega:
            return state
        n, start = int(state["averaged"]), self.begins(rounds)
        mean = start is not None and completed >= start
        params = torch.lerp(state["teacher"], model.params, 1 / (n + 1)) if mean else model.params
        more = {
            "teacher": params,
            "teacher_buffers": model.buffers,
            "averaged": torch.tensor(n + mean),
        }
        return {**state, **more}

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Send the teacher and the first model with the broadcast."""
        models = {name: tensor for name, tensor in context.state.items() if name != "averaged"}
        return send(broadcast.enclose(self.key, **models))


@method
def self_training(
    kd: Scalar = SelfTraining.kd,
    omega: int = Teaching.omega,
    t_start: int | float | None = Teaching.t_start,
    rule: str = SelfTraining.rule,
    mask: bool = SelfTraining.mask,
    sure: float = UNSURE,
    share: float = SHARE,
) -> Method:
    """FedAvg on images without labels, taught by its own averages.

    This is LADD's round without clusters.
    """
    client = SelfTraining(kd, rule, mask, sure, share)
    return Method(client=(client,), server=(Teaching(omega, t_start, first=kd != 0),))
