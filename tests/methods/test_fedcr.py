"""FedCR: the term, the Gaussians of the classes, and the head that stays at home."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from client.stages import vector, visiting
from fedflat import fedcr, sam
from fedflat.client.learner import Learner
from fedflat.client.local import LocalTraining
from fedflat.client.piece import Piece
from fedflat.client.sharpness import Sam
from fedflat.client.training import ClientJob, Request, run_client
from fedflat.core.messages import Broadcast, Replies
from fedflat.data.examples import Batch
from fedflat.data.sets.in_memory import clients_of
from fedflat.errors import SettingError
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.run_folder.run_folder import RunFolder
from fedflat.experiments.state import RunState
from fedflat.experiments.train import train
from fedflat.methods.fedcr import CommonRepresentation, ServerRepresentation
from fedflat.models.simple import mlp
from fedflat.models.wrapped import StochasticNet, gaussian, stochastic
from fedflat.server.client_selection import ClientSampler
from fedflat.server.piece import ServerState
from fedflat.server.step import server_step

CLASSES, DIM = 3, 2
RNG = torch.Generator().manual_seed(0)
X, Y = torch.randn(7, 4, generator=RNG, dtype=torch.float64), torch.tensor([0, 2, 0, 2, 2, 0, 0])
ON = clients_of([(X, Y), (X + 1, Y.flip(0))], test=(X, Y), classes=CLASSES)
MODEL = stochastic(mlp([5]), dim=DIM, train_samples=2, test_samples=3)


def learner() -> Learner:
    return Learner(MODEL, (4,), CLASSES, seed=0, dtype="float64")


def priors() -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(1)
    mean = torch.randn(CLASSES, DIM, generator=rng, dtype=torch.float64)
    return {"mean": mean, "variance": mean.square() + 0.5}


@pytest.mark.parametrize("inbox", [{}, priors()], ids=["first", "later"])
def test_the_term_is_the_divergence_of_the_prior_from_the_features(
    inbox: dict[str, Tensor],
) -> None:
    piece = CommonRepresentation(0.3)
    output = torch.randn(
        len(Y), 2 * DIM, generator=torch.Generator().manual_seed(2), dtype=torch.float64
    )
    v = visiting(piece, vector(0.0), inbox=inbox, planned_steps=1, epochs=1.0)
    value = piece.loss(v, Batch(X, Y), torch.zeros(len(Y), CLASSES), [output])
    mean, spread = gaussian(output)
    prior = Normal(torch.zeros_like(mean), torch.ones_like(mean))
    if inbox:
        prior = Normal(inbox["mean"][Y], inbox["variance"][Y].sqrt())
    expected = 0.3 * kl_divergence(prior, Normal(mean, spread)).sum(-1).mean()
    torch.testing.assert_close(value, expected, rtol=1e-10, atol=1e-12)


def product(net: StochasticNet) -> tuple[Tensor, Tensor]:
    """Precision, and precision times mean, of the product of each class's Gaussians, one example at
    a time."""
    precision = torch.zeros(CLASSES, DIM, dtype=torch.float64)
    weighted = torch.zeros(CLASSES, DIM, dtype=torch.float64)
    for x, y in zip(X, Y.tolist(), strict=True):
        mean, spread = gaussian(net.encoder(x[None]))
        precision[y] += (1 / spread**2)[0].detach()
        weighted[y] += (mean / spread**2)[0].detach()
    return precision, weighted


@pytest.mark.parametrize("more", [(), (Sam(0.1),)], ids=["plain", "with sam"])
@pytest.mark.parametrize(
    "local",
    [LocalTraining(batch_size=3), LocalTraining(epochs=3, batch_size=3)],
    ids=["one epoch", "three"],
)
def test_the_product_of_the_last_epoch(local: LocalTraining, more: tuple[Piece, ...]) -> None:
    """A rate of 0, so the encoder stands still: each example counts once, however many epochs and
    gradients."""
    job = ClientJob(learner(), (CommonRepresentation(0.1), *more), local, 0)
    start = job.learner.initial()
    data = ON.open(0).data(0)
    reply, _ = run_client(job, Request(0, Broadcast(0, start.params, start.buffers, 0.0), {}), data)
    net = job.learner.module().double()
    assert isinstance(net, StochasticNet)
    precision, weighted = product(net)
    torch.testing.assert_close(
        reply.extras["fedcr"]["precision"], precision, rtol=1e-10, atol=1e-12
    )
    torch.testing.assert_close(reply.extras["fedcr"]["weighted"], weighted, rtol=1e-10, atol=1e-12)
    assert not precision[1].any()  # no client has seen class 1


def test_the_server_multiplies_and_mixes() -> None:
    precisions = torch.tensor(
        [[[2.0], [0.0]], [[6.0], [0.0]]], dtype=torch.float64
    )  # client, class, feature
    means = torch.tensor([[[1.0], [0.0]], [[3.0], [0.0]]], dtype=torch.float64)
    piece, states = ServerRepresentation(0.25), ServerState()
    sent: list[Broadcast] = []

    def send(broadcast: Broadcast) -> Replies:
        sent.append(broadcast)
        found = {
            ("fedcr", "precision", "uniform"): precisions.mean(0),
            ("fedcr", "weighted", "uniform"): (precisions * means).mean(0),
        }
        zero = torch.zeros(1)
        return Replies(broadcast, zero, zero[:0], zero, 2, 5, 0.0, 1.0, found)

    mean, variance = 0.0, 1.0
    for t in range(2):
        states = server_step(
            [piece], states, send, Broadcast(t, torch.zeros(1), torch.zeros(0), 0.1)
        ).state
        # Gaussians of precision 2 and 6 around 1 and 3: one of precision 8 around (2 + 18) / 8
        mean, variance = 0.25 * mean + 0.75 * 20 / 8, 0.25 * variance + 0.75 / 8
        assert states["fedcr"]["mean"].view(-1).tolist() == pytest.approx([mean, 0.0])
        assert states["fedcr"]["variance"].view(-1).tolist() == pytest.approx([variance, 1.0])
    assert sent[0].extras == {}
    assert sent[1].extras["fedcr"].keys() == {"mean", "variance"}


class RecordingRunFolder(RunFolder):
    """Keeps the runs."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[Any] = []

    def checkpoint(self, run: RunState, *, force: bool = False) -> None:
        if not force:
            self.runs.append((run.model, dict(run.clients.by_client), run.server["server"]))


