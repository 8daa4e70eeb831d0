"""What becomes of each visit of a round: counted, excused if nothing came of it, kept, and told to
all who listen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fedflat.client.diagnosis import diagnose
from fedflat.client.piece import ClientState
from fedflat.core.failures import NOT_FINITE, ClientFailure
from fedflat.core.messages import Broadcast, Reply, ReplyBatch, unstack
from fedflat.execution.client_pool import PoolOutcome, threads
from fedflat.execution.client_states import ClientStates
from fedflat.experiments.callbacks import RoundCallback
from fedflat.experiments.chain_router import ChainRouter
from fedflat.experiments.failures import Failures
from fedflat.experiments.prepare import PreparedRun
from fedflat.experiments.requests import SHADOW, RequestBatch, SlotExchange
from fedflat.experiments.state import Ledger
from fedflat.server.averaging import AverageState, ModelAverage
from fedflat.simulation.attacks.attack import ATTACK


@dataclass
class ReplyCollector:
    """Where the visits of a round end."""

    prepared: PreparedRun
    round: int
    clients: ClientStates
    averages: dict[str, AverageState]
    ledger: Ledger
    callback: RoundCallback = field(default_factory=RoundCallback)
    """Who listens to the round."""

    def __post_init__(self) -> None:
        self.attendance = Failures(self.prepared.exp)
        self._hearing = [
            one for one in self.prepared.exp.method.reply_listeners if one.key in self.averages
        ]

    @property
    def needs_single_replies(self) -> bool:
        """Whether somebody wants every single reply."""
        return bool(self._hearing)

    def accept(
        self,
        line: SlotExchange,
        router: ChainRouter,
        requests: RequestBatch,
        outcome: PoolOutcome,
        *,
        last: bool,
    ) -> tuple[Reply | ReplyBatch, ClientState] | None:
        """What came, counted, if it can be used; who is missing is excused if that is allowed, and
        ends its chain."""
        missing = outcome if isinstance(outcome, ClientFailure) else None
        if not isinstance(outcome, ClientFailure):
            reply = outcome[0]
            self._count(requests, router, reply, last=last)
            line.missing_model.difference_update(clients_of(reply))
            if reply.finite:
                self._overheard(requests, reply)
                return outcome
            assert isinstance(reply, Reply)
            missing = ClientFailure(reply.client, reply.request, NOT_FINITE)
        assert missing is not None
        if missing.reason != NOT_FINITE:
            self._count(requests, router, missing, last=last)
            line.missing_model.add(missing.client)
        self.ledger = self.ledger.plus(missing=1)
        self.attendance.record(
            self.round, missing, partial(self._diagnose, requests, missing.client)
        )
        router.abort(missing.client)
        return None

    def _overheard(self, requests: RequestBatch, reply: Reply | ReplyBatch) -> None:
        """Show an attack what clients were sent; its time is not the training's."""
        attack, begun = self.prepared.exp.attack, time.monotonic()
        if attack is None or not attack.observes_broadcasts:
            return
        for client in clients_of(reply):
            broadcast = requests.broadcast_to(client)
            if broadcast.commit and broadcast.instruction.trains:
                with threads(1):  # the same bits wherever visits are made
                    attack.observe(
                        self.prepared.attacked_run,
                        self.averages.setdefault(ATTACK, {}),
                        client,
                        broadcast,
                    )
        self.callback.seconds += time.monotonic() - begun

    def notify(self, broadcast: Broadcast, reply: Reply | ReplyBatch) -> ClientState:
        """Tell all who listen; what shadows keep for the client, to be kept with its memory."""
        self.callback.on_reply(broadcast, reply)
        kept: ClientState = {}
        for one in self._hearing:
            assert isinstance(reply, Reply)
            if isinstance(one, ModelAverage):
                kept |= self._show(one, reply)
            else:
                one.on_reply(self.averages[one.key], reply)
        return kept

    def _show(self, average: ModelAverage, reply: Reply) -> ClientState:
        """Let a shadow hear a reply; what it keeps for the client, to be kept with the client's
        memory."""
        key = SHADOW + average.key
        kept = dict(self.clients.state(reply.client).get(key, {})) if average.client_vectors else {}
        average.on_reply(self.averages[average.key], kept, self.prepared.info, reply)
        return {key: kept} if kept else {}

    def stage(self, reply: Reply | ReplyBatch, state: ClientState) -> None:
        """Take over what clients will remember, once the round is."""
        if isinstance(reply, Reply):
            self.clients.accept([reply.request], [reply.client])
            self.clients.stage(reply.client, state)
            return
        self.clients.accept(reply.requests, reply.clients)
        for client, mine in (
            zip(reply.clients, unstack(state, len(reply)), strict=True) if state else ()
        ):
            self.clients.stage(client, mine)

    def _count(
        self,
        requests: RequestBatch,
        router: ChainRouter,
        came: Reply | ReplyBatch | ClientFailure,
        *,
        last: bool,
    ) -> None:
        """Count what is sent: of the part that stays with the clients, only its first values, at a
        first visit."""
        clients = clients_of(came)
        n, known, broadcast = (
            len(clients),
            sum(client in self.clients for client in clients),
            requests.broadcast_to(clients[0]),
        )
        remote = (
            0 if self.prepared.exp.method.pooled else 1
        )  # in centralised training nothing is sent
        own = (
            self.prepared.private_size * broadcast.params.element_size()
            if broadcast.instruction.trains
            else 0
        )
        down = remote * (n * broadcast.nbytes - known * own)
        models, sent = remote * n * broadcast.models, 0 if router.sent else 1
        way = {"down": sent * down, "models_s2c": sent * models}
        if not router.starts_chain(clients[0]):
            way = {"c2c": down, "models_c2c": models}
        if isinstance(came, ClientFailure):
            self.ledger = self.ledger.plus(**way)
            return
        up = (
            {"up": remote * (came.nbytes - n * own), "models_c2s": remote * came.models}
            if last
            else {}
        )
        self.ledger = self.ledger.plus(samples=n * came.samples, **way, **up)

    @property
    def failures_row(self) -> dict[str, Any]:
        """Who was missing in the round, to be written down; nothing if nobody was."""
        told = self.attendance.as_json()
        return {"round": self.round + 1, "missing": told} if told else {}

    def _diagnose(self, requests: RequestBatch, client: int) -> str:
        if not self.prepared.fed.here:
            return "where it began is not known here, where the client's data are not"
        return diagnose(self.prepared.job, requests.to(client), self.prepared.fed.data(client))


def clients_of(came: Reply | ReplyBatch | ClientFailure) -> Sequence[int]:
    """Whose visits have ended."""
    return came.clients if isinstance(came, ReplyBatch) else (came.client,)
