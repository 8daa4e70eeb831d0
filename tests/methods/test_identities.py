"""Limits in which one method is another, bit for bit where the arithmetic is the same."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from fedflat.client.local import LocalTraining
from fedflat.composition.method import Method
from fedflat.data.sets.in_memory import clients_of
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.train import train
from fedflat.models.simple import mlp
from fedflat.server.client_selection import ClientSampler
from literal import fedlesam
from literal.problem import Plan, Problem, random_plan, random_problem
from methods.observers import BATCHES, BatchSpy, averages, client_models, method_of
from quadratic import Recorder, replay

EQUAL = (6, 6, 6, 6, 6)
ROUNDS = 6


HARD = {"wd": 0.01, "momentum": 0.5, "clip": 2.0}


@pytest.fixture(scope="module", params=["plain", "decay, momentum, clip"])
def some(request: pytest.FixtureRequest) -> tuple[Problem, Plan]:
    """Unequal sizes, cohorts of one to three of five."""
    problem = random_problem(3)
    more: dict[str, Any] = {} if request.param == "plain" else HARD
    return problem, random_plan(4, problem, ROUNDS, cohort=(1, 3), **more)


@pytest.fixture(scope="module")
def equal() -> tuple[Problem, Plan]:
    """Equal sizes, cohorts of two of five, decay, momentum and clipping."""
    problem = random_problem(5, sizes=EQUAL)
    return problem, random_plan(6, problem, ROUNDS, batch=4, **HARD)


def bits(one: Recorder, other: Recorder) -> None:
    assert len(one.server) == ROUNDS
    assert np.array_equal(one.server, other.server)


def differ(one: Recorder, other: Recorder) -> None:
    assert np.max(np.abs(np.array(one.server) - np.array(other.server))) > 1e-4


@pytest.mark.parametrize(
    "text",
    [
        "fedprox(mu=0)",
        "fedavgm(beta=0, lr=1)",
        "fedsam(rho=0)",
        "fedasam(rho=0)",
        "fedasam(rho=0, variant='elementwise')",
        "fedgloss(rho_s=0, admm=False)",
        "naive_fedgloss(rho_s=0, admm=False)",
        "fedavg() + server_sgd(1.0)",
        "fedavg() + clip(1e9)",
    ],
)
def test_nothing_is_left_but_fedavg(text: str, some: tuple[Problem, Plan]) -> None:
    problem, plan = some
    if "clip" in text and plan.clip is not None:
        plan = replace(plan, clip=None)
    bits(replay(method_of(text), problem, plan), replay(method_of("fedavg()"), problem, plan))


@pytest.mark.parametrize("name", ["fedgloss", "naive_fedgloss"])
@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ("admm=False, rho_l=0.2", "fedsam(rho=0.2)"),
        ("beta=10", "feddyn(alpha=0.1)"),
        ("beta=8, rho_l=0.2", "feddyn(alpha=0.125) + sam(rho=0.2)"),
        ("beta=10, rho_l=0.2", "sam(rho=0.2) + feddyn(alpha=0.1)"),
    ],
)
def test_fedgloss_without_a_server_radius(
    name: str, settings: str, limit: str, equal: tuple[Problem, Plan]
) -> None:
    base = replay(method_of(limit), *equal)
    ours = replay(method_of(f"{name}(rho_s=0, {settings})"), *equal)
    bits(ours, base)
    if "dual" in base.runs[-1].states:
        for t in range(ROUNDS):
            assert torch.equal(
                ours.runs[t].states["dual"]["sigma"], base.runs[t].states["dual"]["sigma"]
            )
    differ(replay(method_of(f"{name}(rho_s=0.1, {settings})"), *equal), base)


def test_an_asam_of_radius_0_in_fedgloss(equal: tuple[Problem, Plan]) -> None:
    bits(
        replay(method_of("fedgloss(0, beta=10) + asam(rho=0)"), *equal),
        replay(method_of("feddyn(0.1)"), *equal),
    )


def test_the_first_request_of_feddyn_is_fedprox(some: tuple[Problem, Plan]) -> None:
    dyn = client_models(replay(method_of("feddyn(alpha=0.3) + all_clients()"), *some), 0)
    prox = client_models(replay(method_of("fedprox(mu=0.3) + all_clients()"), *some), 0)
    assert dyn.keys() == prox.keys() == set(some[1].cohorts[0])
    for client, model in dyn.items():
        assert np.array_equal(model, prox[client])


def test_a_recipe_is_its_pieces(some: tuple[Problem, Plan]) -> None:
    for recipe, pieces in [
        ("fedprox(0.2)", "fedavg() + prox(0.2)"),
        ("fedsam(0.2)", "fedavg() + sam(0.2)"),
        ("fedasam(0.2, 0.1)", "fedavg() + asam(0.2, 0.1)"),
        ("fedavgm(0.5)", "fedavg() + server_momentum(0.5)"),
        ("fedadam(0.2)", "fedavg() + adam(0.2)"),
        ("fedyogi(0.2)", "yogi(0.2) + fedavg()"),
        ("fedadagrad(0.2)", "adagrad(0.2)"),
    ]:
        assert method_of(recipe) == method_of(pieces)
    bits(
        replay(method_of("fedsam(0.2) + prox(0.1)"), *some),
        replay(method_of("fedprox(0.1) + sam(0.2)"), *some),
    )


@pytest.mark.parametrize("text", ["wima(1)", "ema(0)"])
def test_a_mean_of_one_model_is_the_model(text: str, some: tuple[Problem, Plan]) -> None:
    method = method_of(f"feddyn(0.1) + {text}")
    run_folder = replay(method, *some)
    bits(run_folder, replay(method_of("feddyn(0.1)"), *some))
    assert np.array_equal(
        averages(method, text[: text.index("(")], run_folder, some[0]), run_folder.server
    )


def test_swa_before_its_start(some: tuple[Problem, Plan]) -> None:
    method = method_of(f"fedavg() + swa(start={ROUNDS}, cycle=2, high=0.5, low=0.1)")
    run_folder = replay(method, *some)
    bits(run_folder, replay(method_of("fedavg()"), *some))
    assert averages(method, "swa", run_folder, some[0]) == [None] * ROUNDS
    assert {row["model"] for row in run_folder.rows} == {"server"}


def test_swa_of_one_captured_model(some: tuple[Problem, Plan]) -> None:
    problem, plan = some
    method = method_of(f"fedavg() + swa(start={ROUNDS - 1}, cycle=1, high={plan.lr[-1]!r})")
    run_folder = replay(method, problem, plan)
    bits(run_folder, replay(method_of("fedavg()"), problem, plan))
    assert np.array_equal(averages(method, "swa", run_folder, problem)[-1], run_folder.server[-1])


@pytest.mark.parametrize(
    "text",
    ["wima(3)", "ema(0.5)", "swa(2, 2, cycle_lr=False)", "all_clients()", "active_clients()"],
)
def test_an_average_is_never_fed_back(text: str, some: tuple[Problem, Plan]) -> None:
    bits(
        replay(method_of(f"fedgloss(0.1, beta=8) + {text}"), *some),
        replay(method_of("fedgloss(0.1, beta=8)"), *some),
    )


def test_asam_where_every_weight_is_1_is_sam() -> None:
    """One step from weights of size 1: then T = 1."""
    problem = random_problem(8, dim=4)
    problem = replace(problem, w0=np.array([1.0, -1.0, 1.0, -1.0]))
    plan = random_plan(8, problem, 1, batch=None, epochs=1)
    sam, asam = (
        replay(method_of(t), problem, plan).server for t in ("fedsam(0.4)", "fedasam(0.4, eta=0)")
    )
    np.testing.assert_allclose(asam, sam, rtol=0, atol=1e-13)
    assert (
        np.max(
            np.abs(np.array(sam) - replay(method_of("fedasam(0.4, eta=0.5)"), problem, plan).server)
        )
        > 1e-4
    )


def test_asam_where_all_are_biases_is_sam(some: tuple[Problem, Plan]) -> None:
    sam, asam = (
        replay(method_of("fedsam(0.4)"), *some),
        replay(method_of("fedasam(0.4)"), *some, weights=0),
    )
    np.testing.assert_allclose(asam.server, sam.server, rtol=0, atol=1e-12)


METHODS = [
    "fedavg()",
    "fedavgm()",
    "fedadam()",
    "fedyogi()",
    "fedadagrad()",
    "fedprox()",
    "feddyn(0.1)",
    "feddyn(0.1) + sam(0.1)",
    "fedsam(0.1)",
    "fedasam(0.1)",
    "naive_fedgloss(0.1)",
    "fedgloss(0.1, 0.1, beta=8)",
    "fedgloss(0.1, admm=False)",
]


@pytest.mark.parametrize("text", METHODS)
def test_the_order_of_the_clients_does_not_matter(text: str, some: tuple[Problem, Plan]) -> None:
    problem, plan = some
    turned = replace(plan, cohorts=[cohort[::-1] for cohort in plan.cohorts])
    one, other = replay(method_of(text), problem, plan), replay(method_of(text), problem, turned)
    # Adam-like steps divide by moments near tau and blow the rounding up; the others keep 1e-12.
    adaptive = any(name in text for name in ("adam", "yogi", "adagrad"))
    tolerance = 1e-9 if adaptive else 1e-12
    np.testing.assert_allclose(one.server, other.server, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("text", [text for text in METHODS if "feddyn" not in text])
def test_clients_of_one_size_count_alike(text: str, equal: tuple[Problem, Plan]) -> None:
    bits(
        replay(method_of(text), *equal, weighting="sized"),
        replay(method_of(text), *equal, weighting="uniform"),
    )


def test_clients_of_different_sizes_do_not_count_alike(some: tuple[Problem, Plan]) -> None:
    sized, uniform = (
        replay(method_of("fedavg()"), *some, weighting=w) for w in ("sized", "uniform")
    )
    differ(sized, uniform)
    bits(sized, replay(method_of("fedavg()"), *some))
    dyn = replay(method_of("feddyn(0.1)"), *some)
    bits(dyn, replay(method_of("feddyn(0.1)"), *some, weighting="uniform"))
    differ(dyn, replay(method_of("feddyn(0.1)"), *some, weighting="sized"))


def test_fedgloss_is_fedlesam_when_all_take_part() -> None:
    """Plain local steps, no duals, equal sizes: the server's perturbation is the one every client
    estimates."""
    problem = random_problem(7, sizes=EQUAL)
    plan = random_plan(8, problem, ROUNDS, cohort=5, batch=4)
    ours = replay(method_of("fedgloss(rho_s=0.3, admm=False)"), problem, plan).server
    np.testing.assert_allclose(
        ours, fedlesam.run(problem, plan, rho=0.3).server, rtol=1e-10, atol=1e-10
    )


def test_feddyn_keeps_the_mean_of_its_clients_duals(some: tuple[Problem, Plan]) -> None:
    problem, _ = some
    for text in (
        "feddyn(0.1)",
        "feddyn(0.1) + sam(0.1)",
        "fedgloss(0.2, beta=10)",
        "naive_fedgloss(0.2)",
    ):
        run_folder = replay(method_of(text), *some)
        kept = [run_folder.learnt[-1][k]["dual"]["sigma"] for k in run_folder.learnt[-1]]
        mean = torch.stack(kept).sum(0) / problem.clients
        torch.testing.assert_close(
            run_folder.runs[-1].states["dual"]["sigma"], mean, rtol=0, atol=1e-12
        )


def test_measuring_the_staleness_changes_nothing(some: tuple[Problem, Plan]) -> None:
    for text in ("fedgloss(0.2, admm=False)", "fedgloss(0.2, 0.1, beta=8)"):
        plain, measuring = (
            replay(method_of(text), *some),
            replay(method_of(text[:-1] + ", delta_eps=True)"), *some),
        )
        bits(plain, measuring)
        assert [run.ledger.down for run in plain.runs] < [run.ledger.down for run in measuring.runs]


def images(method: Method, seed: int = 0) -> Experiment:
    """Three clients with 8x8 images, two steps of four images a request."""
    rng = torch.Generator().manual_seed(1)
    data = [(torch.randn(8, 1, 8, 8, generator=rng), torch.arange(8) % 3) for _ in range(3)]
    return Experiment(
        method=method,
        on=clients_of(data, test=data[0], classes=3),
        model=mlp([4]),
        rounds=2,
        seed=seed,
        local=LocalTraining(batch_size=4, lr=0.1),
        sampler=ClientSampler(clients=2),
    )


@pytest.mark.parametrize("text", ["mixup()", "cutout(side=4)", "mixup(0.4) + cutout(side=3)"])
def test_ascent_and_descent_see_the_same_changed_batch(text: str) -> None:
    BATCHES.clear()
    train(images(method_of(f"fedsam(0.1) + {text}") + Method(client=(BatchSpy(),), text="spy")))
    notes = list(BATCHES)
    assert len(notes) == 2 * 2 * 2 * 2  # rounds, clients, steps, gradients
    for (*place, up), (*again, down) in zip(notes[::2], notes[1::2], strict=True):
        assert place == again
        assert torch.equal(up.inputs, down.inputs)
        if "mixup" in text:
            assert up.targets.lam == down.targets.lam
            assert torch.equal(up.targets.second, down.targets.second)
    steps = [batch.inputs for *_, batch in notes[::2]]
    assert all(not torch.equal(a, b) for a, b in pairwise(steps))


@pytest.mark.parametrize("text", ["mixup()", "cutout(side=4)"])
def test_changed_batches_are_drawn_by_the_seed_alone(text: str) -> None:
    def params(method: str, seed: int = 0) -> torch.Tensor:
        model = train(images(method_of(method), seed)).model
        assert model is not None
        return model.params

    torch.manual_seed(0)
    one = params(f"fedavg() + {text}")
    torch.manual_seed(99)
    assert torch.equal(one, params(f"fedavg() + {text}"))
    assert not torch.equal(one, params("fedavg()"))
    BATCHES.clear()
    train(images(method_of(f"fedavg() + {text}") + Method(client=(BatchSpy(),), text="spy")))
    plain = [batch.inputs for *_, batch in BATCHES]
    BATCHES.clear()
    train(images(method_of(f"fedsam(0.3) + {text}") + Method(client=(BatchSpy(),), text="spy")))
    assert all(torch.equal(a, b.inputs) for a, (*_, b) in zip(plain, BATCHES[::2], strict=True))
