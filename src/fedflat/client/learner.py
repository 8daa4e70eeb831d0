"""The learner: a module and its loss, opened in this process."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, is_lazy

from fedflat.client.piece import ClientContext, Piece, Term, module_piece
from fedflat.client.traced_gradients import MOST, PATIENCE, Trace, trace_gradient, traceable
from fedflat.core.flat import FlatModule, Model
from fedflat.core.seeds import derive, seed_torch
from fedflat.data.examples import Batch, Mixed, Tensors, arguments, each, leading
from fedflat.errors import SettingError
from fedflat.kernels import convolution
from fedflat.kernels.convolution import convolving
from fedflat.kernels.memory_format import channels_last, gains, refusal
from fedflat.models.spec import ModelSpec
from fedflat.settings.groups import AUTO, CHANNELS_LAST, DIRECT, QUICK
from fedflat.tasks.classification import Classification
from fedflat.tasks.task import Count, Task
from fedflat.tasks.wrapped import LossFn, OwnLoss

ModelLike = ModelSpec | nn.Module | Callable[[], nn.Module]
Terms = Sequence[tuple[Term, ClientContext]]
"""Terms that are added to the loss, with the context of each."""
MIXED = "mixed"
DTYPES = {"float32": torch.float32, "float64": torch.float64, MIXED: torch.float32}
"""Types of parameters by name. "mixed" trains in bfloat16 where that is safe."""
PROCESS_OWN = ("flat", "sibling", "frozen", "traces", "untraced_calls", "at")
"""Attributes of a learner that are not sent to other processes."""


class Learner:
    """A picklable description of a model and its task. It builds its module once in each process.

    model: a `ModelSpec`, a module, or a function that returns a module
    shape: shape of one example's input
    outputs: number of outputs, such as classes
    seed: seed of the initial parameters
    dtype: a key of `DTYPES`
    layout: memory format of images: "auto", "contiguous" or "channels-last"
    convolutions: convolution algorithm on CPUs: "auto", "direct" or "quick"
    sample: the inputs of two examples, to try modules on
    pieces: client pieces; one of them may change the module (`Piece.module`)
    """

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
        pieces: Sequence[Piece] = (),
    ) -> None:
        self.model, self.shape, self.outputs = model, shape, outputs
        self.module_piece = module_piece(pieces)
        self.task = task if loss is None else OwnLoss(task, loss)
        self.seed, self.dtype, self.device = seed, DTYPES[dtype], device
        self.mixed, self.layout, self.convolutions = dtype == MIXED, layout, convolutions
        self.sample = (
            torch.zeros(2, *shape, dtype=self.dtype, device=device) if sample is None else sample
        )
        """The inputs of two examples, to try modules on."""
        self.at: Tensor | None = None
        """Current parameters in training, for tasks that choose examples by the model's output."""
        self.statistics_moved = False
        """Whether a piece moved the running statistics in this step in place of its gradient."""

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in PROCESS_OWN} | {"at": None}

    @cached_property
    def flat(self) -> FlatModule:
        """The module of this process."""
        return self.copy()

    @cached_property
    def sibling(self) -> FlatModule:
        """A second module of this process, to evaluate another model during training."""
        return self.copy()

    @cached_property
    def traces(self) -> dict[Any, Trace] | None:
        """Gradients without modules and autograd, by the shapes of a batch; None if the network is
        not suited."""
        return {} if traceable(self) else None

    @cached_property
    def untraced_calls(self) -> Counter[Any]:
        """How many gradients without a trace there were, by the shapes of a batch."""
        return Counter()

    @cached_property
    def frozen(self) -> Tensor | None:
        """Mask of the parameters that keep their values; None if there are none."""
        mask = self.flat.layout.frozen_mask()
        return None if mask is None else mask.to(self.device)

    @cached_property
    def plain(self) -> Learner:
        """The same model without what a piece adds to its module."""
        other = copy.copy(self)
        other.__dict__ = {**self.__getstate__(), "module_piece": None}
        return other

    def copy(self) -> FlatModule:
        """Return a new module with the initial parameters."""
        module = self.module()
        return FlatModule(
            module,
            dtype=self.dtype,
            device=self.device,
            forward_in=self.convolving(module),
            copied=not isinstance(self.model, ModelSpec),  # which makes a new module each time
        )

    def convolving(self, module: nn.Module) -> AbstractContextManager[Any]:
        """Return a context that selects the convolution algorithm for the module."""
        if self.convolutions == DIRECT or self.mixed or torch.device(self.device).type != "cpu":
            return nullcontext()
        always = self.convolutions == QUICK
        return convolving(always=always) if always or convolution.gains(module) else nullcontext()

    def module(self) -> nn.Module:
        """Return the initial module.

        It is random by the seed unless the user gave one with its weights.
        """
        with torch.random.fork_rng(devices=[]):
            seed_torch(derive(self.seed, "model"))
            if self.module_piece is None:
                return self.network()
            return self.module_piece.module(self.network, arguments(self.sample)[0])

    def network(self, outputs: int | None = None, spec: ModelSpec | None = None) -> nn.Module:
        """Return a new network, drawn by PyTorch's current random state.

        With ``outputs`` it classifies into as many classes: a network of ``spec``, or the same as
        that of the task, which must then be a `ModelSpec`.
        """
        if outputs is not None and spec is not None:
            return spec.build(self.shape, outputs)
        if isinstance(self.model, ModelSpec):
            if outputs is None:
                return self.task.build(self.model, self.shape, self.outputs)
            return self.model.build(self.shape, outputs)
        if outputs is not None:
            raise SettingError(
                f"{self.module_piece} needs a second network with {outputs} outputs, and the model "
                "was given in Python. Name one, such as classifier=mlp([64])."
            )
        module = self.model if isinstance(self.model, nn.Module) else self.model()
        if not isinstance(module, nn.Module):
            raise SettingError(f"{self.model!r} must make a torch.nn.Module, found {module!r}.")
        return self._materialised(module)

    def _materialised(self, module: nn.Module) -> nn.Module:
        """The module with lazy layers such as `torch.nn.LazyLinear` built for these inputs."""
        if not any(map(is_lazy, (*module.parameters(), *module.buffers()))):
            return module
        empty = {id(b): UninitializedBuffer() for b in module.buffers() if is_lazy(b)}
        module = copy.deepcopy(module, empty).eval()
        try:
            with torch.no_grad():
                module(*(x.float() if x.is_floating_point() else x for x in arguments(self.sample)))
        except Exception as error:
            raise SettingError(
                f"the model cannot take inputs of shape {(2, *self.shape)}: {error}. Choose a "
                "model made for such inputs."
            ) from error
        return module

    def initial(self) -> Model:
        """Return parameters and buffers before round 0."""
        return self.copy().model()

    def load(self, model: Model) -> None:
        """Put a model into the module of this process."""
        self.flat.load(model.params)
        self.flat.buffers = model.buffers

    def mean(self, output: Any, batch: Batch) -> tuple[Tensor, Count]:
        """Return the mean loss and the number of items in it.

        A mixed batch has two sets of targets.
        """
        targets = batch.targets
        if not isinstance(targets, Mixed):
            return self.task.mean(output, batch)
        first, count = self.task.mean(output, replace(batch, targets=targets.first))
        second, _ = self.task.mean(output, replace(batch, targets=targets.second))
        return targets.lam * first + (1 - targets.lam) * second, count

    def objective(
        self, module: nn.Module, forward: Callable[..., Any], batch: Batch, terms: Terms
    ) -> tuple[Tensor, Count]:
        """Return the mean loss of a batch with its terms, and the number of items in it.

        ``forward`` runs ``module``.
        """
        if not terms and not self.mixed:  # the most common case
            return self.mean(forward(*arguments(batch.inputs)), batch)
        with ExitStack() as contexts:
            seen = [contexts.enter_context(term.hooks(module)) for term, _ in terms]
            if self.mixed:
                contexts.enter_context(
                    torch.autocast(torch.device(self.device).type, torch.bfloat16)
                )
            output = forward(*arguments(batch.inputs))
        if self.mixed:
            output = each(lambda part: part.to(self.dtype), output)
        scored = output
        for term, v in terms:
            scored = term.scores(v, scored)
        unsupervised = any(term.unsupervised for term, _ in terms)
        value, count = (
            (leading(output).new_zeros(()), len(batch))
            if unsupervised
            else self.mean(scored, batch)
        )
        for (term, v), observed in zip(terms, seen, strict=True):
            value = value + term.loss(v, batch, output, observed)
        return value, count

    def output(self, inputs: Tensors) -> Any:
        """Return the module's output at the current parameters, in evaluation mode."""
        assert self.at is not None, "training has not begun"
        training = self.flat.module.training
        self.flat.load(self.at)
        output = self.flat.forward(*arguments(self.in_memory_format(inputs)))
        self.flat.module.train(training)
        return output

    def output_of(self, model: Model, inputs: Tensors) -> Any:
        """Return the output of ``model`` in evaluation mode.

        The module in training does not change.
        """
        self.sibling.load(model.params)
        self.sibling.buffers = model.buffers
        return self.sibling.forward(*arguments(inputs))

    def gradient_of(
        self,
        loss: Callable[[nn.Module], Tensor],
        w: Tensor,
        *,
        move_buffers: bool = True,
        first_pass: bool = False,
    ) -> Tensor:
        """Return the gradient at ``w`` of another loss of the module in training.

        It updates running statistics if ``move_buffers``, and leaves PyTorch's random state as it
        was. After a ``first_pass`` the gradient of the step does not update them again.
        """
        self.statistics_moved = first_pass
        with torch.random.fork_rng(devices=[]):
            return self.flat.gradient(w, loss, move_buffers=move_buffers)[1]

    @torch.no_grad()
    def value_of(self, function: Callable[[nn.Module], Any], model: Model) -> Any:
        """Return the value of a function of the module with the parameters of ``model``.

        The module in training does not change.
        """
        self.sibling.load(model.params)
        self.sibling.buffers = model.buffers
        return function(self.sibling.module.eval())

    @property
    def buffers(self) -> Tensor:
        """The running statistics of this process's module."""
        return self.flat.buffers

    @buffers.setter
    def buffers(self, value: Tensor) -> None:
        self.flat.buffers = value

    def in_memory_format(self, inputs: Tensors) -> Tensors:
        """Return inputs in the memory format that is fastest in evaluation."""
        one_image = isinstance(inputs, Tensor) and inputs.dim() == 4 and inputs.is_floating_point()
        return channels_last(inputs) if one_image and self.channels_last else inputs

    @cached_property
    def channels_last(self) -> bool:
        """Whether the module can evaluate channels-last images; one that uses ``view`` may not."""
        try:
            self.flat.forward(channels_last(self.sample))
        except RuntimeError:
            return False
        return True

    @cached_property
    def accepts_single_example(self) -> bool:
        """Whether it can be trained on a single example: batch normalisation of features cannot."""
        module = self.copy().module.train()
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                module(*(x[:1] for x in arguments(self.sample)))
        except Exception:
            return False
        return True

    def check_single_example(self, whose: str) -> None:
        """Raise `SettingError` if the model cannot be trained on a batch of one example."""
        if not self.accepts_single_example:
            raise SettingError(
                f"{whose} a batch of one example, which this model cannot be trained on (batch "
                "normalisation needs two). Leave short batches out (drop_last=True, --drop-last), "
                "take another batch size, give every client two examples or more, or use GroupNorm."
            )

    @cached_property
    def trains_channels_last(self) -> bool:
        """Whether images are channels-last in training: if set so, or if that is faster."""
        if self.layout != AUTO or not self.takes_images:
            return self.layout == CHANNELS_LAST
        on_cpu = torch.device(self.device).type == "cpu"
        return on_cpu and gains(self.flat.module) and self.channels_last_refusal() is None

    def channels_last_refusal(self) -> Exception | None:
        """Return the error of a training step on channels-last images; None if there is none."""
        return refusal(self.flat.module, self.sample)

    @property
    def takes_images(self) -> bool:
        """Whether its input is a batch of images."""
        return (
            isinstance(self.sample, Tensor)
            and self.sample.dim() == 4
            and self.sample.is_floating_point()
        )

    def traced_gradient(self, w: Tensor, batch: Batch) -> tuple[Tensor, Tensor, int] | None:
        """Return gradient, loss and number of items of a batch, or None if it is not traced."""
        x, y, traces = batch.inputs, batch.targets, self.traces
        if traces is None or type(x) is not Tensor or type(y) is not Tensor:
            return None
        shapes = x.shape, x.stride(), x.dtype, y.shape, y.dtype
        found = traces.get(shapes)
        if found is None:
            self.untraced_calls[shapes] += 1
            if self.untraced_calls[shapes] > PATIENCE and len(traces) < MOST:
                traces[shapes] = trace_gradient(self, w, batch)
                del self.untraced_calls[shapes]
            return None
        function, count = found
        return None if function is None else (*function(w, x, y), count)

    def oracle(self, batch: Batch, terms: Terms) -> Oracle:
        """Return the gradient function of one batch."""
        self.statistics_moved = False
        return Oracle(self, batch, terms)


