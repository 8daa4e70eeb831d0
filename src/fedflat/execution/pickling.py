"""Messages between processes as bytes. They are pickled, so they are for our own processes only."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from fedflat.registry.plugins import MAINS


@dataclass(frozen=True)
class PickledValue:
    """A value as bytes."""

    content: bytes
    mains: tuple[str, ...]
    """The classes and functions in it that are defined in the main module."""


class _Pickler(pickle.Pickler):
    """Tensors travel as plain arrays: no shared-memory handles that could be left behind.

    Arrays for which ``apart`` is false are left out of the stream.
    """

    def __init__(
        self, stream: io.BytesIO, apart: Callable[[pickle.PickleBuffer], bool] | None = None
    ) -> None:
        super().__init__(stream, protocol=5, buffer_callback=apart)
        self.mains: list[str] = []

    def reducer_override(self, value: Any) -> Any:
        if type(value) is Tensor and value.device.type == "cpu" and not value.requires_grad:
            if value.dtype == torch.bfloat16:  # NumPy has no such numbers
                return _bfloat16, (value.view(torch.int16).numpy(),)
            if value.dim() == 4 and not value.is_contiguous():
                last = value.detach().permute(0, 2, 3, 1)
                if last.is_contiguous():
                    return _channels_last, (last.numpy(),)
            return torch.from_numpy, (value.detach().numpy(),)
        if isinstance(value, Tensor) and value.device.type in GPUS and not value.requires_grad:
            return _on_device, (value.cpu(), str(value.device))
        if isinstance(value, type | FunctionType) and value.__module__ in MAINS:
            self.mains.append(value.__qualname__)
        return NotImplemented


def _bfloat16(bits: Any) -> Tensor:
    """The tensor with these bits, given as whole numbers."""
    return torch.from_numpy(bits).view(torch.bfloat16)


def _channels_last(pixels: Any) -> Tensor:
    """The images whose channels come last in memory, as they were: sums keep their order."""
    return torch.from_numpy(pixels).permute(0, 3, 1, 2)


GPUS = ("cuda", "mps")
_place: ContextVar[str | None] = ContextVar("place", default=None)
"""The device of this process, while `loads` works."""


def _on_device(tensor: Tensor, device: str) -> Tensor:
    """A tensor that was on a GPU, on the GPU of this process."""
    return tensor.to(_place.get() or device)


def packed(value: object) -> PickledValue:
    """The value as bytes, and what it needs of the main module."""
    stream = io.BytesIO()
    pickler = _Pickler(stream)
    pickler.dump(value)
    return PickledValue(stream.getvalue(), tuple(dict.fromkeys(pickler.mains)))


def dumps(value: object) -> bytes:
    """Bytes from which `loads` makes the value again."""
    return packed(value).content


def dumps_apart(value: object, least: int) -> tuple[bytes, list[pickle.PickleBuffer]]:
    """The same, and the arrays of at least so many bytes, which are not in the bytes."""
    arrays: list[pickle.PickleBuffer] = []

    def stays(array: pickle.PickleBuffer) -> bool:
        if array.raw().nbytes < least:
            return True
        arrays.append(array)
        return False

    stream = io.BytesIO()
    _Pickler(stream, stays).dump(value)
    return stream.getvalue(), arrays


def loads(message: bytes, arrays: Sequence[memoryview] = (), *, device: str | None = None) -> Any:
    """What `dumps` made bytes of, with the arrays that `dumps_apart` left out.

    Tensors that were on a GPU are put on ``device``, or on the GPU of the same number if None.
    Tensors of the CPU stay there.
    """
    before = _place.set(device)
    try:
        return pickle.loads(message, buffers=arrays)
    finally:
        _place.reset(before)


def loads_each(messages: bytes, *, device: str | None = None) -> Iterator[Any]:
    """The values of several `dumps` one after the other, their tensors as in `loads`."""
    stream = io.BytesIO(messages)
    while stream.tell() < len(messages):
        before = _place.set(device)
        try:
            value = pickle.load(stream)
        finally:
            _place.reset(before)
        yield value


def opened(message: bytes, arrays: Sequence[memoryview] = (), *, device: str | None = None) -> Any:
    """The content of an answer, its tensors as in `loads`; an exception is raised here."""
    outcome = loads(message, arrays, device=device)
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome
