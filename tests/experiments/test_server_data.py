"""Data that the server itself holds: for its pieces, and to begin with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import fedflat as ff
from fedflat.client.full_gradient import full_gradient
from fedflat.core.messages import Broadcast, Replies
from fedflat.experiments.prepare import prepare
from fedflat.server.piece import Send, ServerContext
from plugins.forgetting import forget

SETTINGS: dict[str, Any] = {
    "on": "digits(lda(0), clients=20)",
    "model": "mlp(hidden=[8])",
    "rounds": 1,
    "clients_per_round": 3,
    "dtype": "float64",
}
OWN = "digits(iid(), clients=2)"


@dataclass(frozen=True, repr=False)
class Taught(ff.ServerPiece):
    """After the mean, a step down the gradient over the server's own data."""

    lr: float = 0.5

    stage, key = ff.Stage.OPTIMIZER, "taught"
    uses_data = True

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        replies = send(broadcast)
        assert context.server_data is not None
        learner, data = context.server_data.learner, context.server_data.data
        w = broadcast.params - replies.delta
        places = torch.arange(len(data))
        gradient = learner.oracle(data.batch(places, learner.dtype), [])(w)
        context.metrics["taught"] = float(len(data))
        return replies.with_delta(replies.delta + self.lr * gradient)


@pytest.fixture
def taught() -> Iterator[None]:
    @ff.method
    def taught(lr: float = 0.5) -> ff.Method:
        """A step on the server's own data."""
        return ff.Method(server=(Taught(lr),))

    yield
    forget()


@pytest.mark.usefixtures("taught")
def test_a_piece_sees_them(tmp_path: Path) -> None:
    run = {"quiet": True, "threads": 1, **SETTINGS}
    plain = ff.run("fedavg", **run)
    with_data = ff.run("fedavg + taught(lr=0.5)", server_data=OWN, **run)
    setup = prepare(ff.experiment("fedavg", **{**SETTINGS, "on": OWN, "clients_per_round": 2}))
    assert plain.model is not None
    assert with_data.model is not None
    w = plain.model.params
    sizes = [len(setup.fed.data(k)) for k in range(2)]
    by_hand = sum(
        n * full_gradient(setup.job.learner, setup.fed.data(k), w) for k, n in enumerate(sizes)
    ) / sum(sizes)
    torch.testing.assert_close(with_data.model.params, w - 0.5 * by_hand, rtol=0, atol=1e-12)
    assert with_data.rows[-1]["taught"] == sum(sizes)


@pytest.mark.usefixtures("taught")
def test_a_piece_that_has_none() -> None:
    with pytest.raises(
        ff.SettingError, match=r"taught.*needs data of the server's own.*--server-data"
    ):
        ff.run("fedavg + taught()", quiet=True, **SETTINGS)


def test_data_that_do_not_fit() -> None:
    with pytest.raises(ff.SettingError, match="do not fit the model"):
        ff.run("fedavg", server_data="diabetes(clients=3)", quiet=True, **SETTINGS)


def test_server_data_are_used_by_initializers(tmp_path: Path) -> None:
    run = {"quiet": True, "threads": 1, **SETTINGS}
    output = ff.run("fedavg", init=f"pretrained({OWN}, rounds=2)", **run)
    held = ff.run("fedavg", init="pretrained(rounds=2)", server_data=OWN, **run)
    assert output.model is not None
    assert held.model is not None
    assert torch.equal(output.model.params, held.model.params)
    with pytest.raises(ff.SettingError, match="has no data"):
        ff.run("fedavg", init="pretrained(rounds=2)", **run)


def test_other_data_are_noticed(tmp_path: Path) -> None:
    run = {"quiet": True, "threads": 1, **SETTINGS, "rounds": 2}
    ff.run("fedavg", server_data=OWN, out=tmp_path / "run", **run)
    setup = prepare(
        ff.experiment(
            "fedavg", **{**SETTINGS, "rounds": 2}, server_data="digits(lda(0), clients=5)"
        )
    )
    from fedflat.experiments.run_folder.fingerprint import check_same_origin, origin_of
    from fedflat.experiments.run_folder.record import read_record

    with pytest.raises(ff.RunError, match="not the server's data"):
        check_same_origin(tmp_path / "run", read_record(tmp_path / "run").origin, origin_of(setup))
