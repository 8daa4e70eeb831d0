"""One federated run, from the first round to the last. Read `train` and you know the library."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial

from fedflat.engine.flat import Model
from fedflat.engine.mail import Mail
from fedflat.errors import RunError
from fedflat.executors.crew import Crew, Executor
from fedflat.executors.in_process import InProcess
from fedflat.executors.interrupt import ending_as_by_ctrl_c, uninterrupted
from fedflat.executors.memories import ClientStates
from fedflat.running.attendance import Diverged
from fedflat.running.crowd import members
from fedflat.running.descriptions import described
from fedflat.running.exchange import Exchange
from fedflat.running.experiment import Experiment
from fedflat.running.listening import Listening, nobody
from fedflat.running.model_files import Named
from fedflat.running.prepare import Ready, make_ready
from fedflat.running.reception import Reception
from fedflat.running.reporting import evaluated, heard, loss_of, modules, named_models
from fedflat.running.results import Result
from fedflat.running.run_folder import FIRST, RunBook
from fedflat.running.state import Run
from fedflat.running.ticks import PRETRAINING, Stopwatch, Tell, Tick
from fedflat.server.piece import Desks, Send, Stepped, settle, step
from fedflat.server.shadows import Notes


@ending_as_by_ctrl_c()
def train(
    what: Experiment | Ready, *, until: int | None = None, executor: Executor = InProcess(),
    listening: Listening = nobody, book: RunBook | None = None, tell: Tell = lambda tick: None,
    state_memory: int | None = None,
) -> Result:  # fmt: skip
    """Run an experiment to its end, or from where ``book`` says it was stopped, and give its result.

    ``until`` stops after so many rounds, to go on later: schedules are the whole run's. For ``state_memory`` see `How`.
    """
    ready, book = what if isinstance(what, Ready) else make_ready(what), book or RunBook()
    exp, fed, clients = ready.exp, ready.fed, ClientStates(state_memory, book.place, ready.device)
    resumed, earlier = book.resume(clients), partial(made_before, book, executor, tell, ready.device)
    ready = described(ready, book, executor, earlier, tell)                               # 0 what clients are like
    book.gather(ready)
    first = next(iter(resumed.models.values())) if resumed else exp.init.model(ready, earlier)
    listener, end = listening(ready, book.say), min(until or exp.rounds, exp.rounds)

    with executor.open(listener.job(ready.job), fed, ready.source) as crew:
        clock = Stopwatch(run := resumed or beginning(ready, first, clients, crew))
        try:
            for t in range(run.round, end):
                begun, due = time.monotonic(), exp.evaluate.due(t + 1, end, exp.rounds)
                asked = ready.asked(t)                                               # 1 who is asked, by which model
                shadows = {key: dict(notes) for key, notes in run.shadows.items()}
                ear = listener.listen(t, members(asked), shadows, due)
                exchange = Exchange(crew, Reception(ready, t, run.clients, shadows, run.ledger, ear), run.sent)
                new = exchange.side_by_side(asked, partial(stepped, ready, run))     # 2 ask, average, step
                models = ready.merged(t, run.models, new)                            # 3 where models meet
                trained = time.monotonic() - begun - ear.seconds
                seen_by(ready, shadows, t, run.models, models)                       # 4 averages of models
                row = heard(ready, t, shadows)                                       # 5 evaluate
                row |= evaluated(ready, t, new, models, shadows, crew, run.clients) if due else {}
                seen = {key: value for one in new.values() for key, value in ear.see(one).items()}
                with uninterrupted():                                                # 6 take over, write down
                    run.clients.keep()
                    run.round, run.models, run.shadows, run.sent = t + 1, models, shadows, exchange.sent
                    run.desks = settled(ready, run.desks | {s: one.desks for s, one in new.items()}, models, t + 1)
                    run.ledger = exchange.ledger.with_time(trained, time.monotonic() - begun)
                    book.note(seen | exchange.reception.absent, row and row | run.ledger.spent)
                    book.checkpoint(run)
                tell(clock.tick(run, end, loss_of(new), book.rows))
            status = "done" if run.round == exp.rounds else "running"
            if status == "done":
                last_word(ready, crew, run, book)                                    # and once, at the end
        except Diverged:
            status = "diverged"
        except KeyboardInterrupt:
            run.clients.drop()
            with uninterrupted():  # by a second Ctrl-C
                book.checkpoint(run, force=True)
            raise
    with uninterrupted():
        book.checkpoint(run, force=True)
        if status != "running":
            book.finish(status, named_models(ready, run))
    return Result.of(exp, status, run, book.rows, modules(ready, run), ready.centre(run.round, run.models))


def stepped(ready: Ready, run: Run, slot: str, send: Send) -> Stepped:
    """A slot's step in the round that is to be made, by an exchange with its clients."""
    exp, model = ready.exp, run.models[slot]
    mail = Mail(run.round, model.params, model.buffers, exp.rate(run.round), ask=exp.ask)
    return step(exp.method.server, run.desks[slot], send, mail, ready.holding, ready.descriptions)


