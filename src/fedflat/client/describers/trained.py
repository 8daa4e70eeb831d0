"""Describers that use a model which each client trains alone, all from one random model.

Training uses the run's local settings (learning rate, batch size, clip, decay, momentum) without
the pieces of its method.
"""

from __future__ import annotations

from dataclasses import replace

from fedflat.client.instructions import Describer
from fedflat.client.training import ClientJob, ClientWork
from fedflat.core.flat import Model
from fedflat.errors import number


class Trained(Describer):
    """Base class of describers that train a model for some ``epochs``."""

    needs_model = True
    models = 1

    epochs: int

    def __post_init__(self) -> None:
        number(repr(self).partition("(")[0], "epochs", self.epochs, low=1, whole=True)

    def job(self, job: ClientJob) -> ClientJob:
        """Return a job of plain SGD for ``epochs`` epochs over all the client's data."""
        local = job.local.optimizer_only(self.epochs)
        return replace(job, pieces=local.pieces(keep=False), local=local, returns_models=False)

    def samples(self, client: ClientWork) -> int:
        request = client.request
        return client.job.local.samples(request.broadcast.round, request.client, len(client.data))

    def model(self, client: ClientWork) -> Model:
        """Return the model that the client trained. The learner's module holds it, too."""
        reply, _ = client.local_train()
        model = Model(client.request.broadcast.params - reply.delta, reply.buffers)
        client.job.learner.load(model)
        return model
