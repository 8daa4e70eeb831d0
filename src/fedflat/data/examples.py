"""Examples and the batches cut from them: an interface, and examples as tensors in memory.

Images stay uint8 until a batch is cut; crops, flips and normalisation are done a whole batch at a
time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor

from fedflat.data.batch import Batch, Tensors, arguments, each, leading
from fedflat.data.domains import Domains
from fedflat.errors import SettingError


class Augment(Protocol):
    """Changes a batch of raw examples at random, targets such as masks together with inputs; a
    picklable value."""

    def __call__(self, inputs: Any, targets: Any, rng: torch.Generator) -> tuple[Any, Any]:
        """The changed inputs and targets, of the same shapes and types."""
        ...


Change = Callable[[Any, Tensor], Any]
"""From the raw inputs of a client's examples and their places to changed ones, of the same shape
and type."""


class AnyExamples(ABC):
    """A whole set of examples, wherever they are kept."""

    classes: int
    """How many kinds of targets there are; 0 if they are not kinds."""
    targets: Tensors
    """What should come out for each example, as it is stored."""
    domains: Domains | None = None
    """Where each example is from, if that is known."""
    unlabelled: ClassVar[bool] = False
    """Whether nobody is told what should come out."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of one input; of the first if there are several."""

    @property
    def augments(self) -> bool:
        """Whether batches are changed at random in training."""
        return False

    @abstractmethod
    def batch(self, index: Tensor, dtype: torch.dtype, rng: torch.Generator | None = None) -> Batch:
        """The examples at ``index``, ready for a model; augmented if there is a generator to do it
        with."""

    def raw(self, index: Tensor) -> Examples:
        """The examples at ``index`` in memory, as they are stored; their batches are those of this
        set."""
        raise SettingError(
            f"the examples of a {type(self).__name__} cannot be had as they are stored, and must be here. Give it a "
            "method raw(index) that makes Examples of them."
        )

    def expect(self, index: Tensor) -> None:
        """Be told which examples are asked for next: what is not in memory can be read
        meanwhile."""

    @abstractmethod
    def plain(self) -> Self:
        """The same set without augmentation."""

    @abstractmethod
    def part(self, where: slice) -> Self:
        """Some of the examples."""

    @abstractmethod
    def retargeted(self, targets: Tensor) -> Self:
        """The same inputs with other targets."""

    def stripped(self) -> Self:
        """The same inputs with targets of the same shapes that say nothing."""
        return self.retargeted(each(_blank, self.targets))

    @abstractmethod
    def to(self, device: str) -> Self:
        """The same set on another device."""

    def like(self, inputs: Tensor) -> Examples:
        """Other raw inputs that are made ready for a model as these are, with targets that say
        nothing."""
        raise SettingError("these examples are no pictures, and pictures are needed here.")

    @abstractmethod
    def traces(self) -> Sequence[Any]:
        """Tensors, numbers and texts that tell these examples from others."""

    @property
    def labelled(self) -> bool:
        """Whether each example has one class."""
        targets = self.targets
        return (
            isinstance(targets, Tensor) and targets.dim() == 1 and not targets.is_floating_point()
        )

    @property
    def labels(self) -> Tensor:
        """The class of each example; refused where targets are no classes."""
        if not self.labelled:
            raise SettingError(
                "these examples have no class each, and one is needed here. Deal them out by iid(), quantity_skew() or "
                "by_user(), which do not look at classes."
            )
        labels: Tensor = self.targets
        return labels


