"""Several whole networks in one module, one per domain."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

NETWORKS = "networks"
DOMAIN = "domain"
"""Name of the buffer with the domain of all examples; -1 if it is not known."""


class DomainModels(nn.Module):
    """A network for each domain. An example of unknown domain gets the mean of all outputs."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.register_buffer(DOMAIN, torch.full((1,), -1.0))
        self.networks = nn.ModuleList(networks)

    def forward(self, x: Tensor, domains: Tensor | None = None) -> Tensor:
        """The output of each example's own network."""
        if domains is None:
            return self._alike(x, int(self.get_buffer(DOMAIN)))
        places = [(domains == d).nonzero().squeeze(1) for d in range(len(self.networks))]
        found = [
            network(x.index_select(0, place))
            for network, place in zip(self.networks, places, strict=True)
            if len(place)
        ]
        return torch.cat(found).index_select(0, torch.cat(places).argsort())

    def _alike(self, x: Tensor, domain: int) -> Tensor:
        if domain >= 0:
            output: Tensor = self.networks[domain](x)
            return output
        return torch.stack([network(x) for network in self.networks]).mean(0)
