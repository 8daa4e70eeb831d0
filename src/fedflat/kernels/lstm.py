"""LSTMs as plain products and sums, step by step, for stacks of clients.

PyTorch's LSTM is one operation, which `torch.func.vmap` cannot map over clients.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

Hidden = tuple[Tensor, Tensor]
"""Hidden states and cell states, one row for each layer."""


class StepwiseLSTM(nn.LSTM):
    """The same function and the same parameters as `torch.nn.LSTM`, up to rounding."""

    def forward(  # type: ignore[override]
        self, sequences: Tensor, hidden: Hidden | None = None
    ) -> tuple[Tensor, Hidden]:
        """Return the last layer's states at each step, and all layers' states after the last."""
        out = sequences if self.batch_first else sequences.transpose(0, 1)
        ends: list[Hidden] = []
        for layer in range(self.num_layers):
            begin = None if hidden is None else (hidden[0][layer], hidden[1][layer])
            out, end = self._layer(layer, out, begin)
            ends.append(end)
        states, cells = (torch.stack(parts) for parts in zip(*ends, strict=True))
        return out if self.batch_first else out.transpose(0, 1), (states, cells)

    def _layer(self, layer: int, sequences: Tensor, begin: Hidden | None) -> tuple[Tensor, Hidden]:
        """The states of one layer at each step, and its last hidden and cell state."""
        of_inputs, of_states = (
            (
                getattr(self, f"weight_{kind}_l{layer}"),
                getattr(self, f"bias_{kind}_l{layer}") if self.bias else None,
            )
            for kind in ("ih", "hh")
        )
        zeros = sequences.new_zeros(len(sequences), self.hidden_size)
        state, cell = (zeros, zeros) if begin is None else begin
        states = []
        for step in linear(sequences, *of_inputs).unbind(1):
            take, keep, new, show = (step + linear(state, *of_states)).chunk(4, 1)
            cell = keep.sigmoid() * cell + take.sigmoid() * new.tanh()
            state = show.sigmoid() * cell.tanh()
            states.append(state)
        return torch.stack(states, 1), (state, cell)


def stepwise(module: nn.Module) -> nn.Module:
    """Let all plain LSTMs of a module compute step by step.

    LSTMs with two directions, projections or dropout stay as they are.
    """
    for part in module.modules():
        if type(part) is nn.LSTM and not (part.bidirectional or part.proj_size or part.dropout):
            part.__class__ = StepwiseLSTM
    return module
