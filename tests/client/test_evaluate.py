"""Evaluation gives the same scores in both memory formats."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedflat.client.evaluate import BATCH, headline, scores
from fedflat.client.learner import Learner
from fedflat.data.examples import ClientData, Examples


class Viewing(nn.Module):
    """Flattens as many modules do, in a way that asks for one order of memory."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv2d(3, 4, 3), nn.Linear(4 * 4 * 4, 5)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.out(self.conv(x).relu().view(len(x), -1))
        return scores


def flattening() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 4 * 4, 5))


@pytest.mark.parametrize(("model", "last"), [(Viewing, False), (flattening, True)])
def test_images_lie_as_the_module_takes_them(model: type[nn.Module], last: bool) -> None:
    rng = torch.Generator().manual_seed(0)
    x, y = (
        torch.randn(BATCH + 9, 3, 6, 6, generator=rng),
        torch.randint(5, (BATCH + 9,), generator=rng),
    )
    learner = Learner(model, (3, 6, 6), 5, seed=0)
    data = ClientData(Examples(x, y, 5), torch.arange(len(x)))
    assert learner.channels_last is last
    assert learner.in_memory_format(x).is_contiguous(memory_format=torch.channels_last) is last
    found = scores(learner, data)
    with torch.no_grad():
        output = learner.module()(x)
    assert found["loss"] == pytest.approx(float(cross_entropy(output, y)), rel=1e-5)
    assert (
        found["accuracy"]
        == headline(learner, data)
        == float((output.argmax(1) == y).double().mean())
    )


def test_other_inputs_stay_as_they_are() -> None:
    learner, x = Learner(lambda: nn.Linear(4, 2), (4,), 2, seed=0), torch.ones(3, 4)
    assert learner.in_memory_format(x) is x
