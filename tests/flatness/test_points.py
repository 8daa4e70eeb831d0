"""Losses at many points: right, resumable, and with the running statistics one asks for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import fedflat as ff
from fedflat.client.learner import Learner
from fedflat.data.examples import ClientData, Examples
from fedflat.errors import SettingError
from fedflat.flatness.points import (
    BATCH,
    Value,
    as_columns,
    by_name,
    losses,
    refuse_incomparable,
    rows,
    split_batches,
)
from quadratic import Quadratic, mean_value


def examples(count: int, shape: tuple[int, ...] = (4,), classes: int = 3) -> ClientData:
    rng = torch.Generator().manual_seed(count)
    x, y = (
        torch.randn(count, *shape, generator=rng),
        torch.randint(classes, (count,), generator=rng),
    )
    return ClientData(Examples(x, y, classes), torch.arange(count))


def toy(w: tuple[float, float] = (3.0, 2.0)) -> tuple[Learner, ClientData]:
    """F, the mean of f_1 and f_2 of the toy problem Q."""
    rows_of_q = torch.tensor([[2.0, 0, 0, 1, 1, -1], [1, 0, 0, 4, 0, 1]], dtype=torch.float64)
    data = ClientData(Examples(rows_of_q, torch.zeros(2, dtype=torch.long), 1), torch.arange(2))
    return Learner(Quadratic(np.array(w)), (6,), 1, seed=0, loss=mean_value, dtype="float64"), data


def by_hand(learner: Learner, params: Tensor, data: ClientData) -> tuple[float, float]:
    module = learner.module().double()
    nn.utils.vector_to_parameters(params.double(), module.parameters())
    module.eval()
    chosen = data.examples.inputs[data.index].double()
    with torch.no_grad():
        output = module(chosen)
    y = data.labels
    return float(cross_entropy(output, y)), float((output.argmax(1) != y).double().mean())


def test_the_toy_problem_at_its_start_and_its_minimum() -> None:
    learner, data = toy()
    found = list(
        losses(
            learner, torch.empty(0), [torch.tensor([3.0, 2.0]), torch.tensor([2 / 3, 3 / 5])], data
        )
    )
    assert found[0] == Value(7.5, None)
    assert found[1].loss == pytest.approx(29 / 30, abs=1e-7)


def test_every_example_counts_alike() -> None:
    """Several batches that cannot be of equal size, of a part of the examples."""
    learner = Learner(ff.mlp([5]), (4,), 3, seed=0, dtype="float64")
    data = examples(2 * BATCH + 44)
    part = ClientData(
        data.examples,
        torch.randperm(len(data), generator=torch.Generator().manual_seed(5))[: 2 * BATCH + 1],
    )
    points = [learner.initial().params + shift for shift in (0.0, 0.5, -2.0)]
    for value, point in zip(losses(learner, torch.empty(0), points, part), points, strict=True):
        loss, error = by_hand(learner, point, part)
        assert value.loss == pytest.approx(loss, abs=1e-12)
        assert value.error == pytest.approx(error, abs=1e-12)


def test_images_are_normalised_and_may_lie_in_any_order() -> None:
    rng = torch.Generator().manual_seed(0)
    x, y = torch.randint(256, (9, 3, 16, 16), generator=rng, dtype=torch.uint8), torch.arange(9)
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.3, 0.1)
    data = ClientData(Examples(x, y, 10, mean, std), torch.arange(9))
    learner = Learner(ff.cnn(), (3, 16, 16), 10, seed=0, dtype="float64")
    (value,) = losses(learner, torch.empty(0), [learner.initial().params], data)
    m, s = (torch.tensor(c, dtype=torch.float64).view(1, 3, 1, 1) for c in (mean, std))
    setup = ClientData(Examples((x.double() / 255 - m) / s, y, 10), torch.arange(9))
    assert value.loss == pytest.approx(
        by_hand(learner, learner.initial().params, setup)[0], abs=1e-12
    )


def test_no_batch_is_much_smaller_than_the_others() -> None:
    sizes = [len(batch) for batch in split_batches(toy()[0], examples(2 * BATCH + 1))]
    assert sum(sizes) == 2 * BATCH + 1
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= BATCH


def test_the_data_are_cut_once_however_many_points() -> None:
    class Counting(ClientData):
        calls = 0

        def batch(self, *args: object) -> object:  # type: ignore[override]
            Counting.calls += 1
            return super().batch(*args)  # type: ignore[arg-type]

    data = examples(10)
    learner = Learner(ff.mlp([5]), (4,), 3, seed=0)
    points = [learner.initial().params] * 7
    assert (
        len(set(losses(learner, torch.empty(0), points, Counting(data.examples, data.index)))) == 1
    )
    assert Counting.calls == 1


def test_stopped_and_resumed() -> None:
    learner, data = Learner(ff.mlp([5]), (4,), 3, seed=0), examples(30)
    asked: list[int] = []

    class Lazy:
        def __len__(self) -> int:
            return 6

        def __getitem__(self, place: int, /) -> Tensor:
            asked.append(place)
            return learner.initial().params * (1 + place)

    whole = list(losses(learner, torch.empty(0), Lazy(), data))
    asked.clear()
    messages: list[tuple[int, int, str]] = []
    values = losses(
        learner, torch.empty(0), Lazy(), data, on_progress=lambda *message: messages.append(message)
    )
    found = [next(values), next(values)]
    assert asked == [0, 1]
    values.close()
    learner.flat.load(
        torch.zeros(learner.flat.layout.dim)
    )  # somebody else uses the module in between
    found += losses(
        learner,
        torch.empty(0),
        Lazy(),
        data,
        start=len(found),
        on_progress=lambda *message: messages.append(message),
    )
    assert found == whole
    assert asked == [0, 1, 2, 3, 4, 5]
    assert messages == [(place, 6, "points") for place in range(1, 7)]


def test_two_clients_at_once_do_not_disturb_each_other() -> None:
    learner, data = Learner(ff.mlp([5]), (4,), 3, seed=0), examples(30)
    w = learner.initial().params
    one, other = ([w * k for k in factors] for factors in ((1.0, 2.0), (3.0, 4.0)))
    alone = list(losses(learner, torch.empty(0), one, data))
    pairs = zip(
        losses(learner, torch.empty(0), one, data),
        losses(learner, torch.empty(0), other, data),
        strict=True,
    )
    assert [first for first, _ in pairs] == alone


def normalised() -> Learner:
    def layers() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))

    return Learner(layers, (4,), 3, seed=0, dtype="float64")


def test_running_statistics_stay_as_given() -> None:
    learner, data = normalised(), examples(50)
    model = learner.initial()
    buffers = torch.cat([torch.full((6,), 0.25), torch.full((6,), 2.0)]).double()
    found = list(losses(learner, buffers, [model.params, model.params], data))
    w1, b1, scale, shift, w2, b2 = model.params.split([24, 6, 6, 6, 18, 3])
    x = data.examples.inputs.double() @ w1.view(6, 4).T + b1
    x = torch.relu((x - 0.25) / (2 + 1e-5) ** 0.5 * scale + shift)
    expected = float(cross_entropy(x @ w2.view(3, 6).T + b2, data.labels))
    assert [value.loss for value in found] == pytest.approx([expected] * 2, abs=1e-12)
    assert torch.equal(learner.flat.buffers, buffers)


@pytest.mark.parametrize("count", [50, BATCH + 1])
def test_running_statistics_estimated_at_each_point(count: int) -> None:
    """The mean over batches of the batch's mean and unbiased variance, each weighted by its
    size."""
    learner, data = normalised(), examples(40)
    statistics = examples(count)
    point = learner.initial().params * 3
    wrong = torch.full((12,), 7.0, dtype=torch.float64)
    (value,) = losses(learner, wrong, [point], data, statistics=statistics)
    w1, b1 = point.split([24, 6, 33])[:2]
    hidden = [batch.inputs @ w1.view(6, 4).T + b1 for batch in split_batches(learner, statistics)]
    mean = sum(len(h) * h.mean(0) for h in hidden) / count
    variance = sum(len(h) * h.var(0) for h in hidden) / count
    expected = next(losses(learner, torch.cat([mean, variance]), [point], data))
    assert value.loss == pytest.approx(expected.loss, abs=1e-12)
    assert learner.flat.module[1].momentum == 0.1  # type: ignore[index]


def test_a_loss_that_overflows_is_none() -> None:
    learner, data = Learner(ff.mlp([5]), (4,), 3, seed=0), examples(10)
    far = torch.full((learner.flat.layout.dim,), 1e30)
    (value,) = losses(learner, torch.empty(0), [far], data)
    assert value.loss is None
    assert value.error is not None


def test_refusals() -> None:
    learner, data = toy()
    with pytest.raises(SettingError, match="the point has 3 parameters, but the model has 2"):
        list(losses(learner, torch.empty(0), [torch.zeros(3)], data))
    empty = ClientData(data.examples, torch.arange(0))
    with pytest.raises(SettingError, match="has no examples"):
        list(losses(learner, torch.empty(0), [torch.zeros(2)], empty))
    with pytest.raises(SettingError, match="b has parameters that are NaN"):
        refuse_incomparable("plane", {"a": torch.zeros(2), "b": torch.tensor([0.0, float("nan")])})
    with pytest.raises(
        SettingError,
        match=r"a has 2 parameters and b has 1,200\. Choose models of one architecture",
    ):
        refuse_incomparable("plane", {"a": torch.zeros(2), "b": torch.zeros(1200)})


def test_values_as_lists_names_and_rows() -> None:
    """Values may come back from JSON as plain lists; a learner without classes has no errors."""
    values = [[1.0, 0.5], [2.0, 0.25], [None, 0.75], [4.0, 1.0]]
    assert as_columns(values) == {"loss": [1.0, 2.0, None, 4.0], "error": [0.5, 0.25, 0.75, 1.0]}
    assert rows(values, 2) == {
        "loss": [[1.0, 2.0], [None, 4.0]],
        "error": [[0.5, 0.25], [0.75, 1.0]],
    }
    assert by_name(Value(3.0)) == {"loss": 3.0}
