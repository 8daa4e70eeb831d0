"""One federated run, from the first round to the last. Read `train` and you know the library."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial

from fedflat.core.flat import Model
from fedflat.core.messages import Broadcast
from fedflat.errors import RunError
from fedflat.execution.client_pool import ClientPool, Executor
from fedflat.execution.client_states import ClientStates
from fedflat.execution.in_process import InProcess
from fedflat.execution.interrupt import signals_as_ctrl_c, uninterrupted
from fedflat.experiments.callbacks import CallbackFactory, RunCallback, no_callback
from fedflat.experiments.descriptions import collect_descriptions
from fedflat.experiments.exchange import Exchange
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.failures import Diverged
from fedflat.experiments.population import selected_clients
from fedflat.experiments.prepare import PreparedRun, prepare
from fedflat.experiments.progress import PRETRAINING, OnProgress, Progress, Stopwatch
from fedflat.experiments.replies import ReplyCollector
from fedflat.experiments.reporting import (
    evaluate_models,
    loss_of,
    modules,
    named_models,
    reply_scores,
)
from fedflat.experiments.results.results import Result
from fedflat.experiments.run_folder.model_files import Named
from fedflat.experiments.run_folder.run_folder import FIRST, RunFolder
from fedflat.experiments.state import RunState
from fedflat.server.averaging import AverageState
from fedflat.server.piece import Send, ServerState, StepResult, after_round, server_step


@signals_as_ctrl_c()
def train(
    what: Experiment | PreparedRun,
    *,
    until: int | None = None,
    executor: Executor = InProcess(),
    callbacks: CallbackFactory = no_callback,
    run_folder: RunFolder | None = None,
    on_progress: OnProgress = lambda progress: None,
    state_memory: int | None = None,
) -> Result:
    """Run an experiment to its end, or from where ``book`` says it was stopped, and give its
    result.

    ``until`` stops after so many rounds, to go on later: schedules are the whole run's. For
    ``state_memory`` see `ExecutionConfig`.
    """
    prepared = what if isinstance(what, PreparedRun) else prepare(what)
    run_folder = run_folder or RunFolder()
    exp, fed = prepared.exp, prepared.fed
    clients = ClientStates(state_memory, run_folder.place, prepared.device)
    resumed = run_folder.resume(clients)
    earlier = partial(train_first, run_folder, executor, on_progress, prepared.device)
    # 0 what clients are like
    prepared = collect_descriptions(prepared, run_folder, executor, earlier, on_progress)
    run_folder.write_groups(prepared)
    first = next(iter(resumed.models.values())) if resumed else exp.init.model(prepared, earlier)
    callback, end = callbacks(prepared, run_folder.say), min(until or exp.rounds, exp.rounds)

    with executor.open(callback.job(prepared.job), fed, prepared.source) as pool:
        clock = Stopwatch(run := resumed or initial_state(prepared, first, clients, pool))
        try:
            for t in range(run.round, end):
                new = train_round(prepared, run, t, end, pool, callback, run_folder)
                on_progress(clock.progress(run, end, loss_of(new), run_folder.rows))
            status = "done" if run.round == exp.rounds else "running"
            if status == "done":
                final_evaluation(prepared, pool, run, run_folder)  # and once, at the end
        except Diverged:
            status = "diverged"
        except KeyboardInterrupt:
            run.clients.discard()
            with uninterrupted():  # by a second Ctrl-C
                run_folder.checkpoint(run, force=True)
            raise
    with uninterrupted():
        run_folder.checkpoint(run, force=True)
        if status != "running":
            run_folder.finish(status, named_models(prepared, run))
    center = prepared.center(run.round, run.models)
    return Result.of(exp, status, run, run_folder.rows, modules(prepared, run), center)


def train_round(
    prepared: PreparedRun,
    run: RunState,
    t: int,
    end: int,
    pool: ClientPool,
    callback: RunCallback,
    run_folder: RunFolder,
) -> dict[str, StepResult]:
    """Make round ``t`` of a run that stops at ``end``, write it down, and give each slot's step."""
    exp = prepared.exp
    begun, due = time.monotonic(), exp.evaluate.due(t + 1, end, exp.rounds)
    asked = prepared.select(t)  # 1 who is asked, by which model
    averages = {key: dict(notes) for key, notes in run.averages.items()}
    round_callback = callback.on_round_start(t, selected_clients(asked), averages, due)
    collector = ReplyCollector(prepared, t, run.clients, averages, run.ledger, round_callback)
    exchange = Exchange(pool, collector, run.sent)
    new = exchange.run_slots(asked, partial(step_slot, prepared, run))  # 2 ask, average, step
    models = prepared.merge(t, run.models, new)  # 3 where models meet
    trained = time.monotonic() - begun - round_callback.seconds
    update_averages(prepared, averages, t, run.models, models)  # 4 averages of models
    row = reply_scores(prepared, t, averages)  # 5 evaluate
    if due:
        row |= evaluate_models(prepared, t, new, models, averages, pool, run.clients)
    seen = {
        key: value
        for one in new.values()
        for key, value in round_callback.on_round_end(one).items()
    }
    with uninterrupted():  # 6 take over, write down
        run.clients.commit()
        run.round, run.models, run.averages, run.sent = t + 1, models, averages, exchange.sent
        states = run.server | {slot: one.state for slot, one in new.items()}
        run.server = server_state_after(prepared, states, models, t + 1)
        run.ledger = exchange.ledger.with_time(trained, time.monotonic() - begun)
        run_folder.note(seen | collector.failures_row, row and row | run.ledger.spent)
        run_folder.checkpoint(run)
    return new


