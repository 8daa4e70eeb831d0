"""What a round costs: the table of the papers, and the bytes of real runs."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from combinations import declared, method_of, ready, trains
from fedflat.client.piece import Piece
from fedflat.composition.cost import Cost, cost
from fedflat.composition.method import Method
from fedflat.core.messages import Broadcast, Replies
from fedflat.core.stage import Stage
from fedflat.experiments.run_folder.run_folder import RunFolder
from fedflat.experiments.state import RunState
from fedflat.experiments.train import train
from fedflat.server.piece import Send, ServerContext, ServerPiece

TABLE = {
    # method: server state besides w, client state, down, up, gradients a step, full_gradients, trainings
    "fedavg()": (0, 0, 1, 1, 1, 0, 1),
    "fedavgm()": (1, 0, 1, 1, 1, 0, 1),
    "fedadam()": (2, 0, 1, 1, 1, 0, 1),
    "fedyogi()": (2, 0, 1, 1, 1, 0, 1),
    "fedadagrad()": (2, 0, 1, 1, 1, 0, 1),
    "fedprox()": (0, 0, 1, 1, 1, 0, 1),
    "scaffold()": (1, 1, 2, 2, 1, 0, 1),
    "feddyn()": (1, 1, 1, 1, 1, 0, 1),
    "adabest()": (1, 1, 1, 1, 1, 0, 1),
    "feddc()": (2, 2, 2, 2, 1, 0, 1),
    "fedcm()": (1, 0, 2, 1, 1, 0, 1),
    "mime(b=0)": (0, 0, 2, 2, 2, 1, 1),
    "mime()": (1, 0, 3, 2, 2, 1, 1),
    "mimelite()": (1, 0, 2, 2, 1, 1, 1),
    "fedacg()": (1, 0, 1, 1, 1, 0, 1),
    "fedsam()": (0, 0, 1, 1, 2, 0, 1),
    "fedasam()": (0, 0, 1, 1, 2, 0, 1),
    "mofedsam()": (1, 0, 2, 1, 2, 0, 1),
    "fedspeed()": (0, 1, 1, 1, 2, 0, 1),
    "fedgamma()": (1, 1, 2, 2, 2, 0, 1),
    "fedsmoo()": (2, 2, 2, 2, 2, 0, 1),
    "fedlesam()": (0, 1, 1, 1, 1, 0, 1),
    "naive_fedgloss(admm=False)": (0, 0, 2, 2, 1, 0, 2),
    "naive_fedgloss()": (1, 1, 2, 2, 1, 0, 2),
    "fedgloss(admm=False)": (1, 0, 1, 1, 1, 0, 1),
    "fedgloss()": (2, 1, 1, 1, 1, 0, 1),
    "fedgloss(rho_l=0.1)": (2, 1, 1, 1, 2, 0, 1),
    "fedfsa()": (1, 0, 2, 1, 2, 0, 1),
    "fedbn()": (0, 0, 1, 1, 1, 0, 1),
    "silobn()": (0, 0, 1, 1, 1, 0, 1),
    "local_adam()": (0, 0, 1, 1, 1, 0, 1),
    "local_adam(state='client')": (0, 2, 1, 1, 1, 0, 1),
    "local_adam(state='server')": (2, 0, 3, 3, 1, 0, 1),
    "fedala()": (0, 0, 1, 1, 1, 0, 1),
    "fedcr()": (0, 0, 1, 1, 1, 0, 1),
    "self_training()": (2, 0, 3, 1, 1, 0, 1),
    "self_training(kd=0.0)": (1, 0, 2, 1, 1, 0, 1),
}
"""As the papers have it, in vectors of the model's size. What is smaller does not count: FedFSA's
chosen layers, normalisation, heads, FedALA's last tensors, FedCR's Gaussians of the classes."""


@pytest.mark.parametrize("text", TABLE)
def test_the_table(text: str) -> None:
    server, client, down, up, gradients, full_gradients, trainings = TABLE[text]
    expected = Cost(down, up, gradients, trainings, full_gradients, server, client)
    assert cost(method_of(text)) == method_of(text).cost == expected


@pytest.mark.parametrize("text", TABLE)
def test_additions_cost_their_share(text: str) -> None:
    """MAN, averages of models, clipping and robust rules are free; a probe at the client takes one
    more gradient."""
    base = method_of(text).cost
    free = method_of(f"{text} + man(0.1) + wima(3) + ema() + clip(1) + median()").cost
    assert free == base
    if all(piece.stage is not Stage.PROBE for piece in method_of(text).client):
        climbing = method_of(f"{text} + asam(0.1)").cost
        assert climbing.gradients == 2 * base.gradients
        assert (climbing.down, climbing.up, climbing.client_state) == (
            base.down,
            base.up,
            base.client_state,
        )


@pytest.mark.parametrize(
    ("text", "down", "up", "trainings", "full_gradients"),
    [
        ("fedgloss(delta_eps=True)", 2, 2, 2, 0),
        ("naive_fedgloss(admm=False) + scaffold()", 4, 4, 2, 0),
        ("naive_fedgloss(admm=False) + mimelite()", 4, 4, 2, 2),
        # the gradient here and where the probe stands; two trainings from points the clients have not,
        # c and m in both
        ("naive_fedgloss(admm=False) + mime()", 1 + 1 + 3 + 3, 4, 2, 2),
        ("centralised()", 0, 0, 1, 0),
    ],
)
def test_more_exchanges(text: str, down: int, up: int, trainings: int, full_gradients: int) -> None:
    found = method_of(text).cost
    assert (found.down, found.up, found.local_trainings, found.full_gradients) == (
        down,
        up,
        trainings,
        full_gradients,
    )


@dataclass(frozen=True, repr=False)
class Large(Piece):
    """Keeps and sends vectors."""

    stage, key, upload_vectors, state_vectors, full_gradients = Stage.CORRECT, "large", 3, 2, 1


def test_a_piece_of_your_own() -> None:
    found = (
        method_of("naive_fedgloss(admm=False)") + Method(client=(Large(),), text="large()")
    ).cost
    assert found == Cost(
        down=2,
        up=8,
        gradients=1,
        local_trainings=2,
        full_gradients=2,
        server_state=0,
        client_state=2,
    )


@pytest.mark.parametrize(
    "text", [*TABLE, "naive_fedgloss(admm=False) + mime()", "mimelite() + naive_fedgloss()"]
)
def test_a_run_spends_what_the_table_says(text: str) -> None:
    assert trains(method_of(text))
    if text in TABLE and text not in ("fedbn()", "silobn()", "fedcr()"):
        run = ready(method_of(text))
        first = run.job.learner.initial()
        vectors = TABLE[text][2:4]
        assert declared(run, first) == tuple(4 * 2 * n * len(first.params) for n in vectors)


def test_what_is_kept_is_what_is_declared() -> None:
    """The vectors at the server and in the clients' states after a run."""
    kept: list[tuple[int, int]] = []

    class RecordingRunFolder(RunFolder):
        def checkpoint(self, run: RunState, *, force: bool = False) -> None:
            dim = len(run.model.params)
            states = [
                t
                for memory in run.server["server"].values()
                for t in memory.values()
                if t.shape == (dim,)
            ]
            states_of_clients = [
                sum(t.shape == (dim,) for named in memory.values() for t in named.values())
                for memory in run.clients.by_client.values()
            ]
            kept.append((len(states), max(states_of_clients, default=0)))

    for text, (server, client, *_) in TABLE.items():
        train(ready(method_of(text)), run_folder=RecordingRunFolder())
        assert kept[-1] == (server, client), text


@dataclass(frozen=True, repr=False)
class SharingPiece(ServerPiece):
    """A server piece of a user's that reads what clients tell, a number or one for each class."""

    classes: bool = False
    stage = Stage.CORRECT
    key = "shared"

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        replies = send(broadcast)
        messages = replies.mean(self.key, "shared")
        assert float(messages[3] if self.classes else messages) == 0
        return replies


def test_a_server_piece_may_read_single_numbers() -> None:
    assert cost(Method(server=(SharingPiece(),))) == cost(Method())


def test_what_cannot_be_run_dry_is_unknown() -> None:
    price = cost(Method(server=(SharingPiece(classes=True),)))
    assert not price.stated
    assert (price.down, price.up, price.local_trainings) == (1, 1, 1)
