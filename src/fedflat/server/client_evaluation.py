"""A protocol: what is measured at the clients themselves, over the rounds and once at the end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedflat.client.instructions import FineTune
from fedflat.core.instruction import Instruction
from fedflat.core.messages import Reply
from fedflat.data.federation import DataSpec, Federation, PartitionedFederation
from fedflat.errors import SettingError
from fedflat.registry.specs import TextSpec
from fedflat.server.averaging import AverageState, RunInfo


class ClientEvaluation(TextSpec, ABC):
    """A frozen dataclass; what changes lives in its notes. It changes no model."""

    key: ClassVar[str]
    evaluates: ClassVar[bool] = False
    """Whether each visit must tell how well the client's own model does on what the client keeps
    for testing."""

    def check(self, on: DataSpec, fed: Federation) -> None:
        """Refuse data on which it has no meaning."""

    @abstractmethod
    def init(self, info: RunInfo, params: Tensor) -> AverageState:
        """Its notes before round 0."""

    def on_reply(self, notes: AverageState, reply: Reply) -> None:
        """A reply that counts has come."""

    @abstractmethod
    def scores(self, notes: AverageState) -> dict[str, float]:
        """What is written of each round."""

    def final_instruction(self) -> Instruction | None:
        """What every client is asked when the last round is done, if anything; the answers are
        heard and written."""
        return None


@dataclass(frozen=True, repr=False)
class PersonalizedEvaluation(ClientEvaluation):
    """The mean over all clients of the accuracy of each one's own last model on its own held-out
    part.

    Clients never seen hold the first model. When the last round is done every client tunes the last
    layer of the global model.
    """

    key = "personal"
    evaluates = True

    def check(self, on: DataSpec, fed: Federation) -> None:
        """Clients must keep a part for testing."""
        if fed.held_out is None:
            raise SettingError(
                f"personal() tests each client on a part of its own data, but {on} keeps none. "
                + (
                    "Say so in the data: split=0.7 trains on 70 % of each client's examples."
                    if isinstance(fed, PartitionedFederation)
                    else "Its clients are made when asked for: use data that are dealt out, such as digits(split=0.7)."
                )
            )

    def init(self, info: RunInfo, params: Tensor) -> AverageState:
        """Everybody holds the first model."""
        assert info.own_accuracies is not None
        return {"accuracies": info.own_accuracies(params)}

    def on_reply(self, notes: AverageState, reply: Reply) -> None:
        """A client has a new model."""
        accuracies = notes["accuracies"].clone()
        accuracies[reply.client] = reply.metrics["own_accuracy"]
        notes["accuracies"] = accuracies

    def scores(self, notes: AverageState) -> dict[str, float]:
        """The mean over the clients."""
        return {"personal": nanmean(notes["accuracies"])}

    def final_instruction(self) -> Instruction:
        """Fine-tuning."""
        return FineTune(tests=True)


def nanmean(values: Tensor) -> float:
    """The mean of what is known of clients; NaN stands for one who could not be asked."""
    return float(values[~values.isnan()].mean())
