"""Loss and accuracy of a model."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import fedflat as ff
from experiments.small import data, experiment
from fedflat.client.evaluate import BATCH
from fedflat.client.evaluate import scores as scores_of
from fedflat.experiments.evaluator import score
from fedflat.experiments.prepare import prepare


def large(count: int = 3 * BATCH // 2) -> ff.data.DataSpec:  # type: ignore[name-defined]
    rng = torch.Generator().manual_seed(1)
    x, y = torch.randn(count, 4, generator=rng), torch.randint(3, (count,), generator=rng)
    return ff.tensors(x[:20], y[:20], x, y, clients=2)


def test_the_mean_over_all_examples() -> None:
    """The last batch is short; every example counts alike."""
    setup = prepare(experiment(on=large(), dtype="float64"))
    model = setup.job.learner.initial()
    scores = {name: score(setup.job.learner, setup.fed, model) for name in "ab"}
    assert scores["a"] == scores["b"]
    setup.job.learner.flat.load(model.params)
    examples = setup.fed.test.examples
    output = setup.job.learner.flat.forward(examples.inputs.double())
    assert scores["a"]["loss"] == pytest.approx(
        float(cross_entropy(output, examples.targets)), abs=1e-12
    )
    assert scores["a"]["accuracy"] == pytest.approx(
        float((output.argmax(1) == examples.targets).double().mean())
    )
    assert "clients" not in scores["a"]


def test_each_model_is_judged_as_itself() -> None:
    setup = prepare(experiment())
    one = setup.job.learner.initial()
    other = type(one)(one.params + 1, one.buffers)
    first, second = (score(setup.job.learner, setup.fed, model) for model in (one, other))
    assert first != second
    assert score(setup.job.learner, setup.fed, one) == first


class Moody(nn.Module):
    """Different in training."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.drop(x))


def test_without_dropout() -> None:
    setup = prepare(experiment(model=Moody))
    setup.job.learner.flat.module.train()
    model = setup.job.learner.initial()
    first = score(setup.job.learner, setup.fed, model)
    assert score(setup.job.learner, setup.fed, model) == first


def test_outputs_that_are_no_classes_have_a_loss_only() -> None:
    exp = experiment(
        model=lambda: nn.Linear(4, 1), loss=lambda output, y: (output[:, 0] - y).pow(2).mean()
    )
    setup = prepare(exp)
    assert list(scores_of(setup.job.learner, setup.fed.test)) == ["loss"]
    row = ff.train(exp).rows[-1]
    assert "accuracy" not in row
    assert row["loss"] > 0


def test_the_clients_own_tests() -> None:
    """The mean of the clients' accuracies, each on what it held out, a small client counting as
    much as a large one."""
    exp = ff.experiment(
        "fedavg",
        "digits(quantity_skew(1.0), clients=8, split=0.7)",
        rounds=2,
        clients_per_round=8,
        lr=0.5,
        eval_last=2,
    )
    result = ff.train(exp)
    setup = prepare(exp)
    setup.job.learner.flat.load(result.model.params)
    shares, sizes = [], []
    for client in range(8):
        held = setup.fed.own_test(client)
        trained = setup.fed.data(client)
        assert not set(held.index.tolist()) & set(trained.index.tolist())
        x, y = held.examples.inputs[held.index], held.examples.targets[held.index]
        shares.append(float((setup.job.learner.flat.forward(x).argmax(1) == y).double().mean()))
        sizes.append(len(y))
    assert len(set(sizes)) > 1
    assert result.rows[-1]["clients"] == pytest.approx(sum(shares) / 8)
    assert result.rows[-1]["clients"] != result.rows[-1]["accuracy"]
    assert result.final("clients") == pytest.approx(sum(row["clients"] for row in result.rows) / 2)


def test_data_without_held_out_parts_have_no_such_score() -> None:
    assert "clients" not in ff.train(experiment(on=data(), rounds=1)).rows[0]
