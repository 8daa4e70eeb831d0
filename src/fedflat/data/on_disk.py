"""Examples in files, read when a batch needs them: for data larger than memory.

While a model works on one batch, threads read the next; what was read is kept within a budget
(`decoded`). A batch has the same bits as that of the same examples in memory, whoever cuts it and
whenever.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from fedflat.data.batch import Batch, Tensors, arguments, each, leading
from fedflat.data.decoded import Decoded, Key, Reader, decoded
from fedflat.data.examples import AnyExamples, Augment, Examples
from fedflat.errors import MOST_BYTES, DataError, number

BUDGET = 10**9
"""Bytes of examples that a process keeps, if nothing else is said."""


@dataclass(frozen=True)
class OnDisk(AnyExamples):
    """Examples that are read from files when they are needed.

    paths
        A file for each example.
    read
        ``read(path)`` gives its inputs, a tensor or a tuple of them; with ``pairs``, its inputs and its targets. Worker
        processes are sent it, so it must be a function of a module or a frozen dataclass.
    targets
        What should come out for each example; None if ``read`` gives pairs.
    classes, mean, std, augment
        As for `Examples`.
    memory
        How many bytes of examples each process keeps.
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
    """Size and time of each file when the set was opened; found out if they are not given."""

    def __post_init__(self) -> None:
        number("OnDisk", "memory", self.memory, low=0, high=MOST_BYTES, whole=True)
        if not self.pairs and (
            self.targets is None or len(leading(self.targets)) != len(self.paths)
        ):
            found = "none" if self.targets is None else len(leading(self.targets))
            raise DataError(
                f"OnDisk: there must be a target for each of {len(self.paths)} files, found {found}."
            )
        if self.stamps is None:
            object.__setattr__(
                self, "stamps", torch.tensor([_stamp(path) for path in self.paths]).view(-1, 2)
            )

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def shape(self) -> tuple[int, ...]:
        """See `AnyExamples.shape`; the first file is read for it."""
        [example] = self._decoded.take(self._keys(torch.tensor([0])))
        return tuple(leading(example[0] if self.pairs else example).shape)

    @property
    def augments(self) -> bool:
        return self.augment is not None

    def batch(self, index: Tensor, dtype: torch.dtype, rng: torch.Generator | None = None) -> Batch:
        return self.raw(index).batch(torch.arange(len(index), device=self.device), dtype, rng)

    def raw(self, index: Tensor) -> Examples:
        places = index.tolist()
        found = self._decoded.take(self._keys(index))
        inputs = self._joined(places, [one[0] for one in found] if self.pairs else found)
        if self.targets is None:
            targets = self._joined(places, [one[1] for one in found])
        else:
            targets = each(lambda t: t.index_select(0, index.to(t.device)), self.targets)
        examples = Examples(inputs, targets, self.classes, self.mean, self.std, self.augment)
        return examples.to(self.device)

    def expect(self, index: Tensor) -> None:
        self._decoded.expect(self._keys(index))

    def plain(self) -> OnDisk:
        return replace(self, augment=None)

    def part(self, where: slice) -> OnDisk:
        assert self.stamps is not None
        targets = None if self.targets is None else each(lambda t: t[where], self.targets)
        return replace(self, paths=self.paths[where], targets=targets, stamps=self.stamps[where])

    def retargeted(self, targets: Tensor) -> OnDisk:
        return replace(self, targets=targets)

    def to(self, device: str) -> OnDisk:
        """See `AnyExamples.to`; what is kept stays in the machine's memory, batches are sent
        over."""
        return replace(self, device=device)

    def like(self, inputs: Tensor) -> Examples:
        return Examples(
            inputs, torch.zeros(len(inputs), dtype=torch.long), self.classes, self.mean, self.std
        )

    def traces(self) -> list[Any]:
        """See `AnyExamples.traces`: names and sizes of files, not what they hold."""
        assert self.stamps is not None
        names = "\0".join(map(os.path.basename, self.paths))
        told = torch.frombuffer(bytearray(os.fsencode(f"{names}\0")), dtype=torch.uint8)
        targets = () if self.targets is None else arguments(self.targets)
        sizes = self.stamps[:, 0].contiguous()
        return [told, sizes, *targets, self.classes, list(self.mean), list(self.std), self.pairs]

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

    def _joined(self, places: list[int], parts: list[Any]) -> Tensors:
        """One tensor, or tuple of tensors, of those of several examples."""
        like = [t.shape for t in arguments(parts[0])]
        for place, part in zip(places, parts, strict=True):
            shapes = [t.shape for t in arguments(part)]
            if shapes != like:
                raise DataError(
                    f"{self.paths[place]} holds {_shapes(shapes)}, and {self.paths[places[0]]} {_shapes(like)}: the "
                    "examples of a set must be alike. Bring them to one size."
                )
        return each(lambda *tensors: torch.stack(tensors), *parts)


def _stamp(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror}). Put the file right, or take it out."
        ) from None
    return found.st_size, found.st_mtime_ns


def _shapes(shapes: list[torch.Size]) -> str:
    return " and ".join("x".join(map(str, shape)) or "one number" for shape in shapes)
