"""Clients that are described by a model each has trained alone, all from one random model.

The steps are the run's own local ones (rate, batch, clip, decay, momentum), without the pieces of
its method.
"""

from __future__ import annotations

from dataclasses import replace

from fedflat.client.instructions import Describer
from fedflat.client.training import ClientJob, ClientWork
from fedflat.core.flat import Model
from fedflat.errors import number


class Trained(Describer):
    """What describers have in common that look at a model after some epochs of training."""

    needs_model = True
    models = 1

    epochs: int

    def __post_init__(self) -> None:
        number(repr(self).partition("(")[0], "epochs", self.epochs, low=1, whole=True)

    def job(self, job: ClientJob) -> ClientJob:
        """Plain steps, for so many epochs over all that the client has."""
        local = replace(job.local, epochs=self.epochs, steps=None, virtual=None, orders=None)
        return replace(job, pieces=local.pieces(keep=False), local=local, returns_models=False)

    def samples(self, client: ClientWork) -> int:
        request = client.request
        return client.job.local.samples(request.broadcast.round, request.client, len(client.data))

    def model(self, client: ClientWork) -> Model:
        """What the client has made of the model that was sent; it is left in the learner's
        module."""
        reply, _ = client.local_train()
        model = Model(client.request.broadcast.params - reply.delta, reply.buffers)
        client.job.learner.flat.load(model.params)
        client.job.learner.flat.buffers = model.buffers
        return model
