"""Examples and their mini-batches: an interface, and examples as tensors in memory.

Inputs are a tensor, or a tuple of tensors that a module takes as separate arguments. Integers stay
integers. Targets are a tensor or a tuple; pieces that blend examples wrap them as `Mixed`. Images
stay uint8 until a batch is made. Crops, flips and normalization work on whole batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, ClassVar, Protocol, Self, TypeAlias

import torch
from torch import Tensor

from fedflat.data.domains import Domains
from fedflat.errors import SettingError

Tensors: TypeAlias = Any
"""A tensor or a tuple of tensors, depending on the data set."""


@dataclass(frozen=True)
class Mixed:
    """Targets of blended examples: the loss is ``lam * loss(first) + (1 - lam) * loss(second)``."""

    first: Tensors
    second: Tensors
    lam: float | Tensor


@dataclass(frozen=True)
class Batch:
    """Inputs and targets of some examples; in a stack of clients, with one row per client.

    inputs
        A tensor or a tuple of tensors, with one row per example.
    """

    inputs: Tensors
    targets: Tensors
    """Tensors or `Mixed`."""

    def __len__(self) -> int:
        return self.first.shape[0]

    @property
    def first(self) -> Tensor:
        """The inputs; the first tensor of several."""
        return leading(self.inputs)

    @property
    def labels(self) -> Tensor:
        """The targets; the first tensor of several, without mixing."""
        return leading(self.targets)


def arguments(inputs: Tensors) -> tuple[Tensor, ...]:
    """The arguments for calling a module."""
    return tuple(inputs) if isinstance(inputs, tuple) else (inputs,)


def leading(value: Tensors) -> Tensor:
    """The first tensor of a structure."""
    if type(value) is Tensor:  # the common case
        return value
    return arguments(value.first if isinstance(value, Mixed) else value)[0]


def each(make: Callable[..., Any], *values: Any) -> Any:
    """Apply ``make`` to the corresponding tensors of all ``values``; returns the same structure.

    >>> each(lambda a, b: a + b, (1, 2), (10, 20))
    (11, 22)
    """
    first = values[0]
    if type(first) is Tensor:  # the common case
        return make(*values)
    if isinstance(first, Batch):
        inputs, targets = [v.inputs for v in values], [v.targets for v in values]
        return Batch(each(make, *inputs), each(make, *targets))
    if isinstance(first, Mixed):
        return Mixed(
            *(
                each(make, *(getattr(v, name) for v in values))
                for name in ("first", "second", "lam")
            )
        )
    if isinstance(first, tuple):
        return tuple(each(make, *parts) for parts in zip(*values, strict=True))
    return make(*values)


def leaves(batch: Batch) -> list[Any]:
    """All tensors of a batch as a list."""
    tensors: list[Any] = []
    each(tensors.append, batch)
    return tensors


def shape_of(batch: Batch) -> Batch:
    """The structure of a batch without its tensors: for `regrown`, and to compare batches."""
    empty: Batch = each(lambda leaf: None, batch)
    return empty


def regrown(empty: Batch, parts: Sequence[Any]) -> Batch:
    """The batch of structure ``empty`` with the tensors from `leaves`."""
    left = iter(parts)
    batch: Batch = each(lambda leaf: next(left), empty)
    return batch


def rows(batch: Batch) -> Iterator[Batch]:
    """The batches of the single clients of a stack."""
    for place in range(len(batch)):
        yield each(lambda leaf: leaf[place], batch)  # noqa: B023


def stacked(batches: Sequence[Batch]) -> Batch:
    """Batches of several clients, all of one shape, as rows of one batch."""
    like = leading(batches[0].inputs)

    def join(*parts: Any) -> Tensor:
        if isinstance(parts[0], Tensor):
            return torch.stack(parts)
        return torch.tensor(parts, dtype=like.dtype, device=like.device)

    batch: Batch = each(join, *batches)
    return batch


class Augment(Protocol):
    """Changes a batch of raw examples at random, inputs and targets together. Must be picklable."""

    def __call__(self, inputs: Any, targets: Any, rng: torch.Generator) -> tuple[Any, Any]:
        """The changed inputs and targets, of the same shapes and types."""
        ...


Change = Callable[[Any, Tensor], Any]
"""Maps raw inputs of a client's examples and their positions to changed inputs of the same shape
and type."""


class AnyExamples(ABC):
    """A set of examples, in memory or elsewhere."""

    classes: int
    """The number of classes; 0 if targets are not classes."""
    targets: Tensors
    """The target of each example, as stored."""
    domains: Domains | None = None
    """The domain of each example, if known."""
    unlabelled: ClassVar[bool] = False
    """True if the targets must not be read."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of one input; of the first tensor if there are several."""

    @property
    def augments(self) -> bool:
        """True if batches are augmented in training."""
        return False

    @abstractmethod
    def batch(self, index: Tensor, dtype: torch.dtype, rng: torch.Generator | None = None) -> Batch:
        """The examples at ``index``, ready for a model; augmented if ``rng`` is given."""

    def raw(self, index: Tensor) -> Examples:
        """The examples at ``index`` in memory, as stored, with the same preprocessing."""
        raise SettingError(
            f"a {type(self).__name__} cannot give its examples as stored, which is needed here. "
            "Define a method raw(index) that returns Examples."
        )

    def expect(self, index: Tensor) -> None:
        """Announce the examples that are needed next, so that they can be read in advance."""

    @abstractmethod
    def plain(self) -> Self:
        """The same set without augmentation."""

    @abstractmethod
    def part(self, where: slice) -> Self:
        """A contiguous part of the examples."""

    @abstractmethod
    def retargeted(self, targets: Tensor) -> Self:
        """The same inputs with other targets."""

    def with_blank_targets(self) -> Self:
        """The same inputs with targets of the same shapes and without information."""
        return self.retargeted(each(_blank, self.targets))

    @abstractmethod
    def to(self, device: str) -> Self:
        """The same set on another device."""

    def like(self, inputs: Tensor) -> Examples:
        """Examples with these raw inputs and blank targets, preprocessed like this set."""
        raise SettingError(
            "these examples are not images, which are needed here. Use a data set of images."
        )

    @abstractmethod
    def traces(self) -> Sequence[Any]:
        """Tensors, numbers and texts that identify these examples."""

    @property
    def has_classes(self) -> bool:
        """True if each example has one class."""
        targets = self.targets
        return (
            isinstance(targets, Tensor) and targets.dim() == 1 and not targets.is_floating_point()
        )

    @property
    def labels(self) -> Tensor:
        """The class of each example; an error if targets are not classes."""
        if not self.has_classes:
            raise SettingError(
                "these examples do not have one class each, which is needed here. Partition them "
                "with iid(), quantity_skew() or by_user(), which do not use classes."
            )
        labels: Tensor = self.targets
        return labels


