"""One federated run, from the first round to the last. Start reading at `train`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fedflat.core.flat import Model
from fedflat.core.messages import Broadcast
from fedflat.errors import RunError
from fedflat.execution.client_pool import ClientPool, ClientsUnreachable, Executor
from fedflat.execution.client_states import ClientStates
from fedflat.execution.in_process import InProcess
from fedflat.execution.interrupt import signals_as_ctrl_c, uninterrupted
from fedflat.experiments.callbacks import CallbackFactory, RoundCallback, RunCallback, no_callback
from fedflat.experiments.descriptions import collect_descriptions
from fedflat.experiments.exchange import Exchange
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.open_exchange import open_exchange
from fedflat.experiments.population import selected_clients
from fedflat.experiments.prepare import PreparedRun, prepare
from fedflat.experiments.progress import PRETRAINING, OnProgress, Progress, Stopwatch
from fedflat.experiments.replies import Diverged
from fedflat.experiments.reporting import Evaluator, loss_of, modules, named_models
from fedflat.experiments.results.results import Result
from fedflat.experiments.run_folder.jsonl_log import Row
from fedflat.experiments.run_folder.model_files import Named
from fedflat.experiments.run_folder.run_folder import FIRST, RunFolder
from fedflat.experiments.state import RunState
from fedflat.server.averaging import AverageState, RunInfo
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
    """Run an experiment to its end, or from the last checkpoint of ``run_folder``.

    Args:
        what: the experiment, or a run that is prepared already.
        callbacks: makes the callbacks of the run, which are called in every round.
        until: stop after this number of rounds, to be resumed later; schedules do not change.
        executor: where clients run.
        run_folder: keeps metrics, checkpoints and models; None: they are kept in memory.
        on_progress: called after every round.
        state_memory: bytes of client state in memory; see `ExecutionConfig`.
    """
    prepared = what if isinstance(what, PreparedRun) else prepare(what)
    exp, run_folder = prepared.exp, run_folder or RunFolder()
    clients = ClientStates(state_memory, run_folder.place, prepared.device)
    resumed = run_folder.resume(clients)
    pretrain = partial(train_first, run_folder, executor, on_progress, prepared.device)
    prepared = collect_descriptions(prepared, run_folder, executor, pretrain, on_progress)
    run_folder.write_groups(prepared)
    first = next(iter(resumed.models.values())) if resumed else exp.init.model(prepared, pretrain)
    callback = callbacks(prepared, run_folder.say)
    end = min(until or exp.rounds, exp.rounds)

    with executor.open(callback.job(prepared.job), prepared.fed, prepared.source) as pool:
        run = resumed or initial_state(prepared, first, clients, pool)
        evaluator = Evaluator(prepared, pool)
        clock = Stopwatch(run)
        try:
            for t in range(run.round, end):
                evaluates = exp.evaluate.due(t + 1, end, exp.rounds)
                outcome = train_round(prepared, run, t, pool, callback, evaluates=evaluates)
                update_averages(prepared, run, outcome)
                row = evaluate_round(evaluator, run, outcome, evaluates=evaluates)
                commit(prepared, run, outcome, row, run_folder)
                on_progress(clock.progress(run, end, loss_of(outcome.steps), run_folder.rows))
            status = "done" if run.round == exp.rounds else "running"
            if status == "done":
                final_evaluation(prepared, pool, run, run_folder)
        except Diverged:
            status = "diverged"
        except (KeyboardInterrupt, ClientsUnreachable):
            run.clients.discard()
            with uninterrupted():  # by a second Ctrl-C
                run_folder.checkpoint(run, force=True)
            raise
    with uninterrupted():
        run_folder.checkpoint(run, force=True)
        if status != "running":
            run_folder.finish(status, named_models(prepared, run))
    center = prepared.server.center(run.round, run.models)
    return Result.of(exp, status, run, run_folder.rows, modules(prepared, run), center)


@dataclass
class RoundOutcome:
    """What a round has made; the state of the run is unchanged until `commit`."""

    round: int
    started: float
    """In seconds of `time.monotonic`."""
    training: float
    """Seconds in exchanges and server steps."""
    steps: dict[str, StepResult]
    """By slot."""
    models: dict[str, Model]
    """By slot, merged."""
    averages: dict[str, AverageState]
    exchange: Exchange
    callback: RoundCallback


def train_round(
    prepared: PreparedRun,
    run: RunState,
    t: int,
    pool: ClientPool,
    callback: RunCallback,
    *,
    evaluates: bool,
) -> RoundOutcome:
    """Select clients, train them, aggregate, make the server's steps, and merge its models."""
    started = time.monotonic()
    selection = prepared.server.select(t)
    averages = {key: dict(state) for key, state in run.averages.items()}
    listener = callback.on_round_start(t, selected_clients(selection), averages, evaluates)
    exchange = open_exchange(
        prepared, pool, t, run.clients, averages, run.ledger, listener, run.sent
    )
    steps = exchange.run_slots(selection, partial(step_slot, prepared, run))
    models = prepared.server.merge(t, run.models, steps)
    training = time.monotonic() - started - listener.seconds
    return RoundOutcome(t, started, training, steps, models, averages, exchange, listener)


