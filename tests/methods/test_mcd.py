"""MCD: the term against a derivation by hand, the data it needs, and that target labels play no
part."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import fedflat as ff
from fedflat.client.learner import Learner
from fedflat.data.batch import Batch
from fedflat.data.sets.in_memory import clients_of
from fedflat.errors import SettingError
from fedflat.execution.in_process import InProcess
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.train import train
from fedflat.methods.mcd import Discrepancy
from fedflat.registry.specs import parse
from fedflat.tasks.twofold import Twofold

GAME = "street(style='game', clients=2, examples=3, tests=2, width=32, height=16, unseen_towns=0, unseen_weather='')"
REAL = (
    "street(clients=3, examples=3, tests=4, width=32, height=16, unseen_towns=0, unseen_weather='')"
)


def discrepancy(scores: Tensor) -> Tensor:
    """Mean over pixels and classes of how far two softmaxes are apart, written out."""
    one, other = scores[:, :3].softmax(1), scores[:, 3:].softmax(1)
    return (one - other).abs().sum() / one.numel()


def test_classifiers_climb_and_features_descend() -> None:
    """Against the two gradients that the paper's steps B and C have, taken apart."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Tanh(), nn.Conv2d(4, 6, 1)).double()
    x = torch.randn(4, 3, 2, 2, dtype=torch.float64)
    y = torch.cat([torch.randint(3, (2, 2, 2)), torch.full((2, 2, 2), 255)])
    learner = Learner(net, (3, 2, 2), 6, seed=0, task=Twofold(), dtype="float64")
    term: Any = Discrepancy(weight=0.7)
    visit = type("V", (), {"round": 0})()
    loss, _ = learner.objective(net, net, Batch(x, y), [(term, visit)])
    found = torch.autograd.grad(loss, list(net.parameters()))
    scores = net(x)
    supervised = sum(cross_entropy(half[:2], y[:2]) for half in scores.chunk(2, dim=1))
    apart = discrepancy(scores[2:])
    assert float(loss.detach()) == pytest.approx(float((supervised - 0.7 * apart).detach()))
    base = torch.autograd.grad(supervised, list(net.parameters()), retain_graph=True)
    up = torch.autograd.grad(apart, list(net.parameters()))
    for place, (got, plain, towards) in enumerate(zip(found, base, up, strict=True)):
        sign = 1 if place < 2 else -1  # features go down the disagreement, classifiers up
        torch.testing.assert_close(got, plain + sign * 0.7 * towards)


def experiment(method: str, on: Any, **more: Any) -> Experiment:
    settings: dict[str, Any] = {
        "task": "twofold()",
        "model": "small_unet(width=4)",
        "clients_per_round": 2,
    } | more
    return ff.experiment(method, on, rounds=2, batch_size=2, lr=0.05, **settings)


@pytest.mark.parametrize(
    "method", ["mcd(weight=0.5)", "centralised() + mcd()", "mcd() + sam(rho=0.01)"]
)
def test_it_runs_with_labels_of_the_source_alone(method: str) -> None:
    exp = experiment(method, f"with_source({REAL}, {GAME})")
    fed = prepare(exp).fed
    with pytest.raises(SettingError, match="The clients hold no labels here"):
        _ = fed.data(0).targets
    batch = fed.data(0).batch(torch.arange(2), torch.float32, torch.Generator().manual_seed(0))
    assert batch.inputs.shape == (4, 3, 16, 32)
    assert bool((batch.targets[2:] == 255).all())
    assert not bool((batch.targets[:2] == 255).all())
    result = train(exp, executor=InProcess(threads=1))
    assert 0 < result.rows[-1]["miou"] < 1


def test_what_clients_are_labelled_does_not_matter() -> None:
    rng = torch.Generator().manual_seed(0)
    inputs = [torch.randn(4, 3, 8, 8, generator=rng) for _ in range(3)]
    masks = [torch.full((4, 8, 8), label) for label in (0, 1)]
    ended = []
    for mask in masks:
        own = clients_of([(x, mask) for x in inputs], test=(inputs[0], masks[0]), classes=2)
        source = clients_of([(inputs[1], masks[1])], test=(inputs[0], masks[0]), classes=2)
        on = ff.with_source(own, source)
        result = train(experiment("mcd()", on), executor=InProcess(threads=1))
        assert result.model is not None
        ended.append(result.model.params)
    assert torch.equal(*ended)


def test_the_mean_of_both_is_judged() -> None:
    """The first is sure of class 1, the second a little of class 0."""
    meter = Twofold().meter(4)
    output = torch.tensor([0.0, 5.0, 1.0, 0.0]).view(1, 4, 1, 1)
    meter.add(output, Batch(torch.zeros(1), torch.ones(1, 1, 1, dtype=torch.long)))
    assert meter.scores()["pixel_accuracy"] == 1


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(
        SettingError, match=r"mcd needs two classifiers, but segmentation\(\) has one"
    ):
        prepare(experiment("mcd()", f"with_source({REAL}, {GAME})", task="segmentation()"))
    with pytest.raises(
        SettingError,
        match=r"of must be segmentation\(...\) or classification\(\), found regression",
    ):
        parse("twofold(regression())", "task")
    with pytest.raises(SettingError, match="source must be a data set"):
        parse("with_source(digits(), 3)", "data set")
