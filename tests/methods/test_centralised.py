"""Centralised training and its controls against a loop written with torch alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fedflat import centralised, fedavgm, median, mlp, scaffold
from fedflat.client.local import LocalTraining
from fedflat.data.sets.in_memory import clients_of
from fedflat.errors import SettingError
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.train import train
from fedflat.server.client_selection import ClientSampler
from methods.observers import method_of

RNG = torch.Generator().manual_seed(0)
DATA = [(torch.randn(n, 4, generator=RNG), torch.arange(n) % 3) for n in (5, 9, 6)]
LOCAL = LocalTraining(batch_size=4, lr=0.1, momentum=0.7, weight_decay=0.01)


def experiment(text: str, local: LocalTraining = LOCAL) -> Experiment:
    on = clients_of(DATA, test=DATA[0], classes=3)
    return Experiment(
        method=method_of(text),
        on=on,
        model=mlp([5]),
        rounds=3,
        local=local,
        sampler=ClientSampler(clients=2),
        seed=1,
        dtype="float64",
    )


@pytest.mark.parametrize("kind", ["plain", "sam", "last_sam"])
def test_against_a_loop_by_hand(kind: str) -> None:
    """All data in one place; the momentum, and the gradient SAM-tilde climbs along, go on from
    round to round."""
    rho = 0.3
    exp = experiment("centralised()" + ("" if kind == "plain" else f" + {kind}(rho={rho})"))
    setup = prepare(exp)
    result = train(setup)
    module = setup.job.learner.module().double()
    x, y = (torch.cat([pair[i] for pair in DATA]) for i in (0, 1))
    x = x.double()
    params = list(module.parameters())
    w = torch.cat([p.detach().view(-1) for p in params])
    m = last = None

    def gradient(at: Tensor, places: Tensor) -> Tensor:
        torch.nn.utils.vector_to_parameters(at, params)
        grads = torch.autograd.grad(cross_entropy(module(x[places]), y[places]), params)
        return torch.cat([g.reshape(-1) for g in grads])

    for t in range(3):
        for places in LOCAL.batches(1, t, 0, 20):
            climb = gradient(w, places) if kind == "sam" else last if kind == "last_sam" else None
            eps = 0.0 if climb is None else rho * climb / climb.norm()
            last = gradient(w + eps, places)
            u = last + 0.01 * w
            m = u if m is None else 0.7 * m + u
            w = w - 0.1 * m
    assert result.model is not None
    torch.testing.assert_close(result.model.params, w, rtol=1e-10, atol=1e-11)
    assert (result.ledger.down, result.ledger.up) == (0, 0)
    assert result.ledger.samples == 3 * 20


def test_there_is_no_server() -> None:
    with pytest.raises(
        SettingError, match=r"centralised training has no server, so server_momentum\(\)"
    ):
        centralised() + fedavgm()
    with pytest.raises(SettingError, match=r"centralised training has no server, so median\(\)"):
        centralised() + median()


@pytest.mark.parametrize("text", ["scaffold()", "feddc(0.1)", "fedcm()", "mofedsam()"])
def test_what_divides_updates_by_the_rate_refuses_local_adam(text: str) -> None:
    with pytest.raises(SettingError, match=r"wrong with local Adam|no gradients with local Adam"):
        prepare(experiment(f"{text} + local_adam()", LocalTraining()))
    with pytest.raises(SettingError, match="local momentum cannot be added"):
        prepare(experiment("local_adam()"))


def test_scaffold_refuses_local_momentum() -> None:
    for text in ("scaffold()", "feddc(0.1)", "fedgamma()", "fedlesam() + scaffold()"):
        with pytest.raises(
            SettingError, match=r"scaffold divides .* wrong with local momentum\. Use momentum 0"
        ):
            prepare(experiment(text))
        prepare(experiment(text, LocalTraining(weight_decay=0.1, clip=1.0)))
    assert scaffold().weighting == "uniform"
