"""FedAsyncSeq: a bank of models that go from superclient to superclient and are merged every R
rounds.

   bank_i = w^0, p_i = 0 for all i
   for each round t, model i goes to superclient S_i:
1      bank_i <- local SGD through the clients of S_i, in order
2      p_i <- p_i + |D_{S_i}|
   every R rounds:
3      w = sum_i p_i bank_i / sum_i p_i,   bank_i <- w,   p_i <- 0
   between them the same mean is evaluated
"""

from __future__ import annotations

import numpy as np

from literal.problem import Plan, Problem, Trace, local_train


def run(problem: Problem, plan: Plan, chains: list[list[list[int]]], R: int | None) -> Trace:
    """``chains[t][i]``: the clients that train model i in round t, in order. Trace: server, the
    mean; bank."""
    bank = [problem.w0.copy() for _ in chains[0]]
    p = [0 for _ in bank]
    trace = Trace(server=[], bank=[])
    for t in range(plan.rounds):
        for i, chain in enumerate(chains[t]):
            for k in chain:
                bank[i] = local_train(problem, plan, t, k, bank[i])  # 1
                p[i] += problem.sizes[k]  # 2
        mean = np.zeros(problem.dim)
        for i in range(len(bank)):
            mean += p[i] * bank[i] / sum(p)
        if R is not None and (t + 1) % R == 0:
            bank, p = [mean.copy() for _ in bank], [0 for _ in bank]  # 3
        trace.server.append(mean)
        trace.bank.append([one.copy() for one in bank])
    return trace
