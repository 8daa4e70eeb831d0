"""One federated run, from the first round to the last. Read `train` and you know the library."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

from torch import nn

from fedflat.engine.flat import Model
from fedflat.engine.mail import Mail
from fedflat.errors import RunError
from fedflat.executors.crew import Crew, Executor
from fedflat.executors.in_process import InProcess
from fedflat.executors.interrupt import ending_as_by_ctrl_c, uninterrupted
from fedflat.executors.memories import ClientStates
from fedflat.folder.diary import Row
from fedflat.running.attendance import Diverged
from fedflat.running.evaluate import Scores, evaluate
from fedflat.running.exchange import Exchange
from fedflat.running.experiment import Experiment
from fedflat.running.listening import Listening, nobody
from fedflat.running.model_files import Named, in_memory
from fedflat.running.prepare import Ready, make_ready
from fedflat.running.results import Result
from fedflat.running.run_folder import RunBook
from fedflat.running.state import Run
from fedflat.server.piece import Stepped, step
from fedflat.server.shadows import Notes, Scene


@ending_as_by_ctrl_c()
def train(
    what: Experiment | Ready, *, until: int | None = None, executor: Executor = InProcess(),
    listening: Listening = nobody, book: RunBook | None = None, tell: Tell = lambda tick: None,
    state_memory: int | None = None,
) -> Result:  # fmt: skip
    """Run an experiment to its end, or from where ``book`` says it was stopped, and give its result.

    ``until`` stops after so many rounds, to go on later: schedules are the whole run's. For ``state_memory`` see `How`.
    """
    ready = what if isinstance(what, Ready) else make_ready(what)
    exp, fed, learner, scene = ready.exp, ready.fed, ready.learner, ready.scene
    book = book or RunBook()
    clients = ClientStates(state_memory, book.place, learner.device)
    resumed = book.resume(clients)
    first = start(ready, book, executor, tell) if resumed is None else resumed.model
    listener, end = listening(ready, book.say), min(until or exp.rounds, exp.rounds)

    with executor.open(listener.job(ready.job), fed, ready.source) as crew:
        run = resumed or beginning(ready, first, clients, crew)
        clock = Stopwatch(run)
        try:
            for t in range(run.round, end):
                begun, due = time.monotonic(), exp.evaluate.due(t + 1, end, exp.rounds)
                cohort = ready.sampler.draw(t, fed.population, exp.seed, fed.sizes)  # 1 who is asked
                shadows = {key: dict(notes) for key, notes in run.shadows.items()}
                ear = listener.listen(t, cohort, shadows, due)
                exchange = Exchange(ready, crew, cohort, run.clients, shadows, run.ledger, ear)

                mail = Mail(t, run.model.params, run.model.buffers, exp.rate(t), ask=exp.ask)
                new = step(exp.method.server, run.desks, exchange.send, mail, ready.holding)  # 2 ask, average, step
                trained = time.monotonic() - begun - ear.seconds

                for shadow in exp.method.shadows:                                    # 3 averages of models
                    shadow.see(shadows[shadow.key], scene, t, run.model.params, new.model.params)

                row = evaluated(ready, t, new, shadows, crew) if due else {}               # 4 evaluate, look around
                seen = ear.see(new) | exchange.absent

                with uninterrupted():                                                # 5 take over, write down
                    run.clients.keep()
                    run.round, run.model, run.desks, run.shadows = t + 1, new.model, new.desks, shadows
                    run.ledger = exchange.ledger.with_time(trained, time.monotonic() - begun)
                    book.note(seen, row and row | run.ledger.spent)
                    book.checkpoint(run)
                tell(clock.tick(run, end, new.replies.loss, book.rows))
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
    return Result.of(exp, status, run, book.rows, modules(ready, run))


def start(ready: Ready, book: RunBook, executor: Executor, tell: Tell) -> Model:
    """The model before round 0; a run that must be made for it first is kept with this one, and gone on with."""

    def first(exp: Experiment) -> Named:
        before = make_ready(exp, ready.learner.device)
        with closing(book.before(before)) as own:
            return named_of(before, train(before, executor=executor, book=own, tell=tell))

    return ready.exp.init.model(ready, first)


def named_of(ready: Ready, result: Result) -> Named:
    """The model that a run has ended with, by its module's own names."""
    assert result.model is not None
    if result.diverged:
        raise RunError(f"the run that came first, on {ready.exp.on}, diverged. Lower its learning rate.")
    return ready.learner.another().named(result.model)


