"""Parameters that stay with the client: FedBN, SiLoBN and private heads."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fedflat import fedavg, fedavgm, fedbn, personal, sam, silobn
from fedflat.client.local import LocalTraining
from fedflat.client.piece import ClientContext, Piece
from fedflat.client.private_parameters import Private
from fedflat.client.training import Request, run_client
from fedflat.composition.method import Method
from fedflat.core.flat import GradFn, Layout
from fedflat.core.messages import Broadcast
from fedflat.core.stage import Stage
from fedflat.data.sets.in_memory import clients_of
from fedflat.errors import SettingError
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.run_folder.run_folder import RunFolder
from fedflat.experiments.state import RunState
from fedflat.experiments.train import train
from fedflat.models.bisenet import bisenetv2
from fedflat.models.simple import mlp
from fedflat.registry.specs import parse
from fedflat.server.client_selection import ClientSampler

SIZES = (6, 10, 8)
RNG = torch.Generator().manual_seed(0)
DATA = [
    (torch.randn(n, 4, generator=RNG) * (k + 1) + k, torch.arange(n) % 2)
    for k, n in enumerate(SIZES)
]
HEAD = Method(client=(Private("head"),), text="head()")


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 2))


class RecordingRunFolder(RunFolder):
    """Keeps the state after each round."""

    def __init__(self) -> None:
        super().__init__()
        self.models: list[Any] = []
        self.clients: list[Any] = []
        self.bytes: list[tuple[int, int]] = []

    def checkpoint(self, run: RunState, *, force: bool = False) -> None:
        if not force:
            self.models.append(run.model)
            self.clients.append(dict(run.clients.by_client))
            self.bytes.append((run.ledger.down, run.ledger.up))


def experiment(method: Method, rounds: int = 3, **more: Any) -> Experiment:
    settings: dict[str, Any] = {
        "model": network,
        "sampler": ClientSampler(cohorts=[[0, 1], [1, 2], [0, 2]][:rounds]),
        "on": clients_of(DATA, test=DATA[0], classes=2),
    }
    return Experiment(
        method=method,
        rounds=rounds,
        dtype="float64",
        local=LocalTraining(batch_size=64, lr=0.1),
        **{**settings, **more},
    )


def run(method: Method, **more: Any) -> RecordingRunFolder:
    run_folder = RecordingRunFolder()
    train(experiment(method, **more), run_folder=run_folder)
    return run_folder


def start() -> tuple[Tensor, Tensor, Layout]:
    learner = prepare(experiment(fedavg())).job.learner
    model = learner.initial()
    return model.params, model.buffers, learner.flat.layout


def test_what_is_private() -> None:
    layout = Layout.of(network())
    norm = torch.zeros(layout.dim, dtype=torch.bool)
    norm[15:21] = True  # after 4 * 3 weights and 3 biases
    assert torch.equal(Private("bn").mask(layout), norm)
    assert not Private("bn_statistics").mask(layout).any()
    assert Private("head").mask(layout).nonzero().view(-1).tolist() == list(range(21, 29))
    assert Private("bn").statistics(layout).all()
    assert not Private("head").statistics(layout).any()
    assert [Private(where).private_size(layout) for where in ("bn", "bn_statistics", "head")] == [
        6 + 6,
        6,
        8,
    ]
    with pytest.raises(SettingError, match="where must be"):
        Private("everything")


@pytest.mark.parametrize("more", [Method(text="nothing()"), sam(0.1), fedavgm(0.9)], ids=repr)
@pytest.mark.parametrize("method", [fedbn(), silobn(), HEAD], ids=repr)
def test_what_the_server_sees(method: Method, more: Method) -> None:
    """Its running statistics stay as they were, and so do the private parameters; the rest
    moves."""
    params, buffers, layout = start()
    run_folder = run(method + more)
    (piece,) = (p for p in method.client if isinstance(p, Private))
    mask, statistics = piece.mask(layout), piece.statistics(layout)
    for model in run_folder.models:
        assert torch.equal(model.params[mask], params[mask])
        assert torch.equal(model.buffers[statistics], buffers[statistics])
        assert bool((model.params[~mask] != params[~mask]).any())
    if "head" in repr(method):
        assert not torch.equal(run_folder.models[0].buffers, buffers)


def test_what_silobn_averages() -> None:
    """One round: scale and shift are the sized mean, as FedAvg's; the statistics alone stay."""
    silo, plain = run(silobn(), rounds=1), run(fedavg(), rounds=1)
    assert torch.equal(silo.models[0].params, plain.models[0].params)
    assert not torch.equal(silo.models[0].buffers, plain.models[0].buffers)


