"""The learner: initial weights by the seed, opened once, checked against the data."""

from __future__ import annotations

import pickle
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedflat.client.learner import Learner
from fedflat.client.preflight import check_training_step
from fedflat.data.examples import Batch
from fedflat.data.sets.in_memory import clients_of
from fedflat.errors import SettingError
from fedflat.models.simple import mlp

DATA = [(torch.randn(5, 4, generator=torch.Generator().manual_seed(0)), torch.arange(5) % 3)]
FED = clients_of(DATA, test=DATA[0], classes=3).open(0)


def learner(model: object, **more: object) -> Learner:
    return Learner(model, (4,), 3, **{"seed": 0, **more})  # type: ignore[arg-type]


def test_a_module_is_drawn_by_the_seed_and_nothing_else() -> None:
    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)
    one = learner(mlp([3])).initial().params
    assert torch.equal(torch.rand(2), expected)
    assert torch.equal(one, learner(mlp([3])).initial().params)
    assert not torch.equal(one, learner(mlp([3]), seed=1).initial().params)
    factory = partial(nn.Linear, 4, 3)
    assert torch.equal(learner(factory).initial().params, learner(factory).initial().params)
    assert not torch.equal(
        learner(factory).initial().params, learner(factory, seed=1).initial().params
    )


def test_a_module_given_keeps_its_weights() -> None:
    mine = nn.Linear(4, 3)
    expected = nn.utils.parameters_to_vector(mine.parameters()).detach()
    assert torch.equal(learner(mine, seed=9).initial().params, expected)
    assert learner(mine, dtype="float64").initial().params.dtype == torch.float64


def test_a_task_travels_without_its_module() -> None:
    here = learner(mlp([3]))
    here.flat.load(torch.zeros(here.flat.layout.dim))
    there = pickle.loads(pickle.dumps(here))
    assert "flat" not in vars(there)
    assert torch.equal(there.initial().params, here.initial().params)


def test_the_first_gradient_of_a_step_moves_statistics_the_second_does_not() -> None:
    flat = learner(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)))
    batch = Batch(*DATA[0])
    w = flat.initial().params
    oracle = flat.oracle(batch, [])
    oracle(w)
    once = flat.flat.buffers
    assert not torch.equal(once, flat.initial().buffers)
    loss = oracle.loss
    oracle(w + 1)
    assert torch.equal(flat.flat.buffers, once)
    assert oracle.loss is loss  # the loss of a step is that at the point it starts from


def test_the_loss_is_the_users() -> None:
    def largest(output: Tensor, y: Tensor) -> Tensor:
        return output.max()

    mine = learner(nn.Linear(4, 3), loss=largest)
    batch = Batch(*DATA[0])
    assert mine.mean(torch.tensor([[1.0, 7.0]]), batch) == (7, len(batch))
    plain = learner(nn.Linear(4, 3))
    output = torch.randn(5, 3)
    assert torch.equal(plain.mean(output, batch)[0], cross_entropy(output, batch.targets))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Linear(9, 3), "cannot take inputs of shape"),
        (
            nn.Linear(4, 2),
            "gives 2 class scores, but the labels go up to 2. Make its last layer 3 wide",
        ),
        (nn.Sequential(nn.Linear(4, 3), nn.Flatten(0)), "one row of class scores for each example"),
        (nn.LSTM(4, 3), "into tuple"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(model: nn.Module, message: str) -> None:
    with pytest.raises(SettingError) as caught:
        check_training_step(learner(model), FED)
    assert message in str(caught.value)
    check_training_step(learner(nn.Linear(4, 3)), FED)
    check_training_step(learner(nn.Linear(4, 7)), FED)
