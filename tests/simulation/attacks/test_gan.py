"""Recovery with a GAN: it changes no training, keeps its state between requests, and gives the
same bits in every executor."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm
from torch import Tensor, nn

import fedflat as ff
from experiments.small import begin, final, go_on, rows, timeless
from fedflat.core.messages import Broadcast
from fedflat.core.seeds import derive
from fedflat.errors import SettingError
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.job_spec import Loopback
from fedflat.experiments.prepare import attacked_run, prepare
from fedflat.experiments.run_folder.record import read_record
from fedflat.experiments.state import last_state
from fedflat.registry.specs import parse
from fedflat.simulation.attacks.attack import ATTACK, AttackedRun
from fedflat.simulation.attacks.feature_network import frechet, moments
from fedflat.simulation.attacks.gan import (
    bounds,
    discriminator_loss,
    generator,
    generator_loss,
    rescale,
)

GAN = "gan(client=1, epochs=2, batch=16, z=5, width=4)"
RUN: dict[str, Any] = {
    "on": "digits(clients=30)",
    "rounds": 4,
    "model": "mlp(hidden=[4])",
    "clients_per_round": 10,
    "lr": 0.1,
    "eval_every": 1,
}
ONE = (torch.rand(1, 1, 8, 8), torch.zeros(1, dtype=torch.long))
LONELY = ff.clients_of([ONE, ONE], test=ONE, classes=2)
OWN = ("recovery_requests", "discriminator_loss", "generator_loss")
"""What the attack itself adds to an evaluation."""


def attacked_by(exp: Experiment) -> AttackedRun:
    """The run as its attack sees it."""
    setup = prepare(exp)
    return attacked_run(exp, setup.fed, setup.job.learner, setup.server.population)


def plain(rows: Any) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in row.items() if name not in OWN} for row in timeless(rows)
    ]


def attack_state(folder: Path) -> dict[str, Tensor]:
    """What the attack remembers, by the last checkpoint."""
    return last_state(folder, read_record(folder).identity).averages[ATTACK]


def test_the_losses() -> None:
    """D(x) = 0.8 and D(G(z)) = 0.3: - log 0.8 - log 0.7, and - log 0.3."""
    real, fake = (torch.logit(torch.tensor([p], dtype=torch.float64)) for p in (0.8, 0.3))
    assert float(discriminator_loss(real, fake)) == pytest.approx(0.57981850, abs=1e-8)
    assert float(generator_loss(fake)) == pytest.approx(1.20397280, abs=1e-8)


def test_targets_spread_around_one_and_zero() -> None:
    """The loss is linear in its targets: over many of them the noise cancels, and of a few it does
    not."""
    logits = torch.zeros(400_000, dtype=torch.float64) + 0.7
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        noisy = float(discriminator_loss(logits, logits, 0.1))
        few = float(discriminator_loss(logits[:4], logits[:4], 0.1))
    assert noisy == pytest.approx(float(discriminator_loss(logits, logits)), abs=1e-3)
    assert abs(few - noisy) > 1e-3


def test_frechet_in_one_and_two_dimensions() -> None:
    def gauss(mean: Any, covariance: Any) -> tuple[Tensor, Tensor]:
        return torch.tensor(mean, dtype=torch.float64), torch.tensor(
            covariance, dtype=torch.float64
        )

    assert frechet(gauss([0], [[1]]), gauss([1], [[4]])) == pytest.approx(2.0, abs=1e-12)
    a, b = gauss([0, 0], [[2, 0.5], [0.5, 1]]), gauss([1, -1], [[1, 0], [0, 3]])
    assert frechet(a, b) == pytest.approx(2.80885287, abs=1e-8)
    assert frechet(b, a) == pytest.approx(2.80885287, abs=1e-8)


@pytest.mark.parametrize("rank", [7, 3])
def test_frechet_against_scipy(rank: int) -> None:
    """Also where features lie in a plane, and a covariance has no inverse."""
    rng = np.random.default_rng(rank)
    sets = [
        rng.normal(size=(40, rank)) @ rng.normal(size=(rank, 7)) + rng.normal(size=7)
        for _ in range(2)
    ]
    means, spreads = [x.mean(0) for x in sets], [np.cov(x, rowvar=False, ddof=1) for x in sets]
    root = sqrtm(spreads[0] @ spreads[1] + (1e-15 if rank < 7 else 0) * np.eye(7))
    by_hand = ((means[0] - means[1]) ** 2).sum() + np.trace(
        spreads[0] + spreads[1] - 2 * np.real(root)
    )
    found = frechet(*(moments(torch.from_numpy(x)) for x in sets))
    assert found == pytest.approx(by_hand, rel=1e-8 if rank == 7 else 1e-4)
    assert frechet(*[moments(torch.from_numpy(sets[0]))] * 2) == pytest.approx(0, abs=1e-8)


@pytest.mark.parametrize(
    ("shape", "channels"),
    [
        ((3, 32, 32), [100, 512, 256, 128, 3]),
        ((1, 28, 28), [100, 256, 128, 1]),
        ((1, 8, 8), [100, 128, 1]),
        ((3, 9, 9), [100, 3]),
        ((1, 16, 8), [100, 128, 1]),
    ],
)
def test_the_generator(shape: tuple[int, ...], channels: list[int]) -> None:
    made = generator(shape, 100, 128)
    convolutions = [part for part in made.modules() if isinstance(part, nn.ConvTranspose2d)]
    assert [convolutions[0].in_channels, *(part.out_channels for part in convolutions)] == channels
    assert all(part.kernel_size == (4, 4) for part in convolutions[1:])
    assert made(torch.randn(2, 100)).shape == (2, *shape)
    assert sum(isinstance(part, nn.BatchNorm2d) for part in made.modules()) == len(channels) - 2
    assert float(convolutions[0].weight.detach().std()) == pytest.approx(0.02, rel=0.05)


@pytest.mark.parametrize("topology", ["star()", "chains(groups=6)"])
@pytest.mark.parametrize("executor", [ff.InProcess(1), ff.Stacked()], ids=["alone", "stacked"])
def test_the_run_does_not_change(topology: str, executor: Any) -> None:
    """Bit for bit, in a stack of clients too."""
    messages = {**RUN, "clients_per_round": 3, "topology": topology}
    honest, spied = (
        ff.train(ff.experiment("fedavg", **messages, attack=one), executor=executor)
        for one in (None, GAN)
    )
    assert torch.equal(honest.model.params, spied.model.params)
    assert plain(honest.rows) == plain(spied.rows)
    requests = [row["recovery_requests"] for row in spied.rows]
    assert requests == sorted(requests)


def test_every_request_agrees(tmp_path: Path) -> None:
    found = []
    for name, executor in (
        ("here", ff.InProcess(1)),
        ("there", Loopback()),
        ("more", ff.InProcess(2)),
    ):
        one = {**RUN, "rounds": 1, "clients_per_round": 30}
        ff.run("fedsam", **one, attack=GAN, out=tmp_path / name, executor=executor, quiet=True)
        found.append(attack_state(tmp_path / name))
    assert all(torch.equal(found[0][name], other[name]) for other in found[1:] for name in found[0])
    assert int(found[0]["requests"]) > 0


def test_stopped_and_resumed(tmp_path: Path) -> None:
    """The generator too: it is kept with the run."""
    exp = ff.experiment("fedavg", **RUN, attack=GAN)
    begin(exp, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        begin(exp, tmp_path / "run", stop=2)
    go_on(exp, tmp_path / "run")
    assert final(tmp_path / "run") == final(tmp_path / "whole")
    assert timeless(rows(tmp_path / "run")) == timeless(rows(tmp_path / "whole"))
    one, other = (attack_state(tmp_path / name) for name in ("run", "whole"))
    assert one.keys() == other.keys() == {"params", "buffers", "losses", "requests"}
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_request_by_hand() -> None:
    """Two requests, with plain PyTorch: D is the model that was sent with a line on its outputs, G
    is kept."""
    exp = ff.experiment("fedavg", **RUN, attack=GAN, dtype="float64")
    attack, attacked = exp.attack, attacked_by(exp)
    data = attacked.fed.data(1)
    x = data.batch(torch.arange(len(data)), torch.float64).inputs
    low, high = x.amin((0, 2, 3), keepdim=True), x.amax((0, 2, 3), keepdim=True)
    notes: dict[str, Tensor] = {}
    made = attack.new_generator(attacked).module
    for request in range(2):
        sent = attacked.learner.initial().params + 0.1 * request
        attack.observe(
            attacked, notes, 1, Broadcast(request, sent, torch.zeros(0, dtype=torch.float64), 0.1)
        )
        torch.manual_seed(derive(attacked.seed, "attack/visit", request))
        model = attacked.learner.module().double()
        nn.utils.vector_to_parameters(sent, model.parameters())
        headline = nn.Sequential(model, nn.Linear(10, 1).double())
        adams = [torch.optim.Adam(one.parameters(), 2e-4, (0.5, 0.999)) for one in (headline, made)]
        for _ in range(2):
            for places in torch.randperm(len(x)).split(16):
                if len(places) < 2:
                    continue
                z = torch.randn(len(places), 5, dtype=torch.float64)
                fake = low + (made.train()(z) + 1) / 2 * (high - low)
                on_real, on_fake = (
                    torch.sigmoid(headline(x[places])),
                    torch.sigmoid(headline(fake.detach())),
                )
                ones, zeros = 1 + 0.1 * torch.randn_like(on_real), 0.1 * torch.randn_like(on_fake)
                loss = -(ones * on_real.log() + (1 - ones) * (1 - on_real).log()).mean()
                loss = loss - (zeros * on_fake.log() + (1 - zeros) * (1 - on_fake).log()).mean()
                adams[0].zero_grad(), loss.backward(), adams[0].step()
                loss = -torch.sigmoid(headline(fake)).log().mean()
                adams[1].zero_grad(), loss.backward(), adams[1].step()
    flat = torch.cat([p.detach().reshape(-1) for p in made.parameters()])
    assert torch.allclose(notes["params"], flat, rtol=0, atol=1e-10)
    assert int(notes["requests"]) == 2


def test_the_attack_uses_the_broadcasts_to_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a chain that is what the client before it has made."""
    exp = ff.experiment(
        "fedavg", **{**RUN, "clients_per_round": 6, "topology": "chains(groups=6)", "attack": GAN}
    )
    received: list[tuple[int, Broadcast]] = []

    def overhear(self: Any, attacked: Any, notes: Any, client: int, broadcast: Broadcast) -> None:
        received.append((client, broadcast))

    monkeypatch.setattr(type(exp.attack), "observe", overhear)
    ff.train(exp)
    assert len(received) == 4 * 30  # every client of every chain, in every round
    sent = {(client, broadcast.round): broadcast.params for client, broadcast in received}
    first = [sent[client, 0] for client in range(30)]
    assert (
        sum(torch.equal(params, prepare(exp).job.learner.initial().params) for params in first) == 6
    )


