"""Robust aggregators against NumPy and brute force, and with a malicious client."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedflat import fedavg, krum, median, norm_clip, trimmed_mean
from fedflat.client.local import LocalTraining
from fedflat.client.piece import ClientContext, Piece
from fedflat.composition.method import Method
from fedflat.core.messages import Broadcast, Reply
from fedflat.core.stage import Stage
from fedflat.data.sets.in_memory import clients_of
from fedflat.errors import FedflatError, SettingError
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.train import train
from fedflat.models.simple import logistic
from fedflat.server.aggregators import Aggregator, Krum, Median, NormClip, TrimmedMean
from fedflat.server.client_selection import ClientSampler
from fedflat.server.step import aggregate


def some(least: int = 1) -> st.SearchStrategy[np.ndarray]:
    shapes = st.tuples(st.integers(least, 9), st.integers(1, 4))
    return hnp.arrays(np.float64, shapes, elements=st.floats(-100, 100))


def combine(
    aggregator: Aggregator, deltas: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    shares = np.full(len(deltas), 1 / len(deltas)) if weights is None else weights
    return aggregator.combine(torch.from_numpy(deltas), torch.from_numpy(shares)).numpy()


def close(found: np.ndarray, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-9)


@given(some())
@settings(max_examples=50)
def test_median(deltas: np.ndarray) -> None:
    close(combine(Median(), deltas), np.median(deltas, axis=0))


@given(some(5), st.integers(0, 2))
@settings(max_examples=50)
def test_trimmed_mean(deltas: np.ndarray, trim: int) -> None:
    expected = [np.mean(sorted(column)[trim : len(column) - trim]) for column in deltas.T]
    close(combine(TrimmedMean(trim), deltas), expected)


@given(some(), st.floats(0.1, 50), st.integers(0, 10**6))
@settings(max_examples=50)
def test_norm_clip(deltas: np.ndarray, norm: float, seed: int) -> None:
    weights = np.random.default_rng(seed).dirichlet(np.ones(len(deltas)))
    expected = sum(
        w * d * min(1, norm / max(np.linalg.norm(d), 1e-300))
        for w, d in zip(weights, deltas, strict=True)
    )
    close(combine(NormClip(norm), deltas, weights), expected)


@pytest.mark.parametrize(
    ("n", "attackers", "keep"), [(3, 0, 1), (5, 1, 1), (7, 2, 1), (7, 2, 3), (9, 1, 4)]
)
def test_krum_by_brute_force(n: int, attackers: int, keep: int) -> None:
    """The score of a reply is the least sum of squared distances to ``n - attackers - 2``
    others."""
    for seed in range(5):
        deltas = np.random.default_rng(seed).normal(size=(n, 3))
        scores = []
        for i in range(n):
            others = [float(np.sum((deltas[i] - deltas[j]) ** 2)) for j in range(n) if j != i]
            scores.append(min(sum(group) for group in combinations(others, n - attackers - 2)))
        best = np.argsort(scores)[:keep]
        close(combine(Krum(attackers, keep), deltas), deltas[best].mean(axis=0))


def test_how_many_replies_are_needed() -> None:
    assert [
        Krum(0).min_replies(),
        Krum(1).min_replies(),
        Krum(2).min_replies(),
        Krum(0, keep=6).min_replies(),
    ] == [3, 5, 7, 6]
    assert [
        TrimmedMean(0).min_replies(),
        TrimmedMean(2).min_replies(),
        Median().min_replies(),
        NormClip(1.0).min_replies(),
    ] == [1, 5, 1, 1]
    Krum(1).check(5)
    with pytest.raises(
        SettingError,
        match=r"krum\(1\) needs at least 5 replies a round, but only 4 clients are selected",
    ):
        Krum(1).check(4)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Krum(-1),
        lambda: Krum(1, 0),
        lambda: TrimmedMean(-1),
        lambda: TrimmedMean(0.5),
        lambda: NormClip(0),
    ],
)
def test_settings(wrong: Any) -> None:
    with pytest.raises(SettingError):
        wrong()


def test_a_rule_replaces_both_means_and_leaves_the_rest() -> None:
    broadcast = Broadcast(0, torch.zeros(1), torch.zeros(0), 0.1)
    replies = [
        Reply(
            k,
            torch.tensor([d]),
            torch.tensor([d]),
            n,
            n,
            {"p": {"c": torch.tensor([d])}},
            {"loss": d},
        )
        for k, (d, n) in enumerate([(1.0, 1), (2.0, 1), (60.0, 2)])
    ]
    folded = aggregate(
        broadcast, replies, population=3, weighting="sized", aggregator=Median().combine
    )
    assert folded.delta.tolist() == folded.uniform.tolist() == [2.0]
    assert folded.buffers.tolist() == [pytest.approx(123 / 4)]
    assert folded.loss == pytest.approx(123 / 4)
    assert folded.mean("p", "c").tolist() == [pytest.approx(21)]
    clipped = aggregate(
        broadcast, replies, population=3, weighting="sized", aggregator=NormClip(4.0).combine
    )
    assert clipped.delta.tolist() == [pytest.approx((1 + 2 + 2 * 4) / 4)]


class Liar(Piece):
    """Client 0 sends back a model far away."""

    stage, key = Stage.CORRECT, "liar"

    def end(self, v: ClientContext, w: torch.Tensor) -> torch.Tensor:
        return w + 1000 if v.client == 0 else w


def run(method: Method, lying: bool, clients: int = 5, **more: Any) -> torch.Tensor:
    rng = torch.Generator().manual_seed(0)
    data = [(torch.randn(6, 3, generator=rng) + y, torch.full((6,), y)) for y in (0, 1, 0, 1, 0)]
    whole = method + Method(client=(Liar(),), text="liar()") if lying else method
    exp = Experiment(
        method=whole,
        on=clients_of(data, test=data[0], classes=2),
        model=logistic(),
        rounds=3,
        local=LocalTraining(lr=0.1),
        **{"sampler": ClientSampler(clients=clients), **more},
    )
    model = train(exp).model
    assert model is not None
    return model.params


@pytest.mark.parametrize(
    "aggregator", [median(), trimmed_mean(1), krum(1), krum(1, keep=3), norm_clip(1.0)]
)
def test_a_liar_is_resisted(aggregator: Method) -> None:
    honest = run(fedavg(), lying=False)
    assert float((run(fedavg(), lying=True) - honest).norm()) > 100
    assert float((run(fedavg() + aggregator, lying=True) - honest).norm()) < 2


def test_a_cohort_that_is_too_small_is_refused_before_the_first_round() -> None:
    with pytest.raises(SettingError, match="needs at least 5 replies a round"):
        run(krum(1), lying=False, clients=4)
    with pytest.raises(SettingError, match=r"trimmed_mean\(2\) needs at least 5"):
        run(trimmed_mean(2), lying=False, clients=4)


def test_there_is_one_rule() -> None:
    with pytest.raises(SettingError, match=r"median\(\) and krum\(1\) both replace the mean"):
        median() + krum(1)


class Mute(Piece):
    """Clients 0 and 1 send what is no number."""

    stage, key = Stage.CORRECT, "mute"

    def end(self, v: ClientContext, w: torch.Tensor) -> torch.Tensor:
        return w * torch.nan if v.client < 2 else w


@pytest.mark.parametrize(
    ("aggregator", "least"), [(krum(1), 5), (trimmed_mean(2), 5), (krum(0, keep=4), 4)]
)
def test_too_few_replies_that_can_be_used(aggregator: Method, least: int) -> None:
    """Five are asked and three come: Krum took the first of them, and the mean of none was NaN."""
    output = rf"round 1: .* needs at least {least} replies, but only 3 came that could be used"
    with pytest.raises(FedflatError, match=output):
        run(aggregator + Method(client=(Mute(),), text="mute()"), lying=False, on_bad="skip")


def test_too_few_clients_that_came() -> None:
    """Four of five in the mean, and sometimes fewer."""
    sampler = ClientSampler(clients=4, kind="bernoulli")
    sizes = [len(sampler.draw(t, 5, 0)) for t in range(3)]
    first = next(t for t, size in enumerate(sizes) if size < 4)
    with pytest.raises(
        FedflatError,
        match=rf"round {first + 1}: krum.* needs at least 4 .* only {sizes[first]} came",
    ):
        run(krum(0, keep=4), lying=False, sampler=sampler)
