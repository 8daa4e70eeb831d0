"""What a watcher is, and what it sees of a round."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from fedflat.client.local import Local
from fedflat.client.piece import Piece
from fedflat.engine.mail import Mail, Replies, Reply, Sheaf
from fedflat.errors import SettingError
from fedflat.running.listening import Ear, Seen
from fedflat.running.prepare import Ready
from fedflat.server.piece import Stepped
from fedflat.server.shadows import Notes

Trouble = Callable[["Watcher", Exception], None]


@dataclass
class Sight(Ear):
    """One round; ``see`` gives what its watchers have seen. Without watchers nothing is done."""

    watchers: tuple[Watcher, ...]
    ready: Ready
    round: int
    cohort: list[int]
    notes: Notes
    """What watchers remember from round to round. Replace tensors, never change them in place."""
    due: bool
    """Whether the round is evaluated: what is expensive is watched then only."""
    memo: dict[str, Any] = field(default_factory=dict)
    """What watchers note in this round, for themselves."""
    seconds: float = 0.0
    """Spent on watching while the round went on."""
    trouble: Trouble = lambda watcher, error: None
    """Told of a watcher that failed: it sees nothing more in this round, and the run goes on."""

    def hear(self, mail: Mail, reply: Reply | Sheaf) -> None:
        """A reply that counts has come."""
        if mail.ask.trains:
            for watcher in self.watchers:
                with self._aside(watcher):
                    watcher.hear(self, mail, reply)

    def folded(self, replies: Replies) -> None:
        """An exchange is over."""
        if replies.mail.commit and replies.mail.ask.trains:
            for watcher in self.watchers:
                with self._aside(watcher):
                    watcher.folded(self, replies)

    def see(self, new: Stepped) -> Seen:
        """The server has stepped: what was seen in the round."""
        seen: Seen = {}
        for watcher in self.watchers:
            with self._aside(watcher):
                seen |= watcher.see(self, new)
        return {"round": self.round + 1, **seen} if seen else {}

    @contextmanager
    def _aside(self, watcher: Watcher) -> Iterator[None]:
        """Time in here is counted, random numbers drawn in here are drawn again outside, and errors end no run."""
        begun = time.monotonic()
        try:
            with torch.random.fork_rng(devices=[]):
                yield
        except Exception as error:
            self.watchers = tuple(other for other in self.watchers if other is not watcher)
            self.trouble(watcher, error)
        self.seconds += time.monotonic() - begun


def refuse_elsewhere(watcher: Watcher, ready: Ready) -> None:
    """Refuse to look at data that are not here."""
    if not ready.fed.here:
        raise SettingError(
            f"watch: {watcher.name} looks at what clients hold, and that is not here but with those who visit them. "
            "Leave it out."
        )


class Watcher(ABC):
    """Looks at a run and touches nothing. The base class sees nothing."""

    name: ClassVar[str]
    looks: ClassVar[bool] = False
    """Whether it wants clients' own models with their replies."""

    @abstractmethod
    def cost(self, ready: Ready) -> str:
        """What watching costs, in a sentence for people."""

    def check(self, ready: Ready) -> None:
        """Refuse a run in which there is nothing for it to see."""

    def pieces(self, local: Local) -> tuple[Piece, ...]:
        """Client pieces that measure and change nothing."""
        return ()

    def hear(self, s: Sight, mail: Mail, reply: Reply | Sheaf) -> None:
        """A training reply that counts has come, from one client or from several."""

    def folded(self, s: Sight, replies: Replies) -> None:
        """A training exchange that counts is over."""

    def see(self, s: Sight, new: Stepped) -> Seen:
        """What is to be written when the server has stepped."""
        return {}
