"""The norm of the server's parameters after each round."""

from __future__ import annotations

import torch

from fedflat.observe.watcher import Sight, Watcher
from fedflat.running.listening import Seen
from fedflat.running.prepare import Ready
from fedflat.server.piece import Stepped


class Norms(Watcher):
    """``||w||`` of the server's model."""

    name = "norms"

    def cost(self, ready: Ready) -> str:
        """Next to nothing."""
        return "one norm a round"

    def see(self, s: Sight, new: Stepped) -> Seen:
        """The norm."""
        return {"param_norm": float(torch.linalg.vector_norm(new.model.params.double()))}
