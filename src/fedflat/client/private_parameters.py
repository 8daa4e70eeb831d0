"""Parameters and statistics that stay with the client: FedBN and SiLoBN.

Li et al., FedBN: Federated Learning on Non-IID Features via Local Batch Normalization, ICLR 2021.
Andreux et al., Siloed Federated Learning for Multi-Centric Histopathology Datasets, 2020 (SiLoBN).

Private values are not sent. The client inserts its own before training and returns the received
ones after it. The server sees no change there, so no server piece can move them. A client's first
training starts from the initial values, which are sent that once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.piece import ClientContext, EvalModel, ModelInfo, Piece
from fedflat.core.flat import Layout, Model
from fedflat.core.stage import Stage
from fedflat.errors import SettingError, choice


@dataclass(frozen=True, repr=False)
class Private(Piece):
    """Keeps a part of the model with the client.

    where
        "bn": batch normalisation; "bn_statistics": its running statistics only; "head": the last
        layer.
    only_named
        Only batch normalisations whose name contains this text, as in FedDrive's code ("bn").
    seen
        How to evaluate on domains that clients have: with the clients' "own" statistics, or with
        those of the test "batch".
    """

    where: str = "bn"
    only_named: str = ""
    seen: str = "own"

    stage, key = Stage.BATCH, "private"
    stackable = True
    needs_server_model = True

    def __post_init__(self) -> None:
        choice("private", "where", self.where, ["bn", "bn_statistics", "head"])
        choice("private", "seen", self.seen, ["own", "batch"])
        if not isinstance(self.only_named, str):
            raise SettingError(
                f"private: only_named must be part of a layer's name, found {self.only_named!r}."
            )

    @property
    def seen_domains_only(self) -> bool:  # type: ignore[override]
        """True for "bn": other domains have no scales and shifts."""
        return self.where == "bn"

    def check(self, model_info: ModelInfo) -> None:
        """Refuse pieces that would send private values, and a model without any."""
        for piece in model_info.pieces:
            if piece.uploads_private:
                raise SettingError(
                    f"{self} keeps a part of the model with the client, but {piece} sends vectors "
                    "of the whole model, that part included. Leave one of them out."
                )
        if self.where != "head" and not self.norms(model_info.layout):
            has = (
                "has no BatchNorm layer"
                if not model_info.layout.batchnorms
                else f"names no layer with {self.only_named!r}"
            )
            raise SettingError(
                f"{self} keeps batch normalisation with the clients, but the model {has}. Use a "
                "model with BatchNorm, or plain fedavg()."
            )

    def norms(self, layout: Layout) -> tuple[str, ...]:
        """Return the names of batch normalisations whose statistics are private."""
        if self.where == "head":
            return ()
        return tuple(name for name in layout.batchnorms if self.only_named in name)

    def mask(self, layout: Layout) -> Tensor:
        """Return a mask of the private parameters."""
        if self.where == "bn_statistics":
            return torch.zeros(layout.dim, dtype=torch.bool)
        if self.where == "head":
            return layout.classifier()
        norms = set(self.norms(layout))
        return layout.where(lambda name, shape: name.rpartition(".")[0] in norms)

    def statistics(self, layout: Layout) -> Tensor:
        """Return a mask of the private running statistics."""
        return layout.statistics(self.norms(layout))

    def eval_model(
        self, layout: Layout, model: Model, states: Sequence[Mapping[str, Tensor]]
    ) -> EvalModel:
        """Return the model with the mean of the clients' private values.

        Without client states, or with ``seen="batch"``, statistics are those of the test batch.
        Without client states and with private parameters, the server's model is evaluated as it is.
        """
        if not states and self.where != "bn_statistics":
            return EvalModel(model)
        if states:
            params, statistics = (
                torch.stack([one[name] for one in states]).mean(0)
                for name in ("params", "statistics")
            )
            mask, where = (
                found.to(model.params.device)
                for found in (self.mask(layout), self.statistics(layout))
            )
            model = Model(
                model.params.masked_scatter(mask, params),
                model.buffers.masked_scatter(where, statistics),
            )
        return EvalModel(model, self.norms(layout) if not states or self.seen == "batch" else ())

    def private_size(self, layout: Layout) -> int:
        """Return how many numbers are not sent."""
        return int(self.mask(layout).sum()) + int(self.statistics(layout).sum())

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        """Insert the client's own parameters."""
        mask = v.scratch["mask"] = self.mask(v.layout).to(w.device)
        return w.masked_scatter(mask, v.state["params"]) if "params" in v.state else w

    def begin_buffers(self, v: ClientContext, b: Tensor) -> Tensor:
        """Insert the client's own statistics."""
        v.scratch["sent"] = b
        mask = v.scratch["statistics"] = self.statistics(v.layout).to(b.device)
        return b.masked_scatter(mask, v.state["statistics"]) if "statistics" in v.state else b

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        """Store the client's own parameters and return the received ones."""
        v.state["params"] = v.end.index_select(-1, _indices(self.mask(v.layout)).to(w.device))
        return torch.where(v.scratch["mask"], v.sent, w)

    def end_buffers(self, v: ClientContext, b: Tensor) -> Tensor:
        """Store the client's own statistics and return the received ones."""
        v.state["statistics"] = b.index_select(-1, _indices(self.statistics(v.layout)).to(b.device))
        return torch.where(v.scratch["statistics"], v.scratch["sent"], b)


def _indices(mask: Tensor) -> Tensor:
    """The indices where a mask is True. It must be on the CPU, as a GPU would have to be waited
    for."""
    return mask.nonzero().squeeze(-1)
