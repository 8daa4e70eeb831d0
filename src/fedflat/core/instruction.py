"""What a server asks of a client, and what follows from it for everybody else. Ours are in
`client/instructions.py`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from fedflat.registry.specs import TextSpec


class Instruction(TextSpec, ABC):
    """A frozen dataclass that runs itself. Its text, such as ``train()``, makes it again: that is
    how it travels.

    Nobody asks which one it is: what others must know of it is declared here.
    """

    trains: ClassVar[bool] = False
    """Whether the client walks as the method says: then its delta is a step, which the server may
    scale and watchers hear, and what the method keeps private is not sent."""
    commits: ClassVar[bool] = False
    """Whether it is a visit that counts, where the mail says ``commit``: the client remembers it,
    shadows hear it."""
    stackable: ClassVar[bool] = False
    """Whether many clients can do it at once, as rows of one tensor; if not they do it one by
    one."""
    tests: bool = False
    """Whether a walk must tell how well the client's own model does on what the client keeps for
    testing."""
    upload_vectors: ClassVar[int] = 0
    """Vectors of the model's size that come back, without those of the method's pieces."""
    full_gradients: ClassVar[int] = 0
    """Gradients over all the client's data that it takes."""

    @property
    def needs_model(self) -> bool:
        """Whether a model must be sent along."""
        return True

    def job(self, job: Any) -> Any:
        """The client's job as it wants it."""
        return job

    def work(self, job: Any, examples: int, samples: int) -> int:
        """Gradients of single examples that a client takes that holds ``examples``; a walk goes
        through ``samples``."""
        return self.full_gradients * examples

    @abstractmethod
    def run(self, client: Any) -> Any:
        """Do it, for one client or for a stack of them: the reply, and what is remembered from now
        on."""