def test_images_lie_where_the_attackers_own_do() -> None:
    exp = ff.experiment("fedavg", **RUN, attack=GAN)
    attacked = attacked_by(exp)
    low, high = bounds(attacked.fed.data(1), torch.float32)
    assert float(low) == 0
    assert float(high) == 1
    ends = torch.tensor([-1.0, 0.0, 1.0]).view(3, 1, 1, 1)
    assert rescale(ends, low, high).flatten().tolist() == [0, 0.5, 1]
    made = exp.attack.images(attacked, {}, 300, seed=1)
    assert made.shape == (300, 1, 8, 8)
    assert torch.equal(made, exp.attack.images(attacked, {}, 300, seed=1))
    assert 0 <= float(made.min()) < float(made.max()) <= 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"client": -1},
        {"client": 1.5},
        {"epochs": 0},
        {"batch": 1},
        {"lr": 0},
        {"noise": -1},
        {"z": 0},
        {"width": 10**6},
        {"betas": 0.5},
        {"betas": [0.5]},
        {"betas": [0.5, 1]},
        {"betas": [0.5, 2]},
    ],
)
def test_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match="gan: "):
        ff.gan(**wrong)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (
            {"attack": "gan(client=30)"},
            r"client 30 attacks, but clients are numbered 0 to 29\. Choose one of them",
        ),
        (
            {"on": "diabetes(clients=30)"},
            "images are recovered from a classifier of images, but the task of diabetes",
        ),
        (
            {"on": "synthetic(clients=30)"},
            "images are recovered from a classifier of images, but the task of synthetic",
        ),
        ({"on": LONELY, "attack": "gan()", "clients_per_round": 2}, "client 0 has 1 example"),
    ],
)
def test_what_cannot_be_attacked_is_reported(more: dict[str, Any], why: str) -> None:
    with pytest.raises(ff.FedflatError, match=why):
        prepare(ff.experiment("fedavg", **{**RUN, "attack": GAN, **more}))


def test_its_text_is_printed_again() -> None:
    spec = ff.gan(client=3, betas=[0.4, 0.9])
    assert repr(spec) == "gan(client=3, betas=[0.4, 0.9])"
    assert parse(repr(spec), "attack") == spec
    assert (ff.gan().epochs, ff.gan().batch, ff.gan().lr, ff.gan().noise, ff.gan().z) == (
        300,
        64,
        2e-4,
        0.1,
        100,
    )
    assert not math.isnan(ff.gan().betas[0])
