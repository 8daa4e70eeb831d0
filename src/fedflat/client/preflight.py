"""A trial training step before the first round, to refuse what cannot be trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fedflat.client.learner import Learner
from fedflat.client.piece import Piece
from fedflat.core.flat import FlatModule, Layout
from fedflat.core.seeds import seed_torch
from fedflat.data.examples import Batch, arguments
from fedflat.data.federation import Federation
from fedflat.data.sets.other_examples import WHY
from fedflat.errors import FedflatError, SettingError
from fedflat.settings.groups import CHANNELS_LAST

COUNTER = "num_batches_tracked"
"""Name of the batch counter of batch normalisation, which is unused if there is a momentum."""


def check_training_step(learner: Learner, fed: Federation, pieces: Sequence[Piece] = ()) -> None:
    """Refuse a model or a loss that cannot be trained on the data with a client's pieces."""
    if len(fed.test) == 0:
        raise SettingError(
            "there must be at least one example to test on, found none. Give a test set, or let "
            "clients keep a part of their own with split=0.7."
        )
    data = fed.data(0) if fed.here else fed.test
    if data.examples.unlabelled:
        if not any(piece.unsupervised for piece in pieces):
            raise SettingError(f"run: the method learns from labels. {WHY}")
        data = fed.test
    batch = data.batch(torch.arange(2) % len(data), learner.dtype)
    flat = learner.copy()
    with torch.random.fork_rng(devices=[]):
        seed_torch(0)
        learner.task.check(fed, _output(flat, batch), batch)
        _check_gradient(learner, flat, batch)
    _check_memory_format(learner)


def _output(flat: FlatModule, batch: Batch) -> Any:
    """The module's output in evaluation mode, which must change nothing in it."""
    before = _buffers(flat.module)
    try:
        output = flat.forward(*arguments(batch.inputs))
    except Exception as error:
        raise SettingError(
            f"the model cannot take inputs of shape {tuple(batch.first.shape)}: {error}. Choose a "
            "model made for such inputs."
        ) from error
    _same_names(flat)
    for name, now in _buffers(flat.module).items():
        if not torch.equal(now, before[name]):
            raise SettingError(
                f"the model's buffer {name!r} changes in evaluation, so that evaluating a model "
                "would change it. Let it change in training only: `if self.training:`."
            )
    return output


def _check_gradient(learner: Learner, flat: FlatModule, batch: Batch) -> None:
    """Two gradients: the second one finds what the first one left in the module."""
    flat.module.train()
    before = _buffers(flat.module)
    for _ in range(2):
        try:
            flat.gradient(
                flat.model().params, lambda module: _loss(learner, module, batch), move_buffers=True
            )
        except FedflatError:
            raise
        except Exception as error:
            raise SettingError(
                f"the model cannot be trained on inputs of shape {tuple(batch.first.shape)}: "
                f"{error}. The loss must be differentiable, and a step must not need what an "
                "earlier one computed."
            ) from error
    _same_names(flat)
    for name, now in _buffers(flat.module).items():
        counts = (
            name.rpartition(".")[2] == COUNTER and name.rpartition(".")[0] in flat.layout.batchnorms
        )
        if not now.is_floating_point() and not counts and not torch.equal(now, before[name]):
            raise SettingError(
                f"the model's buffer {name!r} holds {now.dtype} and changes in training. Only "
                "floating buffers can be averaged over clients: register it as a float, as in "
                f"torch.zeros({tuple(now.shape)})."
            )


def _check_memory_format(learner: Learner) -> None:
    """Refuse channels last where there are none, or where the model cannot be trained so."""
    if learner.layout != CHANNELS_LAST:
        return
    if not learner.takes_images:
        raise SettingError(
            f"layout 'channels-last' is for images, found inputs of shape {learner.shape}. Leave "
            "the layout out."
        )
    why = learner.channels_last_refusal()
    if why is not None:
        raise SettingError(
            f"layout 'channels-last' was asked for, but the model cannot be trained so: {why} Use "
            "'auto' or 'contiguous'; a module that flattens with reshape in place of view takes "
            "both."
        )


def _loss(learner: Learner, module: nn.Module, batch: Batch) -> Tensor:
    value, _ = learner.objective(module, module, batch, ())
    if not isinstance(value, Tensor) or value.dim() or not value.is_floating_point():
        found = (
            f"a tensor of {value.dtype}, shape {tuple(value.shape)}"
            if isinstance(value, Tensor)
            else repr(value)
        )
        raise SettingError(
            "the loss of a batch must be one floating number, a tensor of shape (), found "
            f"{found}. Take the mean over the batch: `.mean()`."
        )
    if not value.requires_grad:
        raise SettingError(
            "the loss does not depend on the model's parameters: there is nothing to learn. "
            "Compute it from the model's output with torch, without detach() or no_grad()."
        )
    return value


def _buffers(module: nn.Module) -> dict[str, Tensor]:
    return {name: buffer.clone() for name, buffer in module.named_buffers()}


def _same_names(flat: FlatModule) -> None:
    found = Layout.of(flat.module).buffer_names
    if found != flat.layout.buffer_names:
        new = ", ".join(sorted(set(found) ^ set(flat.layout.buffer_names)))
        raise SettingError(
            f"the model adds or drops the buffers {new} when it is used. Register all buffers in "
            "__init__, for they are averaged over clients."
        )
