"""What a server can ask a client to do: the base class, and `Train`.

fedflat's other instructions are in `client/instructions.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Protocol

from fedflat.registry.specs import TextSpec, register


class Instruction(TextSpec, ABC):
    """Work for a client, such as ``train()``: a frozen dataclass with a `run` method.

    Its text is sent and parsed again on the client. Other code never tests the
    type of an instruction. It reads the class attributes below.
    """

    trains: ClassVar[bool] = False
    """True if the client trains as the method says.

    Its delta is then a step that the server may scale and record, and the method's private
    parameters are not sent.
    """
    commits: ClassVar[bool] = False
    """True if a request with ``commit`` changes client state and counts for model averages."""
    stackable: ClassVar[bool] = False
    """True if many clients can run it at once, as rows of one tensor."""
    needs_model: bool = True
    """True if the model must be sent with the instruction."""
    tests: bool = False
    """True if local training must also evaluate the client's model on the client's test data."""
    upload_vectors: ClassVar[int] = 0
    """Vectors of the model's size that are sent back, not counting those of the method's pieces."""
    full_gradients: ClassVar[int] = 0
    """Full gradients that the client computes, over all of its data."""

    def job(self, job: Any) -> Any:
        """The client's job, adapted to this instruction."""
        return job

    def work(self, job: Any, examples: int, samples: int) -> int:
        """Number of per-example gradients that a client with ``examples`` examples computes.

        ``samples`` is the number of examples that local training processes, epochs included.
        """
        return self.full_gradients * examples

    @abstractmethod
    def run(self, client: Any) -> Any:
        """Run the instruction for one client or a stack of clients.

        Returns the reply and the new client state.
        """


class LocalWork(Protocol):
    """A client, or a stack of clients, that can train."""

    def local_train(self) -> Any:
        """Train from the parameters that were sent."""
        ...

    def full_gradient(self) -> Any:
        """Compute the gradient over all data at the parameters that were sent."""
        ...


def local_work(pieces: Sequence[Any], examples: int, samples: int) -> int:
    """Return the cost of local training, in gradients of single examples.

    Gradients over all the client's data are included.
    """
    per_sample: int = prod(piece.oracle_calls for piece in pieces)
    per_sample += sum(piece.extra_gradients for piece in pieces)
    full_gradients: int = sum(piece.full_gradients for piece in pieces)
    return samples * per_sample + examples * full_gradients


@register("instruction", "train")
@dataclass(frozen=True, repr=False)
class Train(Instruction):
    """Local training with the method's pieces.

    With ``tests`` the client then evaluates its own model on its own test examples.
    """

    tests: bool = False

    trains = commits = stackable = True
    upload_vectors = 1

    def work(self, job: Any, examples: int, samples: int) -> int:
        """Return the cost of local training."""
        return local_work(job.pieces, examples, samples)

    def run(self, client: LocalWork) -> Any:
        return client.local_train()
