"""A client's visit as a plain loop with torch's own optimiser, and a run that is watched."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from fedflat.client.local import Local
from fedflat.data.sampling import Sampler
from fedflat.executors.crew import Executor
from fedflat.executors.in_process import InProcess
from fedflat.folder.diary import Row
from fedflat.models.simple import mlp
from fedflat.observe import as_listener
from fedflat.running.crowd import members
from fedflat.running.experiment import Evaluate, Experiment
from fedflat.running.prepare import make_ready
from fedflat.running.run_folder import RunBook
from fedflat.running.state import Run
from fedflat.running.train import train
from running.small import data
from running.small import experiment as small

ALL = "drift,alignment,norms,features,classes,delta_eps,client_lambda"


def experiment(method: str = "fedavg", **more: Any) -> Experiment:
    """Four rounds in float64, two epochs a visit; the second and the fourth are evaluated."""
    settings: dict[str, Any] = {
        "model": mlp([3]), "rounds": 4, "dtype": "float64", "sampler": Sampler(clients=3),
        "local": Local(epochs=2, batch_size=4, lr=0.05), "evaluate": Evaluate(every=2, last=1),
    }  # fmt: skip
    return small(method, **{**settings, **more})


class Diary(RunBook):
    """Keeps the models, the first one too."""

    def __init__(self, exp: Experiment) -> None:
        super().__init__()
        self.models: list[Tensor] = [make_ready(exp).learner.initial().params]

    def checkpoint(self, run: Run, *, force: bool = False) -> None:
        if not force:
            self.models.append(run.model.params)


def watch(exp: Experiment, what: str | None, executor: Executor = InProcess(threads=1)) -> Diary:
    book = Diary(exp)
    train(exp, book=book, executor=executor, listening=as_listener(what))
    return book


def seen(book: RunBook, name: str) -> dict[int, Any]:
    """What was seen of one thing, by round."""
    return {row["round"]: row[name] for row in book.watched if name in row}


def examples(client: int) -> tuple[Tensor, Tensor]:
    """A client's data, in float64."""
    fed = data().open(0)
    batch = fed.data(client).batch(torch.arange(len(fed.data(client))), torch.float64)
    return batch.inputs, batch.targets


def module_at(exp: Experiment, w: Tensor) -> nn.Module:
    module = copy.deepcopy(make_ready(exp).learner.flat.module).double()
    vector_to_parameters(w.clone(), module.parameters())
    return module


def walk(exp: Experiment, t: int, client: int, sent: Tensor) -> list[Tensor]:
    """Where a client of FedAvg stands after each of its steps."""
    module, (x, y) = module_at(exp, sent), examples(client)
    sgd = torch.optim.SGD(module.parameters(), lr=0.05)
    points = []
    for places in exp.local.batches(exp.seed, t, client, len(x)):
        sgd.zero_grad()
        cross_entropy(module(x[places]), y[places]).backward()
        sgd.step()
        points.append(parameters_to_vector(module.parameters()).detach().clone())
    return points


def cohort(exp: Experiment, t: int) -> list[int]:
    ready = make_ready(exp)
    return members(ready.asked(t))


def rows_of(book: RunBook) -> list[Row]:
    return [{key: value for key, value in row.items() if key not in ("training", "seconds")} for row in book.rows]
