"""Measures that a number of a table can be, besides a score of the run.

rounds, cost, speedup             what it took to reach a target score
lambda_1, ratio, trace            curvature of the model that the cell reports
local_lambda_1, global_lambda_1   lambda_1 of the models of a cohort's clients after local
                                  training, on their own data and on everyone's; the mean over
                                  the clients
"""

from __future__ import annotations

import re

from fedflat.errors import SettingError, shown
from fedflat.tasks.headline import Headline

TO_TARGET = {
    "rounds": Headline("rounds_to_target", "rounds to the target", higher_is_better=False),
    "cost": Headline("cost_to_target", "traffic to the target", "B", higher_is_better=False),
    "speedup": Headline("speedup", "speed-up", "x"),
}
"""Numbers about reaching a target, by measure.

B is all that the reference sends and receives in all of its rounds. The speed-up is the number of
rounds of the reference, divided by the rounds to the target.
"""
FLATNESS = {
    "lambda_1": Headline("lambda_1", higher_is_better=False),
    "ratio": Headline("ratio", "lambda_1/lambda_5", higher_is_better=False),
    "trace": Headline("trace", "trace of the Hessian", higher_is_better=False),
    "local_lambda_1": Headline(
        "local_lambda_1", "clients' lambda_1, own data", higher_is_better=False
    ),
    "global_lambda_1": Headline(
        "global_lambda_1", "clients' lambda_1, all data", higher_is_better=False
    ),
}
"""Numbers about curvature, by measure."""
OF_CLIENTS = ("local_lambda_1", "global_lambda_1")
"""Those that belong to clients' models."""
SETS = ("test", "train")
"""Examples on which the curvature of a model can be measured."""


def reference(target: float | str | None) -> tuple[float, str]:
    """Return factor and name of the cell whose score is the target; no name for a number.

    >>> reference("0.7*fedseq/cifar10-alpha0-centralised"), reference("toy/fedavg"), reference(50.0)
    ((0.7, 'fedseq/cifar10-alpha0-centralised'), (1.0, 'toy/fedavg'), (1.0, ''))
    """
    if not isinstance(target, str):
        return 1.0, ""
    factor, star, name = target.partition("*")
    if not star:
        return 1.0, target.strip()
    if not re.fullmatch(r"\s*\d*\.?\d+\s*", factor) or not float(factor) or not name.strip():
        raise SettingError(
            "reproduce: a target is a number, the name of a cell, or a factor and a name such as "
            f"0.7*centralised, found {shown(target)}."
        )
    return float(factor), name.strip()
