"""Every row of the common table in real worker processes: the same bits as in one process. Takes
minutes."""

from __future__ import annotations

import pytest
import torch

from fedflat.execution.in_process import InProcess
from fedflat.execution.workers import Workers
from fedflat.experiments.train import train
from test_every_method import EVERY, experiment, method_of


@pytest.mark.slow
@pytest.mark.parametrize("text", EVERY)
def test_the_same_bits_in_two_workers(text: str) -> None:
    exp = experiment(method_of(text))
    here, there = train(exp, executor=InProcess(1)), train(exp, executor=Workers(2))
    assert here.model is not None
    assert there.model is not None
    assert torch.equal(here.model.params, there.model.params)
    assert torch.equal(here.model.buffers, there.model.buffers)
