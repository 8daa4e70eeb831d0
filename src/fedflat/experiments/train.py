"""One federated run, from the first round to the last. Start reading at `train`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from fedflat.client.learner import Learner
from fedflat.core.flat import Model
from fedflat.core.messages import Broadcast, Instruction
from fedflat.core.schedules import Schedule
from fedflat.errors import RunError
from fedflat.execution.client_pool import ClientsUnreachable, Executor
from fedflat.execution.client_states import ClientStates
from fedflat.execution.in_process import InProcess
from fedflat.execution.interrupt import Signals, signals_as_ctrl_c
from fedflat.experiments.callbacks import (
    CallbackFactory,
    RoundCallback,
    RoundEnd,
    RunCallback,
    no_callbacks,
    wants_stop,
)
from fedflat.experiments.descriptions import collect_descriptions
from fedflat.experiments.evaluator import Evaluator, loss_of, open_evaluator
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.groups import groups_of
from fedflat.experiments.model_selection import (
    ModelSelection,
    final_models,
    final_weights,
    open_selection,
)
from fedflat.experiments.open_exchange import open_exchanges
from fedflat.experiments.population import fleet_of
from fedflat.experiments.predictions import LastModels, RunModels
from fedflat.experiments.prepare import prepare
from fedflat.experiments.progress import PRETRAINING, OnProgress, Progress, Stopwatch
from fedflat.experiments.results.results import Result
from fedflat.experiments.run_folder.export import ModelCard
from fedflat.experiments.run_folder.jsonl_log import Row
from fedflat.experiments.run_folder.model_files import Named, in_memory
from fedflat.experiments.run_folder.run_folder import FIRST, RunFolder
from fedflat.experiments.run_setup import RunSetup
from fedflat.experiments.state import RunState
from fedflat.server.averaging import AverageState, RunInfo
from fedflat.server.client_selection import selected_clients
from fedflat.server.exchange import Exchange, Exchanges
from fedflat.server.piece import Send, ServerData, ServerPiece, ServerState
from fedflat.server.replies import Diverged
from fedflat.server.step import StepResult, after_round, server_step
from fedflat.topologies.server_models import ServerModels

EARLY = "early"
"""The state that says that a run has ended before its last round."""


def train(
    what: Experiment | RunSetup,
    *,
    until: int | None = None,
    executor: Executor = InProcess(),
    callbacks: CallbackFactory = no_callbacks,
    run_folder: RunFolder | None = None,
    on_progress: OnProgress = lambda progress: None,
    state_memory: int | None = None,
    on_round_end: Sequence[Callable[[RoundEnd], bool | None]] = (),
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
        on_round_end: functions of the user, called before a round is committed; True ends the run.
    """
    with signals_as_ctrl_c() as signals:
        setup = what if isinstance(what, RunSetup) else prepare(what)
        exp, device, run_folder = setup.exp, setup.job.learner.device, run_folder or RunFolder()
        clients = ClientStates(state_memory, run_folder.place, device)
        resumed = run_folder.resume(clients)
        pretrain = partial(train_first, run_folder, executor, on_progress, device)
        setup = collect_descriptions(setup, run_folder, executor, pretrain, on_progress)
        population, job = setup.server.population, setup.job
        run_folder.write_groups(groups_of(exp.topology, population, setup.fed))
        first = (
            next(iter(resumed.models.values()))
            if resumed
            else exp.init.model(exp, job.learner, population.descriptions, pretrain)
        )
        observers = callbacks(setup, run_folder.print_line)
        for one in observers:
            job = one.job(job)
        end = min(until or exp.rounds, exp.rounds)

        with executor.open(job, setup.fed, setup.source) as pool:
            clients.use_pool(pool)
            evaluator = open_evaluator(setup, pool)
            run = resumed or initial_state(setup, first, clients, evaluator)
            server = open_server(setup, open_exchanges(setup, pool), observers)
            ending = EarlyEnd(setup, open_selection(setup), on_round_end)
            evaluated = exp.evaluate.rounds(end, exp.rounds)
            clock, stops, watches = Stopwatch(run, evaluated), EARLY in run.averages, ending.watches
            signals.take_over()
            try:
                for t in range(run.round, run.round if stops else end):
                    outcome = server.train_round(run, t, evaluates=t in evaluated)
                    update_averages(setup.server, run, outcome)
                    row = evaluate_round(evaluator, run, outcome, evaluates=t in evaluated)
                    if watches:
                        row, stops = ending.after(evaluator, run, outcome, row, run_folder.rows)
                        signals.take_over()  # from handlers that functions of the user have set
                    commit(server, run, outcome, row, run_folder, signals)
                    on_progress(clock.progress(run, end, loss_of(outcome.steps), run_folder.rows))
                    if stops:
                        break
                status = "done" if run.round == exp.rounds else "early" if stops else "running"
                if status != "running":
                    final_evaluation(setup, server.exchanges, run, run_folder, signals)
            except Diverged:
                status = "diverged"
            except (KeyboardInterrupt, ClientsUnreachable):
                run.clients.discard()
                with signals.delayed():  # also a second Ctrl-C
                    run_folder.checkpoint(run, force=True)
                raise
        with signals.delayed():
            run_folder.checkpoint(run, force=True)
            if status != "running":
                run_folder.finish(status, final_weights(setup, run))
        return result_of(setup, status, run, run_folder.rows)


