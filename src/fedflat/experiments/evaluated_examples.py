"""Evaluation on some examples of each test set (``eval_examples``)."""

from __future__ import annotations

from dataclasses import replace

import torch

from fedflat.client.piece import eval_model_piece
from fedflat.client.training import ClientJob
from fedflat.data.examples import ClientData
from fedflat.data.federation import Federation, owners_of_tests
from fedflat.errors import SettingError
from fedflat.experiments.experiment import Experiment
from fedflat.tasks.task import Task


def with_fewer_tests(fed: Federation, count: int | None) -> Federation:
    """The federation with ``count`` random examples of each test set; None: with all."""
    if count is None:
        return fed
    more = {name: drawn(data, count) for name, data in fed.more.items()}
    return replace(fed, test=drawn(fed.test, count), more=more)  # type: ignore[type-var]


def drawn(data: ClientData, count: int) -> ClientData:
    """Random examples in their order, always the same; all if there are not more."""
    if count >= len(data):
        return data
    places = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))[:count]
    return replace(data, index=data.index[places.sort().values.to(data.index.device)])


def check_evaluated(exp: Experiment, fed: Federation, job: ClientJob) -> None:
    """Refuse to leave out test examples that the evaluation of others needs."""
    if exp.evaluate.examples is None:
        return
    why = ""
    if exp.task.reference or type(exp.task).reference_rows is not Task.reference_rows:
        why = f"the task {exp.task} compares test examples with each other"
    piece = eval_model_piece(job.pieces)
    if piece is not None and owners_of_tests(fed) is not None:
        why = f"{piece} evaluates each test example with the model of its client"
    if why:
        raise SettingError(
            f"run: eval_examples={exp.evaluate.examples} cannot be used, since {why}. Leave it out, "
            "and evaluate less often: --eval-every."
        )
