"""A trial step before the first round refuses what cannot be trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedflat.client.learner import Learner
from fedflat.client.preflight import check_training_step
from fedflat.data.examples import ClientData
from fedflat.data.sets.in_memory import clients_of
from fedflat.errors import SettingError

DATA = [(torch.randn(5, 4, generator=torch.Generator().manual_seed(0)), torch.arange(5) % 3)]
FED = clients_of(DATA, test=DATA[0], classes=3).open(0)


class Keeping(nn.Module):
    """A linear layer and a buffer that ``move`` moves."""

    def __init__(self, buffer: Tensor, move: Callable[[Any, Tensor], None]) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.register_buffer("kept", buffer)
        self.move = move

    def forward(self, x: Tensor) -> Tensor:
        self.move(self, x)
        return self.fc(x)


def count(net: Keeping, x: Tensor) -> None:
    if net.training:
        net.kept += 1


def grow(net: Keeping, x: Tensor) -> None:
    if net.training:
        net.kept = torch.cat([net.kept, net.kept])


def always(net: Keeping, x: Tensor) -> None:
    net.kept = 0.9 * net.kept + 0.1 * x.mean(0)


def register(net: Keeping, x: Tensor) -> None:
    net.register_buffer("late", torch.zeros(2))


def refusal(model: Any, **more: Any) -> str:
    with pytest.raises(SettingError) as caught:
        check_training_step(Learner(model, (4,), 3, **{"seed": 0, **more}), FED)
    return str(caught.value)


@pytest.mark.parametrize(
    ("buffer", "move", "message"),
    [
        (
            torch.zeros(1, dtype=torch.long),
            count,
            "'kept' holds torch.int64 and changes in training",
        ),
        (torch.zeros(2), grow, "'kept' must keep its shape (2,) in training, found (4,)"),
        (torch.zeros(4), always, "'kept' changes in evaluation"),
        (torch.zeros(4), register, "adds or drops the buffers late"),
    ],
)
def test_buffers_that_cannot_be_averaged_are_refused(
    buffer: Tensor, move: Callable[[Any, Tensor], None], message: str
) -> None:
    assert message in refusal(Keeping(buffer, move))


def test_the_counter_of_a_batch_normalisation_may_count() -> None:
    check_training_step(
        Learner(nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3)), (4,), 3, seed=0), FED
    )


def test_whole_numbers_that_stay_put_may_stay() -> None:
    check_training_step(
        Learner(Keeping(torch.arange(3), lambda net, x: None), (4,), 3, seed=0), FED
    )


def test_complex_parameters_and_buffers_are_refused() -> None:
    class Waves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4, 3, dtype=torch.complex64))

        def forward(self, x: Tensor) -> Tensor:
            return (x.to(self.weight.dtype) @ self.weight).real

    assert "'weight' holds complex numbers, whose imaginary part would be lost" in refusal(Waves())
    assert "'kept' holds complex numbers" in refusal(
        Keeping(torch.zeros(2, dtype=torch.complex64), count)
    )


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        (lambda output, y: cross_entropy(output, y, reduction="none"), "torch.float32, shape (2,)"),
        (lambda output, y: 0.5, "0.5"),
        (lambda output, y: (output.argmax(1) == y).sum(), "torch.int64, shape ()"),
        (lambda output, y: output.detach().mean(), "does not depend on the model's parameters"),
        (lambda output, y: output.nothing, "has no attribute 'nothing'"),
    ],
)
def test_a_loss_that_gives_no_number_to_learn_from_is_refused(loss: Any, found: str) -> None:
    assert found in refusal(nn.Linear(4, 3), loss=loss)


def test_outputs_that_are_no_tensor_are_refused_whatever_the_loss() -> None:
    assert "into tuple; it must give one tensor" in refusal(
        nn.LSTM(4, 3), loss=lambda output, y: output[0].sum()
    )


def test_a_graph_kept_from_step_to_step_is_found() -> None:
    def loss(output: Tensor, y: Tensor, kept: list[Tensor] = []) -> Tensor:  # noqa: B006
        kept.append(output.square().sum())
        return torch.stack(kept).sum()

    assert "cannot be trained" in refusal(nn.Linear(4, 3), loss=loss)


def test_a_set_without_test_examples_is_refused() -> None:
    nothing = replace(FED, test=ClientData(FED.test.examples, torch.arange(0)))
    with pytest.raises(SettingError, match="at least one example to test on, found none"):
        check_training_step(Learner(nn.Linear(4, 3), (4,), 3, seed=0), nothing)


def test_the_step_leaves_no_trace() -> None:
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 3))
    learner = Learner(model, (4,), 3, seed=0)
    before, weights = (
        torch.random.get_rng_state(),
        nn.utils.parameters_to_vector(model.parameters()).clone(),
    )
    check_training_step(learner, FED)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(nn.utils.parameters_to_vector(model.parameters()), weights)
    assert int(model[0].num_batches_tracked) == int(learner.flat.module[0].num_batches_tracked) == 0
