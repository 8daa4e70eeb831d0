"""Who was at work when something went wrong in a visit."""

from __future__ import annotations

from types import TracebackType

from fedflat.client.piece import Piece, Visit


def guilty(trace: TracebackType | None, visits: list[Visit]) -> str:
    """Where an exception was: the step, and the innermost piece on the stack."""
    found = f", step {visits[0].steps}" if visits else ""
    piece = None
    while trace is not None:
        owner = trace.tb_frame.f_locals.get("self")
        piece = owner if isinstance(owner, Piece) else piece
        trace = trace.tb_next
    return found + (f", piece {piece!r}" if piece is not None else "")