class ScaleOf(Piece):
    """One step takes the scale of a batch normalisation, the first parameter, to 2 at client 0 and
    to 4 at client 1."""

    stage, key = Stage.CORRECT, "scale_of"

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        slope = torch.zeros_like(grad(w))
        slope[0] = (w[0] - (2, 4)[v.client]) / v.lr
        return slope


@pytest.mark.parametrize(
    ("method", "scale", "own"), [(silobn(), 3.5, []), (fedbn(), 1.0, [2.0, 4.0])], ids=repr
)
def test_a_round_by_hand(method: Method, scale: float, own: list[float]) -> None:
    """Clients who count 1 to 3 take the scale from 1 to 2 and 4, and the running mean from 0 to 5
    and 9."""
    around = [torch.tensor([-1.0, 1.0] * n).view(-1, 1) for n in (1, 3)]
    data = [(x + mean, torch.arange(len(x)) % 2) for x, mean in zip(around, (5, 9), strict=True)]
    run_folder = run(
        method + Method(client=(ScaleOf(),), text="scale_of()"),
        rounds=1,
        sampler=ClientSampler(cohorts=[[0, 1]]),
        model=lambda: nn.Sequential(nn.BatchNorm1d(1, momentum=1.0), nn.Linear(1, 2)),
        on=clients_of(data, test=data[0], classes=2),
    )
    [server], [clients] = run_folder.models, run_folder.clients
    assert float(server.params[0]) == pytest.approx(scale, rel=1e-12)
    assert float(server.buffers[0]) == 0
    kept = [clients[k]["private"] for k in (0, 1)]
    assert [float(one["statistics"][0]) for one in kept] == pytest.approx([5, 9], rel=1e-12)
    assert [float(one["params"][0]) for one in kept if len(one["params"])] == pytest.approx(
        own, rel=1e-12
    )


def test_fedbn_averages_the_rest_as_fedavg_does() -> None:
    _, _, layout = start()
    shared = ~Private("bn").mask(layout)
    bn, plain = run(fedbn(), rounds=1), run(fedavg(), rounds=1)
    assert torch.equal(bn.models[0].params[shared], plain.models[0].params[shared])


def test_a_client_goes_on_with_its_own() -> None:
    """Two requests of one client against torch, its normalisation kept in between and the rest
    reset."""
    run_folder = run(fedbn(), rounds=2, sampler=ClientSampler(cohorts=[[1], [1]]))
    params, _, layout = start()
    module = prepare(experiment(fedavg())).job.learner.module().double()
    shared, mask = params, Private("bn").mask(layout)
    for t in range(2):
        stepper = torch.optim.SGD(module.parameters(), lr=0.1)
        own = torch.cat([p.detach().view(-1) for p in module.parameters()])
        nn.utils.vector_to_parameters(torch.where(mask, own, shared), module.parameters())
        x, y = DATA[1]
        stepper.zero_grad()
        nn.functional.cross_entropy(module(x.double()), y).backward()
        stepper.step()
        after = torch.cat([p.detach().view(-1) for p in module.parameters()])
        shared = torch.where(mask, params, after)
        torch.testing.assert_close(run_folder.models[t].params, shared, rtol=1e-10, atol=1e-12)
        kept = run_folder.clients[t][1]["private"]
        torch.testing.assert_close(kept["params"], after[mask], rtol=1e-10, atol=1e-12)
        norm = module[1]
        statistics = torch.cat([norm.running_mean, norm.running_var])
        torch.testing.assert_close(kept["statistics"], statistics, rtol=1e-10, atol=1e-12)


class Shifted(Piece):
    """Sends back another model than the one local training ended with, as FedSpeed does."""

    stage, key = Stage.CORRECT, "shifted"

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        return w + 1


