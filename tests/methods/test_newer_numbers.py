"""The numbers of the toy problem Q for the newer methods, and numbers computed by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from literal import fednova, more_numbers
from literal.problem import toy_q
from methods.observers import method_of
from methods.test_numbers import close
from quadratic import replay

TEXTS = {
    "fedexp/full": "fedexp(eps=0.001)",
    "fednova/full": "fednova()",
    "fednova/part": "fednova(tau_eff='steps')",
    "fedinit/full": "fedinit(beta=0.1)",
    "fedinit/part": "fedinit(beta=0.1)",
    "fedinit/start": "fedinit(beta=0.1, origin='start')",
    "fedswa/full": "fedswa(rho=0.1, alpha=1.5)",
    "fedswa/part": "poly_rate(power=1, factor=1.1111111111111112) + server_sgd(lr=1.5)",
    "fedmoswa/full": "fedmoswa(rho=0.1, alpha=1.5, gamma=0.2)",
    "fedmoswa/part": "fedmoswa()",
    "fedgmt/full": "fedgmt(alpha=0.95, gamma=0, beta=10)",
    "fedgmt/part": "fedgmt(gamma=0)",
    "fedgmt/active": "fedgmt(gamma=0, dual='active')",
    "fedsol/full": "fedsol(rho=0.5, form='fixed', proximal='l2')",
    "fedsol/part": "fedsol(rho=0.5, form='fixed', proximal='l2')",
    "fedtoga/full": "fedtoga(rho=0.5, alpha=0.1, beta=0.9, kappa=1)",
    "fedtoga/part": "fedtoga(rho=0.5)",
    "fedwmsam/full": "fedwmsam(rho=0.5, a=0.1, lam=0.01)",
    "fedwmsam/part": "fedwmsam(rho=0.5)",
    "fedwmsam/plain": "fedwmsam(rho=0)",
    "fednsam/full": "fednsam(lam=0.85, rho=0.5)",
    "fednsam/part": "fedacg(lam=0.85, beta=0) + sam(rho=0.5)",
}
"""The text of each case."""
STORED = {"fedmoswa": "scaffold", "fedgmt": "fedgmt", "fedwmsam": "fedwmsam"}
"""The piece that stores what a trace has."""
NAMES = {"c_k": "c", "D": "direction"}
"""How we call a value of a trace, where it has another name."""


def test_every_case_is_reported() -> None:
    assert set(more_numbers.CASES) == set(TEXTS)


@pytest.mark.parametrize("name", TEXTS)
def test_the_models_after_each_round(name: str) -> None:
    case = more_numbers.CASES[name]
    problem, plan = toy_q(case.participation, case.sizes, case.rounds)
    run_folder = replay(method_of(TEXTS[name]), problem, replace(plan, **case.plan))
    close(run_folder.server, case.server)
    for (field, t, *client), expected in case.state.items():
        if field == "eta":
            close(run_folder.rows[t]["eta_g"], expected)
            continue
        key, field = STORED[name.partition("/")[0]], NAMES.get(field, field)
        stored = run_folder.learnt[t][client[0]] if client else run_folder.runs[t].states
        close(stored[key][field], expected)


def test_fednova_by_hand() -> None:
    """Client 0 takes two steps, client 1 one. d_0 = (0.72, 0.57) / 2, d_1 = (0.3, 0.4), tau_eff =
    1.5: the step is 1.5 (0.33, 0.3425)."""
    problem, plan = toy_q(rounds=1)
    plan = replace(plan, orders=[{0: [[0], [0]], 1: [[0]]}])
    expected = [(3 - 0.495, 2 - 0.51375)]
    close(fednova.run(problem, plan).server, expected)
    close(replay(method_of("fednova()"), problem, plan).server, expected)
    averaged: Any = replay(method_of("fedavg()"), problem, plan).server
    close(averaged, [(3 - 0.51, 2 - 0.485)])


@pytest.mark.parametrize(("flavour", "eta"), [("paper", 2.04980843), ("repo", 2.04198473)])
def test_fedexp_by_hand(flavour: str, eta: float) -> None:
    """One step of rate 1 from 0 on quadratics with gradients (1, 0.5) and (-0.8, 0.5)."""
    problem, plan = toy_q(rounds=1)
    eye = [np.eye(2)[None], np.eye(2)[None]]
    centres = [np.array([[-1.0, -0.5]]), np.array([[0.8, -0.5]])]
    problem = replace(problem, H=eye, a=centres, w0=np.zeros(2))
    plan = replace(plan, orders=[{0: [[0]], 1: [[0]]}], lr=[1.0])
    run_folder = replay(method_of(f"fedexp(flavour='{flavour}')"), problem, plan)
    close(run_folder.rows[0]["eta_g"], eta)
    close(run_folder.server, [(-0.1 * eta, -0.5 * eta)])
