"""Scores that are corrected by the classes a client has: FedLC and FedRS.

Zhang et al., Federated Learning with Label Distribution Skew via Logits Calibration, ICML 2022
(FedLC). Li and Zhan, FedRS: Federated Learning with Restricted Softmax for Label Distribution
Non-IID Data, KDD 2021.

    FedLC   loss = CE(z_c - tau n_c^(-1/4), y)      a class without examples (n_c = 0) is left out
    FedRS   loss = CE(z_c alpha if n_c = 0 else z_c, y)

``n_c`` is the client's number of examples of class c. Only the training loss changes: other loss
terms and the evaluation use the scores ``z``.

FedRS's authors multiply the scores of all classes in their code, by ``alpha + (1 - alpha) n_c / max
n``: ``flavour="repo"``. The networks there have no bias in the last layer. One of two copies of that
code computes the factors of a step from those of the step before, so that they approach 1 during
local training; this is not offered.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedflat.client.distillation import check_classes
from fedflat.client.piece import ClientContext, ModelInfo, Term
from fedflat.composition.method import made_of
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.data.examples import Batch
from fedflat.errors import choice, number


class Calibration(Term):
    """Base class: scores that depend on the client's number of examples of each class."""

    def check(self, model_info: ModelInfo) -> None:
        """Refuse a task without classes."""
        check_classes(self.key, model_info)

    def scores(self, v: ClientContext, output: Tensor) -> Tensor:
        if "counts" not in v.scratch:
            v.scratch["counts"] = v.class_counts().to(output)
        return self.calibrated(v, output, v.scratch["counts"])

    @abstractmethod
    def calibrated(self, v: ClientContext, output: Tensor, counts: Tensor) -> Tensor:
        """Return the calibrated scores, given the number of examples of each class."""

    def loss(self, v: ClientContext, batch: Batch, output: Tensor, seen: Any) -> Tensor:
        """Return 0: nothing is added to the loss of the calibrated scores."""
        return output.new_zeros(())


@dataclass(frozen=True, repr=False)
class Margins(Calibration):
    """Subtracts ``tau n_c^(-1/4)`` from the score of class c.

    tau
        Strength of the calibration, at least 0.
    """

    tau: Scalar = 0.5

    key = "fedlc"

    def __post_init__(self) -> None:
        scalar("fedlc", "tau", self.tau)

    def calibrated(self, v: ClientContext, output: Tensor, counts: Tensor) -> Tensor:
        """Return ``z - tau n^(-1/4)``, minus infinity for absent classes."""
        margin = at(self.tau, v.round) * counts.clamp(min=1) ** -0.25
        return torch.where(counts > 0, output - margin, -torch.inf)


@dataclass(frozen=True, repr=False)
class RestrictedSoftmax(Calibration):
    """Multiplies the scores of absent classes by ``alpha``.

    alpha
        Factor from 0 to 1.
    flavour
        "paper"; or "repo", where the factor rises with the number of examples, as in the authors'
        code.
    """

    alpha: float = 0.5
    flavour: str = "paper"

    key = "fedrs"

    def __post_init__(self) -> None:
        number("fedrs", "alpha", self.alpha, low=0, high=1)
        choice("fedrs", "flavour", self.flavour, ["paper", "repo"])

    def calibrated(self, v: ClientContext, output: Tensor, counts: Tensor) -> Tensor:
        """Return ``z`` times the factor of each class."""
        known = counts > 0 if self.flavour == "paper" else counts / counts.max()
        return torch.lerp(self.alpha * output, output, known.to(output))


@made_of(Margins)
def fedlc() -> None:
    """Scores lowered by the rarity of a class at the client (Zhang et al., ICML 2022)."""


@made_of(RestrictedSoftmax)
def fedrs() -> None:
    """Smaller scores of classes that the client lacks (Li and Zhan, KDD 2021)."""
