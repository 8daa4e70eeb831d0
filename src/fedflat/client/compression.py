"""Compressed updates with error feedback.

Seide et al., 1-Bit Stochastic Gradient Descent, Interspeech 2014; Karimireddy et al., Error
Feedback Fixes SignSGD and other Gradient Compression Schemes, ICML 2019.

    client   c = Delta_k + e_k;   sends C(c);   e_k <- c - C(c)

``e_k`` stays with the client. What the server broadcasts is not compressed, nor are further vectors
that a method's pieces send, and running statistics.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import ceil

from torch import Tensor

from fedflat.client.piece import ClientContext, ModelInfo, Piece
from fedflat.core.codecs import Packed, pack_bfloat16, pack_int8, pack_top_k, unpack
from fedflat.core.stage import Stage
from fedflat.errors import SettingError, flag, number

PACKED = "packed"
"""The name in `ClientContext.scratch` under which the compressed update is."""


@dataclass(frozen=True, repr=False)
class Compression(Piece, ABC):
    """Base class: compresses the update and keeps the error for the next one."""

    feedback: bool = True

    stage = Stage.COMPRESS
    needs_server_model = True

    def __post_init__(self) -> None:
        flag(self.key, "feedback", self.feedback)

    @property
    def state_vectors(self) -> int:  # type: ignore[override]
        """One with feedback: the error."""
        return int(self.feedback)

    @abstractmethod
    def pack(self, vector: Tensor) -> Packed:
        """Return the compressed vector."""

    def check(self, model_info: ModelInfo) -> None:
        """Refuse a second compression, and models of which a part is not sent."""
        for piece in model_info.pieces:
            if isinstance(piece, Compression) and piece is not self:
                raise SettingError(
                    f"{self} and {piece} both compress the update. Leave one of them out."
                )
            if piece.private_size(model_info.layout):
                raise SettingError(
                    f"{self} compresses the whole model, and {piece} keeps a part of it with the "
                    "client. Leave one of them out."
                )

    def upload(self, v: ClientContext, delta: Tensor) -> Tensor:
        """Return what the server will unpack."""
        total = delta + v.state["error"] if "error" in v.state else delta
        packed = v.scratch[PACKED] = self.pack(total)
        sent = unpack(packed)
        if self.feedback:
            v.state["error"] = total - sent
        return sent


@dataclass(frozen=True, repr=False)
class Bfloat16(Compression):
    """Rounds the update to bfloat16."""

    key = "bfloat16"

    def pack(self, vector: Tensor) -> Packed:
        return pack_bfloat16(vector)


@dataclass(frozen=True, repr=False)
class Int8(Compression):
    """Rounds the update to whole numbers from -127 to 127."""

    key = "int8"

    def pack(self, vector: Tensor) -> Packed:
        """Return the whole numbers and their scales."""
        return pack_int8(vector)


@dataclass(frozen=True, repr=False)
class TopK(Compression):
    """Sends the entries of largest magnitude only."""

    feedback: bool = True
    share: float = 0.01

    key = "top_k"

    def __post_init__(self) -> None:
        super().__post_init__()
        number("top_k", "share", self.share, low=0, high=1, open_low=True)

    def pack(self, vector: Tensor) -> Packed:
        """Return the largest entries and their positions."""
        return pack_top_k(vector, max(1, ceil(self.share * len(vector))))
