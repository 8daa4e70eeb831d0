"""A worker process: open the job, then answer requests until the connection is closed."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait

import torch

from fedflat.client.evaluate import forward_one
from fedflat.client.request_columns import RequestColumns
from fedflat.client.training import ClientJob
from fedflat.core.failures import ClientFailure
from fedflat.core.flat import Model
from fedflat.core.messages import Broadcast
from fedflat.data.examples import Tensors
from fedflat.data.federation import Federation
from fedflat.execution.client_pool import PoolOutcome
from fedflat.execution.in_process import run_or_fail
from fedflat.execution.main_module import importing
from fedflat.execution.pickling import dumps, dumps_apart, loads, loads_each
from fedflat.execution.profiling.worker_samples import sampled
from fedflat.execution.shared_answers import LEAST, SharedAnswers
from fedflat.execution.stacked_pool import StackedPool
from fedflat.kernels.allocator import keep_memory
from fedflat.registry.plugins import load_same

UNLIMITED = sys.maxsize
"""A worker stacks all clients of a part: its size was chosen where the cohort is known."""
TRACE = "Traceback (most recent call last)"
"""How the traceback in a note begins."""


@dataclass(frozen=True)
class EvalInputs:
    """The inputs of a test batch, for the model that was sent before."""

    inputs: Tensors
    norms: tuple[str, ...] = ()
    """Batch normalizations that use the statistics of these inputs."""


def work(line: Connection, samples: Connection | None, shared: SharedAnswers | None) -> None:
    """Do everything a worker does; its profile goes to ``samples``, large tensors to ``shared``."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    try:
        job, fed = open_job(line.recv_bytes(), line.recv_bytes())
    except Exception as error:
        answer(line, error)
        return
    answer(line, None)
    with sampled(samples):
        _serve(line, job, fed, shared)


def open_job(setup: bytes, content: bytes) -> tuple[ClientJob, Federation]:
    """Prepare this process for a run, and open its job and its data.

    Args:
        setup: Pickled: the main module, the plugins, the number of threads, and the device of
            this process, None for the device of the job.
        content: Pickled: the job, and the function that opens its data.
    """
    keep_memory()
    way, plugins, count, device = loads(setup)
    torch.set_num_threads(count)
    with importing():
        for named in plugins:
            load_same(named)
    if way is not None:
        way.take()
    job, source = loads(content, device=device)
    if device is None or device == job.learner.device:
        return job, source()
    job.learner.device = device
    return job, source(device=device)


def _die_with_parent() -> None:
    """End at once when the parent has ended, even in the middle of a request."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _serve(line: Connection, job: ClientJob, fed: Federation, shared: SharedAnswers | None) -> None:
    stacks: StackedPool | None = None
    while True:
        for message in loads_each(line.recv_bytes(), device=job.learner.device):
            if isinstance(message, Broadcast):
                broadcast = message
            elif isinstance(message, Model):
                job.learner.load(message)
            elif isinstance(message, EvalInputs):
                _answer_test(line, job, message, shared)
            else:
                part = RequestColumns(broadcast, *message)
                if len(part) == 1:
                    outcomes: Sequence[PoolOutcome] = [run_or_fail(job, part[0], fed.data)]
                else:
                    stacks = stacks or StackedPool(job, fed, UNLIMITED)
                    outcomes = list(stacks.run(part))
                answer(line, [_sendable(outcome) for outcome in outcomes], shared)


def _answer_test(
    line: Connection, job: ClientJob, message: EvalInputs, shared: SharedAnswers | None
) -> None:
    """Send the output of the model that was loaded, or an exception."""
    try:
        answer(line, forward_one(job.learner, message.inputs, message.norms), shared)
    except Exception as error:
        answer(line, error)


def _sendable(outcome: PoolOutcome) -> PoolOutcome:
    """The outcome; the error of a failure with its traceback as a note."""
    if not isinstance(outcome, ClientFailure) or outcome.error is None:
        return outcome
    return replace(outcome, error=noted(outcome.error))


def answer(line: Connection, outcome: object, shared: SharedAnswers | None = None) -> None:
    """Send an outcome, or an exception."""
    outcome = noted(outcome) if isinstance(outcome, Exception) else outcome
    if shared is not None:
        content, tensors = dumps_apart(outcome, LEAST)
        message = shared.write(content, tensors) if tensors else content
        if message is not None:
            line.send_bytes(message)
            return
    line.send_bytes(dumps(outcome))


def noted(error: Exception) -> Exception:
    """The error with its traceback as a note, or one like it that can be sent."""
    trace = "".join(traceback.format_exception(error))
    if not hasattr(error, "__notes__") or TRACE not in error.__notes__[-1]:
        error.add_note(trace)
    return portable(error)


def portable(error: Exception) -> Exception:
    """The error itself, or one with the same message if it cannot be sent."""
    try:
        loads(dumps(error))
        return error
    except Exception:
        same = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", []):
            same.add_note(note)
        return same