def evaluated(ready: Ready, t: int, new: Stepped, shadows: dict[str, Notes], crew: Crew) -> Row:
    """What is written of round ``t``: the scores of all models, and what the method has measured."""
    models = models_of(ready.exp, ready.scene, new.model, shadows)
    scores = evaluate(ready.learner, ready.fed, models, ready.own_tests(crew))
    row = {"round": t + 1, **reported(scores), **new.notes, "train_loss": new.replies.loss}
    for one in ready.exp.method.measures:
        row |= one.scores(shadows[one.key])
    return row


def last_word(ready: Ready, crew: Crew, run: Run, book: RunBook) -> None:
    """What protocols ask of every client when the last round is done, unless it is written already."""
    exp = ready.exp
    for protocol in exp.method.protocols:
        asked = protocol.last()
        if asked is None or any(row.get("tuned") for row in book.rows):
            continue
        notes = {protocol.key: dict(run.shadows[protocol.key])}
        exchange = Exchange(ready, crew, list(range(ready.fed.population)), ClientStates(), notes, run.ledger)
        exchange.send(Mail(exp.rounds, run.model.params, run.model.buffers, exp.rate(exp.rounds - 1), ask=asked))
        row = {"round": exp.rounds, "tuned": True, **protocol.scores(notes[protocol.key]), **exchange.ledger.spent}
        with uninterrupted():
            run.ledger = exchange.ledger
            book.note(exchange.absent, row)


def beginning(ready: Ready, model: Model, clients: ClientStates, crew: Crew) -> Run:
    """The state before round 0."""
    buffers, own = ready.learner.initial().buffers, ready.own_tests(crew)
    scene = replace(ready.scene, own_accuracies=own and (lambda params: own(Model(params, buffers))))
    return Run(0, model, {}, {one.key: one.open(scene, model.params) for one in ready.exp.method.measures}, clients)


def models_of(exp: Experiment, scene: Scene, model: Model, shadows: dict[str, Notes]) -> dict[str, Model]:
    """The server's model and those of the shadows that have begun."""
    models = {"server": model}
    for shadow in exp.method.shadows:
        params = shadow.params(shadows[shadow.key], scene, model.params)
        if params is not None:
            models[shadow.key] = replace(model, params=params)
    return models


def named_models(ready: Ready, run: Run) -> dict[str, Named]:
    """All models by their module's own names, the reported one last."""
    models = models_of(ready.exp, ready.scene, run.model, run.shadows)
    fresh = ready.learner.another()
    return {name: fresh.named(model) for name, model in models.items()}


def modules(ready: Ready, run: Run) -> Callable[[str | None], nn.Module]:
    """What makes any of the models, by name, a module."""
    return partial(in_memory, ready.learner, models_of(ready.exp, ready.scene, run.model, run.shadows))


def reported(scores: dict[str, Scores]) -> Row:
    """The scores that count, those of the last shadow if there is one, and beside them all of them."""
    name = list(scores)[-1]
    return {**scores[name], "model": name, "models": scores}


@dataclass(frozen=True)
class Tick:
    """What there is to tell when a round is done."""

    round: int
    rounds: int
    loss: float
    """The mean training loss of the round."""
    row: Row | None
    """The last evaluation."""
    speed: float
    """Examples trained on in a second of exchanges, since this process took the run up."""
    left: float
    """Seconds to go, judging by the rounds since then."""


Tell = Callable[[Tick], None]


class Stopwatch:
    """Speed and time left, from where this process took the run up."""

    def __init__(self, run: Run) -> None:
        self.round, self.ledger = run.round, run.ledger

    def tick(self, run: Run, rounds: int, loss: float, rows: list[Row]) -> Tick:
        """What to tell now."""
        now, before = run.ledger, self.ledger
        speed = (now.samples - before.samples) / max(now.training - before.training, 1e-9)
        left = (now.seconds - before.seconds) / (run.round - self.round) * (rounds - run.round)
        return Tick(run.round, rounds, loss, rows[-1] if rows else None, speed, left)
