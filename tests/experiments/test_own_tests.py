"""What clients score on their own test parts, where each keeps a part of the model: by hand, in
plain torch."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fedflat import fedavg, fedbn, silobn
from fedflat.client.local import LocalTraining
from fedflat.client.private_parameters import Private
from fedflat.composition.method import Method
from fedflat.data.sets.in_memory import clients_of
from fedflat.execution.workers import Workers
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.train import train
from fedflat.server.client_selection import ClientSampler

RNG = torch.Generator().manual_seed(5)
SIZES = (64, 48, 34)
HEAD = Method(client=(Private("head"),), text="head()")


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))


def examples(client: int, size: int) -> tuple[Tensor, Tensor]:
    """Each client's inputs have a place and a width of their own, and classes that can be
    distinguished there."""
    x = torch.randn(size, 4, generator=RNG, dtype=torch.float64)
    return x * (client + 1) + 3 * client, x[:, :3].argmax(1)


DATA = [examples(client, size) for client, size in enumerate(SIZES)]


def experiment(method: Method, **more: Any) -> Experiment:
    on = clients_of(DATA, test=DATA[0], classes=3, split=0.5)
    return Experiment(
        method=method,
        on=on,
        model=network,
        rounds=2,
        dtype="float64",
        local=LocalTraining(batch_size=64, lr=0.3, epochs=20),
        **{"sampler": ClientSampler(cohorts=[[0, 1], [1]]), **more},
    )


def parts(setup: Any, client: int) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """What a client trains on, and what it is tested on."""
    held, mine = setup.fed.own_test(client), setup.fed.data(client)
    x, y = mine.examples.inputs.double(), mine.examples.targets
    return (x[mine.index], y[mine.index]), (x[held.index], y[held.index])


def is_own(method: Method, name: str) -> bool:
    """Whether a tensor of `network` stays with the clients."""
    keeps = {"head()": ("3.",), "fedbn()": ("1.",), "fedavg()": ()}
    return name.startswith(keeps.get(method.text, ("1.running_mean", "1.running_var")))


def by_hand(method: Method, setup: Any) -> tuple[nn.Module, dict[int, nn.Module]]:
    """Two rounds: the server's model, and the model of each client that has trained, as it left
    it."""
    server, at_home = setup.job.learner.module().double(), dict[int, nn.Module]()
    for cohort in ([0, 1], [1]):
        returned = []
        for client in cohort:
            module = copy.deepcopy(server)
            if client in at_home:
                mine = at_home[client].state_dict()
                module.load_state_dict(
                    {k: mine[k] if is_own(method, k) else v for k, v in server.state_dict().items()}
                )
            x, y = parts(setup, client)[0]
            stepper = torch.optim.SGD(module.parameters(), lr=0.3)
            for _ in range(20):
                stepper.zero_grad()
                nn.functional.cross_entropy(module(x), y).backward()
                stepper.step()
            at_home[client] = module
            returned.append((len(y), module.state_dict()))
        total = sum(size for size, _ in returned)
        mean = {
            key: value
            if is_own(method, key) or not value.is_floating_point()
            else sum(size * one[key] for size, one in returned) / total
            for key, value in server.state_dict().items()
        }
        server.load_state_dict(mean)
    return server.eval(), at_home


def accuracy(module: nn.Module, x: Tensor, y: Tensor) -> float:
    return float((module(x).argmax(1) == y).double().mean())


def by_the_batch(server: nn.Module, x: Tensor) -> nn.Module:
    """The server's model with the statistics of these inputs, which are one batch."""
    module = copy.deepcopy(server).train()
    module[1].momentum = 1.0  # type: ignore[index, assignment]
    module(x)
    module[1].running_var *= (len(x) - 1) / len(x)  # type: ignore[index, operator]
    return module.eval()


def expected(method: Method, setup: Any) -> list[float]:
    """Client by client: a client that has trained with what it keeps, client 2 by the rule for
    where no client has trained."""
    server, at_home = by_hand(method, setup)
    found = []
    for client in range(3):
        _, (x, y) = parts(setup, client)
        if client in at_home and method.text != "silobn(seen='batch')":
            mine = at_home[client].state_dict()
            own = {k: mine[k] if is_own(method, k) else v for k, v in server.state_dict().items()}
            module = copy.deepcopy(server)
            module.load_state_dict(own)
            found.append(accuracy(module.eval(), x, y))
        elif method.text.startswith("silobn"):  # eight by eight, none alone
            cuts = [8] * (len(y) // 8) + ([len(y) % 8] if len(y) % 8 else [])
            if cuts[-1] == 1:
                cuts[-2:] = [9]
            right = [
                accuracy(by_the_batch(server, one), one, its) * len(its)
                for one, its in zip(x.split(cuts), y.split(cuts), strict=True)
            ]
            found.append(sum(right) / len(y))
        else:
            found.append(accuracy(server, x, y))
    return found


@pytest.mark.parametrize(
    "method", [fedbn(), silobn(), silobn(seen="batch"), HEAD, fedavg()], ids=repr
)
def test_each_client_is_tested_with_what_it_keeps(method: Method) -> None:
    exp = experiment(method)
    setup = prepare(exp)
    row = train(exp).rows[-1]
    assert row["clients"] == pytest.approx(sum(expected(method, setup)) / 3, abs=1e-9)
    if method.text in ("fedbn()", "silobn()", "head()"):
        server, _ = by_hand(method, setup)
        assert (
            row["clients"]
            > 0.1 + sum(accuracy(server, *parts(setup, client)[1]) for client in range(3)) / 3
        )


@pytest.mark.usefixtures("warm_processes")
def test_worker_processes_test_at_clients_too() -> None:
    here, there = train(experiment(silobn())), train(experiment(silobn()), executor=Workers(1))
    assert here.rows[-1]["clients"] == there.rows[-1]["clients"]
