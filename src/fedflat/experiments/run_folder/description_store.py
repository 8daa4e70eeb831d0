"""Client descriptions collected before round 0, in two files, so that they need not be in memory.

    descriptions/asked.jsonl    a line per description: client, describer, cost, place of the tensor
    descriptions/vectors.bin    the tensors, one after the other

A description is written when it arrives, so a run that was killed requests only those that are
missing. A damaged tensor is requested again; the client computes the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from pathlib import Path
from typing import NamedTuple, overload

import torch
from torch import Tensor

from fedflat.errors import PrintLine, RunError
from fedflat.execution.spill import Place, Spill
from fedflat.experiments.run_folder.jsonl_log import JsonlLog, Row
from fedflat.files import Damaged, discard, own_folder
from fedflat.server.ledger import Ledger

ROOM = 8
"""Tensors are aligned to so many bytes."""
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
    place: Place
    dtype: str
    shape: tuple[int, ...]
    cost: Ledger


class DescriptionStore:
    """The descriptions of a run's clients, in ``folder`` if there is one.

    ``print_line`` is called with a sentence about each damaged file. With ``held=False`` the files
    are only read, since another process may be writing them.
    """

    def __init__(
        self,
        folder: Path | None = None,
        identity: str = "",
        print_line: PrintLine = lambda text: None,
        *,
        held: bool = True,
    ) -> None:
        self._log: JsonlLog | None = None
        rows: list[Row] = []
        if folder is not None:
            own_folder(folder)
            self._log = JsonlLog(folder, "asked", identity)
            try:
                rows = self._log.take_up() if held else self._log.read()
            except RunError as error:
                if not held:
                    raise
                print_line(f"the client descriptions are damaged and are requested again: {error}")
                discard(self._log.path)
        self._entries = {
            (row["by"], row["client"]): note for row in rows if (note := _note(row)) is not None
        }
        self._spill = Spill(
            folder and folder / "vectors.bin", [note.place for note in self._entries.values()]
        )
        for key, note in list(self._entries.items()):
            try:
                self._spill.check(note.place)
            except Damaged:
                print_line(f"the description of client {key[1]} is damaged and is requested again.")
                del self._entries[key]

    def __contains__(self, key: tuple[str, int]) -> bool:
        return key in self._entries

    def keep(self, by: str, client: int, description: Tensor, cost: Ledger) -> None:
        description = description.detach().cpu().contiguous()
        content = description.reshape(-1).view(torch.uint8).numpy().tobytes()
        place = self._spill.write(content + bytes(-len(content) % ROOM))
        note = StoredDescription(
            place, str(description.dtype).removeprefix("torch."), tuple(description.shape), cost
        )
        if self._log is not None:
            self._log.append(
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
        self._entries[by, client] = note

    def descriptions(self, by: str, clients: Iterable[int]) -> StoredDescriptions:
        return StoredDescriptions(self._spill, [self._entries[by, client] for client in clients])

    def cost(self, by: str, client: int) -> Ledger:
        return self._entries[by, client].cost


class StoredDescriptions(Sequence[Tensor]):
    """Descriptions by client, read from the file when they are used."""

    def __init__(self, spill: Spill, notes: Sequence[StoredDescription]) -> None:
        self._file, self._entries = spill.mapped() if notes else None, notes

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, place: int) -> Tensor: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Tensor]: ...

    def __getitem__(self, place: int | slice) -> Tensor | Sequence[Tensor]:
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        note = self._entries[place]
        dtype, count = DTYPES[note.dtype], prod(note.shape)
        if not count:
            return torch.empty(note.shape, dtype=dtype)
        assert self._file is not None
        return torch.frombuffer(
            self._file, dtype=dtype, count=count, offset=note.place.offset
        ).reshape(note.shape)


def _note(row: Row) -> StoredDescription | None:
    """The description that a line names; None if it is not valid."""
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
