"""Regression: squared error, its root, and R2."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedflat.data.examples import Batch, leading
from fedflat.data.federation import Federation
from fedflat.errors import SettingError
from fedflat.registry.specs import register
from fedflat.tasks.headline import Headline
from fedflat.tasks.task import Task

RMSE = Headline("rmse", label="RMSE", higher_is_better=False)


@dataclass(frozen=True, repr=False)
class Regression(Task):
    """One or more numbers per example. The headline score is the root mean squared error."""

    headline = RMSE

    def outputs(self, fed: Federation) -> int:
        """One output per target of an example."""
        return leading(fed.test.examples.targets).shape[1:].numel()

    def check(self, fed: Federation, output: Any, batch: Batch) -> None:
        """Refuse outputs without one number per target."""
        super().check(fed, output, batch)
        targets = batch.labels
        if (
            not targets.is_floating_point()
            or output.shape[0] != len(targets)
            or output.numel() != targets.numel()
        ):
            raise SettingError(
                f"regression: the model gives {tuple(output.shape)} for targets of "
                f"{tuple(targets.shape)}, {targets.dtype}; targets must be floats, with one "
                "output for each. Make the last layer as wide as an example has targets."
            )

    def loss(self, output: Tensor, batch: Batch) -> tuple[Tensor, int]:
        """Summed squared error and the number of targets."""
        return (
            output.reshape(batch.targets.shape) - batch.targets
        ).square().sum(), batch.targets.numel()

    def meter(self, outputs: int) -> RegressionMeter:
        return RegressionMeter()


class RegressionMeter:
    """Sums up squared errors and keeps the targets, because R2 needs their mean."""

    def __init__(self) -> None:
        self.errors: list[Tensor] = []
        self.targets: list[Tensor] = []

    def add(self, output: Tensor, batch: Batch) -> None:
        targets = batch.targets.double().reshape(len(batch.targets), -1)
        self.errors.append((output.double().reshape(targets.shape) - targets).square().sum(0).cpu())
        self.targets.append(targets.cpu())

    def scores(self) -> dict[str, float]:
        """The root mean squared error, and R2: 1 - errors / spread, the mean over targets."""
        if not self.targets:
            return {RMSE.name: math.nan, "r2": math.nan}
        errors, targets = torch.stack(self.errors).sum(0), torch.cat(self.targets)
        spread = (targets - targets.mean(0)).square().sum(0)
        rmse = math.sqrt(float(errors.sum()) / targets.numel())
        return {RMSE.name: rmse, "r2": float((1 - errors / spread).mean())}


regression = register("task", "regression")(Regression)
