"""Who learns: a module and its loss, opened in this process."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, is_lazy

from fedflat.client.piece import ClientContext, Term
from fedflat.core.flat import FlatModule, Model
from fedflat.core.seeds import derive
from fedflat.data.batch import Batch, Mixed, Tensors, arguments, each, leading
from fedflat.errors import SettingError
from fedflat.kernels import convolution
from fedflat.kernels.convolution import convolving
from fedflat.kernels.memory_format import channels_last, gains, refusal
from fedflat.models.spec import ModelSpec
from fedflat.settings.groups import AUTO, CHANNELS_LAST, DIRECT, QUICK
from fedflat.tasks.classification import Classification
from fedflat.tasks.own_loss import LossFn, OwnLoss
from fedflat.tasks.task import Count, Task

ModelLike = ModelSpec | nn.Module | Callable[[], nn.Module]
Terms = Sequence[tuple[Term, ClientContext]]
"""What is added to the loss, with what each term sees."""
MIXED = "mixed"
DTYPES = {"float32": torch.float32, "float64": torch.float64, MIXED: torch.float32}
"""Types of parameters by name; "mixed" makes the passes of training in bfloat16 where that is
safe."""


class Learner:
    """A picklable description that opens its module once in each process."""

    def __init__(
        self,
        model: ModelLike,
        shape: tuple[int, ...],
        outputs: int,
        *,
        seed: int,
        task: Task = Classification(),
        loss: LossFn | None = None,
        dtype: str = "float32",
        device: str = "cpu",
        layout: str = AUTO,
        convolutions: str = AUTO,
        sample: Tensors | None = None,
    ) -> None:
        self.model, self.shape, self.outputs = model, shape, outputs
        self.task = task if loss is None else OwnLoss(task, loss)
        self.seed, self.dtype, self.device = seed, DTYPES[dtype], device
        self.mixed, self.layout, self.convolutions = dtype == MIXED, layout, convolutions
        self.sample = (
            torch.zeros(2, *shape, dtype=self.dtype, device=device) if sample is None else sample
        )
        """The inputs of two examples, to try modules on: of the right type and number."""
        self.at: Tensor | None = None
        """Where the walk stands, for tasks that choose examples by what the model makes of them."""

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("flat", "sibling", "at")} | {
            "at": None
        }

    @cached_property
    def flat(self) -> FlatModule:
        """The module of this process."""
        return self.copy()

    @cached_property
    def sibling(self) -> FlatModule:
        """Another module of this process, for models that are looked at while one is trained."""
        return self.copy()

    def copy(self) -> FlatModule:
        """A module of its own, as it starts."""
        module = self.module()
        return FlatModule(
            module, dtype=self.dtype, device=self.device, forward_in=self.convolving(module)
        )

    def convolving(self, module: nn.Module) -> AbstractContextManager[Any]:
        """How the module's convolutions are made in training and tests."""
        if self.convolutions == DIRECT or self.mixed or torch.device(self.device).type != "cpu":
            return nullcontext()
        always = self.convolutions == QUICK
        return convolving(always=always) if always or convolution.gains(module) else nullcontext()

    def module(self) -> nn.Module:
        """The module as it starts: drawn by the seed, unless the user gave a module with its
        weights."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(self.seed, "model"))
            if isinstance(self.model, ModelSpec):
                return self.task.build(self.model, self.shape, self.outputs)
            module = self.model if isinstance(self.model, nn.Module) else self.model()
            if not isinstance(module, nn.Module):
                raise SettingError(f"{self.model!r} must make a torch.nn.Module, found {module!r}.")
            return self._materialised(module)

    def _materialised(self, module: nn.Module) -> nn.Module:
        """The module with what it had left open (`torch.nn.LazyLinear` and the like) made for these
        inputs."""
        if not any(map(is_lazy, (*module.parameters(), *module.buffers()))):
            return module
        empty = {id(b): UninitializedBuffer() for b in module.buffers() if is_lazy(b)}
        module = copy.deepcopy(module, empty).eval()
        try:
            with torch.no_grad():
                module(*(x.float() if x.is_floating_point() else x for x in arguments(self.sample)))
        except Exception as error:
            raise SettingError(
                f"the model cannot take inputs of shape {(2, *self.shape)}: {error}. Choose a model made for "
                "such inputs."
            ) from error
        return module

    def initial(self) -> Model:
        """Parameters and buffers before round 0."""
        return self.copy().model()

    def mean(self, output: Any, batch: Batch) -> tuple[Tensor, Count]:
        """The mean loss, and of how many things; of both sets of targets if the batch was mixed."""
        targets = batch.targets
        if not isinstance(targets, Mixed):
            return self.task.mean(output, batch)
        first, count = self.task.mean(output, replace(batch, targets=targets.first))
        second, _ = self.task.mean(output, replace(batch, targets=targets.second))
        return targets.lam * first + (1 - targets.lam) * second, count

    def objective(
        self, module: nn.Module, forward: Callable[..., Any], batch: Batch, terms: Terms
    ) -> tuple[Tensor, Count]:
        """The mean loss of a batch with the terms that are added to it, and of how many things it
        is the mean; ``forward`` runs ``module``."""
        if not terms and not self.mixed:  # by far the most
            return self.mean(forward(*arguments(batch.inputs)), batch)
        with ExitStack() as open_hooks:
            seen = [open_hooks.enter_context(term.hooks(module)) for term, _ in terms]
            if self.mixed:
                open_hooks.enter_context(
                    torch.autocast(torch.device(self.device).type, torch.bfloat16)
                )
            output = forward(*arguments(batch.inputs))
        if self.mixed:
            output = each(lambda part: part.to(self.dtype), output)
        blind = any(term.unsupervised for term, _ in terms)
        value, count = (
            (leading(output).new_zeros(()), len(batch)) if blind else self.mean(output, batch)
        )
        for (term, v), noted in zip(terms, seen, strict=True):
            value = value + term.loss(v, batch, output, noted)
        return value, count

    def output(self, inputs: Tensors) -> Any:
        """What the module makes of inputs where the walk stands, in evaluation mode; then training
        goes on."""
        assert self.at is not None, "no walk has begun"
        training = self.flat.module.training
        self.flat.load(self.at)
        made = self.flat.forward(*arguments(self.in_memory_format(inputs)))
        self.flat.module.train(training)
        return made

    def output_of(self, model: Model, inputs: Tensors) -> Any:
        """What the module makes of inputs at ``model``, in evaluation mode; where the walk stands
        is not touched."""
        self.sibling.load(model.params)
        self.sibling.buffers = model.buffers
        return self.sibling.forward(*arguments(inputs))

    @property
    def buffers(self) -> Tensor:
        """The running statistics of this process's module."""
        return self.flat.buffers

    @buffers.setter
    def buffers(self, value: Tensor) -> None:
        self.flat.buffers = value

    def in_memory_format(self, inputs: Tensors) -> Tensors:
        """The inputs of a forward pass in the order of memory in which it is quickest."""
        one_image = isinstance(inputs, Tensor) and inputs.dim() == 4 and inputs.is_floating_point()
        return channels_last(inputs) if one_image and self.channels_last else inputs

    @cached_property
    def channels_last(self) -> bool:
        """Whether the module takes images with channels last, the quickest way on a CPU; one with
        ``view`` may not."""
        try:
            self.flat.forward(channels_last(self.sample))
        except RuntimeError:
            return False
        return True

    @cached_property
    def accepts_single_example(self) -> bool:
        """Whether it can be trained on a single example: one with batch normalisation of features
        cannot."""
        module = self.copy().module.train()
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                module(*(x[:1] for x in arguments(self.sample)))
        except Exception:
            return False
        return True

    def check_single_example(self, whose: str) -> None:
        """Refuse a batch of one example, if the model cannot be trained on it."""
        if not self.accepts_single_example:
            raise SettingError(
                f"{whose} a batch of one example, which this model cannot be trained on (batch normalisation needs "
                "two). Leave short batches out (drop_last=True, --drop-last), take another batch size, give every "
                "client two examples or more, or use GroupNorm."
            )

    @cached_property
    def trains_channels_last(self) -> bool:
        """Whether images lie with channels last in training: as the layout says, or as the module
        is quickest."""
        if self.layout != AUTO or not self.takes_images:
            return self.layout == CHANNELS_LAST
        on_cpu = torch.device(self.device).type == "cpu"
        return on_cpu and gains(self.flat.module) and self.channels_last_refusal() is None

    def channels_last_refusal(self) -> Exception | None:
        """What the module says to a step of training on images with channels last; None if it takes
        them."""
        return refusal(self.flat.module, self.sample)

    @property
    def takes_images(self) -> bool:
        """Whether its input is a batch of images."""
        return (
            isinstance(self.sample, Tensor)
            and self.sample.dim() == 4
            and self.sample.is_floating_point()
        )

    def oracle(self, batch: Batch, terms: Terms) -> Oracle:
        """The bare gradient oracle on one batch."""
        return Oracle(self, batch, terms)


class Oracle:
    """The gradient of one batch's loss as a function of the point; only the first call moves
    statistics, if any."""

    def __init__(
        self, learner: Learner, batch: Batch, terms: Terms, *, still: bool = False
    ) -> None:
        self.batch = (
            replace(batch, inputs=channels_last(batch.inputs))
            if learner.trains_channels_last
            else batch
        )
        self.learner, self.terms, self.still = learner, terms, still
        self.loss: Tensor | None = None
        self.count: Count = 0
        if len(batch) == 1:
            learner.check_single_example("this visit has")

    def __call__(self, w: Tensor) -> Tensor:
        """The gradient at ``w``."""
        first = self.loss is None
        loss, gradient = self.learner.flat.gradient(
            w, self._loss, move_buffers=first and not self.still
        )
        if first:
            self.loss = loss
        return gradient

    def _loss(self, module: nn.Module) -> Tensor:
        value, self.count = self.learner.objective(module, module, self.batch, self.terms)
        return value
