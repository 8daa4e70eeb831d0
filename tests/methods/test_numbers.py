"""The numbers of the toy problem Q, from a text to the end of a run through the whole library."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from fedflat.client.learner import Learner
from fedflat.composition.method import Method
from fedflat.core.flat import Layout
from fedflat.data.examples import Batch, Mixed
from fedflat.server.averaging import AverageState, RunInfo
from literal import numbers
from literal.problem import Problem, toy_q
from methods.observers import SEEN, averages, client_models, method_of, spied
from quadratic import Recorder, replay

TEXTS = {
    "fedavg/full": "fedavg() + all_clients()",
    "fedavg/part": "fedavg()",
    "fedavg/sized": "fedavg()",
    "fedavg/momentum": "fedavg()",
    "fedavgm/full": "fedavgm(beta=0.9)",
    "fedadam/full": "fedadam(lr=0.1)",
    "fedyogi/full": "fedyogi(lr=0.1)",
    "fedadagrad/full": "fedadagrad(lr=0.1)",
    "fedadam/torch": "fedadam(lr=0.1, flavour='torch')",
    "fedadagrad/torch": "fedadagrad(lr=0.1, flavour='torch')",
    "fedprox/full": "fedprox(mu=0.5)",
    "feddyn/full": "feddyn(alpha=0.1) + active_clients()",
    "feddyn/part": "feddyn(alpha=0.1) + all_clients()",
    "feddyn/by size": "feddyn(alpha=0.1, by_size=True)",
    "feddyn/sam": "feddyn(alpha=0.1) + sam(rho=0.5)",
    "fedsam/full": "fedsam(rho=0.5)",
    "fedsam/decay": "fedsam(rho=0.5)",
    "dp_fedsam/full": "dp_fedsam(rho=0.5, noise=0, clip=0.5)",
    "dp_fedsam/part": "dp_fedsam(rho=0.5, noise=0, clip=0.5)",
    "fedasam/full": "fedasam(rho=0.5, eta=0.2)",
    "fedasam/bias": "fedasam(rho=0.5, eta=0.2)",
    "naive_fedgloss/full": "naive_fedgloss(rho_s=0.5, admm=False)",
    "naive_fedgloss/admm": "naive_fedgloss(rho_s=0.5, beta=10)",
    "fedgloss/full": "fedgloss(rho_s=0.5, admm=False)",
    "fedgloss/admm": "fedgloss(rho_s=0.5, beta=10)",
    "fedgloss/admm-part": "fedgloss(rho_s=0.5, beta=10)",
    "fedgloss/sam": "fedgloss(rho_s=0.5, rho_l=0.5, beta=10)",
    "fedgloss/sam-part": "fedgloss(rho_s=0.5, rho_l=0.5, beta=10)",
    "fedgloss/repo": "fedgloss(rho_s=0.5, beta=10, dual_scale='repo')",
    "scaffold/full": "scaffold()",
    "scaffold/part": "scaffold()",
    "adabest/full": "adabest(beta=0.9, mu=0.02)",
    "adabest/part": "adabest(beta=0.9, mu=0.02)",
    "adabest/per sample": "adabest(beta=0.9, mu=0.02, mu_mode='per_sample')",
    "feddc/full": "feddc(alpha=0.1)",
    "feddc/part": "feddc(alpha=0.1)",
    "fedcm/full": "fedcm(a=0.1)",
    "mime/sgd": "mime(b=0)",
    "mime/sgdm": "mime(b=0.9)",
    "mimelite/sgdm": "mimelite(b=0.9)",
    "fedacg/full": "fedacg(lam=0.85, beta=0.1)",
    "mofedsam/full": "mofedsam(rho=0.5, a=0.1)",
    "fedspeed/full": "fedspeed(rho=0.5, a=0.95, lam=10)",
    "fedspeed/part": "fedspeed(rho=0.5, a=0.95, lam=10)",
    "fedgamma/full": "fedgamma(rho=0.5)",
    "fedgamma/part": "fedgamma(rho=0.5)",
    "fedlesam/full": "fedlesam(rho=0.5)",
    "fedlesam/part": "fedlesam(rho=0.5)",
    "fedsmoo/full": "fedsmoo(rho=0.5, beta=10)",
    "fedsmoo/part": "fedsmoo(rho=0.5, beta=10)",
    "fedfsa/full": "fedfsa(rho=0.1, rho_larger=0.9, top=1, a=0.1, score='mse') + all_clients()",
    "fedfsa/local": "fedfsa(rho=0.1, rho_larger=0.9, top=1, a=0.1, score='local')",
    "fedfsa/reverse": "fedfsa(rho=0.1, rho_larger=0.9, top=1, a=0.1, score='mse', selection='reverse')",
}
"""The text of each case."""


def close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=0, atol=numbers.ATOL)


def run(name: str, method: Method) -> tuple[Recorder, Problem]:
    case = numbers.CASES[name]
    problem, plan = toy_q(case.participation, case.sizes, case.rounds)
    changes = {key: value for key, value in case.plan.items() if key != "server_lr"}
    is_weight = case.settings.get("is_weight")
    weights = None if is_weight is None else sum(is_weight)
    layers = (
        {"first": 1, "second": 1} if case.twin == "fedfsa" else None
    )  # each coordinate is a layer
    return replay(
        method, problem, replace(plan, **changes), weights=weights, layers=layers
    ), problem


def test_every_case_is_reported() -> None:
    assert set(numbers.CASES) == set(TEXTS)


@pytest.mark.parametrize("name", TEXTS)
def test_the_models_after_each_round(name: str) -> None:
    close(run(name, method_of(TEXTS[name]))[0].server, numbers.CASES[name].server)


def test_the_local_models_of_fedavg() -> None:
    run_folder, _ = run("fedavg/full", method_of(TEXTS["fedavg/full"]))
    expected = numbers.CASES["fedavg/full"].state
    for client, model in client_models(run_folder, 0).items():
        close(model, expected["local", 0, client])
    assert len(client_models(run_folder, 0)) == 2


def test_the_duals_of_feddyn_and_the_mean_of_its_cohort() -> None:
    method = method_of(TEXTS["feddyn/full"])
    run_folder, problem = run("feddyn/full", method)
    expected = numbers.CASES["feddyn/full"].state
    close(run_folder.runs[-1].states["dual"]["sigma"], expected["sigma", -1])
    for client in (0, 1):
        close(run_folder.learnt[-1][client]["dual"]["sigma"], expected["sigma_k", -1, client])
    close(averages(method, "active_clients", run_folder, problem)[-1], expected["active", -1])


def test_the_mean_of_all_clients_last_models() -> None:
    method = method_of(TEXTS["feddyn/part"])
    run_folder, problem = run("feddyn/part", method)
    close(
        averages(method, "all_clients", run_folder, problem),
        numbers.CASES["feddyn/part"].state["all",],
    )


@pytest.mark.parametrize("name", ["fedsam/full", "fedasam/full", "fedasam/bias"])
def test_the_first_ascent(name: str) -> None:
    run(name, spied(method_of(TEXTS[name])))
    here, there = [seen for seen in SEEN if (seen.round, seen.client) == (0, 0)][:2]
    expected = numbers.CASES[name].state
    close(here.g, numbers.Q["gradients"][0])
    close(there.w - here.w, expected["eps", 0, 0, 0])
    if ("u", 0, 0, 0) in expected:
        close(there.g, expected["u", 0, 0, 0])


@pytest.mark.parametrize("name", ["fedgloss/full", "fedgloss/admm"])
def test_the_stale_perturbation(name: str) -> None:
    expected = numbers.CASES[name].state
    run_folder, _ = run(name, spied(method_of(TEXTS[name])))
    for seen in SEEN:
        before = toy_q()[0].w0 if seen.round == 0 else run_folder.server[0]
        close(seen.sent - before, (0, 0) if seen.round == 0 else expected["eps", 1])
    if ("sigma", -1) in expected:
        close(run_folder.runs[-1].states["dual"]["sigma"], expected["sigma", -1])


@pytest.mark.parametrize("name", ["fedgloss/full", "fedgloss/admm"])
def test_how_stale_the_perturbation_is(name: str) -> None:
    measuring, _ = run(name, method_of(TEXTS[name].replace(")", ", delta_eps=True)")))
    assert "delta_eps" not in measuring.rows[0]
    close(measuring.rows[1]["delta_eps"], numbers.CASES[name].state["delta_eps", 1])
    close(measuring.server, numbers.CASES[name].server)


@pytest.mark.parametrize("name", ["scaffold/full", "scaffold/part"])
def test_the_control_variates_of_scaffold(name: str) -> None:
    run_folder, _ = run(name, method_of(TEXTS[name]))
    expected = numbers.CASES[name].state
    close(run_folder.runs[-1].states["scaffold"]["c"], expected["c", -1])
    kept = {client: state["scaffold"]["c"] for client, state in run_folder.learnt[-1].items()}
    assert kept.keys() == {0, 1}
    for (_, _, client), c_k in (
        (path, value) for path, value in expected.items() if path[0] == "c_k"
    ):
        close(kept[client], c_k)
    close((kept[0] + kept[1]) / 2, expected["c", -1])


def test_the_bias_of_adabest_fades_with_absence() -> None:
    """Client 0 comes back after two rounds: what it knew is halved."""
    run_folder, _ = run("adabest/part", method_of(TEXTS["adabest/part"] + " + all_clients()"))
    first, last = run_folder.learnt[0][0]["adabest"], run_folder.learnt[2][0]["adabest"]
    close(first["h"], np.array((3.0, 2.0)) - client_models(run_folder, 0)[0])
    close(
        last["h"], first["h"].numpy() / 2 + (run_folder.server[1] - client_models(run_folder, 2)[0])
    )
    assert (int(first["last"]), int(last["last"])) == (0, 2)
    close(run_folder.runs[-1].states["adabest"]["mean"], client_models(run_folder, 2)[0])


@pytest.mark.parametrize("name", ["fedcm/full", "mofedsam/full"])
def test_the_direction_of_fedcm(name: str) -> None:
    """The last server step over two steps of rate 0.1."""
    run_folder, problem = run(name, method_of(TEXTS[name]))
    for before, after, state in zip(
        [problem.w0, *run_folder.server], run_folder.server, run_folder.runs, strict=False
    ):
        close(state.states["mix"]["direction"], (before - after) / 0.2)


def test_the_momentum_of_mime() -> None:
    run_folder, _ = run("mime/sgdm", method_of(TEXTS["mime/sgdm"]))
    close(run_folder.runs[-1].states["mime"]["m"], numbers.CASES["mime/sgdm"].state["m", -1])
    close(run_folder.runs[0].states["mime"]["m"], numbers.Q["gradient"])


def test_fedacg_stands_at_the_mean_and_sends_from_ahead() -> None:
    run_folder, problem = run(
        "fedacg/full", spied(method_of(TEXTS["fedacg/full"] + " + active_clients()"))
    )
    method = method_of(TEXTS["fedacg/full"] + " + active_clients()")
    close(averages(method, "active_clients", run_folder, problem), run_folder.server)
    ahead = next(seen.sent for seen in SEEN if seen.round == 1)
    close(ahead, run_folder.server[0] + 0.85 * (run_folder.server[0] - problem.w0))
    close(run_folder.runs[0].states["lookahead"]["m"], run_folder.server[0] - problem.w0)


@pytest.mark.parametrize("name", ["fedlesam/full", "fedlesam/part"])
def test_the_estimated_perturbation_of_fedlesam(name: str) -> None:
    run(name, spied(method_of(TEXTS[name])))
    state = numbers.CASES[name].state
    for (_, t, client), eps in state.items():
        first = next(seen for seen in SEEN if (seen.round, seen.client) == (t, client))
        close(first.w - first.sent, eps)


def test_the_global_perturbation_of_fedsmoo() -> None:
    run_folder, _ = run("fedsmoo/full", method_of(TEXTS["fedsmoo/full"]))
    close(run_folder.runs[-1].states["smoo"]["s"], numbers.CASES["fedsmoo/full"].state["s", -1])
    close(np.linalg.norm(run_folder.runs[0].states["smoo"]["s"]), 0.5)


def test_the_scores_and_choices_of_fedfsa() -> None:
    run_folder, problem = run("fedfsa/full", method_of(TEXTS["fedfsa/full"]))
    state = numbers.CASES["fedfsa/full"].state
    for client, model in client_models(run_folder, 0).items():
        close((model - problem.w0) ** 2, state["scores", 0, client])
        assert run_folder.learnt[0][client]["fsa"]["chosen"].tolist() == state["top", 0][client]
    run_folder, _ = run("fedfsa/reverse", method_of(TEXTS["fedfsa/reverse"]))
    chosen = [run_folder.learnt[0][client]["fsa"]["chosen"].tolist() for client in (0, 1)]
    assert chosen == numbers.CASES["fedfsa/reverse"].state["top", 0]


def test_fsa_on_feddyn_and_on_fedspeed() -> None:
    """The released code of FedFSA has FedDyn's rule for FedSpeed, so both texts are one method."""
    problem, plan = toy_q("full", rounds=2)
    layers = {"first": 1, "second": 1}
    ascent = "fsa(rho=0.1, rho_larger=0.9, top=1, score='mse')"
    for text in (
        f"feddyn(alpha=0.1) + {ascent}",
        f"fedspeed(rho=0.5, lam=10, server='feddyn') + {ascent}",
        f"{ascent} + fedspeed(lam=10, server='feddyn')",
    ):
        run_folder = replay(method_of(text), problem, plan, layers=layers)
        close(run_folder.server, [(1.67613966, 0.74051405), (0.28695267, 0.02603392)])
        tops = [
            [run_folder.learnt[t][client]["fsa"]["chosen"].tolist() for client in (0, 1)]
            for t in (0, 1)
        ]
        assert tops == [[[0], [1]], [[0], [0]]]


