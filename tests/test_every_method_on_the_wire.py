"""Every row of the common table through the wire form: the same bits as in this process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn

from experiments.small import timeless
from fedflat.client.training import Request
from fedflat.core.failures import ClientFailure
from fedflat.core.messages import Reply
from fedflat.data.federation import DataSpec, Federation
from fedflat.deploy.envelope import ReplyForm
from fedflat.execution.client_pool import PoolOutcome
from fedflat.execution.in_process import InProcess
from fedflat.execution.loopback import LoopbackPool
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.job_spec import Loopback
from fedflat.experiments.train import train
from fedflat.models.spec import ModelSpec
from fedflat.registry import specs as spelling
from fedflat.registry.specs import register
from test_every_method import EVERY, experiment, method_of


@dataclass(frozen=True, repr=False)
class NormalisedMlp(ModelSpec):
    """A small network with batch normalisation, that can be given as text."""

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return nn.Sequential(
            nn.Flatten(), nn.Linear(64, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, classes)
        )


@dataclass(frozen=True, repr=False)
class CommonTable(DataSpec):
    """The data of a row of the common table, that can be given as text."""

    row: str

    def open(self, seed: int) -> Federation:
        return experiment(method_of(self.row)).on.open(seed)


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    """Both names are registered only while a test here runs."""
    made = {"normalised_mlp": ("model", NormalisedMlp), "common_table": ("data set", CommonTable)}
    for name, (kind, cls) in made.items():
        register(kind, name)(cls)
    yield
    for name, (_, cls) in made.items():
        spelling._REGISTRY.pop(name, None), spelling._NAMES.pop(cls, None)


def experiment_of(text: str) -> Experiment:
    """A row of the table on data and with a model that can be given as text."""
    exp = experiment(method_of(text))
    model = exp.model if isinstance(exp.model, ModelSpec) else NormalisedMlp()
    return replace(exp, on=CommonTable(text), model=model, rounds=2)


@pytest.mark.slow
@pytest.mark.parametrize("text", EVERY)
def test_the_same_bits_through_the_wire(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exp, answer, answers = experiment_of(text), LoopbackPool.answer, list[PoolOutcome]()
    forms: dict[LoopbackPool, ReplyForm] = {}

    def checked(pool: LoopbackPool, request: Request) -> PoolOutcome:
        """A deployment would take the reply."""
        answers.append(answer(pool, request))
        assert not isinstance(answers[-1], ClientFailure)
        form = forms.setdefault(pool, ReplyForm.of(pool.runtime.job))
        reply = answers[-1][0]
        assert isinstance(reply, Reply)
        form.check(reply, request.broadcast, str(request.client))
        return answers[-1]

    monkeypatch.setattr(LoopbackPool, "answer", checked)
    here, there = train(exp, executor=InProcess(1)), train(exp, executor=Loopback())
    assert answers
    assert here.model is not None
    assert there.model is not None
    assert torch.equal(here.model.params, there.model.params)
    assert torch.equal(here.model.buffers, there.model.buffers)
    assert timeless(here.rows) == timeless(there.rows)