def step_slot(prepared: PreparedRun, run: RunState, slot: str, send: Send) -> StepResult:
    """A slot's step in the round that is to be made, by an exchange with its clients."""
    exp, model = prepared.exp, run.models[slot]
    broadcast = Broadcast(
        run.round, model.params, model.buffers, exp.lr(run.round), instruction=exp.instruction
    )
    return server_step(
        exp.method.server,
        run.server[slot],
        send,
        broadcast,
        prepared.server_data,
        prepared.descriptions,
    )


def train_first(
    run_folder: RunFolder,
    executor: Executor,
    on_progress: OnProgress,
    device: str,
    exp: Experiment,
    place: str = FIRST,
) -> Named:
    """The model of a run that must be made before this one; it is kept with this one, and gone on
    with."""
    before = prepare(exp, device)

    def tell_phase(progress: Progress) -> None:
        on_progress(replace(progress, phase=PRETRAINING))

    with closing(run_folder.before(before, place)) as own:
        return final_weights(
            before, train(before, executor=executor, run_folder=own, on_progress=tell_phase)
        )


def final_weights(prepared: PreparedRun, result: Result) -> Named:
    """The model that a run has ended with, by its module's own names."""
    assert result.model is not None
    if result.diverged:
        raise RunError(
            f"the run that came first, on {prepared.exp.on}, diverged. Lower its learning rate."
        )
    return prepared.learner.copy().state_dict_of(result.model)


def update_averages(
    prepared: PreparedRun,
    averages: dict[str, AverageState],
    t: int,
    before: dict[str, Model],
    after: dict[str, Model],
) -> None:
    """Let shadows see what round ``t`` has made of the models."""
    for average in prepared.exp.method.averages:
        stood, stands = prepared.center_params(t, before), prepared.center_params(t + 1, after)
        average.update(averages[average.key], prepared.info, t, stood, stands)


def final_evaluation(
    prepared: PreparedRun, pool: ClientPool, run: RunState, run_folder: RunFolder
) -> None:
    """What protocols ask of every client when the last round is done, unless it is written
    already."""
    exp = prepared.exp
    for evaluation in exp.method.evaluations:
        asked = evaluation.final_instruction()
        if asked is None or any(row.get("tuned") for row in run_folder.rows):
            continue
        notes = {evaluation.key: dict(run.averages[evaluation.key])}
        exchange = Exchange(
            pool,
            ReplyCollector(prepared, exp.rounds, ClientStates(), notes, run.ledger),
            strict=False,
        )
        lr = exp.lr(exp.rounds - 1)
        for slot, clients in prepared.slots.items():
            broadcast = Broadcast(
                exp.rounds, run.models[slot].params, run.models[slot].buffers, lr, instruction=asked
            )
            exchange.sender(slot, [(client,) for client in clients])(broadcast)
        row = {
            "round": exp.rounds,
            "tuned": True,
            **evaluation.scores(notes[evaluation.key]),
            **exchange.ledger.spent,
        }
        with uninterrupted():
            run.ledger = exchange.ledger
            run_folder.note(exchange.collector.failures_row, row)


def initial_state(
    prepared: PreparedRun, model: Model, clients: ClientStates, pool: ClientPool | None = None
) -> RunState:
    """The state before round 0: every slot has the same model. ``crew`` is for those who must ask
    clients first."""
    buffers, own = prepared.learner.initial().buffers, prepared.client_tests(pool) if pool else None
    info = replace(
        prepared.info, own_accuracies=own and (lambda params: own(Model(params, buffers)))
    )
    notes = {one.key: one.init(info, model.params) for one in prepared.exp.method.observers}
    ledger = replace(
        prepared.initial_cost,
        clock=None if prepared.fleet is None else prepared.initial_cost.clock or 0.0,
    )
    models = dict.fromkeys(prepared.slots, model)
    return RunState(
        0,
        models,
        server_state_after(prepared, {slot: {} for slot in models}, models, 0),
        notes,
        clients,
        ledger,
    )


def server_state_after(
    prepared: PreparedRun,
    states: Mapping[str, ServerState],
    models: Mapping[str, Model],
    completed: int,
) -> dict[str, ServerState]:
    """What the server's pieces remember when so many rounds are over, by slot."""
    exp = prepared.exp
    return {
        slot: after_round(exp.method.server, states[slot], models[slot], completed, exp.rounds)
        for slot in models
    }