def test_fedspeed_with_equal_radii_of_fsa_is_fedspeed() -> None:
    problem, plan = toy_q("part", rounds=3)
    layers = {"first": 1, "second": 1}
    plain = replay(method_of("fedspeed(rho=0.5, a=0.7, lam=10)"), problem, plan, layers=layers)
    joined = "fedspeed(rho=3.0, a=0.7, lam=10) + fsa(rho=0.5, rho_larger=0.5, top=1)"
    np.testing.assert_allclose(
        np.stack(
            [np.asarray(w) for w in replay(method_of(joined), problem, plan, layers=layers).server]
        ),
        np.stack([np.asarray(w) for w in plain.server]),
        rtol=1e-13,
    )
    stack = method_of("fedspeed(lam=10) + fsa(top=1)").stack()
    assert stack.startswith("client: fsa")
    assert "a=0.95" in stack


def follow(text: str, models: list[torch.Tensor]) -> list[Any]:
    """The model average's parameters after each of these models."""
    average = method_of(text).averages[0]
    scene = RunInfo(len(models), 1, Layout(("w",), ((len(models[0]),),), (), ()))
    notes: AverageState = average.init(scene, models[0])
    found = []
    for t, after in enumerate(models):
        average.update(notes, scene, t, models[max(t - 1, 0)], after)
        found.append(average.params(notes, scene, after))
    return found


