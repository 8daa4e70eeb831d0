"""The server's stack: who is asked first, what is kept, and that nothing old is changed."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedflat.engine.mail import Mail, Replies
from fedflat.engine.stage import Stage
from fedflat.server.piece import Desk, Desks, Send, ServerPiece, step
from server.cohort import answered

MAIL = Mail(2, torch.tensor([1.0, 2.0]), torch.tensor([5.0]), 0.1)
NOTES: list[str] = []


def send(mail: Mail) -> Replies:
    NOTES.append("send")
    return answered(mail, torch.tensor([1.0, 0.0]), torch.tensor([7.0]))


@dataclass(frozen=True, repr=False)
class Counting(ServerPiece):
    """Doubles what comes back and counts its exchanges."""

    name: str
    stage, key = Stage.CORRECT, "counting"

    def exchange(self, desk: Desk, send: Send, mail: Mail) -> Replies:
        NOTES.append(f"before {self.name}")
        replies = send(mail.enclose(self.key, note=torch.ones(1)))
        NOTES.append(f"after {self.name}")
        desk.memory["count"] = desk.memory.get("count", torch.tensor(0)) + 1
        desk.notes[f"count of {self.name}"] = float(desk.memory["count"])
        return replies.with_delta(2 * replies.delta)


class Other(Counting):
    """The same under another key."""

    key = "other"


def test_a_step_without_pieces_is_the_mean() -> None:
    after = step([], {}, send, MAIL)
    assert after.model.params.tolist() == [0.0, 2.0]
    assert after.model.buffers.tolist() == [7.0]
    assert after.desks == after.notes == {}
    assert after.replies.mail is MAIL


def test_the_last_piece_is_the_outermost() -> None:
    NOTES.clear()
    after = step([Counting("in"), Other("out")], {}, send, MAIL)
    assert NOTES == ["before out", "before in", "send", "after in", "after out"]
    assert after.model.params.tolist() == [-3.0, 2.0]
    assert after.notes == {"count of in": 1, "count of out": 1}
    assert set(after.replies.mail.extras) == {"counting", "other"}


def test_a_step_changes_nothing_old() -> None:
    """A round that is broken off can be made again from what was there before."""
    desks: Desks = {"counting": {"count": torch.tensor(4)}}
    params = MAIL.params.clone()
    first = step([Counting("a")], desks, send, MAIL)
    again = step([Counting("a")], desks, send, MAIL)
    assert int(desks["counting"]["count"]) == 4
    assert int(first.desks["counting"]["count"]) == int(again.desks["counting"]["count"]) == 5
    assert torch.equal(MAIL.params, params)
    assert torch.equal(first.model.params, again.model.params)


def test_the_base_piece_changes_nothing() -> None:
    class Nothing(ServerPiece):
        key = "nothing"

    plain, with_it = step([], {}, send, MAIL), step([Nothing()], {}, send, MAIL)
    assert torch.equal(plain.model.params, with_it.model.params)
    assert Nothing().asks == 1
