"""Examples in files, read when a batch needs them: for data larger than memory.

While a model works on one batch, threads read the next. Examples are cached within a budget: one
`Decoded` serves all sets of a process that have the same budget. A batch is bit for bit the same as
that of the same examples in memory. A file that cannot be read is an error when its batch is made,
not when a thread reads it ahead.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fedflat.data.domains import Domains
from fedflat.data.examples import (
    AnyExamples,
    Augment,
    Batch,
    Examples,
    Tensors,
    arguments,
    each,
    leading,
)
from fedflat.errors import MOST_BYTES, DataError, number

READERS = 4
"""Number of threads that read and decode."""
Reader = Callable[[str], Any]
"""Reads the example in the file at a path: a function or a frozen dataclass that can be hashed and
pickled."""


class Key(NamedTuple):
    """An example in a file, as it was when the set was opened."""

    read: Reader
    path: str
    size: int
    written: int


class Decoded:
    """Examples by key: at most ``budget`` bytes; the least recently used are dropped first."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.held = 0
        """Bytes of the cached examples."""
        self._kept: OrderedDict[Key, Any] = OrderedDict()
        self._coming: dict[Key, Future[Any]] = {}
        self._largest = 0
        self._lock = Lock()
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="fedflat-reader")

    def take(self, keys: Sequence[Key]) -> list[Any]:
        """These examples, read if they are not cached."""
        with self._lock:
            examples = {key: self._kept.get(key) for key in keys}
            futures = {
                key: self._future(key) for key, example in examples.items() if example is None
            }
            for key in examples:
                if key in futures:
                    examples[key] = futures[key].result()
                else:
                    self._kept.move_to_end(key)
            for key in futures:
                self._keep(key, examples[key])
        return [examples[key] for key in keys]

    def expect(self, keys: Sequence[Key]) -> None:
        """Start to read examples that are needed next, as far as the budget allows."""
        with self._lock:
            soon = dict.fromkeys(keys)
            self._collect(soon)
            for key in self._kept.keys() & soon.keys():
                self._kept.move_to_end(key)
            for key in soon:
                if key not in self._kept and key not in self._coming:
                    if not self._largest or not self._room(1, soon):
                        return
                    self._coming[key] = self._readers.submit(_example, key)

    def _future(self, key: Key) -> Future[Any]:
        return self._coming.pop(key, None) or self._readers.submit(_example, key)

    def _collect(self, soon: Iterable[Key]) -> None:
        """Cache or drop examples that were read ahead but not requested."""
        for key, future in [
            (key, future) for key, future in self._coming.items() if key not in soon
        ]:
            if future.cancel() or future.done():
                del self._coming[key]
                if not future.cancelled() and future.exception() is None:
                    self._keep(key, future.result())

    def _keep(self, key: Key, example: object) -> None:
        size = _bytes(example)
        self._largest = max(self._largest, size)
        self._kept[key] = example
        self.held += size
        self._room(0, ())

    def _room(self, more: int, spared: Iterable[Key]) -> bool:
        """Drop the oldest examples until ``more`` bytes fit; True if they fit."""
        while self.held + (len(self._coming) + more) * self._largest > self.budget:
            oldest = next(iter(self._kept), None)
            if oldest is None or oldest in spared:
                return False
            self.held -= _bytes(self._kept.pop(oldest))
        return True


@cache
def decoded(budget: int) -> Decoded:
    """The cache of this process with this budget."""
    return Decoded(budget)


def _bytes(example: object) -> int:
    return sum(
        _bytes(part) if isinstance(part, tuple) else int(part.nbytes) for part in arguments(example)
    )


def _example(key: Key) -> Any:
    try:
        return key.read(key.path)
    except DataError:  # it has a clear message already
        raise
    except Exception as error:  # decoders raise many types
        why = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        raise DataError(
            f"{key.path} cannot be read ({why}). Repair the file, or remove it."
        ) from error


BUDGET = 10**9
"""Default number of bytes that a process caches."""


