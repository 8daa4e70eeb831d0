"""Shows an attack what clients are sent; used only by runs with an attack that observes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from fedflat.core.messages import Reply, ReplyBatch
from fedflat.execution.client_pool import PoolOutcome, threads
from fedflat.execution.scheduler import Answered
from fedflat.server.replies import ReplyCollector, SentRequests, clients_of
from fedflat.simulation.attacks.attack import Attack, AttackedRun, AttackState


@dataclass
class ObservedReplies(ReplyCollector):
    """Replies of a round whose broadcasts are shown to the run's attack."""

    attack: Attack = field(kw_only=True)
    attacked: AttackedRun = field(kw_only=True)
    state: AttackState = field(kw_only=True)

    observes_requests = True

    def accept(
        self,
        missing_model: set[int],
        requests: SentRequests,
        outcome: PoolOutcome,
        *,
        from_client: bool = False,
        to_client: bool = False,
    ) -> Answered | None:
        """As `ReplyCollector.accept`; the attack then sees what these clients were sent."""
        usable = super().accept(
            missing_model, requests, outcome, from_client=from_client, to_client=to_client
        )
        if usable is not None:
            self._observe(requests, usable[0])
        return usable

    def _observe(self, requests: SentRequests, reply: Reply | ReplyBatch) -> None:
        begun = time.monotonic()
        for client in clients_of(reply):
            broadcast = requests.broadcast_to(client)
            if broadcast.commit and broadcast.instruction.trains:
                with threads(1):  # the same bits with every executor
                    self.attack.observe(self.attacked, self.state, client, broadcast)
        self.seconds_observing += time.monotonic() - begun
