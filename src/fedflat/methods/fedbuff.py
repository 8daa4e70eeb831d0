"""FedBuff and FedAsync: asynchronous servers that weight replies by their staleness.

Nguyen et al., Federated Learning with Buffered Asynchronous Aggregation, AISTATS 2022 (FedBuff).
Xie, Koyejo and Gupta, Asynchronous Federated Optimization, 2019 (FedAsync).

    FedBuff     after K replies   w <- w - mean_k s(t-v) (w^v - x_k)      x_k trained from w^v
    FedAsync    after each reply  w <- w - alpha s(t-v) (w - x_k)

The methods choose a topology; `fedflat.topologies.asynchronous` has the weights s:

    fedbuff(buffer=5)      asynchronous(buffer=5, staleness='polynomial')
    fedasync(alpha=0.6)    asynchronous(mixing=0.6, staleness='polynomial')
"""

from __future__ import annotations

from fedflat.composition.method import Method, method
from fedflat.core.schedules import Scalar, scalar
from fedflat.topologies.asynchronous import POLYNOMIAL, Asynchronous


@method
def fedbuff(
    buffer: int = 5,
    concurrency: int | None = None,
    staleness: str = POLYNOMIAL,
    a: float | None = None,
    b: float | None = None,
    durations: str | None = None,
    spread: float | None = None,
) -> Method:
    """Asynchronous server that steps after ``buffer`` replies (Nguyen et al., AISTATS 2022).

    ``concurrency`` clients train at any time, by default as many as clients a round. Stale replies
    weigh less.
    """
    return Method(
        topology=Asynchronous(buffer, concurrency, staleness, a, b, None, durations, spread)
    )


@method
def fedasync(
    alpha: Scalar = 0.6,
    concurrency: int | None = None,
    staleness: str = POLYNOMIAL,
    a: float | None = None,
    b: float | None = None,
    durations: str | None = None,
    spread: float | None = None,
) -> Method:
    """Asynchronous server that mixes in each model with weight ``alpha`` (Xie et al., 2019).

    ``concurrency`` clients train at any time, by default as many as clients a round. Stale models
    weigh less.
    """
    scalar("fedasync", "alpha", alpha, open_low=True, high=1)
    return Method(topology=Asynchronous(1, concurrency, staleness, a, b, alpha, durations, spread))
