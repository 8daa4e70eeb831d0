"""A seeded part of a set, and how much the answer hangs on which part it is.

The examples used are cut into a few disjoint parts of equal size, and curvature is measured on
each. The trace is linear in the data: its mean over the parts is that of the whole, and its
standard error is the spread over the root of their number. The largest eigenvalue is convex: that
of the whole is at most the mean over the parts, so smaller sets overstate it, and the spread is an
honest scale of the error but no bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fedflat.core.seeds import torch_generator
from fedflat.data.examples import ClientData
from fedflat.errors import SettingError, number
from fedflat.flatness.hessian import Operator
from fedflat.flatness.spectrum import BASIS, eigenvalues
from fedflat.flatness.trace import hutchinson

PARTS = 4
PROBES = 10


def subset(data: ClientData, examples: int, seed: int = 0) -> ClientData:
    """``examples`` of the set, drawn without replacement; the whole set if it has no more."""
    number("subset", "examples", examples, low=1, whole=True)
    if examples >= len(data):
        return ClientData(data.examples, data.index)
    drawn = torch.randperm(len(data), generator=torch_generator(seed, "subset"))[:examples]
    return ClientData(data.examples, data.index[drawn.to(data.index.device)])


def parts_of(data: ClientData, parts: int = PARTS) -> list[ClientData]:
    """Disjoint parts of equal size; a remainder is left out."""
    number("subset", "parts", parts, low=2, whole=True)
    size = len(data) // parts
    if size == 0:
        raise SettingError(
            f"{len(data)} examples cannot be cut into {parts} parts. Take more examples or fewer parts."
        )
    return [ClientData(data.examples, data.index[i * size : (i + 1) * size]) for i in range(parts)]


def spread(
    data: ClientData,
    hessian: Callable[[ClientData], Operator],
    *,
    parts: int = PARTS,
    trace: bool = False,
    seed: int = 0,
    memory: int = BASIS,
) -> dict[str, Any]:
    """Largest eigenvalue, and trace if asked, on disjoint parts, and their standard deviations.

    All parts see the same random vectors, so that differences come from the data.
    """
    cut = parts_of(data, parts)
    tops, traces = [], []
    for part in cut:
        op = hessian(part)
        tops.append(float(eigenvalues(op, 1, seed=seed, memory=memory).values[0]))
        if trace:
            traces.append(hutchinson(op, PROBES, seed=seed, memory=memory).mean)
    said: dict[str, Any] = {
        "parts": parts,
        "examples_each": len(cut[0]),
        "lambda_1": tops,
        "lambda_1_spread": _deviation(tops),
    }
    if trace:
        said |= {"trace": traces, "trace_spread": _deviation(traces)}
    return said


def _deviation(values: list[float]) -> float:
    return float(torch.tensor(values, dtype=torch.float64).std())