def _image_channels_last(x: Tensor) -> Tensor:
    return channels_last(x) if x.dim() == 4 else x


class Oracle:
    """The gradient of one batch's loss.

    Only the first call updates running statistics, unless ``still``.
    """

    def __init__(
        self, learner: Learner, batch: Batch, terms: Terms, *, still: bool = False
    ) -> None:
        self.batch = (
            replace(batch, inputs=each(_image_channels_last, batch.inputs))
            if learner.trains_channels_last
            else batch
        )
        self.learner, self.terms, self.still = learner, terms, still
        self.loss: Tensor | None = None
        self.count: Count = 0
        if len(batch) == 1:
            learner.check_single_example("this client has")

    def __call__(self, w: Tensor) -> Tensor:
        """Return the gradient at ``w``."""
        first = self.loss is None
        found = None if self.terms else self.learner.traced_gradient(w, self.batch)
        if found is not None:
            gradient, loss, self.count = found
            self.loss = loss if first else self.loss
            return gradient
        moves = first and not self.still and not self.learner.statistics_moved
        loss, gradient = self.learner.flat.gradient(w, self._loss, move_buffers=moves)
        if first:
            self.loss = loss
        return gradient

    def _loss(self, module: nn.Module) -> Tensor:
        value, self.count = self.learner.objective(module, module, self.batch, self.terms)
        return value
