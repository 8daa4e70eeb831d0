"""FedSeq: clients of a superclient train one after the other.

Zaccone et al., Speeding up Heterogeneous Federated Learning with Sequentially Trained Superclients,
ICPR 2022.

    for each round t, each superclient S_i of the round:
 1      x = w^t
 2      E_S times, for each client k of S_i, in an order of the pass:  x <- local SGD from x on the data of k
    server:
 3      w^{t+1} = sum_i |D_{S_i}| x_i / sum_i |D_{S_i}|

FedCyclic is one superclient, the cohort. FedSeq2Par is FedSeq with other superclients now and then:

    n(t)   = min(K, f(t)),  t = 1, 2, ...
    f_lin  = b floor(a (t - 1) + 1);  f_log = b floor(a ln t + 1);  f_exp = b floor((1 + a)^(t - 1))
    m(t)   = max(1, floor(C n(t)))
"""

from __future__ import annotations

import math

import numpy as np

from literal.problem import Plan, Problem, Trace, local_train


def run(problem: Problem, plan: Plan, chains: list[list[list[int]]]) -> Trace:
    """``chains[t]``: the superclients of round t, each a list of clients in the order of requests,
    with those of later passes. Trace: server."""
    w = problem.w0
    trace = Trace(server=[])
    for t in range(plan.rounds):
        total, mean = 0, np.zeros(problem.dim)
        for chain in chains[t]:
            x = w  # 1
            for k in chain:
                x = local_train(problem, plan, t, k, x)  # 2
            size = sum(problem.sizes[k] for k in set(chain))
            total, mean = total + size, mean + size * x
        w = mean / total  # 3
        trace.server.append(w)
    return trace


def superclients(kind: str, a: float, b: int, t: int, clients: int) -> int:
    """n(t) of FedSeq2Par, t = 1, 2, ..."""
    f = {
        "linear": a * (t - 1) + 1,
        "logarithmic": a * math.log(t) + 1,
        "exponential": (1 + a) ** (t - 1),
    }[kind]
    return min(clients, b * math.floor(f))
