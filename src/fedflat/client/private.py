"""Coordinates and statistics that stay with the client: FedBN and SiLoBN.

Li et al., FedBN: Federated Learning on Non-IID Features via Local Batch Normalization, ICLR 2021.
Andreux et al., Siloed Federated Learning for Multi-Centric Histopathology Datasets, 2020 (SiLoBN).

What is private is not sent: the client puts its own values in before the walk and takes them out after, so the
server sees no change there and no piece of it can move them. A first visit starts from the initial values, which are
sent that once.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.piece import Piece, Site, Visit
from fedflat.engine.flat import Layout
from fedflat.engine.stage import Stage
from fedflat.errors import SettingError, choice


@dataclass(frozen=True, repr=False)
class Private(Piece):
    """Keeps batch normalisation ("bn"), its running statistics only ("bn_statistics"), or the last layer ("head")."""

    where: str = "bn"

    stage, key = Stage.BATCH, "private"
    stacks = True
    anchored = True

    def __post_init__(self) -> None:
        choice("private", "where", self.where, ["bn", "bn_statistics", "head"])

    def check(self, site: Site) -> None:
        """Refuse company that would give it away; warn if there is nothing to keep."""
        for piece in site.pieces:
            if piece.reveals:
                raise SettingError(
                    f"{self} keeps a part of the model with the client, but {piece} sends vectors as long as the whole "
                    "model, that part included. Leave one of them out."
                )
        if self.where != "head" and not site.layout.batchnorms:
            warnings.warn("the model has no BatchNorm layer, so nothing stays with the clients.", stacklevel=2)

    def mask(self, layout: Layout) -> Tensor:
        """The private parameters."""
        if self.where == "bn_statistics":
            return torch.zeros(layout.dim, dtype=torch.bool)
        if self.where == "head":
            return layout.classifier()
        return layout.where(lambda name, shape: name.rpartition(".")[0] in layout.batchnorms)

    def statistics(self, layout: Layout) -> Tensor:
        """The private running statistics."""
        return layout.statistics() if self.where != "head" else torch.zeros_like(layout.statistics())

    def withheld(self, layout: Layout) -> int:
        """How many numbers are not sent."""
        return int(self.mask(layout).sum()) + int(self.statistics(layout).sum())

    def begin(self, v: Visit, w: Tensor) -> Tensor:
        """Put the client's own values in."""
        mask = v.memo["mask"] = self.mask(v.layout).to(w.device)
        return w.masked_scatter(mask, v.memory["params"]) if "params" in v.memory else w

    def begin_buffers(self, v: Visit, b: Tensor) -> Tensor:
        """Put the client's own statistics in."""
        v.memo["sent"] = b
        mask = v.memo["statistics"] = self.statistics(v.layout).to(b.device)
        return b.masked_scatter(mask, v.memory["statistics"]) if "statistics" in v.memory else b

    def end(self, v: Visit, w: Tensor) -> Tensor:
        """Keep them, and send back what came."""
        v.memory["params"] = v.stop.index_select(-1, places(self.mask(v.layout)).to(w.device))
        return torch.where(v.memo["mask"], v.sent, w)

    def end_buffers(self, v: Visit, b: Tensor) -> Tensor:
        """Keep the statistics, and send back what came."""
        v.memory["statistics"] = b.index_select(-1, places(self.statistics(v.layout)).to(b.device))
        return torch.where(v.memo["statistics"], v.memo["sent"], b)


def places(mask: Tensor) -> Tensor:
    """Where a mask is true, found before it goes to a device that would have to be waited for."""
    return mask.nonzero().squeeze(-1)