def result_of(setup: RunSetup, status: str, run: RunState, rows: list[Row]) -> Result:
    """The result of a run that has ended or stopped, with its last models."""
    last = LastModels(setup, final_models(setup, run))
    modules = partial(in_memory, setup.job.learner, last.models)
    models = RunModels(modules, partial(ModelCard.of_setup, setup), last)
    center = setup.server.center(run.round, run.models)
    return Result.of(setup.exp, status, run, rows, models, center)


@dataclass
class RoundOutcome:
    """The result of a round; the state of the run is unchanged until `commit`."""

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
    callbacks: Sequence[RoundCallback]
    evaluation: float = 0.0
    """Seconds in evaluations."""


@dataclass(frozen=True)
class EarlyEnd:
    """Early stopping: by a patience, or by functions of the user."""

    setup: RunSetup
    selection: ModelSelection
    functions: Sequence[Callable[[RoundEnd], bool | None]]

    @property
    def watches(self) -> bool:
        """Whether there is anything to do after a round."""
        return self.selection.active or bool(self.functions)

    def after(
        self, evaluator: Evaluator, run: RunState, outcome: RoundOutcome, row: Row, rows: list[Row]
    ) -> tuple[Row, bool]:
        """Take a round into account that is not committed yet.

        Returns its evaluation, which a last round always has, and whether the run ends with it.
        """
        done, exp = outcome.round + 1, self.setup.exp
        stops = self._select(outcome, row)
        if self.functions:
            named = evaluator.server.by_name(done, outcome.models, outcome.averages)
            end = RoundEnd(
                done,
                exp.rounds,
                repr(exp.method),
                exp.seed,
                loss_of(outcome.steps),
                row if "model" in row else {},
                tuple(rows),
                partial(in_memory, evaluator.learner, named),
            )
            stops = wants_stop(self.functions, end) or stops
        if stops and "model" not in row:
            row = evaluate_round(evaluator, run, outcome, evaluates=True)
            self._select(outcome, row)
        if stops:
            outcome.averages[EARLY] = {"round": torch.tensor(done)}
        return row, stops

    def _select(self, outcome: RoundOutcome, row: Row) -> bool:
        if not self.selection.active or "model" not in row:
            return False
        return self.selection.update(outcome.round + 1, outcome.models, outcome.averages, row)


