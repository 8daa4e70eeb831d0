"""Compressed vectors. A packed vector says itself how it is unpacked, so a receiver needs no
settings.

bfloat16   8 bits of exponent and 7 of fraction: a half of float32
int8       whole numbers from -127 to 127, with one scale per block of 1024: a quarter
top_k      the entries of largest magnitude with their positions: twice their number
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor
from torch.nn.functional import pad

from fedflat.errors import MOST_WEIGHTS
from fedflat.files import Damaged

BLOCK = 1024
"""Entries of a vector that share a scale."""
LARGEST = 127
"""The largest whole number of `int8`."""


@dataclass(frozen=True)
class Packed:
    """A compressed vector."""

    codec: str
    """A name in `CODECS`."""
    tensors: Mapping[str, Tensor]

    @property
    def nbytes(self) -> int:
        """Bytes that are sent."""
        return sum(t.numel() * t.element_size() for t in self.tensors.values())


def pack_bfloat16(vector: Tensor) -> Packed:
    """Round to bfloat16.

    >>> unpack(pack_bfloat16(torch.tensor([1.0, 1.001]))).tolist()
    [1.0, 1.0]
    """
    return Packed("bfloat16", {"values": vector.bfloat16(), "dtype": vector.new_zeros(1)})


def pack_int8(vector: Tensor) -> Packed:
    """Round to whole numbers, in blocks whose largest magnitude becomes 127."""
    blocks = pad(vector, (0, -len(vector) % BLOCK)).view(-1, BLOCK)
    scales = (blocks.abs().amax(dim=1, keepdim=True) / LARGEST).float()
    steps = torch.where(scales > 0, scales, 1.0).to(vector.dtype)
    whole = (blocks / steps).round().nan_to_num(0.0, 0.0, 0.0).clamp(-LARGEST, LARGEST)
    values = whole.to(torch.int8).view(-1)[: len(vector)].clone()
    return Packed(
        "int8", {"values": values, "scales": scales.view(-1), "dtype": vector.new_zeros(1)}
    )


def pack_top_k(vector: Tensor, k: int) -> Packed:
    """Keep the ``k`` entries of largest magnitude; all of them are sent without positions.

    >>> unpack(pack_top_k(torch.tensor([0.1, -3.0, 2.0]), 2)).tolist()
    [0.0, -3.0, 2.0]
    """
    if k >= len(vector):
        return Packed("top_k", {"values": vector})
    places = vector.abs().topk(k).indices.sort().values
    size = torch.tensor([len(vector)], device=vector.device)
    return Packed("top_k", {"values": vector[places], "places": places.int(), "size": size})


def unpack(packed: Packed) -> Tensor:
    """Return the vector; `Damaged` if the tensors do not make one. They may come from a
    stranger."""
    try:
        return CODECS[packed.codec](packed.tensors)
    except (KeyError, RuntimeError, ValueError, IndexError, TypeError) as error:
        raise Damaged(f"a vector packed by {packed.codec!r} cannot be read ({error})") from None


def _bfloat16(tensors: Mapping[str, Tensor]) -> Tensor:
    _require(tensors["values"].dtype == torch.bfloat16 and tensors["values"].dim() == 1)
    return tensors["values"].to(_dtype(tensors))


def _int8(tensors: Mapping[str, Tensor]) -> Tensor:
    values, scales = tensors["values"], tensors["scales"]
    _require(values.dtype == torch.int8 and values.dim() == 1 and scales.dtype == torch.float32)
    _require(scales.shape == (ceil(len(values) / BLOCK),))
    dtype = _dtype(tensors)
    blocks = pad(values.to(dtype), (0, -len(values) % BLOCK)).view(-1, BLOCK)
    return (blocks * scales.to(dtype).unsqueeze(1)).view(-1)[: len(values)].clone()


def _top_k(tensors: Mapping[str, Tensor]) -> Tensor:
    values = tensors["values"]
    _require(values.is_floating_point() and values.dim() == 1)
    if "places" not in tensors:
        return values
    places, [size] = tensors["places"].long(), tensors["size"].tolist()
    _require(places.shape == values.shape and len(values) <= size <= MOST_WEIGHTS)
    _require(not len(places) or (int(places.min()) >= 0 and int(places.max()) < size))
    return values.new_zeros(size).index_copy(0, places, values)


def _dtype(tensors: Mapping[str, Tensor]) -> torch.dtype:
    _require(tensors["dtype"].is_floating_point())
    return tensors["dtype"].dtype


def _require(true: bool) -> None:
    if not true:
        raise ValueError("wrong types, shapes or positions")


CODECS: dict[str, Callable[[Mapping[str, Tensor]], Tensor]] = {
    "bfloat16": _bfloat16,
    "int8": _int8,
    "top_k": _top_k,
}
