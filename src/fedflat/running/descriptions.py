"""What clients say of themselves before round 0, for whoever must know: how groups are made, what clients are told.

Topologies, client pieces, server pieces and starts name the describers they want (``describers``). Every client is
asked once, by whatever executor the run has; what it says is counted, kept in the run folder, and handed on:

    a topology        `Crowd.described`
    a client piece    `Piece.told` chooses what of it every client is told, once, and reads in its visits
    a server piece    `Desk.descriptions`
    a start           ``ready.descriptions``

Clients that attack say the truth here: who they are may hang on groups that are made of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from fedflat.client.asks import Describe, Describer
from fedflat.client.visit import Letter
from fedflat.clock.clock import Fleet
from fedflat.engine.mail import Mail, Reply
from fedflat.engine.missing import Missing
from fedflat.errors import FedflatError, NotFinite, RunError
from fedflat.executors.crew import Crew, Executor
from fedflat.running.archive import Archive
from fedflat.running.attendance import answers
from fedflat.running.crowd import check_crowd
from fedflat.running.experiment import Experiment
from fedflat.running.model_files import Named
from fedflat.running.prepare import Ready, attackers_in
from fedflat.running.run_folder import DESCRIPTIONS, RunBook
from fedflat.running.starts import MATCHING, Pretrained, fitted
from fedflat.running.state import Ledger
from fedflat.running.ticks import Tell, Tick

Earlier = Callable[[Experiment, str], Named]
"""Makes a run that must come first, in a folder of that name, or goes on with it; gives the model it ends with."""


def described(
    ready: Ready, book: RunBook, executor: Executor, earlier: Earlier, tell: Tell = lambda tick: None
) -> Ready:  # fmt: skip
    """The run with what all its clients say of themselves: those are asked who have not been; ``tell`` hears of it."""
    if not ready.describers:
        return ready
    archive, clients = book.archive(), ready.roster.clients
    public = ready.holding.data if ready.holding else None
    wanted = {one: [client for client in clients if (repr(one), client) not in archive] for one in ready.describers}
    if any(wanted.values()):
        with executor.open(replace(ready.job, attackers={}), ready.fed, ready.source) as crew:
            for describer, unasked in wanted.items():
                read = describer.reading(ready.learner, public, ready.exp.seed)
                mail = _mail(ready, describer, earlier)
                begun = time.monotonic()
                for count, reply in enumerate(_asked(crew, mail, unasked) if unasked else (), 1):
                    cost = Ledger() if ready.exp.method.pooled else Ledger(mail.nbytes, reply.nbytes)
                    said = read(reply.extras["describe"]["vector"])
                    lasted, begun = time.monotonic() - begun, time.monotonic()
                    cost = cost.plus(samples=reply.samples).with_time(lasted, lasted)
                    archive.keep(repr(describer), reply.client, said, cost)
                    tell(Tick(0, ready.exp.rounds, described=(len(clients) - len(unasked) + count, len(clients))))
    return settled(ready, archive)


def recalled(ready: Ready, folder: Path, identity: str) -> Ready:
    """The run with what its folder says that clients have said; nobody is asked."""
    if not ready.describers:
        return ready
    archive = Archive(folder / DESCRIPTIONS, identity, held=False)
    for describer in ready.describers:
        if not all((repr(describer), client) in archive for client in ready.roster.clients):
            raise RunError(
                f"{folder}: what clients said of themselves before round 0 ({describer}) is not all there. "
                f"`fedflat resume {folder}` asks them again if the run has not ended."
            )
    return settled(ready, archive)


def settled(ready: Ready, archive: Archive) -> Ready:
    """The run once everybody has been asked: what hangs on it is made and checked, and clients are told of it."""
    clients = ready.roster.clients
    descriptions = {one: archive.said(repr(one), clients) for one in ready.describers}
    spent = Ledger(clock=None if ready.fleet is None else 0.0)
    for one in ready.describers:
        spent = _with(spent, [archive.cost(repr(one), client) for client in clients], ready.fleet)
        each = 0 if ready.exp.method.pooled else len(clients)
        spent = spent.plus(models_s2c=each * one.needs_model, models_c2s=each * one.models)
    told = {}
    for piece in ready.job.pieces:
        if piece.describers:
            named = piece.told(descriptions)
            told[piece.key] = {name: tensor.to(ready.learner.device) for name, tensor in named.items()}
            spent = spent.plus(down=len(clients) * sum(tensor.nbytes for tensor in named.values()))
    crowd = ready.crowd.told(descriptions)
    if ready.exp.topology.describers:
        check_crowd(ready.exp, ready.fed, crowd)
    job = replace(ready.job, told=told, attackers=attackers_in(ready.exp, ready.fed, ready.learner, crowd))
    return replace(ready, crowd=crowd, job=job, descriptions=descriptions, beforehand=spent)


def _with(spent: Ledger, costs: Sequence[Ledger], fleet: Fleet | None) -> Ledger:
    """What was spent, and what each client has cost; all were asked at once, and the slowest waited for."""
    for cost in costs:
        spent = spent.plus(down=cost.down, up=cost.up, samples=cost.samples).with_time(cost.training, cost.seconds)
    if fleet is None or spent.clock is None:
        return spent
    lasted = (fleet.seconds(client, cost.samples, cost.down, cost.up) for client, cost in enumerate(costs))
    return spent.until(spent.clock + max(lasted))


def _mail(ready: Ready, describer: Describer, earlier: Earlier) -> Mail:
    """What is sent to everybody: a fresh model, or a probe that was trained on the server's own data."""
    model = ready.learner.initial()
    if describer.probe:
        start = Pretrained(rounds=describer.probe, keep=MATCHING)
        model = fitted(earlier(start.experiment(ready.exp), f"{DESCRIPTIONS}/probe-{describer.probe}"), ready, start)
    return Mail(0, model.params, model.buffers, ready.exp.rate(0), ask=Describe(describer), commit=False)


def _asked(crew: Crew, mail: Mail, clients: Sequence[int]) -> Iterator[Reply]:
    """The replies of all these clients; nobody may be missing."""
    letters = [Letter(client, mail, {}, f"before/{mail.ask}/{client}") for client in clients]
    ids = {letter.id: letter.client for letter in letters}
    for visited in answers(crew.visit(letters), ids, mail, each=True):
        if isinstance(visited, Missing):
            raise visited.error or FedflatError(
                f"before round 0: {visited}, and every client must say of itself what the run needs. Go on with "
                "`fedflat resume`, which asks only those who have not answered."
            )
        reply = visited[0]
        assert isinstance(reply, Reply)
        if not reply.finite:
            raise NotFinite(
                f"before round 0, client {reply.client}: what it says of itself ({mail.ask}) is NaN or infinite. Lower "
                "the learning rate or clip gradients."
            )
        yield reply
