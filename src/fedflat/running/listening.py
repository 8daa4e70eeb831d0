"""Who listens to a run: told what happens, round by round, without being able to change it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fedflat.client.visit import ClientJob
from fedflat.engine.mail import Mail, Replies, Reply, Sheaf
from fedflat.server.piece import Stepped
from fedflat.server.shadows import Notes

if TYPE_CHECKING:
    from fedflat.running.prepare import Ready

Say = Callable[[str], None]
Seen = dict[str, Any]
"""Measurements by name, as they are written."""


class Ear:
    """What is heard of one round. The base class hears nothing."""

    seconds: float = 0.0
    """Spent on listening while the round went on."""

    def hear(self, mail: Mail, reply: Reply | Sheaf) -> None:
        """A reply that counts has come."""

    def folded(self, replies: Replies) -> None:
        """An exchange is over."""

    def see(self, new: Stepped) -> Seen:
        """The server has stepped: what is to be written of the round."""
        return {}


class Listener:
    """Listens to a whole run. The base class is nobody."""

    def job(self, job: ClientJob) -> ClientJob:
        """The clients' job, with what is measured at the clients."""
        return job

    def listen(self, t: int, cohort: list[int], notes: dict[str, Notes], due: bool) -> Ear:
        """Round ``t``; ``notes`` are handed on from round to round, and ``due`` says whether it is evaluated."""
        return Ear()


Listening = Callable[["Ready", Say], Listener]
"""Who listens to a run that is ready; told whom to tell of trouble."""


def nobody(ready: Ready, say: Say) -> Listener:
    """Nobody listens."""
    return Listener()