@dataclass(frozen=True)
class Examples(AnyExamples):
    """Examples in memory: raw inputs, targets, and the preprocessing of a batch.

    Bytes are scaled to 0 to 1, and floats are normalized by ``mean`` and ``std``, one number per
    channel. Other integers, such as indices of characters, stay unchanged. Inputs and targets may
    be tuples of tensors.

    augment
        Changes inputs in training; None: nothing.
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
        inputs, targets = _select(self.inputs, index), _select(self.targets, index)
        if rng is not None and self.augment is not None:
            inputs, targets = self.augment(inputs, targets, rng)
        if type(inputs) is Tensor:  # the common case
            return Batch(self._ready(inputs, dtype), each(partial(_cast_targets, dtype), targets))
        return Batch(
            each(lambda t: self._ready(t, dtype), inputs),
            each(partial(_cast_targets, dtype), targets),
        )

    def raw(self, index: Tensor) -> Examples:
        domains = self.domains and self.domains.of(index.tolist())
        return replace(
            self,
            inputs=_select(self.inputs, index),
            targets=_select(self.targets, index),
            domains=domains,
        )

    def _ready(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        if not (x.is_floating_point() or x.dtype == torch.uint8):
            return x
        scale = 255.0 if x.dtype == torch.uint8 else 1.0
        x = x.to(dtype)
        if self.mean:
            shape = (1, -1) + (1,) * (x.dim() - 2)
            mean = _constants(self.mean, dtype, x.device)
            std = _constants(self.std, dtype, x.device)
            return x.sub_(mean.view(shape) * scale).div_(std.view(shape) * scale)
        return x.div_(scale) if scale != 1.0 else x

    def plain(self) -> Examples:
        return replace(self, augment=None)

    def part(self, where: slice) -> Examples:
        inputs, targets = (
            each(lambda t: t[where], tensors) for tensors in (self.inputs, self.targets)
        )
        domains = self.domains and self.domains.of(range(len(self))[where])
        return replace(self, inputs=inputs, targets=targets, domains=domains)

    def retargeted(self, targets: Tensor) -> Examples:
        return replace(self, targets=targets)

    def to(self, device: str) -> Examples:
        inputs, targets = (
            each(lambda t: t.to(device), tensors) for tensors in (self.inputs, self.targets)
        )
        return replace(self, inputs=inputs, targets=targets)

    def like(self, inputs: Tensor) -> Examples:
        """See `AnyExamples.like`; bytes are converted if these examples are floats."""
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


def _select(tensors: Tensors, index: Tensor) -> Any:
    if type(tensors) is Tensor:
        return tensors.index_select(0, index)
    return each(lambda t: t.index_select(0, index), tensors)


def _blank(targets: Tensor) -> Tensor:
    nothing = torch.nan if targets.is_floating_point() else 255
    return torch.full((), nothing, dtype=targets.dtype, device=targets.device).expand(targets.shape)


def _cast_targets(dtype: torch.dtype, targets: Tensor) -> Tensor:
    """Floating-point targets in the model's type; classes unchanged."""
    return targets.to(dtype) if targets.is_floating_point() else targets.long()


