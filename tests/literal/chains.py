"""FedSeq: clients of a superclient train one after the other.

Zaccone et al., Speeding up Heterogeneous Federated Learning with Sequentially Trained Superclients, ICPR 2022.

    for each round t, each superclient S_i of the round:
 1      x = w^t
 2      for each client k of S_i, in order:  x <- local SGD from x on the data of k
    server:
 3      w^{t+1} = sum_i |D_{S_i}| x_i / sum_i |D_{S_i}|
"""

from __future__ import annotations

import numpy as np

from literal.problem import Plan, Problem, Trace, walk


def run(problem: Problem, plan: Plan, chains: list[list[list[int]]]) -> Trace:
    """``chains[t]``: the superclients of round t, each a list of clients in the order of visits. Trace: server."""
    w = problem.w0
    trace = Trace(server=[])
    for t in range(plan.rounds):
        total, mean = 0, np.zeros(problem.dim)
        for chain in chains[t]:
            x = w  # 1
            for k in chain:
                x = walk(problem, plan, t, k, x)  # 2
            size = sum(problem.sizes[k] for k in chain)
            total, mean = total + size, mean + size * x
        w = mean / total  # 3
        trace.server.append(w)
    return trace
