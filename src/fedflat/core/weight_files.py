"""Weights by name in files: safetensors, or a state dict saved by torch."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from fedflat.files import Damaged

if TYPE_CHECKING:
    from torch import Tensor


def named_weights(content: bytes) -> dict[str, Tensor]:
    """Return the weights in a file of either kind; `Damaged` if it is neither."""
    return state_dict_in(content) if _is_torch(content) else tensors_in(content)


def tensors_in(content: bytes) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file; `Damaged` if it is none."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(content)
    except SafetensorError as error:
        raise Damaged(str(error)) from None


def state_dict_in(content: bytes) -> dict[str, Tensor]:
    """Return the tensors of a state dict saved by torch, without executing code of the file."""
    import torch

    try:
        found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # zipfile, pickle and torch raise many types
        raise Damaged(str(error).partition("\n")[0]) from None
    named = {str(name): t for name, t in found.items()} if isinstance(found, dict) else {}
    if not named or not all(isinstance(t, torch.Tensor) for t in named.values()):
        raise Damaged("it holds no tensors by name")
    return named


def _is_torch(content: bytes) -> bool:
    """True for a file of ``torch.save``: a zip archive, or the pickle of older versions."""
    return content.startswith((b"PK\x03\x04", b"\x80\x02"))
