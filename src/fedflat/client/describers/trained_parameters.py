"""All parameters of a model that each client trains alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from fedflat.client.describers.trained import Trained
from fedflat.client.learner import Learner
from fedflat.client.training import ClientWork
from fedflat.data.examples import ClientData
from fedflat.data.federation import Federation, owners_of_tests
from fedflat.errors import SettingError, number
from fedflat.registry.specs import register


@register("describer", "trained_parameters")
@dataclass(frozen=True, repr=False)
class TrainedParameters(Trained):
    """The parameters of the run's plain network after the client trained it alone.

    epochs
        Number of epochs that the client trains.
    clusters
        Number of clusters that clients will be divided into; test examples must belong to clients.

    The network is the run's, without what a method adds to it. Every client draws the same first
    parameters from the seed, so nothing is sent to it.
    """

    needs_model = False
    reveals = "the server gets a model that every client has trained on its own data alone"

    epochs: int = 10
    clusters: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        number("trained_parameters", "clusters", self.clusters, low=1, whole=True)

    def check(self, fed: Federation, learner: Learner, public: ClientData | None) -> None:
        """Refuse more clusters than clients, and test examples that belong to no client."""
        if self.clusters > fed.population:
            raise SettingError(
                f"{self.clusters} domains cannot be made of {fed.population} clients by k-means. "
                "Lower domains, or let images be labelled: labels='classifier'."
            )
        if owners_of_tests(fed) is None:
            raise SettingError(
                "k-means gives a domain to each client, and the test examples belong to no "
                "client. Let clients hold out a part of their own: split=0.9, pool=True."
            )

    def describe(self, client: ClientWork) -> Tensor:
        """Train the plain network, and return its parameters."""
        plain = client.job.learner.plain
        first = plain.initial()
        broadcast = replace(
            client.request.broadcast, params=first.params, buffers=first.buffers, extras={}
        )
        alone = replace(
            client,
            job=replace(client.job, learner=plain),
            request=replace(client.request, broadcast=broadcast),
        )
        reply, _ = alone.local_train()
        return first.params - reply.delta