def update_averages(prepared: PreparedRun, run: RunState, outcome: RoundOutcome) -> None:
    """Add the models of a round to the averages, which are evaluated and never sent."""
    t, server = outcome.round, prepared.server
    for average in prepared.exp.method.averages:
        before = server.center_params(t, run.models)
        after = server.center_params(t + 1, outcome.models)
        average.update(outcome.averages[average.key], prepared.info, t, before, after)


def evaluate_round(
    evaluator: Evaluator, run: RunState, outcome: RoundOutcome, *, evaluates: bool
) -> Row:
    """The metrics of a round; without an evaluation only what clients measured as they trained."""
    t, averages = outcome.round, outcome.averages
    row = evaluator.reply_scores(t, averages)
    if evaluates:
        row |= evaluator.evaluate(t, outcome.steps, outcome.models, averages, run.clients)
    return row


def commit(
    prepared: PreparedRun, run: RunState, outcome: RoundOutcome, row: Row, run_folder: RunFolder
) -> None:
    """Take over the outcome of a round and write it; an interrupted round leaves no trace."""
    recorded: dict[str, Any] = {}
    for step in outcome.steps.values():
        recorded |= outcome.callback.on_round_end(step)
    states = run.server | {slot: one.state for slot, one in outcome.steps.items()}
    done, exchange = outcome.round + 1, outcome.exchange
    with uninterrupted():
        run.clients.commit()
        run.round, run.models, run.averages = done, outcome.models, outcome.averages
        run.sent = exchange.in_flight
        run.server = server_state_after(prepared, states, outcome.models, done)
        seconds = time.monotonic() - outcome.started
        run.ledger = exchange.ledger.with_time(outcome.training, seconds)
        failures = exchange.collector.failures_row
        run_folder.note(recorded | failures, row and row | run.ledger.spent)
        run_folder.checkpoint(run)


def step_slot(prepared: PreparedRun, run: RunState, slot: str, send: Send) -> StepResult:
    """Make the next step of a slot; ``send`` sends its broadcasts to clients."""
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
        prepared.learner,
        prepared.selection(run.round),
    )


def train_first(
    run_folder: RunFolder,
    executor: Executor,
    on_progress: OnProgress,
    device: str,
    exp: Experiment,
    place: str = FIRST,
) -> Named:
    """Train the run that must come before this one, or resume it; returns its final weights.

    Its run folder is ``place`` in that of this run.
    """
    before = prepare(exp, device)

    def tell_phase(progress: Progress) -> None:
        on_progress(replace(progress, phase=PRETRAINING))

    with closing(run_folder.before(before, place)) as own:
        return final_weights(
            before, train(before, executor=executor, run_folder=own, on_progress=tell_phase)
        )


def final_weights(prepared: PreparedRun, result: Result) -> Named:
    """The final weights of a run, by the names of its module."""
    assert result.model is not None
    if result.diverged:
        raise RunError(
            f"the run that came first, on {prepared.exp.on}, diverged. Lower its learning rate."
        )
    return prepared.learner.copy().state_dict_of(result.model)


def final_evaluation(
    prepared: PreparedRun, pool: ClientPool, run: RunState, run_folder: RunFolder
) -> None:
    """Make the evaluations at all clients that follow the last round, unless they are written."""
    exp = prepared.exp
    for evaluation in exp.method.evaluations:
        asked = evaluation.final_instruction()
        if asked is None or any(row.get("tuned") for row in run_folder.rows):
            continue
        notes = {evaluation.key: dict(run.averages[evaluation.key])}
        exchange = open_exchange(
            prepared, pool, exp.rounds, ClientStates(), notes, run.ledger, patient=True
        )
        lr = exp.lr(exp.rounds - 1)
        for slot, clients in prepared.server.slots.items():
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
    """The state before round 0: every slot has the same model.

    ``pool`` is needed by observers that test the initial model at clients.
    """
    averages = {
        one.key: one.init(_initial_info(prepared, one.key, pool), model.params)
        for one in prepared.exp.method.observers
    }
    ledger = replace(
        prepared.initial_cost,
        clock=None if prepared.fleet is None else prepared.initial_cost.clock or 0.0,
    )
    models = dict.fromkeys(prepared.server.slots, model)
    return RunState(
        0,
        models,
        server_state_after(prepared, {slot: {} for slot in models}, models, 0),
        averages,
        clients,
        ledger,
    )


def _initial_info(prepared: PreparedRun, name: str, pool: ClientPool | None) -> RunInfo:
    """What an observer knows before round 0, with tests at clients if there are some."""
    tests = Evaluator(prepared, pool).client_tests(0, name) if pool else None
    if tests is None:
        return prepared.info
    buffers = prepared.learner.initial().buffers
    return replace(prepared.info, own_accuracies=lambda params: tests(Model(params, buffers)))


def server_state_after(
    prepared: PreparedRun,
    states: Mapping[str, ServerState],
    models: Mapping[str, Model],
    completed: int,
) -> dict[str, ServerState]:
    """The state of the server's pieces after so many rounds, by slot."""
    exp = prepared.exp
    return {
        slot: after_round(exp.method.server, states[slot], models[slot], completed, exp.rounds)
        for slot in models
    }
