"""Client-level differential privacy: its twin, its budget, its limits, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedflat.core.messages import Broadcast, Replies
from fedflat.core.seeds import torch_generator
from fedflat.errors import SettingError
from fedflat.execution.in_process import InProcess
from fedflat.experiments.api import experiment as make_experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.results.results import Results
from fedflat.experiments.train import train
from fedflat.methods import dp
from fedflat.server import privacy_accountant
from fedflat.server.client_selection import ClientSampler
from fedflat.server.piece import SelectionInfo, ServerContext
from fedflat.server.privacy_accountant import ORDERS, epsilon
from literal import dp_fedsam
from literal.problem import Plan, Problem, random_plan, random_problem
from methods.observers import method_of
from quadratic import experiment, replay
from test_every_method import experiment as small

ROUNDS = 6
HARD = {"wd": 0.02, "momentum": 0.6, "clip": 1.5, "lr": 0.04}


@pytest.fixture(scope="module", params=["plain", "decay, momentum, clip"])
def some(request: pytest.FixtureRequest) -> tuple[Problem, Plan]:
    """Unequal sizes, cohorts of one to three of five."""
    more: dict[str, Any] = {} if request.param == "plain" else HARD
    problem = random_problem(3)
    return problem, random_plan(4, problem, ROUNDS, cohort=(1, 3), **more)


def normal(dim: int, t: int, k: int) -> np.ndarray:
    """The normal numbers of a client: those of the piece's generator."""
    generator = torch_generator(0, "piece/dp", t, k)
    return torch.randn(dim, generator=generator, dtype=torch.float64).numpy()


def test_the_twin(some: tuple[Problem, Plan]) -> None:
    problem, plan = some
    twin = dp_fedsam.run(
        problem,
        plan,
        rho=0.3,
        noise=0.7,
        clip=0.2,
        normal=lambda t, k: normal(problem.dim, t, k),
    )
    ours = replay(method_of("fedsam(rho=0.3) + dp(noise=0.7, clip=0.2)"), problem, plan)
    np.testing.assert_allclose(ours.server, twin.server, rtol=1e-10, atol=1e-10)
    lengths = [np.linalg.norm(update) for updates in twin.update for update in updates.values()]
    assert max(lengths) > 0.2  # noise is added after the clip


def test_the_clip_binds_in_the_twin_test(some: tuple[Problem, Plan]) -> None:
    problem, plan = some
    free, bound = (
        dp_fedsam.run(problem, plan, rho=0.3, noise=0.0, clip=clip).server for clip in (1e30, 0.2)
    )
    assert not np.allclose(free, bound)


@pytest.mark.parametrize(
    "method", ["fedavg()", "feddyn(alpha=0.1)", "fedgloss(rho_s=0.1, beta=10)"]
)
def test_no_noise_and_no_clip_is_the_uniform_mean(some: tuple[Problem, Plan], method: str) -> None:
    problem, plan = some
    private = replay(method_of(f"{method} + dp(noise=0, clip=1e30)"), problem, plan)
    plain = replay(method_of(method), problem, plan, weighting="uniform")
    assert np.array_equal(private.server, plain.server)


def poisson_rdp(order: int, q: float, noise: float) -> float:
    """Mironov, Talwar and Zhang, 2019, for whole orders."""
    total = sum(
        math.comb(order, k) * (1 - q) ** (order - k) * q**k * math.exp((k * k - k) / (2 * noise**2))
        for k in range(order + 1)
    )
    return math.log(total) / (order - 1)


def converted(rdp: dict[int, float], delta: float) -> float:
    """Canonne, Kamath and Steinke, 2020, Proposition 12."""
    return min(
        value + math.log1p(-1 / order) - math.log(delta * order) / (order - 1)
        for order, value in rdp.items()
    )


@pytest.mark.parametrize(("noise", "rounds"), [(1.0, 1), (3.0, 50)])
def test_the_budget_of_full_participation(noise: float, rounds: int) -> None:
    expected = converted({order: rounds * order / (2 * noise**2) for order in ORDERS}, 1e-5)
    for sampler, population in (("uniform", 10), ("bernoulli", 10), ("given", 100)):
        found = epsilon(
            noise=noise,
            delta=1e-5,
            rounds=rounds,
            cohort=10,
            population=population,
            sampler=sampler,
        )
        assert found == pytest.approx(expected, rel=1e-9)


def test_the_budget_of_independent_selection() -> None:
    """The settings of DP-FedSAM."""
    orders = {order: 200 * poisson_rdp(order, 0.1, 0.95) for order in range(2, 30)}
    found = epsilon(
        noise=0.95, delta=1e-5, rounds=200, cohort=50, population=500, sampler="bernoulli"
    )
    assert found == pytest.approx(converted(orders, 1e-5), rel=1e-9)


def test_a_fixed_cohort_costs_more() -> None:
    """One client replaced by another is twice as far as one client less."""
    settings: dict[str, Any] = {"delta": 1e-5, "rounds": 100, "cohort": 10, "population": 100}
    fixed = epsilon(noise=2.0, sampler="uniform", **settings)
    free = epsilon(noise=2.0, sampler="bernoulli", **settings)
    assert fixed > free
    assert epsilon(noise=4.0, sampler="uniform", **settings) < fixed


