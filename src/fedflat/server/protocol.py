"""A protocol: what is measured at the clients themselves, over the rounds and once at the end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedflat.client.asks import Tune
from fedflat.data.federation import DataSpec, Dealt, Federation
from fedflat.engine.ask import Ask
from fedflat.engine.mail import Reply
from fedflat.errors import SettingError
from fedflat.language.spelling import Spelled
from fedflat.server.shadows import Notes, Scene


class Protocol(Spelled, ABC):
    """A frozen dataclass; what changes lives in its notes. It changes no model."""

    key: ClassVar[str]
    tests: ClassVar[bool] = False
    """Whether each visit must tell how well the client's own model does on what the client keeps for testing."""

    def check(self, on: DataSpec, fed: Federation) -> None:
        """Refuse data on which it has no meaning."""

    @abstractmethod
    def open(self, scene: Scene, params: Tensor) -> Notes:
        """Its notes before round 0."""

    def hear(self, notes: Notes, reply: Reply) -> None:
        """A reply that counts has come."""

    @abstractmethod
    def scores(self, notes: Notes) -> dict[str, float]:
        """What is written of each round."""

    def last(self) -> Ask | None:
        """What every client is asked when the last round is done, if anything; the answers are heard and written."""
        return None


@dataclass(frozen=True, repr=False)
class Personal(Protocol):
    """The mean over all clients of the accuracy of each one's own last model on its own held-out part.

    Clients never seen hold the first model. When the last round is done every client tunes the last layer of the
    global model.
    """

    key = "personal"
    tests = True

    def check(self, on: DataSpec, fed: Federation) -> None:
        """Clients must keep a part for testing."""
        if fed.held_out is None:
            raise SettingError(
                f"personal() tests each client on a part of its own data, but {on} keeps none. "
                + (
                    "Say so in the data: split=0.7 trains on 70 % of each client's examples."
                    if isinstance(fed, Dealt)
                    else "Its clients are made when asked for: use data that are dealt out, such as digits(split=0.7)."
                )
            )

    def open(self, scene: Scene, params: Tensor) -> Notes:
        """Everybody holds the first model."""
        assert scene.own_accuracies is not None
        return {"accuracies": scene.own_accuracies(params)}

    def hear(self, notes: Notes, reply: Reply) -> None:
        """A client has a new model."""
        accuracies = notes["accuracies"].clone()
        accuracies[reply.client] = reply.metrics["own_accuracy"]
        notes["accuracies"] = accuracies

    def scores(self, notes: Notes) -> dict[str, float]:
        """The mean over the clients."""
        return {"personal": mean_known(notes["accuracies"])}

    def last(self) -> Ask:
        """Fine-tuning."""
        return Tune(tests=True)


def mean_known(values: Tensor) -> float:
    """The mean of what is known of clients; NaN stands for one who could not be asked."""
    return float(values[~values.isnan()].mean())