@dataclass(frozen=True)
class FederatedServer:
    """The server of a run: selects clients, trains them, and makes the steps of its models."""

    models: ServerModels
    pieces: Sequence[ServerPiece]
    exchanges: Exchanges
    lr: Callable[[int], float]
    """The local learning rate of a round."""
    rounds: int
    instruction: Instruction
    """What a round asks of its clients."""
    callbacks: Sequence[RunCallback] = ()
    server_data: ServerData | None = None
    learner: Learner | None = None
    """The module, for server pieces that need it."""

    def train_round(self, run: RunState, t: int, *, evaluates: bool) -> RoundOutcome:
        """Select clients, train them, aggregate, make the server's steps, and merge its models."""
        started = time.monotonic()
        selection = self.models.select(t)
        averages = {key: dict(state) for key, state in run.averages.items()}
        callbacks = [
            one.on_round_start(t, selected_clients(selection), averages, evaluates)
            for one in self.callbacks
        ]
        exchange = self.exchanges.open(t, run.clients, averages, run.ledger, callbacks, run.sent)
        steps = exchange.run_slots(selection, partial(self.step_slot, run))
        models = self.models.merge(t, run.models, steps)
        aside = exchange.collector.seconds_observing + sum(one.seconds for one in callbacks)
        training = time.monotonic() - started - aside
        return RoundOutcome(t, started, training, steps, models, averages, exchange, callbacks)

    def step_slot(self, run: RunState, slot: str, send: Send) -> StepResult:
        """Make the next step of a slot; ``send`` sends its broadcasts to clients."""
        model, t = run.models[slot], run.round
        broadcast = Broadcast(
            t, model.params, model.buffers, self.lr(t), instruction=self.instruction
        )
        descriptions = self.models.population.descriptions
        return server_step(
            self.pieces,
            run.server[slot],
            send,
            broadcast,
            self.server_data,
            descriptions,
            self.learner,
            self.models.selection_info(t),
        )

    def state_after(
        self, states: Mapping[str, ServerState], models: Mapping[str, Model], completed: int
    ) -> dict[str, ServerState]:
        """The state of the server's pieces after so many rounds, by slot."""
        return {
            slot: after_round(self.pieces, states[slot], models[slot], completed, self.rounds)
            for slot in models
        }


def open_server(
    setup: RunSetup, exchanges: Exchanges, callbacks: Sequence[RunCallback]
) -> FederatedServer:
    """The server of a run."""
    exp = setup.exp
    return FederatedServer(
        setup.server,
        exp.server_pieces(),
        exchanges,
        learning_rate(exp),
        exp.rounds,
        exp.instruction,
        callbacks,
        setup.server_data,
        setup.job.learner,
    )


def learning_rate(exp: Experiment) -> Callable[[int], float]:
    """The local learning rate as a function of the round; a constant one is computed once."""
    if exp.method.averages or isinstance(exp.local.lr, Schedule):
        return exp.lr
    first = exp.lr(0)
    return lambda t: first


def update_averages(server: ServerModels, run: RunState, outcome: RoundOutcome) -> None:
    """Add the models of a round to the averages, which are evaluated and never sent."""
    t = outcome.round
    for average in server.averages:
        before = server.center_params(t, run.models)
        after = server.center_params(t + 1, outcome.models)
        average.update(outcome.averages[average.key], server.info, t, before, after)


def evaluate_round(
    evaluator: Evaluator, run: RunState, outcome: RoundOutcome, *, evaluates: bool
) -> Row:
    """The metrics of a round; without an evaluation only what clients measured as they trained."""
    t, averages = outcome.round, outcome.averages
    row = evaluator.reply_scores(t, averages)
    if evaluates:
        started = time.monotonic()
        row |= evaluator.evaluate(t, outcome.steps, outcome.models, averages, run.clients)
        outcome.evaluation += time.monotonic() - started
    return row