def test_epsilon_in_every_row_and_in_the_table() -> None:
    result = train(small(method_of("dp(noise=0.5, clip=0.1)")), executor=InProcess(1))
    found = [row["epsilon"] for row in result.rows]
    expected = [
        epsilon(noise=0.5, delta=1e-5, rounds=t, cohort=2, population=4, sampler="uniform")
        for t in (1, 2, 3, 4)
    ]
    assert found == expected
    assert "epsilon" in str(Results([result]))
    assert f"{expected[-1]:.2f}" in str(Results([result]))
    plain = train(small(method_of("fedavg()")), executor=InProcess(1))
    assert "epsilon" not in str(Results([plain]))


def test_missing_replies_do_not_take_noise_away() -> None:
    """The variance of the sum stays that of the whole cohort, and the mean is of the cohort."""
    dim, cohort, came = 20_000, 4, 1
    piece = dp.PrivateMean(noise=2.0, clip=0.5)
    run = dp_context(cohort)
    zeros = torch.zeros(dim, dtype=torch.float64)
    std = 2.0 * 0.5 / math.sqrt(cohort)
    sent = std * torch.randn(dim, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    replies = dp_replies(zeros, sent, came)
    out = piece.exchange(run, lambda broadcast: replies, replies.broadcast)
    # 2.0 * 0.5 / 4 in 20,000 draws: the sample's deviation is within 5 / sqrt(2 * 20,000) = 2.5 %
    assert float(out.delta.std()) == pytest.approx(0.25, rel=0.025)
    assert torch.equal(out.delta, out.uniform)


def dp_context(cohort: int) -> Any:
    return ServerContext({}, run=SelectionInfo(0, cohort, "uniform"))


def dp_replies(zeros: torch.Tensor, delta: torch.Tensor, count: int) -> Any:
    broadcast = Broadcast(0, zeros, zeros[:0], 0.1)
    return Replies(broadcast, delta, zeros[:0], delta, count, 10, 0.0, 1.0, {})


def test_secret_noise_is_drawn_anew() -> None:
    models = [
        train(small(method_of("dp(noise=0.5, clip=0.1, secret=True)")), executor=InProcess(1)).model
        for _ in range(2)
    ]
    assert models[0] is not None
    assert models[1] is not None
    assert not torch.equal(models[0].params, models[1].params)


REFUSED = {
    "scaffold()": "sends more than the update",
    "fedsmoo(rho=0.1)": "sends more than the update",
    "mime(b=0.5)": "needs sized weighting",
    "naive_fedgloss(rho_s=0.1)": "sends 2 vectors from each client per round",
    "fedcr(beta=0.01)": "sends more than the update",
    "median()": "replaces the mean",
    "personal()": "sends results of each client's own model",
    "all_clients()": "uses the models of single clients",
    "cfsi()": "describes every client before the first round",
    "fedvc(n=5)": "selects some clients more often",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_would_leak_past_it(text: str) -> None:
    with pytest.raises(SettingError, match=REFUSED[text]):
        small(method_of(f"{text} + dp()"))


def test_other_settings_that_it_refuses() -> None:
    exp = small(method_of("dp()"))
    with pytest.raises(SettingError, match="weights clients by their examples"):
        replace(exp, weighting="sized")
    with pytest.raises(SettingError, match="selects some clients more often"):
        replace(exp, sampler=ClientSampler(clients=2, kind="by_size"))
    with pytest.raises(SettingError, match="holds for a star only"):
        make_experiment("dp()", on="digits(lda(0), clients=12)", rounds=1, topology="hierarchy(2)")


def normalised() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3)
    )


def test_batch_normalisation() -> None:
    exp = small(method_of("dp(noise=0)"))
    exp = replace(exp, model=normalised, local=replace(exp.local, drop_last=True))
    with pytest.raises(SettingError, match="running statistics would leave the client"):
        prepare(exp)
    prepare(replace(exp, method=method_of("silobn() + dp(noise=0)")))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("noise=-1", "noise must be a number of at least 0"),
        ("clip=0", "clip must be a number above 0"),
        ("delta=0", "delta must be a number above 0"),
        ("delta=2", "at most 1"),
        ("secret=1", "secret must be True or False"),
    ],
)
def test_wrong_arguments(arguments: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        method_of(f"dp({arguments})")


def test_without_the_accountant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privacy_accountant, "find_spec", lambda name: None)
    with pytest.raises(SettingError, match=r"pip install 'fedflat\[privacy\]'"):
        method_of("dp()")
    method_of("dp(noise=0)")


def test_given_cohorts_have_no_amplification() -> None:
    problem = random_problem(3)
    plan = random_plan(4, problem, 2, cohort=(2, 2))
    result = train(experiment(method_of("dp(noise=2.0)"), problem, plan))
    expected = epsilon(noise=2.0, delta=1e-5, rounds=2, cohort=1, population=1, sampler="uniform")
    assert result.rows[-1]["epsilon"] == expected
