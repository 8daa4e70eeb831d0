"""Who learns: a module and its loss, opened in this process."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parameter import UninitializedBuffer, is_lazy

from fedflat.client.images import channels_last, gains, refusal
from fedflat.client.piece import LossFn, Term, Visit
from fedflat.data.batch import Batch, Mixed
from fedflat.engine.flat import FlatModule, Model
from fedflat.engine.seeds import derive
from fedflat.errors import SettingError
from fedflat.models.spec import ModelSpec
from fedflat.settings.groups import AUTO, CHANNELS_LAST

ModelLike = ModelSpec | nn.Module | Callable[[], nn.Module]
Terms = Sequence[tuple[Term, Visit]]
"""What is added to the loss, with what each term sees."""
MIXED = "mixed"
DTYPES = {"float32": torch.float32, "float64": torch.float64, MIXED: torch.float32}
"""Types of parameters by name; "mixed" makes the passes of training in bfloat16 where that is safe."""


class Learner:
    """A picklable description that opens its module once in each process."""

    def __init__(
        self, model: ModelLike, shape: tuple[int, ...], classes: int, *, seed: int, loss: LossFn = cross_entropy,
        dtype: str = "float32", device: str = "cpu", layout: str = AUTO,
    ) -> None:  # fmt: skip
        self.model, self.shape, self.classes = model, shape, classes
        self.seed, self.loss, self.dtype, self.device = seed, loss, DTYPES[dtype], device
        self.mixed, self.layout = dtype == MIXED, layout

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "flat"}

    @cached_property
    def flat(self) -> FlatModule:
        """The module of this process."""
        return self.another()

    def another(self) -> FlatModule:
        """A module of its own, as it starts."""
        return FlatModule(self.module(), dtype=self.dtype, device=self.device)

    def module(self) -> nn.Module:
        """The module as it starts: drawn by the seed, unless the user gave a module with its weights."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(self.seed, "model"))
            if isinstance(self.model, ModelSpec):
                return self.model.build(self.shape, self.classes)
            module = self.model if isinstance(self.model, nn.Module) else self.model()
            if not isinstance(module, nn.Module):
                raise SettingError(f"{self.model!r} must make a torch.nn.Module, found {module!r}.")
            return self._materialised(module)

    def _materialised(self, module: nn.Module) -> nn.Module:
        """The module with what it had left open (`torch.nn.LazyLinear` and the like) made for these inputs."""
        if not any(map(is_lazy, (*module.parameters(), *module.buffers()))):
            return module
        empty = {id(b): UninitializedBuffer() for b in module.buffers() if is_lazy(b)}
        module = copy.deepcopy(module, empty).eval()
        try:
            with torch.no_grad():
                module(torch.zeros(2, *self.shape))
        except Exception as error:
            raise SettingError(
                f"the model cannot take inputs of shape {(2, *self.shape)}: {error}. Choose a model made for "
                "such inputs."
            ) from error
        return module

    def initial(self) -> Model:
        """Parameters and buffers before round 0."""
        return self.another().model()

    def loss_of(self, output: Tensor, batch: Batch) -> Tensor:
        """The mean loss; of both sets of labels if the batch was mixed."""
        targets = batch.targets
        if isinstance(targets, Mixed):
            lam, first, second = targets.lam, self.loss(output, targets.first), self.loss(output, targets.second)
            return lam * first + (1 - lam) * second
        return self.loss(output, targets)

    def objective(
        self, module: nn.Module, forward: Callable[[Tensor], Tensor], batch: Batch, terms: Terms
    ) -> Tensor:  # fmt: skip
        """The mean loss of a batch and the terms that are added to it; ``forward`` runs ``module``."""
        with ExitStack() as open_hooks:
            seen = [open_hooks.enter_context(term.watch(module)) for term, _ in terms]
            if self.mixed:
                open_hooks.enter_context(torch.autocast(torch.device(self.device).type, torch.bfloat16))
            output = forward(batch.inputs)
        if self.mixed:
            output = output.to(self.dtype)
        value = self.loss_of(output, batch)
        for (term, v), noted in zip(terms, seen, strict=True):
            value = value + term.loss(v, batch, output, noted)
        return value

    @property
    def buffers(self) -> Tensor:
        """The running statistics of this process's module."""
        return self.flat.buffers

    @buffers.setter
    def buffers(self, value: Tensor) -> None:
        self.flat.buffers = value

    def laid_out(self, x: Tensor) -> Tensor:
        """The inputs of a forward pass in the order of memory in which it is quickest."""
        return channels_last(x) if x.dim() == 4 and self.channels_last else x

    @cached_property
    def channels_last(self) -> bool:
        """Whether the module takes images with channels last, the quickest way on a CPU; one with ``view`` may not."""
        try:
            self.flat.forward(channels_last(self._zeros))
        except RuntimeError:
            return False
        return True

    @cached_property
    def takes_one(self) -> bool:
        """Whether it can be trained on a single example: one with batch normalisation of features cannot."""
        module = self.another().module.train()
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                module(torch.zeros(1, *self.shape, dtype=self.dtype, device=self.device))
        except Exception:
            return False
        return True

    def refuse_one(self, whose: str) -> None:
        """Refuse a batch of one example, if the model cannot be trained on it."""
        if not self.takes_one:
            raise SettingError(
                f"{whose} a batch of one example, which this model cannot be trained on (batch normalisation needs "
                "two). Leave short batches out (drop_last=True, --drop-last), take another batch size, give every "
                "client two examples or more, or use GroupNorm."
            )

    @cached_property
    def trains_channels_last(self) -> bool:
        """Whether images lie with channels last in training: as the layout says, or as the module is quickest."""
        if self.layout != AUTO or len(self.shape) != 3:
            return self.layout == CHANNELS_LAST
        on_cpu = torch.device(self.device).type == "cpu"
        return on_cpu and gains(self.flat.module) and self.dislikes_channels_last() is None

    def dislikes_channels_last(self) -> Exception | None:
        """What the module says to a step of training on images with channels last; None if it takes them."""
        return refusal(self.flat.module, self._zeros)

    @property
    def _zeros(self) -> Tensor:
        return torch.zeros(2, *self.shape, dtype=self.dtype, device=self.device)

    def oracle(self, batch: Batch, terms: Terms) -> Oracle:
        """The bare gradient oracle on one batch."""
        return Oracle(self, batch, terms)


class Oracle:
    """The gradient of one batch's loss as a function of the point; only the first call moves statistics, if any."""

    def __init__(self, learner: Learner, batch: Batch, terms: Terms, *, still: bool = False) -> None:
        self.batch = replace(batch, inputs=channels_last(batch.inputs)) if learner.trains_channels_last else batch
        self.learner, self.terms, self.still = learner, terms, still
        self.loss: Tensor | None = None
        if len(batch) == 1:
            learner.refuse_one("this visit has")

    def __call__(self, w: Tensor) -> Tensor:
        """The gradient at ``w``."""
        first = self.loss is None
        loss, gradient = self.learner.flat.gradient(w, self._loss, move_buffers=first and not self.still)
        if first:
            self.loss = loss
        return gradient

    def _loss(self, module: nn.Module) -> Tensor:
        return self.learner.objective(module, module, self.batch, self.terms)