def test_what_is_kept_is_where_local_training_ended() -> None:
    shifted, plain = (
        run(fedbn() + more, rounds=1).clients[0]
        for more in (Method(client=(Shifted(),), text="shifted()"), fedavg())
    )
    assert plain.keys() == {0, 1}
    for client, state in plain.items():
        assert torch.equal(state["private"]["params"], shifted[client]["private"]["params"])


@pytest.mark.parametrize(
    ("method", "withheld"), [(fedavg(), 0), (silobn(), 6), (fedbn(), 12), (HEAD, 8)], ids=repr
)
def test_what_is_private_is_not_paid_for(method: Method, withheld: int) -> None:
    """What stays with clients is sent once, at the first request, and never back; two clients a
    round, of whom two, one and none are new."""
    shared = 8 * (29 + 6 - withheld)
    seen = [(1, 2), (2, 3), (3, 3)]
    assert run(method).bytes == [
        (2 * t * shared + 8 * withheld * new, 2 * t * shared) for t, new in seen
    ]


@pytest.mark.parametrize("method", [fedbn(), silobn(), HEAD], ids=repr)
def test_what_is_not_counted_carries_nothing(method: Method) -> None:
    """Where a number is private, the server sends its first value and gets it back, so neither need
    travel."""
    params, buffers, layout = start()
    (piece,) = (p for p in method.client if isinstance(p, Private))
    mask, statistics = piece.mask(layout), piece.statistics(layout)
    setup = prepare(experiment(method + fedavgm(0.9)))
    state: dict[int, Any] = {0: {}, 1: {}}
    for t in range(3):
        broadcast = Broadcast(t, params + torch.where(mask, 0.0, 0.1 * t), buffers, 0.1)
        for client in (0, 1):
            reply, state[client] = run_client(
                setup.job, Request(client, broadcast, state[client]), setup.fed.data(client)
            )
            assert not reply.delta[mask].any()
            assert torch.equal(reply.buffers[statistics], buffers[statistics])


def test_tuning_sends_the_whole_model() -> None:
    """The last round of the personalised protocol tunes the head of the server's model, whatever
    was private."""
    run_folder = run(
        HEAD + personal(), on=clients_of(DATA, test=DATA[0], classes=2, split=0.5), rounds=1
    )
    ((down, up),) = run_folder.bytes
    tuned = run_folder.rows[-1]
    assert (tuned["down"] - down, tuned["up"] - up) == (3 * 8 * (29 + 6), 3 * 8 * (29 + 6))


@pytest.mark.parametrize("method", [fedbn(), silobn()], ids=repr)
def test_without_batch_normalisation_it_is_refused(method: Method) -> None:
    with pytest.raises(
        SettingError, match=r"the model has no BatchNorm layer\. Use a model with BatchNorm"
    ):
        prepare(experiment(method, model=mlp([3])))
    with pytest.raises(
        SettingError, match=r"the model names no layer with 'norm'\. Use a model with BatchNorm"
    ):
        prepare(experiment(parse(f"{method.text[:-1]}only_named='norm')", "method")))
    prepare(experiment(HEAD, model=mlp([3])))


def test_only_layers_of_a_name() -> None:
    """FedDrive's code finds 28 of the 58 layers of BiSeNetV2, with 3272 of their 9176 channels."""
    layout = Layout.of(bisenetv2().build((3, 32, 32), 19))
    kept, every = Private("bn_statistics", "bn"), Private("bn_statistics")
    assert [len(piece.norms(layout)) for piece in (kept, every)] == [28, 58]
    assert [int(piece.statistics(layout).sum()) for piece in (kept, every)] == [2 * 3272, 2 * 9176]
    assert int(Private("bn", "bn").mask(layout).sum()) == 2 * 3272


@pytest.mark.parametrize("company", ["scaffold()", "fedsmoo()", "mime()", "mimelite()", "feddc()"])
@pytest.mark.parametrize("keeper", ["fedbn()", "silobn()"])
def test_company_that_would_give_it_away_is_refused(keeper: str, company: str) -> None:
    with pytest.raises(SettingError, match="sends vectors of the whole model, that part included"):
        prepare(experiment(parse(f"{keeper} + {company}", "method")))
