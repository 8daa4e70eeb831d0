"""SWA on the server. Izmailov et al., UAI 2018; Caldarola et al., ECCV 2022, Algorithm 1 and Eqs.
7, 8.

    from round t_s on, with j = t - t_s + 1 and n = 0 at t_s:
 1      c = 1:  eta_l = gamma_1
        c > 1:  r = ((j - 1) mod c + 1) / c;  eta_l = (1 - r) gamma_1 + r gamma_2
 2      after the round, if j mod c = 0:  w_swa <- (n w_swa + w^{t+1}) / (n + 1);  n <- n + 1
    w_swa starts as w^{t_s}, and the first capture replaces it.

The counter n is that of completed cycles (Eq. 8), not the ``t / c`` of the box; a capture is taken
at the cycle's lowest rate.
"""

from __future__ import annotations

from collections.abc import Sequence

from literal.problem import Array, Trace


def rates(
    lr: Sequence[float], *, start: int, cycle: int, gamma_1: float, gamma_2: float
) -> list[float]:
    """eta_l of every round: the given one before the start, then the cyclic one."""
    result = []
    for t in range(len(lr)):
        j = t - start + 1
        if t < start:
            result.append(lr[t])
        elif cycle == 1:
            result.append(gamma_1)  # 1
        else:
            r = ((j - 1) % cycle + 1) / cycle
            result.append((1 - r) * gamma_1 + r * gamma_2)
    return result


def run(models: Sequence[Array], *, initial: Array, start: int, cycle: int) -> Trace:
    """Follow the server's models ``w^1 .. w^T``; ``initial`` is w^0.

    Trace: average (after each round; None before the start), captured (the rounds of the captures).
    """
    trace = Trace(average=[], captured=[])
    w_swa, n = None, 0
    for t in range(len(models)):
        if t == start:
            w_swa = initial if t == 0 else models[t - 1]  # w^{t_s}
        if t >= start:
            j = t - start + 1
            if j % cycle == 0:
                w_swa = (n * w_swa + models[t]) / (n + 1)  # 2
                n = n + 1
                trace.captured.append(t)
        trace.average.append(w_swa)
    return trace
