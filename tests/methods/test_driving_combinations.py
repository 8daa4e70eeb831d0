"""FedDrive's pieces on top of everything else: each trains, with finite numbers, and changes what
is learnt."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor, nn

import fedflat as ff
from fedflat.client.local import LocalTraining
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.train import train
from fedflat.registry.specs import parse
from fedflat.server.client_selection import ClientSampler

STREET = ff.street(
    towns=2,
    weather="sun,rain",
    view="car",
    clients=4,
    examples=4,
    width=32,
    height=16,
    tests=8,
    unseen_weather="fog",
    unseen_towns=0,
    seed=5,
)
DRIVING = ["cfsi(share=0.1)", "lab()", "silobn()", "silobn() + cfsi(share=0.1) + lab()"]
BASES = [
    "fedprox(mu=0.1)",
    "fedavgm(beta=0.9)",
    "fedadam(lr=0.01, flavour='torch')",
    "fedadagrad(lr=0.01)",
    "fedsam(rho=0.05)",
    "fedasam(rho=0.2)",
    "fedavg() + swa(start=1, cycle=1)",
    "fedasam(rho=0.2) + swa(start=1, cycle=1)",
    "fedgloss(rho_s=0.05, rho_l=0.05)",
    "man(zeta=0.1)",
]


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 4, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(4, 9, 1),
    )


@cache
def learnt(text: str) -> tuple[Tensor, dict[str, float]]:
    exp = Experiment(
        method=parse(text, "method"),
        on=STREET,
        model=network,
        task=parse("segmentation()", "task"),
        rounds=2,
        local=LocalTraining(batch_size=2, lr=0.05, epochs=1),
        sampler=ClientSampler(clients=2),
    )
    result = train(exp)
    assert result.model is not None
    return result.model.params, result.rows[-1]


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("driving", DRIVING)
def test_together(base: str, driving: str) -> None:
    params, row = learnt(f"{base} + {driving}")
    assert bool(params.isfinite().all())
    assert 0 <= row["miou"] <= 1
    assert 0 <= row["tests"]["unseen_weather"]["miou"] <= 1
    assert row["model"] == ("swa" if "swa" in base else "server")
    plain, scores = learnt(base)
    if (
        driving == "silobn()"
    ):  # learns as FedAvg does as long as no client comes twice; it is tested otherwise
        assert row["loss"] != scores["loss"]
    else:
        assert not torch.equal(params, plain)
