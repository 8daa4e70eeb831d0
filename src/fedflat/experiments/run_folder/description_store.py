"""What clients have said of themselves before round 0, in two files: nothing of it need be in
memory.

    descriptions/asked.jsonl    a line for each answer: who was asked for what, what it cost, where the tensor is
    descriptions/vectors.bin    the tensors, one after the other

An answer is written when it comes, so that a run that was killed asks only those who have not
answered. A tensor that is damaged does not count: its client is asked again, and answers the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from pathlib import Path
from typing import NamedTuple, overload

import torch
from torch import Tensor

from fedflat.errors import RunError
from fedflat.execution.spill import Place, Spill
from fedflat.experiments.run_folder.jsonl_log import JsonlLog, Row
from fedflat.files import Damaged, discard, own_folder
from fedflat.server.ledger import Ledger

ROOM = 8
"""Tensors begin at multiples of so many bytes."""
DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.uint8,
        torch.bool,
    )
}


class StoredDescription(NamedTuple):
    """An answer."""

    place: Place
    dtype: str
    shape: tuple[int, ...]
    cost: Ledger


class DescriptionStore:
    """The answers of a run's clients, in ``folder`` if there is one; ``say`` is told of damage.

    Without ``held`` it is only looked at, while another process may be writing.
    """

    def __init__(
        self,
        folder: Path | None = None,
        identity: str = "",
        say: Callable[[str], None] = lambda text: None,
        *,
        held: bool = True,
    ) -> None:
        self._diary: JsonlLog | None = None
        rows: list[Row] = []
        if folder is not None:
            own_folder(folder)
            self._diary = JsonlLog(folder, "asked", identity)
            try:
                rows = self._diary.take_up() if held else self._diary.read()
            except RunError as error:
                if not held:
                    raise
                say(
                    f"what clients have said before round 0 is damaged, so they are asked again: {error}"
                )
                discard(self._diary.path)
        self._notes = {
            (row["by"], row["client"]): note for row in rows if (note := _note(row)) is not None
        }
        self._spill = Spill(
            folder and folder / "vectors.bin", [note.place for note in self._notes.values()]
        )
        for key, note in list(self._notes.items()):
            try:
                self._spill.check(note.place)
            except Damaged:
                say(f"what client {key[1]} has said before round 0 is damaged: it is asked again.")
                del self._notes[key]

    def __contains__(self, asked: tuple[str, int]) -> bool:
        return asked in self._notes

    def keep(self, by: str, client: int, said: Tensor, cost: Ledger) -> None:
        """Write an answer down."""
        said = said.detach().cpu().contiguous()
        content = said.reshape(-1).view(torch.uint8).numpy().tobytes()
        place = self._spill.write(content + bytes(-len(content) % ROOM))
        note = StoredDescription(
            place, str(said.dtype).removeprefix("torch."), tuple(said.shape), cost
        )
        if self._diary is not None:
            self._diary.append(
                {
                    "by": by,
                    "client": client,
                    "down": cost.down,
                    "up": cost.up,
                    "samples": cost.samples,
                    "seconds": cost.seconds,
                    "dtype": note.dtype,
                    "shape": list(note.shape),
                    "offset": place.offset,
                    "digest": place.digest.hex(),
                }
            )
        self._notes[by, client] = note

    def descriptions(self, by: str, clients: Iterable[int]) -> StoredDescriptions:
        """What these clients have answered."""
        return StoredDescriptions(self._spill, [self._notes[by, client] for client in clients])

    def cost(self, by: str, client: int) -> Ledger:
        """What a client's answer has cost."""
        return self._notes[by, client].cost


class StoredDescriptions(Sequence[Tensor]):
    """Answers, client by client, as they lie in the file: they are read when they are looked at."""

    def __init__(self, spill: Spill, notes: Sequence[StoredDescription]) -> None:
        self._file, self._notes = spill.mapped() if notes else None, notes

    def __len__(self) -> int:
        return len(self._notes)

    @overload
    def __getitem__(self, place: int) -> Tensor: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Tensor]: ...

    def __getitem__(self, place: int | slice) -> Tensor | Sequence[Tensor]:
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        note = self._notes[place]
        dtype, count = DTYPES[note.dtype], prod(note.shape)
        if not count:
            return torch.empty(note.shape, dtype=dtype)
        assert self._file is not None
        return torch.frombuffer(
            self._file, dtype=dtype, count=count, offset=note.place.offset
        ).reshape(note.shape)


def _note(row: Row) -> StoredDescription | None:
    """What a line says, if it can be."""
    shape, dtype = tuple(row["shape"]), DTYPES.get(row["dtype"])
    if dtype is None or row["offset"] < 0 or any(size < 0 for size in shape):
        return None
    length = prod(shape) * dtype.itemsize
    try:
        place = Place(row["offset"], length + -length % ROOM, bytes.fromhex(row["digest"]))
    except ValueError:
        return None
    cost = Ledger(row["down"], row["up"], samples=row["samples"]).with_time(
        *[row.get("seconds", 0.0)] * 2
    )
    return StoredDescription(place, row["dtype"], shape, cost)