@dataclass(frozen=True)
class Examples(AnyExamples):
    """A set in memory: raw inputs, targets, and how a batch of inputs is made ready for a model.

    Bytes become numbers from 0 to 1, floats are normalised by ``mean`` and ``std``, one number a
    channel; other whole numbers, such as those of letters, stay what they are. Inputs and targets
    may be tuples of tensors.
    """

    inputs: Tensors
    targets: Tensors
    classes: int = 0
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    augment: Augment | None = field(default=None, compare=False)
    domains: Domains | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return leading(self.targets).shape[0]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(leading(self.inputs).shape[1:])

    @property
    def augments(self) -> bool:
        return self.augment is not None

    def batch(self, index: Tensor, dtype: torch.dtype, rng: torch.Generator | None = None) -> Batch:
        inputs, targets = _picked(self.inputs, index), _picked(self.targets, index)
        if rng is not None and self.augment is not None:
            inputs, targets = self.augment(inputs, targets, rng)
        if type(inputs) is Tensor:  # by far the most
            return Batch(self._ready(inputs, dtype), each(partial(_typed, dtype), targets))
        return Batch(
            each(lambda t: self._ready(t, dtype), inputs), each(partial(_typed, dtype), targets)
        )

    def raw(self, index: Tensor) -> Examples:
        domains = self.domains and self.domains.of(index.tolist())
        return replace(
            self,
            inputs=_picked(self.inputs, index),
            targets=_picked(self.targets, index),
            domains=domains,
        )

    def _ready(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        if not (x.is_floating_point() or x.dtype == torch.uint8):
            return x
        scale = 255.0 if x.dtype == torch.uint8 else 1.0
        x = x.to(dtype)
        if self.mean:
            shape = (1, -1) + (1,) * (x.dim() - 2)
            mean, std = (
                _constants(self.mean, dtype, x.device),
                _constants(self.std, dtype, x.device),
            )
            return x.sub_(mean.view(shape) * scale).div_(std.view(shape) * scale)
        return x.div_(scale) if scale != 1.0 else x

    def plain(self) -> Examples:
        return replace(self, augment=None)

    def part(self, where: slice) -> Examples:
        inputs, targets = (each(lambda t: t[where], some) for some in (self.inputs, self.targets))
        domains = self.domains and self.domains.of(range(len(self))[where])
        return replace(self, inputs=inputs, targets=targets, domains=domains)

    def retargeted(self, targets: Tensor) -> Examples:
        return replace(self, targets=targets)

    def to(self, device: str) -> Examples:
        inputs, targets = (
            each(lambda t: t.to(device), some) for some in (self.inputs, self.targets)
        )
        return replace(self, inputs=inputs, targets=targets)

    def like(self, inputs: Tensor) -> Examples:
        """See `AnyExamples.like`; bytes become floats where these are floats."""
        stored = self.inputs
        if isinstance(stored, Tensor) and stored.is_floating_point():
            inputs = inputs.to(stored.dtype) / 255
        none = torch.zeros(len(inputs), dtype=torch.long)
        return replace(self, inputs=inputs, targets=none, augment=None, domains=None)

    def traces(self) -> list[Any]:
        return [
            *arguments(self.inputs),
            *arguments(self.targets),
            self.classes,
            list(self.mean),
            list(self.std),
        ]


def _picked(some: Tensors, index: Tensor) -> Any:
    if type(some) is Tensor:
        return some.index_select(0, index)
    return each(lambda t: t.index_select(0, index), some)


def _blank(targets: Tensor) -> Tensor:
    nothing = torch.nan if targets.is_floating_point() else 255
    return torch.full((), nothing, dtype=targets.dtype, device=targets.device).expand(targets.shape)


def _typed(dtype: torch.dtype, targets: Tensor) -> Tensor:
    """Numbers to be met in the model's type, classes whole."""
    return targets.to(dtype) if targets.is_floating_point() else targets.long()


@cache
def _constants(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Numbers that are sent to a device once."""
    return torch.tensor(values, dtype=dtype, device=device)


@dataclass(frozen=True)
class ClientData:
    """What one client holds: some of the examples, by index."""

    examples: AnyExamples
    index: Tensor
    held_out: Tensor | None = None
    """What it keeps for testing, if the data were split inside the clients."""
    change: Change | None = field(default=None, compare=False)
    """What becomes of raw inputs in training, before they are augmented."""

    def __len__(self) -> int:
        return self.index.shape[0]

    @property
    def own_test(self) -> ClientData | None:
        """What it keeps for testing, as data."""
        return None if self.held_out is None else ClientData(self.examples, self.held_out)

    @property
    def domains(self) -> Domains | None:
        """Where each of them is from, if that is known."""
        return self.examples.domains and self.examples.domains.of(self.index.tolist())

    @property
    def targets(self) -> Any:
        """The targets it holds, as they are stored."""
        return each(lambda t: t.index_select(0, self.index), self.examples.targets)

    @property
    def labels(self) -> Tensor:
        """The classes it holds, where targets are classes."""
        return self.examples.labels.index_select(0, self.index)

    def counts(self, classes: int) -> Tensor:
        """How many examples of each class it holds; where there are no classes, how many in all."""
        if not self.examples.labelled:
            return torch.tensor([len(self)])
        return torch.bincount(self.labels.cpu(), minlength=classes)

    def changed(self, change: Change) -> ClientData:
        """The same data whose raw inputs ``change`` changes in training, after what changes them
        already."""
        before = self.change
        if before is None:
            return replace(self, change=change)
        return replace(self, change=lambda inputs, places: change(before(inputs, places), places))

    def to(self, device: str) -> ClientData:
        """The same examples on another device."""
        held_out = None if self.held_out is None else self.held_out.to(device)
        return ClientData(self.examples.to(device), self.index.to(device), held_out)

    def batch(self, index: Tensor, dtype: torch.dtype, rng: torch.Generator | None = None) -> Batch:
        """The batch of this client's ``index``-th examples."""
        places = self.index.index_select(0, index.to(self.index.device))
        if self.change is None or rng is None:
            return self.examples.batch(places, dtype, rng)
        some = self.examples.raw(places)
        changed = replace(some, inputs=self.change(some.inputs, index))
        return changed.batch(torch.arange(len(places), device=places.device), dtype, rng)

    def batches(
        self, order: Iterable[Tensor], dtype: torch.dtype, rng: torch.Generator | None = None
    ) -> Iterator[Batch]:
        """A batch for each entry of ``order``; while one is worked on, the next is expected."""
        coming = iter(order)
        places = next(coming, None)
        while places is not None:
            batch = self.batch(places, dtype, rng)
            places = next(coming, None)
            if places is not None:
                self.examples.expect(self.index.index_select(0, places.to(self.index.device)))
            yield batch
