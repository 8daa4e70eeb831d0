"""Exchanges of an asynchronous server: a round has replies to broadcasts of earlier rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fedflat.client.piece import ClientState
from fedflat.core.messages import Broadcast, Reply, ReplyBatch
from fedflat.experiments.exchange import Exchange
from fedflat.experiments.replies import clients_of
from fedflat.experiments.requests import RequestBatch, SlotExchange, Unanswered


class AsyncExchange(Exchange):
    """Exchanges in which clients answer the broadcast of the round in which they were asked."""

    def requests(
        self, slot_exchange: SlotExchange, broadcast: Broadcast, unanswered: Unanswered
    ) -> RequestBatch:
        """Requests to the clients that answer in this round."""
        requests = super().requests(slot_exchange, broadcast, unanswered)
        return replace(requests, download_counted=broadcast.instruction.trains)

    def broadcasts(self, broadcast: Broadcast, cohort: Sequence[int]) -> dict[int, Broadcast]:
        """What each client was sent, now or earlier; what is sent now is counted here."""
        exp = self.prepared.exp
        underway = (
            exp.topology.in_flight(self.prepared.clients, broadcast.round)
            if broadcast.instruction.trains
            else None
        )
        if underway is None:
            return super().broadcasts(broadcast, cohort)
        count = len(underway.started)
        self.collector.count_sent(count * broadcast.nbytes, count * broadcast.models)
        sent = {
            t: replace(old, lr=exp.lr(t), instruction=broadcast.instruction)
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
        return self.prepared.exp.topology.weigh_reply(broadcast, answered, reply)