@dataclass(frozen=True)
class OnDisk(AnyExamples):
    """Examples that are read from files when they are needed.

    paths
        One file per example.
    read
        ``read(path)`` returns its inputs, a tensor or a tuple; with ``pairs``, its inputs and its
        targets. It is sent to worker processes, so it must be a module-level function or a frozen
        dataclass.
    targets
        The target of each example; None if ``read`` returns pairs.
    classes, mean, std, augment
        As for `Examples`.
    memory
        Bytes of examples that each process caches.

    device
        The device of the batches.
    """

    paths: Sequence[str]
    read: Reader
    targets: Tensors = None
    classes: int = 0
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    augment: Augment | None = field(default=None, compare=False)
    pairs: bool = False
    memory: int = BUDGET
    device: str = "cpu"
    stamps: Tensor | None = field(default=None, compare=False)
    """Size and modification time of each file when the set was opened; read from disk if None."""
    domains: Domains | None = field(default=None, compare=False)
    """The domain of each example, if known."""

    def __post_init__(self) -> None:
        number("OnDisk", "memory", self.memory, low=0, high=MOST_BYTES, whole=True)
        if not self.pairs and (
            self.targets is None or len(leading(self.targets)) != len(self.paths)
        ):
            found = "none" if self.targets is None else len(leading(self.targets))
            raise DataError(
                f"OnDisk: there must be a target for each of {len(self.paths)} files, found "
                f"{found}."
            )
        if self.stamps is None:
            object.__setattr__(
                self, "stamps", torch.tensor([_stamp(path) for path in self.paths]).view(-1, 2)
            )

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def shape(self) -> tuple[int, ...]:
        """See `AnyExamples.shape`; reads the first file."""
        [example] = self._decoded.take(self._keys(torch.tensor([0])))
        return tuple(leading(example[0] if self.pairs else example).shape)

    @property
    def augments(self) -> bool:
        return self.augment is not None

    def batch(self, index: Tensor, dtype: torch.dtype, rng: torch.Generator | None = None) -> Batch:
        return self.raw(index).batch(torch.arange(len(index), device=self.device), dtype, rng)

    def raw(self, index: Tensor) -> Examples:
        places = index.tolist()
        decoded_examples = self._decoded.take(self._keys(index))
        inputs = self._stack(
            places, [example[0] for example in decoded_examples] if self.pairs else decoded_examples
        )
        if self.targets is None:
            targets = self._stack(places, [example[1] for example in decoded_examples])
        else:
            targets = each(lambda t: t.index_select(0, index.to(t.device)), self.targets)
        domains = self.domains and self.domains.of(places)
        examples = Examples(
            inputs, targets, self.classes, self.mean, self.std, self.augment, domains
        )
        return examples.to(self.device)

    def expect(self, index: Tensor) -> None:
        self._decoded.expect(self._keys(index))

    def plain(self) -> OnDisk:
        return replace(self, augment=None)

    def part(self, where: slice) -> OnDisk:
        assert self.stamps is not None
        targets = None if self.targets is None else each(lambda t: t[where], self.targets)
        return replace(
            self,
            paths=self.paths[where],
            targets=targets,
            stamps=self.stamps[where],
            domains=self.domains and self.domains.of(range(len(self))[where]),
        )

    def retargeted(self, targets: Tensor) -> OnDisk:
        return replace(self, targets=targets)

    def to(self, device: str) -> OnDisk:
        """See `AnyExamples.to`; the cache stays in main memory, batches are sent to the device."""
        return replace(self, device=device)

    def like(self, inputs: Tensor) -> Examples:
        return Examples(
            inputs, torch.zeros(len(inputs), dtype=torch.long), self.classes, self.mean, self.std
        )

    def traces(self) -> list[Any]:
        """See `AnyExamples.traces`: names and sizes of files, not their contents."""
        assert self.stamps is not None
        names = "\0".join(map(os.path.basename, self.paths))
        encoded_names = torch.frombuffer(bytearray(os.fsencode(f"{names}\0")), dtype=torch.uint8)
        targets = () if self.targets is None else arguments(self.targets)
        sizes = self.stamps[:, 0].contiguous()
        return [
            encoded_names,
            sizes,
            *targets,
            self.classes,
            list(self.mean),
            list(self.std),
            self.pairs,
        ]

    @property
    def _decoded(self) -> Decoded:
        return decoded(self.memory)

    def _keys(self, index: Tensor) -> list[Key]:
        assert self.stamps is not None
        index = index.cpu()
        stamps = self.stamps.index_select(0, index).tolist()
        return [
            Key(self.read, self.paths[place], *stamp)
            for place, stamp in zip(index.tolist(), stamps, strict=True)
        ]

    def _stack(self, places: list[int], parts: list[Any]) -> Tensors:
        """The tensors of several examples, stacked."""
        like = [t.shape for t in arguments(parts[0])]
        for place, part in zip(places, parts, strict=True):
            shapes = [t.shape for t in arguments(part)]
            if shapes != like:
                raise DataError(
                    f"{self.paths[place]} holds {_shapes(shapes)}, and {self.paths[places[0]]} "
                    f"{_shapes(like)}: the examples of a set must be alike. Bring them to one "
                    "size."
                )
        return each(lambda *tensors: torch.stack(tensors), *parts)


def _stamp(path: str) -> tuple[int, int]:
    try:
        stat = os.stat(path)
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror}). Repair the file, or remove it."
        ) from None
    return stat.st_size, stat.st_mtime_ns


def _shapes(shapes: list[torch.Size]) -> str:
    return " and ".join("x".join(map(str, shape)) or "one number" for shape in shapes)
