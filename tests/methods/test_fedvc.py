"""FedVC: clients drawn in proportion to their size, equal work for all."""

from __future__ import annotations

from collections import Counter

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflat import fedavg
from fedflat.client.local import LocalTraining
from fedflat.data.sets.in_memory import clients_of
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.train import train
from fedflat.models.simple import logistic
from fedflat.server.client_selection import ClientSampler

SIZES = [50, 150, 800]
DRAWS = 4000


def draws(clients: int) -> list[list[int]]:
    sampler = ClientSampler(clients=clients, kind="by_size")
    return [sampler.draw(t, 3, 0, lambda: SIZES) for t in range(DRAWS)]


def test_one_client_is_drawn_by_its_size() -> None:
    """50, 150 and 800 examples: probabilities 0.05, 0.15 and 0.8, within four standard
    deviations."""
    seen = Counter(client for (client,) in draws(1))
    for client, p in enumerate((0.05, 0.15, 0.8)):
        assert abs(seen[client] / DRAWS - p) < 4 * (p * (1 - p) / DRAWS) ** 0.5


def test_two_clients_are_drawn_one_after_the_other_without_replacement() -> None:
    p = np.array(SIZES) / 1000
    orders = [(i, j) for i in range(3) for j in range(3) if i != j]
    left_out = [
        sum(p[i] * p[j] / (1 - p[i]) for i, j in orders if k not in (i, j)) for k in range(3)
    ]
    cohorts = draws(2)
    assert all(len(set(cohort)) == 2 and cohort == sorted(cohort) for cohort in cohorts)
    for k in range(3):
        share = sum(k not in cohort for cohort in cohorts) / DRAWS
        assert abs(share - left_out[k]) < 4 * (left_out[k] * (1 - left_out[k]) / DRAWS) ** 0.5


@given(seed=st.integers(0, 10**6), t=st.integers(0, 10**4))
@settings(max_examples=20)
def test_a_cohort_depends_on_seed_and_round_alone(seed: int, t: int) -> None:
    sampler = ClientSampler(clients=2, kind="by_size")
    assert sampler.draw(t, 3, seed, lambda: SIZES) == sampler.draw(t, 3, seed, lambda: SIZES)


def test_a_run() -> None:
    """Every request goes through as many examples, and every client counts alike."""
    rng = torch.Generator().manual_seed(0)
    data = [(torch.randn(n, 3, generator=rng), torch.arange(n) % 2) for n in (3, 40, 9)]
    exp = Experiment(
        method=fedavg(),
        on=clients_of(data, test=data[0], classes=2),
        model=logistic(),
        rounds=5,
        local=LocalTraining(virtual=12, batch_size=5, epochs=2),
        sampler=ClientSampler(clients=2, kind="by_size"),
        weighting="uniform",
    )
    result = train(exp)
    assert result.ledger.samples == 5 * 2 * 2 * 12
    assert [exp.local.planned_steps(0, k, n) for k, n in enumerate((3, 40, 9))] == [6, 6, 6]
