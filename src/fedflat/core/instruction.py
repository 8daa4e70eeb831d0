"""Base class of what a server can ask a client to do.

fedflat's own instructions are in `client/instructions.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from fedflat.registry.specs import TextSpec


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
