"""Training images before and after pieces such as ``cfsi()`` and ``lab()``.

Caldarola's thesis, Figure 6.2.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from fedflat.analysis.analysis import AnalysisJob, Result
from fedflat.analysis.loaded_run import LoadedRun
from fedflat.analysis.pictures import encode_image, levels
from fedflat.client.styles import Restyle
from fedflat.client.training import Request, open_context
from fedflat.core.messages import Broadcast


def restyling(loaded: LoadedRun) -> list[Restyle]:
    """Return the client pieces that give images new styles."""
    return [piece for piece in loaded.setup.job.pieces if isinstance(piece, Restyle)]


def compute_styled(job: AnalysisJob, each: int) -> Result:
    """Return the first image of some clients before and after, with the draws of round 0."""
    setup, pieces = job.loaded.setup, restyling(job.loaded)
    fed, learner = setup.fed, setup.job.learner
    model, count = learner.initial(), min(each, fed.population)
    broadcast = Broadcast(0, model.params, model.buffers, lr=0.0)
    pairs, first = [], torch.zeros(1, dtype=torch.long)  # every second image, from the first
    for done in range(count):
        client = done * fed.population // count
        request = Request(client, broadcast, {})
        data = fed.data(client)
        for piece in pieces:
            data = piece.data(open_context(setup.job, request, data, piece), data)
        raw = data.examples.raw(data.index[:1])
        assert data.change is not None
        after = replace(raw, inputs=data.change(raw.inputs, first))
        pairs.append(
            {
                "client": client,
                "domain": ", ".join(fed.domain(client)),
                "before": encode_image(levels(raw)[0]),
                "after": encode_image(levels(after)[0]),
            }
        )
        job.on_progress(done + 1, count, f"client {client}")
    return {"piece": " + ".join(map(str, pieces)), "pairs": pairs}
