"""What leaves a client in a run of a method: computed from what its pieces declare.

The common tests compare the declarations with the replies of real runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedflat.client.instructions import Describer
from fedflat.client.piece import Piece
from fedflat.composition.cost import dry_run
from fedflat.core.messages import Instruction
from fedflat.core.stage import Stage

if TYPE_CHECKING:
    from fedflat.composition.method import Method

BEFORE, ROUND, END = "before round 1", "every round", "after the last round"
DESCRIPTION, VECTOR, STATISTICS, NUMBERS = "description", "vector", "statistics", "numbers"


@dataclass(frozen=True)
class Disclosed:
    """One thing that leaves a client."""

    when: str
    """`BEFORE`, `ROUND` or `END`."""
    kind: str
    """`DESCRIPTION`, `VECTOR` (of the model's size), `STATISTICS` (smaller) or `NUMBERS`."""
    what: str
    count: int = 1
    """How many of them."""


def disclosed(
    method: Method, *, describers: Iterable[Describer] = (), batch_norm: bool | None = None
) -> list[Disclosed]:
    """Return what leaves each client.

    Args:
        method: The method.
        describers: Further descriptions that the run needs, of its topology and initializer.
        batch_norm: Whether the model has running statistics; None: not known.

    >>> from fedflat import scaffold
    >>> [(one.kind, one.count) for one in disclosed(scaffold(), batch_norm=False)]
    [('vector', 1), ('vector', 1), ('numbers', 1)]
    """
    if method.pooled:
        return []
    return [
        *_descriptions(method, describers),
        *_vectors(method),
        *_statistics(method, batch_norm),
        *_numbers(method),
        *_at_the_end(method),
    ]


def disclosure_text(
    method: Method,
    *,
    describers: Iterable[Describer] = (),
    batch_norm: bool | None = None,
    further: Iterable[Disclosed] = (),
) -> str:
    """Return `disclosed` and what leaves ``further`` as lines of text, for people."""
    rows = disclosed(method, describers=describers, batch_norm=batch_norm)
    rows = sorted([*rows, *further], key=lambda one: one.when != BEFORE) if rows else []
    if not rows:
        return "what leaves a client: nothing is sent, all data are in one place"
    lines = [f"  {one.when:<22}{_amount(one):<14}{one.what}" for one in rows]
    if method.topology is not None and method.topology.has_chains:
        lines.append("  Models go from client to client: the next one of a chain sees them.")
    return "\n".join(["what leaves a client", *lines])


def _amount(one: Disclosed) -> str:
    if one.kind != VECTOR:
        return one.kind
    return "1 vector" if one.count == 1 else f"{one.count} vectors"


def _descriptions(method: Method, further: Iterable[Describer]) -> Iterator[Disclosed]:
    own = [
        *(() if method.topology is None else method.topology.describers),
        *further,
        *(one for piece in method.client for one in piece.describers),
        *(one for piece in method.server for one in piece.describers),
    ]
    for describer in dict.fromkeys(own):
        yield Disclosed(BEFORE, DESCRIPTION, f"{describer}: {describer.reveals}")


def _vectors(method: Method) -> Iterator[Disclosed]:
    sent, _, _ = dry_run(method)
    trainings = 0
    for instruction in (broadcast.instruction for broadcast in sent):
        trainings += instruction.trains
        if instruction.upload_vectors:
            what = _update(method) if instruction.trains else _other(instruction)
            yield Disclosed(ROUND, VECTOR, what, instruction.upload_vectors)
    for piece in method.client:
        if piece.upload_vectors and trainings:
            yield Disclosed(ROUND, VECTOR, f"from {piece}", trainings * piece.upload_vectors)


def _update(method: Method) -> str:
    kept = [piece for piece in method.client if _keeps(piece)]
    changed = [piece for piece in method.client if piece.stage in (Stage.PRIVACY, Stage.COMPRESS)]
    text = "update: parameters sent minus parameters after training"
    text += "".join(f", without what {piece} keeps" for piece in kept)
    return text + "".join(f", changed by {piece.full()}" for piece in changed)


def _other(instruction: Instruction) -> str:
    return "gradient over all data" if instruction.full_gradients else f"reply to {instruction}"


def _keeps(piece: Piece) -> bool:
    return type(piece).private_size is not Piece.private_size


def _statistics(method: Method, batch_norm: bool | None) -> Iterator[Disclosed]:
    noised = any(piece.stage is Stage.PRIVACY for piece in method.client)
    if batch_norm is not False and not noised:  # which `dp` refuses
        known = "" if batch_norm else ", if the model has any"
        kept = "".join(f", without what {p} keeps" for p in method.client if _keeps(p))
        yield Disclosed(
            ROUND, STATISTICS, f"running statistics of batch normalisation{known}{kept}"
        )
    for piece in method.client:
        if piece.uploads_statistics:
            yield Disclosed(ROUND, STATISTICS, f"from {piece}: {piece.uploads_statistics}")


def _numbers(method: Method) -> Iterator[Disclosed]:
    numbers = "examples, examples processed, steps, training loss"
    if any(evaluation.evaluates for evaluation in method.evaluations):
        numbers += ", score of the client's own model on its own test examples"
    yield Disclosed(ROUND, NUMBERS, numbers)


def _at_the_end(method: Method) -> Iterator[Disclosed]:
    for evaluation in method.evaluations:
        instruction = evaluation.final_instruction()
        if instruction and instruction.upload_vectors:
            what = f"for {evaluation}: reply to {instruction}"
            yield Disclosed(END, VECTOR, what, instruction.upload_vectors)
