"""The local loop never waits for the device.

The device "meta" computes shapes and holds no numbers: to read one (`.item()`, `float()`, `if` on a
tensor, a copy to the host, indexing with a mask) is an error there. On a GPU each of these would
make the host wait for the device. The parameters stay where they are in memory during a whole run,
as a recorded graph of a GPU needs.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from client.shadowing import WAITS, Shadowing
from fedflat.experiments.train import train
from test_every_method import EVERY, experiment, method_of


@pytest.mark.parametrize("text", [text for text in EVERY if not text.startswith(tuple(WAITS))])
def test_no_number_is_read_during_local_training(text: str) -> None:
    shadowing = Shadowing()
    train(replace(experiment(method_of(text)), rounds=2), executor=shadowing)
    assert shadowing.trainings >= 2


def test_the_check_can_fail() -> None:
    with pytest.raises(RuntimeError, match="meta"):
        float(torch.zeros(1, device="meta"))
    with pytest.raises(RuntimeError, match="meta"):
        torch.zeros(1, device="meta").to("cpu")


@pytest.mark.parametrize("name", WAITS)
def test_the_exceptions_are_exceptions(name: str) -> None:
    (text,) = [text for text in EVERY if text.startswith(name) and "personal" not in text]
    with pytest.raises(RuntimeError, match=r"[mM]eta"):
        train(replace(experiment(method_of(text)), rounds=3), executor=Shadowing())