def experiment(**more: Any) -> Experiment:
    settings: dict[str, Any] = {
        "method": fedcr(beta=0.05, mix=0.5),
        "model": MODEL,
        "rounds": 3,
        "local": LocalTraining(batch_size=4, lr=0.1),
    }
    return Experiment(
        on=ON, sampler=ClientSampler(clients=2), dtype="float64", **{**settings, **more}
    )


def test_the_head_stays_at_home() -> None:
    setup, run_folder = prepare(experiment()), RecordingRunFolder()
    train(setup, run_folder=run_folder)
    first, head = setup.job.learner.initial().params, setup.job.learner.flat.layout.classifier()
    assert int(head.sum()) == DIM * CLASSES + CLASSES == setup.job.private_size
    heads = []
    for model, kept, states in run_folder.runs:
        assert torch.equal(model.params[head], first[head])
        assert bool((model.params[~head] != first[~head]).any())
        heads.append([kept[client]["private"]["params"] for client in (0, 1)])
        assert states["fedcr"]["mean"].shape == (CLASSES, DIM)
        assert not states["fedcr"]["mean"][1].any()  # the class that no client has keeps its prior
        assert bool((states["fedcr"]["variance"][1] == 1).all())
    for t in range(3):
        assert not torch.equal(heads[t][0], heads[t][1])
    assert not torch.equal(heads[0][0], heads[1][0])


def test_the_prior_pulls() -> None:
    """With a heavy term the features of all examples end near the prior of the first round, N(0,
    1)."""
    setup = prepare(
        experiment(method=fedcr(beta=50.0), rounds=1, local=LocalTraining(epochs=300, lr=0.01))
    )
    model = train(setup).model
    assert model is not None
    setup.job.learner.flat.load(model.params)
    net = setup.job.learner.flat.module
    assert isinstance(net, StochasticNet)
    mean, spread = (part.detach() for part in gaussian(net.encoder(X)))
    assert float(mean.abs().mean()) < 0.3
    assert float((spread - 1).abs().mean()) < 0.3


def test_it_needs_gaussian_features() -> None:
    with pytest.raises(
        SettingError, match="fedcr needs a network with Gaussian features, found Sequential"
    ):
        prepare(experiment(model=mlp([5])))
    with pytest.raises(SettingError, match="mix must be"):
        fedcr(mix=1.5)
    assert [piece.key for piece in (fedcr() + sam()).client] == ["private", "fedcr", "sam"]
