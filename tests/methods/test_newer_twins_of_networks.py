"""Loss terms, FedGMT and FedSOL against twins with gradients derived by hand, to 1e-10.

The runs are those of ``test_twins_of_networks``. Numbers for single examples were computed apart
from the code.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedflat.client.distillation import divergence
from fedflat.client.piece import ClientContext
from fedflat.errors import SettingError
from fedflat.execution.client_pool import Executor
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.methods.feddecorr import correlation_penalty
from fedflat.methods.logit_calibration import RestrictedSoftmax
from fedflat.methods.moon import ModelContrast, contrast
from fedflat.models.simple import mlp
from literal import feddecorr, fedgmt, fedntd, fedsol, logit_calibration, moon
from literal.network import Examples
from literal.problem import Plan
from methods.test_against_twins import HARD, same
from methods.test_numbers import close
from methods.test_twins_of_networks import CLASSES, FEATURES, agree, planned, replayed

WIDTH, PROJECTED = 5, 4
SHAPES = [(WIDTH, FEATURES), (WIDTH,), (CLASSES, WIDTH), (CLASSES,)]
LONG = [
    *SHAPES[:2],
    (WIDTH, WIDTH),
    (WIDTH,),
    (PROJECTED, WIDTH),
    (PROJECTED,),
    (CLASSES, PROJECTED),
    (CLASSES,),
]
RHO = pytest.mark.parametrize("rho", [0.0, 0.2])


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, WIDTH), nn.Tanh(), nn.Linear(WIDTH, CLASSES))


@pytest.fixture(scope="module")
def hard() -> dict[str, Any]:
    """Weight decay, momentum and clipping."""
    return {**HARD, "clip": 0.4}


def lacking(seed: int, hard: dict[str, Any], shapes: Any = SHAPES) -> tuple[Examples, Plan]:
    """Two clients lack a class."""
    data, plan = planned(seed, shapes, hard)
    y = [np.minimum(labels, 1) if k < 2 else labels for k, labels in enumerate(data.y)]
    return replace(data, y=y), plan


def matrix(*rows: tuple[float, ...]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64, requires_grad=True)


@RHO
@pytest.mark.parametrize("T", [1.0, 3.0])
def test_fedntd(hard: dict[str, Any], rho: float, T: float) -> None:
    data, plan = planned(71, SHAPES, hard)
    trace = fedntd.run(data, plan, shapes=SHAPES, beta=0.8, T=T, rho=rho)
    text = f"fedntd(beta=0.8, T={T}) + sam(rho={rho}) + all_clients()"
    agree(replayed(text, network(), data, plan), trace, plan)
    without = fedntd.run(data, plan, shapes=SHAPES, beta=0.0, T=T, rho=rho)
    assert np.abs(trace.server[-1] - without.server[-1]).max() > 1e-4


def test_fedntd_by_hand() -> None:
    z, z_g = np.array([2.0, 1.0, 0.0]), np.array([0.0, 1.0, 2.0])
    close(fedntd.term(z, z_g, 0, 1.0), 0.46211716)
    slope = fedntd.term_slope(z[None], z_g[None], np.array([0]), 1.0)
    close(slope, [[0, 0.46211716, -0.46211716]])
    own = matrix((1.0, 0.0))
    value = divergence(matrix((1.0, 2.0)).detach(), own)
    value.backward()
    close(value.detach(), 0.46211716)
    close(own.grad, [[0.46211716, -0.46211716]])


@RHO
@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("fedlc(tau=0.7)", {"tau": 0.7}),
        ("fedrs(alpha=0.3)", {"alpha": 0.3}),
        ("fedrs(alpha=0.3, flavour='repo')", {"alpha": 0.3, "flavour": "repo"}),
    ],
)
def test_calibrated_scores(
    hard: dict[str, Any], text: str, options: dict[str, Any], rho: float
) -> None:
    data, plan = lacking(72, hard)
    trace = logit_calibration.run(data, plan, shapes=SHAPES, classes=CLASSES, rho=rho, **options)
    found = replayed(f"{text} + sam(rho={rho}) + all_clients()", network(), data, plan)
    agree(found, trace, plan)
    plain = replayed(f"sam(rho={rho})", network(), data, plan)
    assert np.abs(trace.server[-1] - plain.server[-1]).max() > 1e-3


def test_fedlc_by_hand() -> None:
    z, counts = np.array([1.0, 2.0, 3.0]), np.array([16.0, 1.0, 81.0])
    value, slope = logit_calibration.loss_and_slope(z, 0, counts, tau=0.1)
    close(value, 2.40685039)
    scores = np.array([0.95, 1.9, 2.96666667])
    p = np.exp(scores) / np.exp(scores).sum()
    close(slope, p - [1, 0, 0])
    close(value, -np.log(p[0]))


@pytest.mark.parametrize(
    ("flavour", "factors"), [("paper", (1.0, 1.0, 0.5)), ("repo", (1.0, 0.75, 0.5))]
)
def test_fedrs_by_hand(flavour: str, factors: tuple[float, ...]) -> None:
    """Scores (2, 4, 6) of a client with 8, 4 and 0 examples of the classes."""
    found = RestrictedSoftmax(0.5, flavour).calibrated(
        cast(ClientContext, None), matrix((2.0, 4.0, 6.0)), torch.tensor([8.0, 4.0, 0.0])
    )
    close(found.detach(), [np.array([2.0, 4.0, 6.0]) * factors])


@pytest.mark.parametrize("executor", [InProcess(), Stacked()], ids=["one by one", "stacked"])
@pytest.mark.parametrize(("rho", "scale"), [(0.0, "repo"), (0.2, "repo"), (0.0, "paper")])
def test_feddecorr(hard: dict[str, Any], rho: float, scale: str, executor: Executor) -> None:
    data, plan = planned(73, SHAPES, hard)
    alone = [{k: [*b, [0]] for k, b in order.items()} for order in plan.orders]
    plan = replace(plan, orders=alone)  # a batch of one example at the end
    paper = scale == "paper"
    trace = feddecorr.run(data, plan, shapes=SHAPES, coef=0.3, paper=paper, rho=rho)
    text = f"feddecorr(coef=0.3, scale='{scale}') + sam(rho={rho}) + all_clients()"
    agree(replayed(text, network(), data, plan, executor), trace, plan)


def test_feddecorr_by_hand() -> None:
    """The correlation outside the diagonal is 1.19207911."""
    rows = ((1.0, 2.0), (2.0, 1.0), (3.0, 3.5))
    close(feddecorr.penalty(np.array(rows))[0], 0.47368420)
    features = matrix(*rows)
    value = correlation_penalty(features)
    value.backward()
    close(value.detach(), 0.47368420)
    close(value.detach(), 1.19207911**2 / 3)
    close(features.grad, feddecorr.penalty(np.array(rows))[1])
    # The correlation is R / 2, and two of four entries are outside the diagonal.
    close(correlation_penalty(matrix(*rows), "paper").detach(), 2 * (1.19207911 / 2) ** 2 / 4)


@pytest.mark.parametrize("projected", [False, True])
def test_moon(hard: dict[str, Any], projected: bool) -> None:
    shapes = LONG if projected else SHAPES
    data, plan = planned(74, shapes, hard)
    trace = moon.run(data, plan, shapes=shapes, mu=2.0, T=0.5)
    module = network()
    if projected:
        parts = [nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, PROJECTED)]
        module = nn.Sequential(*list(module)[:2], *parts, nn.Linear(PROJECTED, CLASSES))
    text = "moon(mu=2.0, T=0.5, projection=0) + all_clients()"
    agree(replayed(text, module, data, plan), trace, plan)
    without = moon.run(data, plan, shapes=shapes, mu=0.0, T=0.5)
    assert np.abs(trace.server[-1] - without.server[-1]).max() > 1e-4


def test_moon_by_hand() -> None:
    """Cosines 0.8 and 0.3."""
    close(moon.contrast(0.8, 0.3, 0.5), 0.31326169)
    own = matrix((1.0, 0.0))
    sent, last = matrix((0.8, 0.6)), matrix((0.3, np.sqrt(1 - 0.09)))
    close(contrast(own, sent, last, 0.5).detach(), 0.31326169)


def test_the_projection_of_moon() -> None:
    given = network()
    found = ModelContrast(projection=PROJECTED).module(lambda: given, torch.zeros(2, FEATURES))
    assert [tuple(p.shape) for p in found.parameters()] == LONG
    assert [tuple(p.shape) for p in given.parameters()] == SHAPES
    assert found(torch.zeros(2, FEATURES)).shape == (2, CLASSES)
    built = ModelContrast(projection=7).module(
        lambda: mlp([5]).build((1, 8, 8), 3), torch.zeros(2, 1, 8, 8)
    )
    assert tuple(list(built.parameters())[-2].shape) == (3, 7)
    with pytest.raises(SettingError, match="a linear last layer"):
        ModelContrast().module(lambda: nn.Conv2d(1, 1, 1), torch.zeros(2, 1, 8, 8))


@RHO
def test_fedgmt(hard: dict[str, Any], rho: float) -> None:
    data, plan = planned(75, SHAPES, hard)
    options = {"alpha": 0.6, "gamma": 0.7, "beta": 5.0, "T": 2.0}
    trace = fedgmt.run(data, plan, shapes=SHAPES, **options)
    text = "fedgmt(" + ", ".join(f"{name}={value}" for name, value in options.items()) + ")"
    found = replayed(f"{text} + all_clients()", network(), data, plan)
    agree(found, trace, plan)
    same([run.states["fedgmt"]["e"] for run in found.runs], trace.e)
    without = fedgmt.run(data, plan, shapes=SHAPES, **{**options, "gamma": 0.0})
    assert np.abs(trace.server[-1] - without.server[-1]).max() > 1e-4
    if rho:
        climbing = replayed(f"{text} + sam(rho={rho})", network(), data, plan)
        assert np.abs(np.array(climbing.server[-1]) - trace.server[-1]).max() > 1e-5


def test_the_term_of_fedgmt_does_not_act_in_a_first_step(hard: dict[str, Any]) -> None:
    """With ``alpha = 0`` the mean of the models is the model that was sent."""
    data, plan = planned(79, SHAPES, hard)
    one = replace(plan, orders=[{k: b[:1] for k, b in order.items()} for order in plan.orders])
    pulled, plain = (
        replayed(f"fedgmt(alpha=0, gamma={gamma})", network(), data, one) for gamma in (2, 0)
    )
    same(pulled.server, plain.server)
    longer = replayed("fedgmt(alpha=0, gamma=2)", network(), data, plan)
    without = replayed("fedgmt(alpha=0, gamma=0)", network(), data, plan)
    assert np.abs(np.array(longer.server[-1]) - without.server[-1]).max() > 1e-5


def test_the_term_of_fedgmt_by_hand() -> None:
    """T^2 = 9 times the divergence, for z = (1, 0) and z_e = (0, 1)."""
    own = matrix((1.0, 0.0))
    value = 9 * divergence(matrix((0.0, 1.0)).detach(), own, 3.0)
    value.backward()
    close(value.detach(), 0.49542124)
    close(own.grad, [[0.49542124, -0.49542124]])


@pytest.mark.parametrize("form", ["fixed", "adaptive"])
@pytest.mark.parametrize("scope", ["all", "head", "body"])
def test_fedsol(hard: dict[str, Any], form: str, scope: str) -> None:
    data, plan = planned(76, SHAPES, hard)
    head = np.arange(len(data.w0)) >= len(data.w0) - CLASSES * (WIDTH + 1)
    where = {"all": None, "head": head, "body": ~head}[scope]
    trace = fedsol.run(data, plan, rho=0.5, proximal="kl", form=form, shapes=SHAPES, where=where)
    text = f"fedsol(rho=0.5, form='{form}', scope='{scope}') + all_clients()"
    agree(replayed(text, network(), data, plan), trace, plan)


def test_fedsol_moves_running_statistics_in_the_pass_before_the_perturbation() -> None:
    """After two steps of round 0 they are those of FedAvg: the first step is FedAvg's, and both
    methods pass the second batch at the same point."""
    data, plan = planned(80, SHAPES, {})
    orders = [{k: b[:2] for k, b in order.items()} for order in plan.orders]

    def first_round(text: str) -> Any:
        module = nn.Sequential(
            nn.Linear(FEATURES, WIDTH),
            nn.BatchNorm1d(WIDTH, affine=False),
            nn.Linear(WIDTH, CLASSES),
        )
        return replayed(text, module, data, replace(plan, orders=orders)).runs[0].model

    found, plain = first_round("fedsol(rho=5, form='fixed')"), first_round("fedavg()")
    torch.testing.assert_close(found.buffers, plain.buffers, rtol=1e-12, atol=1e-12)
    assert (found.params - plain.params).abs().max() > 1e-4


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("fedntd() + mixup()", "needs one label for each example"),
        ("fedntd() + sam()", None),
        ("moon(projection=0) + feddecorr() + fedlc() + fedntd()", None),
    ],
)
def test_terms_together(text: str, reason: str | None) -> None:
    data, plan = lacking(77, {})
    if reason is None:
        assert np.isfinite(replayed(text, network(), data, plan).server).all()
        return
    with pytest.raises(SettingError, match=reason):
        replayed(text, network(), data, plan)


def test_terms_of_weight_0_change_nothing() -> None:
    data, plan = lacking(78, {})
    plain = replayed("fedavg()", network(), data, plan).server
    for text in (
        "fedntd(beta=0)",
        "feddecorr(coef=0)",
        "moon(mu=0, projection=0)",
        "fedrs(alpha=1)",
        "fedrs(alpha=1, flavour='repo')",
    ):
        same(replayed(text, network(), data, plan).server, plain)
