"""Gradients of many clients at once: one network, with parameters and a batch for each client.

The loss is written for one client and mapped over all clients (`torch.func`). If it is called often
with tensors of the same shapes, it is traced once into plain operations on stacked tensors, which
then run without the mapping and without autograd. Losses with terms are not traced, because a term
may change between exchanges. Small fully connected classifiers have gradients written by hand
(`client/stacked_mlp.py`).
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.utils._pytree import tree_leaves

from fedflat.client.cost_model import forward_cost
from fedflat.client.learner import Learner, Terms
from fedflat.client.stacked_mlp import StackedMLP
from fedflat.client.traced_graph import recorded, simplified
from fedflat.data.examples import Batch, ClientData, arguments, leaves, regrown, shape_of, stacked
from fedflat.kernels.cross_entropy import few_classes
from fedflat.kernels.lstm import stepwise
from fedflat.tasks.task import Count

PATIENCE = 16
"""Number of calls with the same shapes before they are traced; a trace costs a hundred gradients.
"""
ROWS = 400
"""Examples of all clients together in a batch from which `few_classes` pays."""

Gradients = Callable[..., tuple[Tensor, tuple[Tensor, tuple[Tensor, Tensor]]]]
"""Function of parameters, buffers and batches: gradients, losses, new buffers and counts."""


class StackedGradients:
    """A learner's network for a stack of clients.

    It replaces `Learner` where vectors have a row per client.
    """

    def __init__(self, learner: Learner) -> None:
        self.learner, self.layout = learner, learner.flat.layout
        self.module = stepwise(_without_counters(copy.deepcopy(learner.flat.module))).train()
        self.buffers = learner.flat.buffers
        self.frozen = learner.frozen
        self.at: Tensor | None = None
        self._mlp = StackedMLP.of(learner)
        self._calls: Counter[Any] = Counter()
        self._traced: dict[Any, Gradients] = {}
        self._counts: dict[Any, int] = {}
        """Counts that depend only on the shapes of a batch."""

    def oracle(self, batch: Batch, terms: Terms, *, still: bool = False) -> StackOracle:
        """Return the gradient function of one batch per client."""
        return StackOracle(self, batch, terms, still=still)

    def gradients(
        self, w: Tensor, batch: Batch, terms: Terms
    ) -> tuple[Tensor, Tensor, Tensor, Count]:
        """Return losses, gradients at ``w``, new buffers and counts. Each has a row per client."""
        # All clients have the server's parameters: one large product instead of many small ones.
        shared = w.stride(0) == 0
        if self._mlp is not None and not terms and self._mlp.takes(batch):
            at = w[0] if shared else w
            loss, gradient = self._mlp.gradients(at, batch.inputs, batch.targets)
            return loss, gradient, self.buffers, batch.targets.shape[1]
        form, parts = shape_of(batch), [_per_client(leaf, w) for leaf in leaves(batch)]
        given = [w[0] if shared else w.contiguous(), self.buffers.contiguous(), *parts]
        shapes = (shared, form, *((t.shape, t.dtype) for t in given))
        gradients = self._untraced(shapes, terms) if terms else self._quickest(shapes, given)
        gradient, (loss, (buffers, count)) = gradients(*given)
        if self.frozen is not None:
            gradient = gradient.masked_fill(self.frozen, 0.0)
        return loss, gradient, buffers, self._counts.get(shapes, count)

    def _quickest(self, shapes: object, given: list[Tensor]) -> Gradients:
        traced = self._traced.get(shapes)
        if traced is not None:
            return traced
        untraced = self._untraced(shapes, ())
        self._calls[shapes] += 1
        if self._calls[shapes] > PATIENCE:
            try:
                own = (*self.module.parameters(), *self.module.buffers())
                self._traced[shapes] = simplified(recorded(untraced, *given, constants=own))
            except Exception:  # it works without a trace, only slower
                self._traced[shapes] = untraced
        return untraced

    def _untraced(self, shapes: Any, terms: Terms) -> Gradients:
        shared, form = shapes[:2]
        rows = prod(shapes[4][0][:2]) if len(shapes) > 4 else 0
        entropy: Any = few_classes() if rows >= ROWS else nullcontext()

        def loss(
            w: Tensor, buffers: Tensor, *parts: Tensor
        ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            state = self._named(w, buffers)
            with entropy:
                value, count = self.learner.objective(
                    self.module,
                    lambda *x: functional_call(self.module, state, x),
                    regrown(form, parts),
                    terms,
                )
            if isinstance(count, int):
                self._counts[shapes] = count
            moved = [state[name].reshape(-1) for name in self.layout.buffer_names]
            return value, (torch.cat(moved) if moved else buffers, torch.as_tensor(count))

        in_dims = (None if shared else 0, 0, *(0 for _ in leaves(form)))
        return vmap(grad_and_value(loss, has_aux=True), in_dims=in_dims)

    def _named(self, w: Tensor, buffers: Tensor) -> dict[str, Tensor]:
        """One client's parameters and buffers by name.

        Buffers are copied: the forward pass writes to them.
        """
        layout = self.layout
        params = zip(layout.names, layout.shapes, w.split(layout.sizes), strict=True)
        statistics = zip(
            layout.buffer_names,
            layout.buffer_shapes,
            buffers.split(layout.buffer_sizes),
            strict=True,
        )
        named = {name: part.view(shape) for name, shape, part in params}
        return named | {name: part.view(shape).clone() for name, shape, part in statistics}


class StackOracle:
    """The gradients of a batch per client. Only the first call updates running statistics."""

    def __init__(
        self, batched: StackedGradients, batch: Batch, terms: Terms, *, still: bool
    ) -> None:
        self.batched, self.batch, self.terms, self.still = batched, batch, terms, still
        self.loss: Tensor | None = None
        self.count: Count = 0
        if batch.first.shape[1] == 1:
            batched.learner.check_single_example("these clients have")

    def __call__(self, w: Tensor) -> Tensor:
        """Return the gradients at ``w``."""
        loss, gradient, buffers, self.count = self.batched.gradients(w, self.batch, self.terms)
        if self.loss is None:
            self.loss = loss
            if not self.still:
                self.batched.buffers = buffers
        return gradient


def _random_like(sample: Tensor, rng: torch.Generator) -> Tensor:
    """Random numbers in place of floats: zeros could hide random layers such as dropout."""
    if not sample.is_floating_point():
        return sample
    return torch.randn(sample.shape, generator=rng, dtype=torch.float64).to(
        sample.device, sample.dtype
    )


def _equal(one: object, other: object) -> bool:
    return all(torch.equal(a, b) for a, b in zip(tree_leaves(one), tree_leaves(other), strict=True))


def _per_client(leaf: Tensor | float, w: Tensor) -> Tensor:
    """A tensor of a batch unchanged; a number repeated for each client."""
    if isinstance(leaf, Tensor):
        return leaf
    return torch.as_tensor(leaf, dtype=w.dtype, device=w.device).expand(len(w))


def _without_counters(module: nn.Module) -> nn.Module:
    """Remove the counters of batch normalisations, which are unused and cannot be stacked."""
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.num_batches_tracked = None
    return module


def footprint(learner: Learner, batch_size: int) -> int:
    """Estimate the bytes of one client in a stack: parameters, inputs and all layers' outputs."""
    return (
        learner.flat.layout.dim + forward_cost(learner).numbers * batch_size
    ) * learner.dtype.itemsize


def unstackable(learner: Learner, data: ClientData | None = None) -> str | None:
    """Return why the network cannot be mapped over clients, or None.

    With data, the loss is tried, too.
    """
    batched, start = StackedGradients(learner), learner.initial()
    rng = torch.Generator().manual_seed(0)
    x = [_random_like(part, rng) for part in arguments(learner.sample)]

    def forward(w: Tensor, buffers: Tensor, *x: Tensor) -> Any:
        return functional_call(batched.module, batched._named(w, buffers), x)

    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        before = torch.random.get_rng_state()
        one, again = (forward(start.params, start.buffers, *x) for _ in range(2))
        if not torch.equal(before, torch.random.get_rng_state()) or not _equal(one, again):
            return (
                "the network draws random numbers in training (dropout, for example), which differ "
                "for each client"
            )
        w, batched.buffers = start.params.repeat(2, 1), start.buffers.repeat(2, 1)
        try:
            vmap(forward)(w, batched.buffers, *(torch.stack([part, part]) for part in x))
            if data is not None:
                batch = data.batch(torch.arange(2) % len(data), learner.dtype)
                batched.gradients(w, stacked([batch] * 2), ())
        except Exception as error:
            return f"the network or its loss cannot be run for many clients at once ({error})"
    return None
