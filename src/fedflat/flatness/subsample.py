"""A seeded subset of the examples, and how much curvature depends on the choice of the subset.

The subset is split into a few disjoint parts of equal size, and curvature is measured on each. The
trace is linear in the data: its mean over the parts is that of the whole, and its standard error is
the spread over the root of their number. The largest eigenvalue is convex: that of the whole is at
most the mean over the parts. So smaller sets overestimate it, and the spread shows the scale of the
error but does not bound it.
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
    """Return `examples` random examples without replacement, or all if there are no more."""
    number("subset", "examples", examples, low=1, whole=True)
    if examples >= len(data):
        return ClientData(data.examples, data.index)
    chosen = torch.randperm(len(data), generator=torch_generator(seed, "subset"))[:examples]
    return ClientData(data.examples, data.index[chosen.to(data.index.device)])


def split_parts(data: ClientData, parts: int = PARTS) -> list[ClientData]:
    """Return disjoint parts of equal size. A remainder is left out."""
    number("subset", "parts", parts, low=2, whole=True)
    size = len(data) // parts
    if size == 0:
        raise SettingError(
            f"{len(data)} examples cannot be split into {parts} parts. "
            "Use more examples or fewer parts."
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
    """Return the largest eigenvalue on disjoint parts and its standard deviation.

    With `trace`, also the trace. All parts use the same random vectors, so differences come from
    the data. `hessian` makes the operator of a part.
    """
    split = split_parts(data, parts)
    tops, traces = [], []
    for part in split:
        op = hessian(part)
        tops.append(float(eigenvalues(op, 1, seed=seed, memory=memory).values[0]))
        if trace:
            traces.append(hutchinson(op, PROBES, seed=seed, memory=memory).mean)
    result: dict[str, Any] = {
        "parts": parts,
        "examples_each": len(split[0]),
        "lambda_1": tops,
        "lambda_1_spread": _deviation(tops),
    }
    if trace:
        result |= {"trace": traces, "trace_spread": _deviation(traces)}
    return result


def _deviation(values: list[float]) -> float:
    return float(torch.tensor(values, dtype=torch.float64).std())
