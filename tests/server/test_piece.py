"""The server's stack: the order of calls, the states that are stored, and that no state is changed
in place."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedflat.core.messages import Broadcast, Replies
from fedflat.core.stage import Stage
from fedflat.server.piece import Send, ServerContext, ServerPiece, ServerState
from fedflat.server.step import server_step
from server.cohort import answered

BROADCAST = Broadcast(2, torch.tensor([1.0, 2.0]), torch.tensor([5.0]), 0.1)
NOTES: list[str] = []


def send(broadcast: Broadcast) -> Replies:
    NOTES.append("send")
    return answered(broadcast, torch.tensor([1.0, 0.0]), torch.tensor([7.0]))


@dataclass(frozen=True, repr=False)
class Counting(ServerPiece):
    """Doubles what comes back and counts its exchanges."""

    name: str
    stage, key = Stage.CORRECT, "counting"

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        NOTES.append(f"before {self.name}")
        replies = send(broadcast.enclose(self.key, note=torch.ones(1)))
        NOTES.append(f"after {self.name}")
        context.state["count"] = context.state.get("count", torch.tensor(0)) + 1
        context.metrics[f"count of {self.name}"] = float(context.state["count"])
        return replies.with_delta(2 * replies.delta)


class Other(Counting):
    """The same under another key."""

    key = "other"


def test_a_step_without_pieces_is_the_mean() -> None:
    after = server_step([], {}, send, BROADCAST)
    assert after.model.params.tolist() == [0.0, 2.0]
    assert after.model.buffers.tolist() == [7.0]
    assert after.state == after.metrics == {}
    assert after.replies.broadcast is BROADCAST


def test_the_last_piece_is_the_outermost() -> None:
    NOTES.clear()
    after = server_step([Counting("in"), Other("out")], {}, send, BROADCAST)
    assert NOTES == ["before out", "before in", "send", "after in", "after out"]
    assert after.model.params.tolist() == [-3.0, 2.0]
    assert after.metrics == {"count of in": 1, "count of out": 1}
    assert set(after.replies.broadcast.extras) == {"counting", "other"}


def test_a_step_changes_nothing_old() -> None:
    """A round that is broken off can be made again from what was there before."""
    states: ServerState = {"counting": {"count": torch.tensor(4)}}
    params = BROADCAST.params.clone()
    first = server_step([Counting("a")], states, send, BROADCAST)
    again = server_step([Counting("a")], states, send, BROADCAST)
    assert int(states["counting"]["count"]) == 4
    assert int(first.state["counting"]["count"]) == int(again.state["counting"]["count"]) == 5
    assert torch.equal(BROADCAST.params, params)
    assert torch.equal(first.model.params, again.model.params)


def test_the_base_piece_changes_nothing() -> None:
    class Nothing(ServerPiece):
        key = "nothing"

    plain, with_it = (
        server_step([], {}, send, BROADCAST),
        server_step([Nothing()], {}, send, BROADCAST),
    )
    assert torch.equal(plain.model.params, with_it.model.params)
    assert Nothing().oracle_calls == 1
