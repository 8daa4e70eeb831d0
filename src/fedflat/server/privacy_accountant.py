"""The privacy budget that rounds with clipped and noised updates have spent.

The library ``dp-accounting`` (the extra ``fedflat[privacy]``) computes it by Rényi differential
privacy.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec

from fedflat.errors import SettingError

ORDERS = (*range(2, 65), 80, 96, 128, 192, 256, 512)
"""Rényi orders. Whole numbers have closed forms."""
SAMPLERS = ("uniform", "bernoulli", "given")
"""The samplers with which a budget can be computed. Given cohorts hide nothing."""


def require_accountant() -> None:
    """Raise `SettingError` if the library is not installed."""
    if find_spec("dp_accounting") is None:
        raise SettingError(
            "dp: the privacy budget is computed by dp-accounting, which is not installed. Install "
            "it: pip install 'fedflat[privacy]'."
        )


@lru_cache(maxsize=4096)
def epsilon(
    *, noise: float, delta: float, rounds: int, cohort: int, population: int, sampler: str
) -> float:
    """Return epsilon after ``rounds`` rounds, for one ``delta``.

    Neighbouring federations differ in one client. "bernoulli" selects every client independently:
    one client more or less. "uniform" selects cohorts of a fixed size: one client replaced by
    another, which changes the sum by up to twice the clip. If every client takes part in every
    round, or cohorts are "given", nothing is hidden by sampling: one client more or less.

    Args:
        noise: The noise multiplier: standard deviation of the noise in the sum, in clips.
        delta: The probability that the guarantee does not hold.
        rounds: The number of rounds so far.
        cohort: Clients per round, or their expected number.
        population: All clients.
        sampler: One of `SAMPLERS`.

    >>> one = epsilon(noise=1.0, delta=1e-5, rounds=1, cohort=10, population=10, sampler="uniform")
    >>> 4.37 < one < 5.30  # the exact value 4.377; Renyi's bound 1/2 + sqrt(2 log 1e5)
    True
    """
    import dp_accounting as dp
    from dp_accounting import rdp

    gaussian = dp.GaussianDpEvent(noise)
    relation = dp.NeighboringRelation.ADD_OR_REMOVE_ONE
    if cohort >= population or sampler == "given":
        event: dp.DpEvent = gaussian
    elif sampler == "bernoulli":
        event = dp.PoissonSampledDpEvent(cohort / population, gaussian)
    else:
        event = dp.SampledWithoutReplacementDpEvent(
            population, cohort, dp.GaussianDpEvent(noise / 2)
        )
        relation = dp.NeighboringRelation.REPLACE_ONE
    accountant = rdp.RdpAccountant(ORDERS, relation)
    accountant.compose(event, rounds)
    return float(accountant.get_epsilon(delta))
