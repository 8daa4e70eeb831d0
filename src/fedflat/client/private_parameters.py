"""Coordinates and statistics that stay with the client: FedBN and SiLoBN.

Li et al., FedBN: Federated Learning on Non-IID Features via Local Batch Normalization, ICLR 2021.
Andreux et al., Siloed Federated Learning for Multi-Centric Histopathology Datasets, 2020 (SiLoBN).

What is private is not sent: the client puts its own values in before the walk and takes them out
after, so the server sees no change there and no piece of it can move them. A first visit starts
from the initial values, which are sent that once.
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
    """Keeps batch normalisation ("bn"), its running statistics only ("bn_statistics"), or the last
    layer ("head").

    only_named
        Of the batch normalisations only those whose name has these letters, as in FedDrive's code ("bn").
    seen
        What domains that clients have are tested with: the clients' "own" statistics, or those of the test "batch".
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
                f"private: only_named must be letters of a layer's name, found {self.only_named!r}."
            )

    @property
    def seen_domains_only(self) -> bool:  # type: ignore[override]
        """The scales and shifts of other domains are nobody's."""
        return self.where == "bn"

    def check(self, site: ModelInfo) -> None:
        """Refuse company that would give it away, and a model that has nothing to keep."""
        for piece in site.pieces:
            if piece.uploads_private:
                raise SettingError(
                    f"{self} keeps a part of the model with the client, but {piece} sends vectors as long as the whole "
                    "model, that part included. Leave one of them out."
                )
        if self.where != "head" and not self.norms(site.layout):
            has = (
                "has no BatchNorm layer"
                if not site.layout.batchnorms
                else f"names no layer with {self.only_named!r}"
            )
            raise SettingError(
                f"{self} keeps batch normalisation with the clients, and the model {has}: nothing would stay there. "
                "Use a model with BatchNorm, or plain fedavg()."
            )

    def norms(self, layout: Layout) -> tuple[str, ...]:
        """The batch normalisations whose statistics are private."""
        if self.where == "head":
            return ()
        return tuple(name for name in layout.batchnorms if self.only_named in name)

    def mask(self, layout: Layout) -> Tensor:
        """The private parameters."""
        if self.where == "bn_statistics":
            return torch.zeros(layout.dim, dtype=torch.bool)
        if self.where == "head":
            return layout.classifier()
        norms = set(self.norms(layout))
        return layout.where(lambda name, shape: name.rpartition(".")[0] in norms)

    def statistics(self, layout: Layout) -> Tensor:
        """The private running statistics."""
        return layout.statistics(self.norms(layout))

    def eval_model(
        self, layout: Layout, model: Model, kept: Sequence[Mapping[str, Tensor]]
    ) -> EvalModel:
        """With the mean of what clients keep; without, or if it is said so, by the test batch's
        statistics.

        Who keeps parameters needs them: without, the model is tested as the server has it.
        """
        if not kept and self.where != "bn_statistics":
            return EvalModel(model)
        if kept:
            params, statistics = (
                torch.stack([one[name] for one in kept]).mean(0)
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
        return EvalModel(model, self.norms(layout) if not kept or self.seen == "batch" else ())

    def private_size(self, layout: Layout) -> int:
        """How many numbers are not sent."""
        return int(self.mask(layout).sum()) + int(self.statistics(layout).sum())

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        """Put the client's own values in."""
        mask = v.scratch["mask"] = self.mask(v.layout).to(w.device)
        return w.masked_scatter(mask, v.state["params"]) if "params" in v.state else w

    def begin_buffers(self, v: ClientContext, b: Tensor) -> Tensor:
        """Put the client's own statistics in."""
        v.scratch["sent"] = b
        mask = v.scratch["statistics"] = self.statistics(v.layout).to(b.device)
        return b.masked_scatter(mask, v.state["statistics"]) if "statistics" in v.state else b

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        """Keep them, and send back what came."""
        v.state["params"] = v.end.index_select(-1, places(self.mask(v.layout)).to(w.device))
        return torch.where(v.scratch["mask"], v.sent, w)

    def end_buffers(self, v: ClientContext, b: Tensor) -> Tensor:
        """Keep the statistics, and send back what came."""
        v.state["statistics"] = b.index_select(-1, places(self.statistics(v.layout)).to(b.device))
        return torch.where(v.scratch["statistics"], v.scratch["sent"], b)


def places(mask: Tensor) -> Tensor:
    """Where a mask is true, found before it goes to a device that would have to be waited for."""
    return mask.nonzero().squeeze(-1)
