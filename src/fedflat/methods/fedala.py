"""FedALA: the client blends the received model into its own last model before training.

Zhang et al., FedALA: Adaptive Local Aggregation for Personalized Federated Learning, AAAI 2023.

    last ``layers`` tensors     wh = wl + (w - wl) m,  m in [0, 1] per weight, 1 at first
    on a share of the data      m <- clip(m - eta grad(wh) (w - wl), 0, 1) after every batch
    then                        local SGD from wh; all other tensors are those of w

``wl`` is the client's last model. The share is a new random one each time. The first participation
learns nothing, because there is no ``wl``. The second repeats the share until the loss converges,
later ones use it once. The loss has converged when the standard deviation of the last ten values,
one from the end of each pass, is below ``threshold``, as in the authors' code.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.piece import ClientContext, ModelInfo, Piece
from fedflat.composition.method import made_of
from fedflat.core.stage import Stage
from fedflat.errors import SettingError, number

MOST_EPOCHS = 50
"""Largest number of passes when the blend is learnt for the first time."""


@dataclass(frozen=True, repr=False)
class Ala(Piece):
    """Blends the received model into the client's own before training."""

    share: float = 0.8
    layers: int = 2
    eta: float = 1.0
    threshold: float = 0.1

    stage, key = Stage.BATCH, "ala"
    stackable = True
    needs_server_model = True

    def __post_init__(self) -> None:
        number("fedala", "share", self.share, low=0, high=1, open_low=True)
        number("fedala", "layers", self.layers, low=1, whole=True)
        number("fedala", "eta", self.eta, low=0)
        number("fedala", "threshold", self.threshold, low=0)

    def check(self, model_info: ModelInfo) -> None:
        """Refuse to blend more tensors than there are."""
        if self.layers > len(model_info.layout.names):
            raise SettingError(
                f"fedala: {self.layers} tensors are to be blended, but the model has only "
                f"{len(model_info.layout.names)}. Lower layers."
            )

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        """Learn the blend and start from it."""
        size = sum(v.layout.sizes[-self.layers :])
        if "own" not in v.state:
            return w
        own, new = v.state["own"], w[..., -size:]
        m = v.state.get("m", torch.ones_like(own))
        epochs = 1 if "m" in v.state else MOST_EPOCHS
        count = max(1, int(self.share * v.examples))
        used = v.draw(lambda rng: torch.randperm(v.examples, generator=rng))[..., :count]
        losses: list[Tensor] = []
        converged = torch.zeros(w.shape[:-1], dtype=torch.bool, device=w.device)
        for _ in range(epochs):
            new_m, loss = self._learn(v, used, w, own, m)
            m = torch.where(converged.unsqueeze(-1), m, new_m)
            losses.append(loss)
            if len(losses) > 10:
                converged = converged | (
                    torch.stack(losses[-10:]).std(dim=0, correction=0) < self.threshold
                )
                if converged.all():
                    break
        v.state["m"] = m
        return torch.cat([w[..., :-size], own + (new - own) * m], dim=-1)

    def _learn(
        self, v: ClientContext, used: Tensor, w: Tensor, own: Tensor, m: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The blend after one pass over the examples ``used``, and the loss of the last batch."""
        size = own.shape[-1]
        new = w[..., -size:]
        for indices in used.split(v.batch_size, dim=-1):
            oracle = v.oracle(indices)
            gradient = oracle(torch.cat([w[..., :-size], own + (new - own) * m], dim=-1))
            m = (m - self.eta * gradient[..., -size:] * (new - own)).clamp(0, 1)
        assert oracle.loss is not None
        return m, oracle.loss

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        """Store the part of the client's own model that is blended."""
        v.state["own"] = v.end[..., -sum(v.layout.sizes[-self.layers :]) :]
        return w


@made_of(Ala)
def fedala() -> None:
    """The received model blended into the client's own, per weight (Zhang et al., AAAI 2023)."""
