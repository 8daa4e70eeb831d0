"""Where the first bad number of a visit came from."""

from __future__ import annotations

import torch
from torch import Tensor

from fedflat.client.training import ClientJob, Request, run_client
from fedflat.data.examples import ClientData


def diagnose(job: ClientJob, request: Request, data: ClientData) -> str:
    """Repeat a visit whose reply was not finite, and say where the first bad number came from."""
    seen: list[str] = []

    def spy(name: str, g: Tensor) -> None:
        if not seen and not bool(torch.isfinite(g).all()):
            seen.append(name)

    if not bool(torch.isfinite(request.broadcast.params).all()):
        return "the model it was sent was already not finite"
    run_client(job, request, data, spy)
    return (
        f"the first bad number came out of {seen[0]}"
        if seen
        else "its steps were finite, but their sum is not"
    )
