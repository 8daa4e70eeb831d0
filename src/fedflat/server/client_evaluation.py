"""Client evaluations: what is measured at the clients, during the rounds and once at the end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedflat.client.instructions import FineTune
from fedflat.core.messages import Instruction, Reply
from fedflat.errors import SettingError
from fedflat.registry.specs import TextSpec
from fedflat.server.averaging import AverageState, RunInfo


class ClientEvaluation(TextSpec, ABC):
    """Base class of client evaluations: a frozen dataclass.

    What changes is in its state. It changes no model.
    """

    key: ClassVar[str]
    """Its name in results and checkpoints."""
    evaluates: ClassVar[bool] = False
    """True if each client must evaluate its own model on its own test examples after training."""

    def check(self, on: object, clients_have_tests: bool) -> None:
        """Raise `SettingError` for data on which it cannot be computed."""

    @abstractmethod
    def init(self, info: RunInfo, params: Tensor) -> AverageState:
        """Return its state before round 0."""

    def on_reply(self, state: AverageState, reply: Reply) -> None:
        """Update the state with a reply."""

    @abstractmethod
    def scores(self, state: AverageState) -> dict[str, float]:
        """Return the scores to write after each round."""

    def final_instruction(self) -> Instruction | None:
        """Return the instruction for every client after the last round, or None.

        The replies are evaluated and written.
        """
        return None


@dataclass(frozen=True, repr=False)
class PersonalizedEvaluation(ClientEvaluation):
    """The mean accuracy of each client's own last model on its own test examples.

    Clients that have not trained yet count with the first model. After the last round every client
    fine-tunes the last layer of the global model.
    """

    key = "personal"
    evaluates = True

    def check(self, on: object, clients_have_tests: bool) -> None:
        """Refuse data whose clients have no test examples of their own."""
        if not clients_have_tests:
            raise SettingError(
                f"personal() tests each client on a part of its own data, but {on} has no such "
                "part. Add a split to the data: split=0.7 trains on 70 % of each client's "
                "examples. Data whose clients are made on demand have no split: use partitioned "
                "data."
            )

    def init(self, info: RunInfo, params: Tensor) -> AverageState:
        """Evaluate the first model at every client."""
        assert info.own_accuracies is not None
        return {"accuracies": info.own_accuracies(params)}

    def on_reply(self, state: AverageState, reply: Reply) -> None:
        """Store the accuracy of a client's new model."""
        accuracies = state["accuracies"].clone()
        accuracies[reply.client] = reply.metrics["own_accuracy"]
        state["accuracies"] = accuracies

    def scores(self, state: AverageState) -> dict[str, float]:
        """Return the mean over the clients."""
        return {"personal": nanmean(state["accuracies"])}

    def final_instruction(self) -> Instruction:
        """Return fine-tuning with a test."""
        return FineTune(tests=True)


def nanmean(values: Tensor) -> float:
    """Return the mean of the values that are not NaN. NaN stands for a client without a result."""
    return float(values[~values.isnan()].mean())