def commit(
    server: FederatedServer,
    run: RunState,
    outcome: RoundOutcome,
    row: Row,
    run_folder: RunFolder,
    signals: Signals,
) -> None:
    """Take over the outcome of a round and write it; an interrupted round leaves no trace."""
    recorded: dict[str, Any] = {}
    for callback in outcome.callbacks:
        for step in outcome.steps.values():
            recorded |= callback.on_round_end(step)
    states = run.server | {slot: one.state for slot, one in outcome.steps.items()}
    done, exchange = outcome.round + 1, outcome.exchange
    with signals.lock:
        if run.clients.in_use:
            run.clients.commit()
        run.round, run.models, run.averages = done, outcome.models, outcome.averages
        run.sent = exchange.in_flight
        run.server = server.state_after(states, outcome.models, done)
        seconds = time.monotonic() - outcome.started
        run.ledger = exchange.ledger.with_time(outcome.training, seconds, outcome.evaluation)
        failures = exchange.collector.failures_row
        run_folder.note(recorded | failures, row and row | run.ledger.spent)
        run_folder.checkpoint(run)
    if signals.waiting:
        signals.deliver()


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

    def report_phase(progress: Progress) -> None:
        on_progress(replace(progress, phase=PRETRAINING))

    with closing(run_folder.before(before, place)) as own:
        result = train(before, executor=executor, run_folder=own, on_progress=report_phase)
    assert result.model is not None
    if result.diverged:
        raise RunError(f"the run that came first, on {exp.on}, diverged. Lower its learning rate.")
    return before.job.learner.copy().state_dict_of(result.model)


def final_evaluation(
    setup: RunSetup, exchanges: Exchanges, run: RunState, run_folder: RunFolder, signals: Signals
) -> None:
    """Make the evaluations at all clients that follow the last round, unless they are written."""
    exp = setup.exp
    for evaluation in exp.method.evaluations:
        asked = evaluation.final_instruction()
        if asked is None or any(row.get("tuned") for row in run_folder.rows):
            continue
        notes, clients = {evaluation.key: dict(run.averages[evaluation.key])}, ClientStates()
        clients.use_pool(exchanges.pool)
        exchange = exchanges.open(exp.rounds, clients, notes, run.ledger, patient=True)
        lr = exp.lr(exp.rounds - 1)
        for slot, members in setup.server.slots.items():
            broadcast = Broadcast(
                exp.rounds, run.models[slot].params, run.models[slot].buffers, lr, instruction=asked
            )
            exchange.sender(slot, [(client,) for client in members])(broadcast)
        row = {
            "round": run.round,
            "tuned": True,
            **evaluation.scores(notes[evaluation.key]),
            **exchange.ledger.spent,
        }
        with signals.delayed():
            run.ledger = exchange.ledger
            run_folder.note(exchange.collector.failures_row, row)


def initial_state(
    setup: RunSetup, model: Model, clients: ClientStates, evaluator: Evaluator | None = None
) -> RunState:
    """The state before round 0: every slot has the same model.

    ``evaluator`` is needed by observers that test the initial model at clients.
    """
    exp, cost = setup.exp, setup.initial_cost
    info = setup.server.info
    averages = {
        one.key: one.init(_with_tests(info, evaluator, one.key), model.params)
        for one in exp.method.observers
    }
    ledger = replace(cost, clock=None if fleet_of(exp) is None else cost.clock or 0.0)
    models = dict.fromkeys(setup.server.slots, model)
    pieces = exp.server_pieces()
    states = {slot: after_round(pieces, {}, model, 0, exp.rounds) for slot in models}
    return RunState(0, models, states, averages, clients, ledger)


def _with_tests(info: RunInfo, evaluator: Evaluator | None, name: str) -> RunInfo:
    """The state of an observer before round 0, with tests at clients if there are some."""
    tests = evaluator.client_tests(0, name) if evaluator else None
    if tests is None or evaluator is None:
        return info
    buffers = evaluator.learner.initial().buffers
    return replace(info, own_accuracies=lambda params: tests(Model(params, buffers)))