def made_before(
    book: RunBook, executor: Executor, tell: Tell, device: str, exp: Experiment, place: str = FIRST
) -> Named:  # fmt: skip
    """The model of a run that must be made before this one; it is kept with this one, and gone on with."""
    before = make_ready(exp, device)

    def tell_phase(tick: Tick) -> None:
        tell(replace(tick, phase=PRETRAINING))

    with closing(book.before(before, place)) as own:
        return named_of(before, train(before, executor=executor, book=own, tell=tell_phase))


def named_of(ready: Ready, result: Result) -> Named:
    """The model that a run has ended with, by its module's own names."""
    assert result.model is not None
    if result.diverged:
        raise RunError(f"the run that came first, on {ready.exp.on}, diverged. Lower its learning rate.")
    return ready.learner.another().named(result.model)


def seen_by(
    ready: Ready, shadows: dict[str, Notes], t: int, before: dict[str, Model], after: dict[str, Model]
) -> None:  # fmt: skip
    """Let shadows see what round ``t`` has made of the models."""
    for shadow in ready.exp.method.shadows:
        stood, stands = ready.standing(t, before), ready.standing(t + 1, after)
        shadow.see(shadows[shadow.key], ready.scene, t, stood, stands)


def last_word(ready: Ready, crew: Crew, run: Run, book: RunBook) -> None:
    """What protocols ask of every client when the last round is done, unless it is written already."""
    exp = ready.exp
    for protocol in exp.method.protocols:
        asked = protocol.last()
        if asked is None or any(row.get("tuned") for row in book.rows):
            continue
        notes = {protocol.key: dict(run.shadows[protocol.key])}
        exchange = Exchange(crew, Reception(ready, exp.rounds, ClientStates(), notes, run.ledger), strict=False)
        lr = exp.rate(exp.rounds - 1)
        for slot, clients in ready.slots.items():
            mail = Mail(exp.rounds, run.models[slot].params, run.models[slot].buffers, lr, ask=asked)
            exchange.along(slot, [(client,) for client in clients])(mail)
        row = {"round": exp.rounds, "tuned": True, **protocol.scores(notes[protocol.key]), **exchange.ledger.spent}
        with uninterrupted():
            run.ledger = exchange.ledger
            book.note(exchange.reception.absent, row)


def beginning(ready: Ready, model: Model, clients: ClientStates, crew: Crew | None = None) -> Run:
    """The state before round 0: every slot has the same model. ``crew`` is for those who must ask clients first."""
    buffers, own = ready.learner.initial().buffers, ready.own_tests(crew) if crew else None
    scene = replace(ready.scene, own_accuracies=own and (lambda params: own(Model(params, buffers))))
    notes = {one.key: one.open(scene, model.params) for one in ready.exp.method.measures}
    ledger = replace(ready.beforehand, clock=None if ready.fleet is None else ready.beforehand.clock or 0.0)
    models = dict.fromkeys(ready.slots, model)
    return Run(0, models, settled(ready, {slot: {} for slot in models}, models, 0), notes, clients, ledger)


def settled(ready: Ready, desks: Mapping[str, Desks], models: Mapping[str, Model], completed: int) -> dict[str, Desks]:
    """What the server's pieces remember when so many rounds are over, by slot."""
    exp = ready.exp
    return {slot: settle(exp.method.server, desks[slot], models[slot], completed, exp.rounds) for slot in models}
