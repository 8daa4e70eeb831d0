"""Exchanges of an asynchronous server: a round has replies to broadcasts of earlier rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from fedflat.client.piece import ClientState
from fedflat.core.messages import Broadcast, Reply, ReplyBatch
from fedflat.server.exchange import Exchange, RequestBatch, SlotExchange, Unanswered
from fedflat.server.replies import clients_of
from fedflat.topologies.server_models import ServerModels


@dataclass
class AsyncExchange(Exchange):
    """Exchanges in which clients answer the broadcast of the round in which they were asked."""

    server: ServerModels = field(kw_only=True)
    lr: Callable[[int], float] = field(kw_only=True)
    """The local learning rate of a round."""

    def requests(
        self, slot_exchange: SlotExchange, broadcast: Broadcast, unanswered: Unanswered
    ) -> RequestBatch:
        """Requests to the clients that answer in this round."""
        requests = super().requests(slot_exchange, broadcast, unanswered)
        return replace(requests, download_counted=broadcast.instruction.trains)

    def broadcasts(self, broadcast: Broadcast, cohort: Sequence[int]) -> dict[int, Broadcast]:
        """What each client was sent, now or earlier; what is sent now is counted here."""
        topology, population = self.server.topology, self.server.population
        underway = (
            topology.in_flight(population, broadcast.round)
            if broadcast.instruction.trains
            else None
        )
        if underway is None:
            return super().broadcasts(broadcast, cohort)
        count = len(underway.started)
        self.collector.count_sent(count * broadcast.nbytes, count * broadcast.models)
        sent = {
            t: replace(old, lr=self.lr(t), instruction=broadcast.instruction)
            for t, old in self.in_flight.items()
        }
        sent[broadcast.round] = broadcast
        self.in_flight = {t: one for t, one in sent.items() if t in underway.left}
        return {client: sent[underway.since[client]] for client in cohort}

    def take(
        self,
        broadcast: Broadcast,
        requests: RequestBatch,
        reply: Reply | ReplyBatch,
        state: ClientState,
    ) -> Reply | ReplyBatch:
        """Weigh a reply by the age of the broadcast that it answers."""
        answered = requests.broadcasts[clients_of(reply)[0]]
        self.collector.take(answered, reply, state)
        return self.server.topology.weigh_reply(broadcast, answered, reply)
