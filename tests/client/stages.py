"""One request without a run: pieces on a gradient written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fedflat.client.piece import ClientContext, Piece
from fedflat.core.flat import GradFn, Layout

PLANE = Layout(("layer.weight", "layer.bias"), ((2,), (1,)), (), ())


def vector(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def visiting(piece: Piece, sent: Tensor, layout: Layout = PLANE, **more: Any) -> ClientContext:
    """What a piece is handed in round 0 at client 0, unless ``more`` says otherwise."""
    given: dict[str, Any] = {
        "key": piece.key,
        "seed": 0,
        "round": 0,
        "client": 0,
        "sent": sent,
        "start": sent,
        "end": sent,
        "lr": 0.1,
        "planned_steps": 1,
        "epochs": 1.0,
        "layout": layout,
        "inbox": {},
        "state": {},
        "full_gradient": lambda w: w,
        "examples": 1,
        "batch_size": 1,
        "oracle": lambda places: None,
        "inputs": lambda places: None,
        "output_of": lambda model, inputs: None,
    }
    return ClientContext(**{**given, **more})


class Asked:
    """A gradient that notes where it was asked."""

    def __init__(self, gradient: GradFn) -> None:
        self.gradient, self.places = gradient, list[Tensor]()

    def __call__(self, w: Tensor) -> Tensor:
        self.places.append(w)
        return self.gradient(w)


def compose(pieces: Sequence[tuple[Piece, ClientContext]], oracle: GradFn) -> GradFn:
    """The stack as a gradient, first piece nearest to the oracle."""
    grad = oracle
    for piece, v in pieces:
        grad = _wrap(piece, v, grad)
    return grad


def _wrap(piece: Piece, v: ClientContext, grad: GradFn) -> GradFn:
    return lambda w: piece.gradient(v, grad, w)
