"""Pieces that change nothing and note what passes by, and ways to look into a recorded run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from fedflat.client.piece import ClientContext, Piece, Term
from fedflat.composition.method import Method
from fedflat.core.flat import GradFn, Layout
from fedflat.core.stage import Stage
from fedflat.data.examples import Batch
from fedflat.registry.specs import parse
from fedflat.server.averaging import RunInfo
from literal.problem import Problem
from quadratic import Quadratic, Recorder


class Seen(NamedTuple):
    """One gradient: where, in whose request, it was asked for, and what it was."""

    round: int
    client: int
    sent: np.ndarray
    w: np.ndarray
    g: np.ndarray


SEEN: list[Seen] = []
BATCHES: list[tuple[int, int, int, Batch]] = []


@dataclass(frozen=True, repr=False)
class Spy(Piece):
    """Notes every gradient next to the data, that is before any probe, in ``SEEN``."""

    stage, key = Stage.TERM, "spy"

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        g = grad(w)
        SEEN.append(Seen(v.round, v.client, v.sent.numpy(), w.numpy(), g.numpy()))
        return g


@dataclass(frozen=True, repr=False)
class BatchSpy(Term):
    """A term of value 0 that notes the batch of every gradient in ``BATCHES``."""

    key = "batch_spy"

    def loss(self, v: ClientContext, batch: Batch, output: Tensor, seen: Any) -> Tensor:
        BATCHES.append((v.round, v.client, v.steps, batch))
        return output.sum() * 0


def method_of(text: str) -> Method:
    """The method a text says."""
    method = parse(text, "method")
    assert isinstance(method, Method)
    return method


def spied(method: Method) -> Method:
    """The method with a spy next to the data; the notes start anew."""
    SEEN.clear()
    return method + Method(client=(Spy(),), text="spy")


def averages(
    method: Method, key: str, run_folder: Recorder, problem: Problem, weights: int | None = None
) -> list[Any]:
    """A shadow's parameters after each round; None before its start."""
    average = next(s for s in method.averages if s.key == key)
    scene = RunInfo(
        len(run_folder.runs), problem.clients, Layout.of(Quadratic(problem.w0, weights))
    )
    found = [average.params(run.averages[key], scene, run.model.params) for run in run_folder.runs]
    return [None if params is None else params.numpy() for params in found]


def client_models(run_folder: Recorder, t: int) -> dict[int, np.ndarray]:
    """The last model of each client seen by round ``t``, as ``all_clients()`` keeps it."""
    return {
        client: kept["average:all_clients"]["model"].numpy()
        for client, kept in run_folder.learnt[t].items()
    }
