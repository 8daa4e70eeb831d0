"""MCD: the term against a derivation by hand, the data it needs, and that target labels play no
part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import fedflat as ff
from client.stages import visiting
from fedflat.client.learner import Learner
from fedflat.data.examples import Batch
from fedflat.data.sets.in_memory import clients_of
from fedflat.errors import SettingError
from fedflat.execution.in_process import InProcess
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.train import train
from fedflat.methods.mcd import Discrepancy
from fedflat.registry.specs import parse
from fedflat.tasks.wrapped import Twofold, halves
from literal import mcd as literal

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
    term: Any = Discrepancy(weight=0.7, form="reversed")
    request = type("V", (), {"round": 0})()
    loss, _ = learner.objective(net, net, Batch(x, y), [(term, request)])
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


STARTS = {
    "G": np.array([[0.5, -0.2], [0.1, 0.4]]),
    "F_1": np.array([[0.3, 0.1], [-0.2, 0.2]]),
    "F_2": np.array([[0.1, -0.3], [0.2, 0.4]]),
}


def steps_of(piece: Discrepancy, batches: list[Batch], lr: float) -> tuple[Tensor, list[Tensor]]:
    """The parameters of the small network after these batches, and the change by each."""
    net = nn.Sequential(nn.Conv2d(2, 2, 1, bias=False), nn.Conv2d(2, 4, 1, bias=False)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.from_numpy(STARTS["G"])[..., None, None])
        both = torch.from_numpy(np.concatenate([STARTS["F_1"], STARTS["F_2"]]))
        net[1].weight.copy_(both[..., None, None])
    learner = Learner(net, (2, 1, 1), 4, seed=0, task=Twofold(), dtype="float64")
    w, changes = learner.initial().params, []
    v = visiting(piece, w, learner.flat.layout, lr=lr)
    for batch in batches:
        oracle = learner.oracle(batch, [(piece, v)])
        change = lr * piece.gradient(v, oracle, w)
        w = w - change
        changes.append(change)
    return w, changes


def one_of_each(source: list[float], label: int, target: list[float]) -> Batch:
    images = torch.tensor([source, target], dtype=torch.float64)[..., None, None]
    return Batch(images, torch.tensor([label, 255]).view(2, 1, 1))


def test_the_three_steps_of_one_batch() -> None:
    """Numbers that were computed by hand for this network."""
    w, _ = steps_of(Discrepancy(), [one_of_each([1.0, 2.0], 0, [2.0, -1.0])], lr=0.1)
    expected = literal.run(**STARTS, batches=[((1.0, 2.0), 0, (2.0, -1.0))], lr=0.1, repeats=4)
    features = [[0.38801522, -0.09662661], [-0.05793456, 0.35163546]]
    np.testing.assert_allclose(w[:4].view(2, 2), features, atol=1e-8)
    classifier = [[0.34172249, 0.17209304], [-0.24172249, 0.12790696]]
    np.testing.assert_allclose(w[4:8].view(2, 2), classifier, atol=1e-8)
    np.testing.assert_allclose(w[:4].view(2, 2), expected.G[-1], atol=1e-12)
    source_losses = (1.77684368, 1.55580958, 1.50422429, 1.50422429)
    np.testing.assert_allclose(expected.losses[0], source_losses, atol=1e-8)
    apart = (0.14521872, 0.14578968, 0.17859316, 0.08890054)
    np.testing.assert_allclose(expected.apart[0], apart, atol=1e-8)


def test_steps_with_momentum_and_decay_are_those_of_two_optimizers() -> None:
    """Against the twin, over several batches: the other optimizer's buffer stands still."""
    rng = np.random.default_rng(0)
    batches = [
        (rng.normal(size=2).tolist(), int(rng.integers(2)), rng.normal(size=2).tolist())
        for _ in range(5)
    ]
    settings = {"repeats": 3, "momentum": 0.9, "weight_decay": 0.01}
    w, _ = steps_of(
        Discrepancy(weight=0.7, **settings), [one_of_each(*batch) for batch in batches], lr=0.2
    )
    twin = literal.run(**STARTS, batches=batches, lr=0.2, weight=0.7, **settings)
    found = w.view(6, 2).numpy()
    np.testing.assert_allclose(found[:2], twin.G[-1], rtol=1e-10)
    np.testing.assert_allclose(found[2:4], twin.F_1[-1], rtol=1e-10)
    np.testing.assert_allclose(found[4:], twin.F_2[-1], rtol=1e-10)


def test_steps_refuse_what_would_change_them() -> None:
    on = f"with_source({REAL}, {GAME})"
    for method, more, error in (
        ("mcd()", {"momentum": 0.9}, r"momentum and weight decay of their own. Use mcd\(mom"),
        ("mcd()", {"weight_decay": 0.1}, "momentum and weight decay of their own"),
        ("mcd() + sam()", {}, "cannot be combined with sam"),
    ):
        with pytest.raises(SettingError, match=error):
            prepare(experiment(method, on, **more))
    with pytest.raises(SettingError, match="form='reversed' is one step"):
        parse("mcd(form='reversed', momentum=0.9)", "method")


def experiment(method: str, on: Any, **more: Any) -> Experiment:
    settings: dict[str, Any] = {
        "task": "twofold()",
        "model": "small_unet(width=4)",
        "clients_per_round": 2,
    } | more
    return ff.experiment(method, on, rounds=2, batch_size=2, lr=0.05, **settings)


@pytest.mark.parametrize(
    "method",
    [
        "mcd(weight=0.5)",
        "centralised() + mcd(momentum=0.9)",
        "mcd() + fedprox(mu=0.1)",
        "mcd(form='reversed') + sam(rho=0.01)",
    ],
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


def test_auxiliary_heads_are_refused() -> None:
    """They are outputs of their own, which two classifiers do not have."""
    score = torch.zeros(2, 4, 3, 3)
    with pytest.raises(SettingError, match="gives 2 outputs, but two classifiers need one"):
        halves((score, score))