def test_swa_rates() -> None:
    settings = numbers.SWA_RATES["settings"]
    swa = method_of(
        f"swa(3, {settings['cycle']}, high={settings['gamma_1']}, low={settings['gamma_2']})"
    ).averages[0]
    rates = [swa.lr(0.5, t, 8) for t in range(8)]
    close(rates, [0.5] * 3 + list(numbers.SWA_RATES["rates"]))


def test_swa_captures() -> None:
    start, cycle = numbers.SWA["start"], numbers.SWA["cycle"]
    models = [
        torch.tensor([w], dtype=torch.float64)
        for w in (99.0, 99.0, 99.0, 98.0, *numbers.SWA["models"])
    ]
    for start_text in (start, start / len(models)):
        found = follow(f"swa(start={start_text}, cycle={cycle})", models)
        assert found[:start] == [None] * start
        close(found[start], [98.0])  # the model before the start, until the first capture
        close([found[t] for t in numbers.SWA["captured"]], [[w] for w in numbers.SWA["average"]])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"wima({numbers.WIMA['window']})", numbers.WIMA["average"]),
        (f"ema({numbers.EMA['gamma']})", numbers.EMA["average"]),
    ],
)
def test_window_and_exponential_means(text: str, expected: tuple[float, ...]) -> None:
    models = [torch.tensor([w], dtype=torch.float64) for w in numbers.SERIES]
    close(torch.cat(follow(text, models)), expected)


def test_the_loss_of_a_mixed_batch() -> None:
    """p(y) = 0.2, p(y') = 0.5 and lam = 0.3 cost -(0.3 log 0.2 + 0.7 log 0.5) = 0.96803440."""
    learner = Learner(torch.nn.Linear(1, 1), (1,), 3, seed=0, loss=cross_entropy, dtype="float64")
    output = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64).log()
    batch = Batch(torch.zeros(1, 1), Mixed(torch.tensor([0]), torch.tensor([1]), 0.3))
    close(learner.mean(output, batch)[0], 0.96803440)
    close(learner.mean(output, Batch(batch.inputs, batch.targets.first))[0], -np.log(0.2))
