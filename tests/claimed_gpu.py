"""A GPU that is not there: tensors that claim to be on ``cuda:0``, with their numbers on the CPU.

PyTorch's `FakeTensorMode` decides the device of every result and refuses operations that mix
devices, as a GPU does. It holds no numbers. Here every operation is executed once more on the CPU,
so a whole run can read its losses and scores, and can be compared with a run on the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    unset_fake_temporarily,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

DEVICE = torch.device("cuda:0")


def _told(func: Any) -> torch.device | None:
    """What PyTorch's C++ is told about the device of a claimed tensor: CUDA would need a driver."""
    return torch.device("meta") if func is torch.ops.prim.device.default else None


def _meant(kwargs: Any, device: torch.device) -> dict[str, Any]:
    """The arguments with the device that C++ means."""
    kwargs = kwargs or {}
    told = kwargs.get("device")
    return {**kwargs, "device": device} if told is not None and told.type == "meta" else kwargs


class _Devices(FakeTensorMode):
    """Decides the devices and the shapes of results."""

    device = DEVICE

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        return _told(func) or super().__torch_dispatch__(
            func, types, args, _meant(kwargs, self.device)
        )


class ClaimedGpu(TorchDispatchMode):
    """Makes a claimed device usable in this block. Tensors of the CPU stay what they are."""

    def __init__(self, device: torch.device | str = DEVICE) -> None:
        super().__init__()
        self.fake = _Devices(allow_non_fake_inputs=True)
        self.fake.device = torch.device(device)
        self.reads = 0
        """How often the host waited for a number or a shape."""

    def __enter__(self) -> ClaimedGpu:
        self.fake.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.fake.__exit__(*error)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if (device := _told(func)) is not None:
            return device
        kwargs = _meant(kwargs, self.fake.device)
        flat, form = tree_flatten((args, kwargs))
        if not any(map(_claims, flat)):
            with unset_fake_temporarily():
                return func(*args, **kwargs)
        claimed: Any = None
        try:
            claimed = func(*args, **kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            self.reads += 1
        plain_args, plain_kwargs = tree_unflatten([_here(value) for value in flat], form)
        with unset_fake_temporarily():
            plain = func(*plain_args, **plain_kwargs)
            if claimed is None:
                return tree_map(self._new, plain)
            outputs, shape = tree_flatten(claimed)
            return tree_unflatten(
                [
                    self._joined(one, other)
                    for one, other in zip(outputs, tree_flatten(plain)[0], strict=True)
                ],
                shape,
            )

    def _new(self, plain: Any) -> Any:
        """A result on the device whose shape depends on numbers or on the kernel."""
        if not isinstance(plain, Tensor):
            return plain
        return self._joined(FakeTensor(self.fake, plain.to("meta"), self.fake.device), plain)

    def _joined(self, claimed: Any, plain: Any) -> Any:
        """The claimed result, with the numbers of the plain one; what is on the CPU is plain."""
        if not isinstance(claimed, FakeTensor):  # such as a list of numbers
            return claimed
        if claimed.device.type == "cpu":
            return plain
        if claimed.shape != plain.shape:  # cuDNN saves other statistics than the CPU
            return self._new(plain)
        assert claimed.dtype == plain.dtype, (claimed.dtype, plain.dtype)
        storage = claimed.untyped_storage()
        if not hasattr(storage, "numbers"):
            same = claimed.stride() == plain.stride()
            if not same or plain.storage_offset() != claimed.storage_offset():
                room = torch.empty(storage.nbytes(), dtype=torch.uint8).view(claimed.dtype)
                place = claimed.shape, claimed.stride(), claimed.storage_offset()
                plain = room.as_strided(*place).copy_(plain)
            storage.numbers = plain.untyped_storage()
        return claimed


def numbers(tensor: Tensor) -> Tensor:
    """The numbers of a tensor, on the CPU."""
    if not isinstance(tensor, FakeTensor):
        return tensor
    with unset_fake_temporarily():
        return torch.empty(0, dtype=tensor.dtype).set_(
            _memory(tensor.untyped_storage()),
            tensor.storage_offset(),
            tensor.shape,
            tensor.stride(),
        )


def _memory(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """The memory on the CPU behind a claimed storage; NaN where nothing was written."""
    if not hasattr(storage, "numbers"):
        storage.numbers = torch.UntypedStorage(storage.nbytes()).fill_(255)
    found: torch.UntypedStorage = storage.numbers
    return found


def _claims(value: Any) -> bool:
    return isinstance(value, FakeTensor) or (
        isinstance(value, torch.device) and value.type == "cuda"
    )


def _here(value: Any) -> Any:
    if isinstance(value, FakeTensor):
        return numbers(value)
    if isinstance(value, torch.UntypedStorage) and value.device.type == "meta":
        return _memory(value)
    return torch.device("cpu") if _claims(value) else value
