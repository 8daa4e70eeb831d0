"""The form that the reply to a request must have, so that what a client sends cannot end the run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from torch import Tensor

from fedflat.client.training import ClientJob
from fedflat.core.messages import WEIGHT, Broadcast, Reply
from fedflat.execution.wire_format import WireError

Form = dict[str, tuple[tuple[int, ...], str]]
"""Shape and type of each tensor, by name."""


@dataclass
class ReplyForm:
    """Checks replies of one run.

    The update must have the form of the model. Tensors of pieces must have the form of those that
    the first client sent for the same instruction, so that they can be averaged. Descriptions must
    have the same names and numbers of axes.
    """

    weighs: bool
    """Whether clients weigh their replies themselves, as by labelled pixels."""
    sends: frozenset[str]
    """Keys of the pieces that send tensors beside the update when a client trains."""
    vectors: int
    """How many of these tensors have the size of the model."""
    first: dict[str, tuple[str, Form]] = field(default_factory=dict)
    """By instruction: the first client, and the form of the tensors of its pieces."""

    @classmethod
    def of(cls, job: ClientJob) -> ReplyForm:
        sends = {
            piece.key for piece in job.pieces if piece.upload_vectors or piece.uploads_statistics
        }
        vectors = sum(piece.upload_vectors for piece in job.pieces)
        return cls(job.learner.task.weighs, frozenset(sends), vectors)

    def check(self, reply: Reply, broadcast: Broadcast, client: str) -> None:
        """Raise `WireError` if a reply has another form than it must have."""
        if broadcast.instruction.upload_vectors:
            self._check_update(reply, broadcast)
        if broadcast.instruction.trains:
            self._check_pieces(reply)
        averaged = broadcast.instruction.upload_vectors > 0
        found = {
            f"{key}/{name}": _form(tensor if averaged else tensor[(slice(0),) * tensor.ndim])
            for key, named in reply.extras.items()
            for name, tensor in named.items()
        }
        if WEIGHT in reply.metrics:
            found[WEIGHT] = (), "number"
        first, form = self.first.setdefault(repr(broadcast.instruction), (client, found))
        if found != form:
            raise WireError(
                f"a reply has {_described(found)} beside the update, and the first one, of {first}, "
                f"had {_described(form)}. Use the same version on both sides."
            )

    def _check_pieces(self, reply: Reply) -> None:
        missing = self.sends - reply.extras.keys()
        if missing or reply.models <= self.vectors:
            raise WireError(
                f"a reply lacks tensors of {', '.join(sorted(missing or self.sends))}. Use the "
                "same version on both sides."
            )

    def _check_update(self, reply: Reply, broadcast: Broadcast) -> None:
        for what, found, sent in (
            ("update", reply.delta, broadcast.params),
            ("running statistics", reply.buffers, broadcast.buffers),
        ):
            if _form(found) != _form(sent):
                raise WireError(
                    f"a reply does not fit the model: its {what} have the form {_form(found)}, and "
                    f"the model's is {_form(sent)}. Use the same model on both sides."
                )
        if reply.steps < 1 or reply.samples < 0:
            raise WireError(
                f"a reply says that it took {reply.steps:,} steps with {reply.samples:,} examples. "
                "Use the same version on both sides."
            )
        if "loss" not in reply.metrics:
            raise WireError("a reply has no training loss. Use the same version on both sides.")
        weight = reply.metrics.get(WEIGHT)
        if weight is not None and not (self.weighs and 0 <= weight < math.inf):
            raise WireError(
                f"a reply weighs itself as {weight:g}, which it cannot. Use the same version on "
                "both sides."
            )


def _form(tensor: Tensor) -> tuple[tuple[int, ...], str]:
    return tuple(tensor.shape), str(tensor.dtype)


def _described(form: Form) -> str:
    names = ", ".join(f"{name[:40]} {list(shape)}" for name, (shape, _) in list(form.items())[:4])
    return names or "nothing"
