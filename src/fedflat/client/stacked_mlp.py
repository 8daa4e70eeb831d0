"""Gradients of many small fully connected classifiers at once, written by hand.

Most stacks are of such networks. Their gradient is a few matrix products; what PyTorch does between
them for any network takes as long. Here the class scores have one row per class, so that the
softmax works on all examples of all clients at once, and nothing is computed that is not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from fedflat.client.traced_gradients import traceable
from fedflat.data.examples import Batch
from fedflat.tasks.classification import Classification

if TYPE_CHECKING:
    from fedflat.client.learner import Learner

threshold_backward: Callable[[Tensor, Tensor, float], Tensor] = torch.ops.aten.threshold_backward
"""The gradient of a ReLU, of the gradient of its output and the output."""


@dataclass(frozen=True)
class StackedMLP:
    """Linear layers with a bias and a ReLU between them, cross entropy, a batch for each client."""

    widths: tuple[tuple[int, int], ...]
    """Outputs and inputs of each layer."""
    flattens: bool
    """Whether an input may have any shape."""
    sizes: tuple[int, ...]
    """Lengths of the weight and the bias of each layer in the parameter vector."""

    @classmethod
    def of(cls, learner: Learner) -> StackedMLP | None:
        """Return the classifier, or None if the network or the task is another."""
        layout, module = learner.flat.layout, learner.flat.module
        if type(learner.task) is not Classification or not traceable(learner):
            return None
        flattens, layers = _linear_layers(module)
        widths = tuple((layer.out_features, layer.in_features) for layer in layers)
        shapes = [shape for n, m in widths for shape in ((n, m), (n,))]
        if not layers or list(map(tuple, layout.shapes)) != shapes:
            return None
        return cls(widths, flattens, tuple(layout.sizes))

    def takes(self, batch: Batch) -> bool:
        """Whether each example has one class; PyTorch ignores examples with a label below 0."""
        inputs, labels = batch.inputs, batch.targets
        return (
            type(inputs) is Tensor
            and type(labels) is Tensor
            and labels.dim() == 2
            and (self.flattens or inputs.dim() == 3)
            and int(labels.min()) >= 0
        )

    def gradients(self, w: Tensor, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return losses and gradients, a row per client.

        ``w`` is one vector that all clients have, or a vector per client.
        """
        clients, examples = labels.shape
        layers = list(self._layers(w))
        forward = _shared_forward if w.dim() == 1 else _forward
        x = [inputs.reshape(clients, examples, -1)]
        for weight, bias in layers[:-1]:
            x.append(forward(x[-1], weight, bias).relu_())
        # One row per class: the examples of a client, or those of all clients.
        scores = _shared_scores(x[-1], *layers[-1]) if w.dim() == 1 else _scores(x[-1], *layers[-1])
        losses, slopes = _cross_entropy(scores, labels.reshape(-1, 1, scores.shape[-1]), examples)
        by_class = slopes.view(-1, clients, examples).transpose(0, 1) if w.dim() == 1 else slopes
        parts = [by_class.sum(2), torch.bmm(by_class, x[-1]).view(clients, -1)]
        slope = by_class.transpose(1, 2)
        for k in range(len(layers) - 1, 0, -1):
            slope = threshold_backward(_backward(slope, layers[k][0]), x[k], 0)
            weight_slope = torch.bmm(slope.transpose(1, 2), x[k - 1])
            parts += [slope.sum(1), weight_slope.view(clients, -1)]
        return losses.view(clients, -1).sum(1) / examples, torch.cat(parts[::-1], 1)

    def _layers(self, w: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """The weight and the bias of each layer."""
        parts = iter(w.split(self.sizes, -1))
        for shape in self.widths:
            yield next(parts).unflatten(-1, shape), next(parts)


def _shared_forward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    flat = x.view(-1, x.shape[2])
    return torch.addmm(bias, flat, weight.t()).view(x.shape[0], x.shape[1], -1)


def _forward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))


def _shared_scores(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.addmm(bias.unsqueeze(1), weight, x.view(-1, x.shape[2]).t()).unsqueeze(0)


def _scores(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.baddbmm(bias.unsqueeze(2), weight, x.transpose(1, 2))


def _backward(slope: Tensor, weight: Tensor) -> Tensor:
    """The gradient of a layer's input, of the gradient of its output."""
    if weight.dim() == 3:
        return torch.bmm(slope, weight)
    return torch.mm(slope.reshape(-1, slope.shape[2]), weight).view(*slope.shape[:2], -1)


def _cross_entropy(scores: Tensor, labels: Tensor, examples: int) -> tuple[Tensor, Tensor]:
    """The loss of each example, and the gradient of the mean over ``examples``.

    Classes are along axis 1. Overwrites the scores.
    """
    scores.sub_(scores.amax(1, keepdim=True))
    own = scores.gather(1, labels)
    slopes = scores.exp_()
    total = slopes.sum(1, keepdim=True)
    slopes.div_(total * examples)
    slopes.scatter_add_(
        1, labels, labels.new_full((), -1 / examples, dtype=scores.dtype).expand_as(labels)
    )
    return total.log_().sub_(own), slopes


def _linear_layers(module: nn.Module) -> tuple[bool, list[nn.Linear]]:
    """Whether the network flattens its inputs, and its linear layers; none if it has others."""
    parts = list(module) if type(module) is nn.Sequential else []
    first = parts[0] if parts else None
    flattens = type(first) is nn.Flatten and (first.start_dim, first.end_dim) == (1, -1)
    layers, between = parts[flattens::2], parts[flattens + 1 :: 2]
    linear = [part for part in layers if type(part) is nn.Linear and part.bias is not None]
    fits = len(linear) == len(layers) == len(between) + 1
    return flattens, linear if fits and all(type(part) is nn.ReLU for part in between) else []