@cache
def _constants(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Cached, so that the numbers are sent to a device once."""
    return torch.tensor(values, dtype=dtype, device=device)


@dataclass(frozen=True)
class ClientData:
    """The data of one client: some of the examples, by index."""

    examples: AnyExamples
    index: Tensor
    held_out: Tensor | None = None
    """Indices of the client's test examples, if the data were split within clients."""
    change: Change | None = field(default=None, compare=False)
    """Change of the raw inputs in training, before augmentation."""

    def __len__(self) -> int:
        return self.index.shape[0]

    @property
    def own_test(self) -> ClientData | None:
        """The client's own test examples."""
        return None if self.held_out is None else ClientData(self.examples, self.held_out)

    @property
    def domains(self) -> Domains | None:
        """The domain of each example, if known."""
        return self.examples.domains and self.examples.domains.of(self.index.tolist())

    @property
    def targets(self) -> Any:
        """The targets of the client's examples, as stored."""
        return each(lambda t: t.index_select(0, self.index), self.examples.targets)

    @property
    def labels(self) -> Tensor:
        """The classes of the client's examples."""
        return self.examples.labels.index_select(0, self.index)

    def counts(self, classes: int) -> Tensor:
        """The number of examples per class; without classes, the total number."""
        if not self.examples.has_classes:
            return torch.tensor([len(self)])
        return torch.bincount(self.labels.cpu(), minlength=classes)

    def counts_on_device(self, classes: int) -> Tensor:
        """The number of examples per class, where the examples are.

        Nothing waits for the device.
        """
        labels = self.labels.long()
        counts = torch.zeros(classes, dtype=torch.long, device=labels.device)
        return counts.index_add_(0, labels, torch.ones_like(labels))

    def changed(self, change: Change) -> ClientData:
        """The same data with one more change of raw inputs in training, after existing ones."""
        before = self.change
        if before is None:
            return replace(self, change=change)
        return replace(self, change=lambda inputs, places: change(before(inputs, places), places))

    def to(self, device: str) -> ClientData:
        """The same examples on another device."""
        held_out = None if self.held_out is None else self.held_out.to(device)
        return ClientData(self.examples.to(device), self.index.to(device), held_out)

    def batch(self, index: Tensor, dtype: torch.dtype, rng: torch.Generator | None = None) -> Batch:
        """The batch of this client's examples at ``index``."""
        places = self.index.index_select(0, index.to(self.index.device))
        if self.change is None or rng is None:
            return self.examples.batch(places, dtype, rng)
        raw = self.examples.raw(places)
        changed = replace(raw, inputs=self.change(raw.inputs, index))
        return changed.batch(torch.arange(len(places), device=places.device), dtype, rng)

    def batches(
        self, order: Iterable[Tensor], dtype: torch.dtype, rng: torch.Generator | None = None
    ) -> Iterator[Batch]:
        """One batch per entry of ``order``; the next one is read in advance."""
        coming = iter(order)
        places = next(coming, None)
        while places is not None:
            batch = self.batch(places, dtype, rng)
            places = next(coming, None)
            if places is not None:
                self.examples.expect(self.index.index_select(0, places.to(self.index.device)))
            yield batch
