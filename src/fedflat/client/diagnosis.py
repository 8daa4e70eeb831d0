"""Find the origin of the first number that is not finite in a client's training."""

from __future__ import annotations

import torch
from torch import Tensor

from fedflat.client.training import ClientJob, Request, run_client
from fedflat.data.examples import ClientData


def diagnose(job: ClientJob, request: Request, data: ClientData) -> str:
    """Repeat a request whose reply was not finite. Return where the first bad number came from."""
    sources: list[str] = []

    def spy(name: str, g: Tensor) -> None:
        if not sources and not bool(torch.isfinite(g).all()):
            sources.append(name)

    if not bool(torch.isfinite(request.broadcast.params).all()):
        return "the model it was sent was already not finite"
    run_client(job, request, data, spy)
    return (
        f"the first bad number came out of {sources[0]}"
        if sources
        else "its steps were finite, but their sum is not"
    )
