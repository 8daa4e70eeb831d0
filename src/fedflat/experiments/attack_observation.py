"""Shows an attack what clients are sent; used only by runs with an attack that observes."""

from __future__ import annotations

import time

from fedflat.core.messages import Reply, ReplyBatch
from fedflat.execution.client_pool import PoolOutcome, threads
from fedflat.execution.scheduler import Answered
from fedflat.experiments.replies import ReplyCollector, clients_of
from fedflat.experiments.requests import RequestBatch, SlotExchange
from fedflat.simulation.attacks.attack import ATTACK


class ObservedReplies(ReplyCollector):
    """Replies of a round whose broadcasts are shown to the run's attack."""

    observes_requests = True

    def accept(
        self,
        slot_exchange: SlotExchange,
        requests: RequestBatch,
        outcome: PoolOutcome,
        *,
        from_client: bool = False,
        to_client: bool = False,
    ) -> Answered | None:
        """As `ReplyCollector.accept`; the attack then sees what these clients were sent."""
        usable = super().accept(
            slot_exchange, requests, outcome, from_client=from_client, to_client=to_client
        )
        if usable is not None:
            self._observe(requests, usable[0])
        return usable

    def _observe(self, requests: RequestBatch, reply: Reply | ReplyBatch) -> None:
        attack, begun = self.prepared.exp.attack, time.monotonic()
        assert attack is not None
        for client in clients_of(reply):
            broadcast = requests.broadcast_to(client)
            if broadcast.commit and broadcast.instruction.trains:
                with threads(1):  # the same bits with every executor
                    attack.observe(
                        self.prepared.attacked_run,
                        self.averages.setdefault(ATTACK, {}),
                        client,
                        broadcast,
                    )
        self.callback.seconds += time.monotonic() - begun
