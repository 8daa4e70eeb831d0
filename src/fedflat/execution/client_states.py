"""Client states between requests, stored here or by the clients themselves
(`fedflat.execution.state_ids`).

Changes of a round are staged and taken over together at its end, so that a round which is broken
off leaves nothing behind. Only clients that have been seen cost anything: memory up to a budget,
beyond it disk. Those not used for longest are on disk. What a checkpoint names is written once
and stays where it is until that checkpoint is gone.
"""

from __future__ import annotations

import os
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import load
from torch import Tensor

from fedflat.client.piece import ClientState
from fedflat.errors import RunError
from fedflat.execution.client_pool import StatefulPool
from fedflat.execution.spill import Place, Spill
from fedflat.execution.state_ids import StateIds
from fedflat.files import pack

FILE = "clients.bin"
"""The file of client states in a run's checkpoint folder."""

AVERAGE = "average:"
"""Prefix of the keys under which averages keep their own state of a client."""
Table = dict[str, Tensor]
"""Where the state of each client is in the file, and its digest: a row for each client."""


def usual_budget() -> int:
    """Bytes of RAM for client states by default: a quarter of the machine's, at least 256 MB."""
    return max(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4, 256 * 10**6)


class _Held:
    """One state of one client, in RAM, in the file, or in both."""

    __slots__ = ("named", "nbytes", "place", "state")

    def __init__(
        self, nbytes: int, state: ClientState | None = None, place: Place | None = None
    ) -> None:
        self.nbytes, self.state, self.place = nbytes, state, place
        self.named = place is not None
        """Whether a checkpoint has named it."""


class ClientStates:
    """States by client: ``budget`` bytes in RAM (None: `usual_budget`), the rest in a file.

    The file is in ``folder``, or a temporary one without a folder. It is made when it is first
    needed.
    """

    def __init__(
        self, budget: int | None = None, folder: Path | None = None, device: str = "cpu"
    ) -> None:
        self.budget = usual_budget() if budget is None else budget
        self.path = None if folder is None else folder / FILE
        self.device = device
        self.in_use = False
        """Whether any client has kept a state. Until then there is nothing to ask for or to commit."""
        self.in_ram = 0
        """Bytes of the tensors in RAM."""
        self._kept: dict[int, _Held] = {}
        self._staged: dict[int, _Held] = {}
        self._recent: OrderedDict[_Held, None] = OrderedDict()
        self._file: Spill | None = None
        self._last = -1
        self._waiting: deque[tuple[int, Place]] = deque()
        self.ids = StateIds()
        """The states that clients keep themselves."""
        self._kept_by_clients = False

    def use_pool(self, pool: object) -> None:
        """Let the clients of a `StatefulPool` keep their states; the rest is kept here."""
        if isinstance(pool, StatefulPool):
            pool.use_states(self.ids)
            self.in_use = self._kept_by_clients = True
        elif self.ids:
            raise RunError(
                "the clients of this run keep their states themselves, and this executor does not "
                "reach them. Resume with the executor that the run was begun with."
            )

    def accept(self, requests: Sequence[str], clients: Sequence[int]) -> None:
        """Accept the replies of ``clients`` to ``requests`` at the next `commit`."""
        if self._kept_by_clients:
            self.ids.stage(requests, clients)

    def __contains__(self, client: int) -> bool:
        """Whether ``client`` has a state."""
        if client in self._staged or client in self._kept:
            return True
        return self._kept_by_clients and self.ids.current(client) is not None

    def state(self, client: int) -> ClientState:
        """The state of ``client`` after its last request, in this round or before."""
        held = self._staged.get(client) or self._kept.get(client)
        return {} if held is None else self._fetch(held)

    def stage(self, client: int, state: ClientState) -> None:
        """Store a client's new state at the next `commit`."""
        before = self._staged.get(client) or self._kept.get(client)
        if not state or (
            before is not None and before.state is not None and _same(state, before.state)
        ):
            return
        self.in_use = True
        staged = self._staged.pop(client, None)
        self._staged[client] = held = _Held(_nbytes(state))
        self._hold(
            held,
            {key: {name: _own(t) for name, t in named.items()} for key, named in state.items()},
        )
        if staged is not None:
            self._discard(staged)

    def commit(self) -> None:
        """Store all staged states: the round is done."""
        if self._kept_by_clients:
            self.ids.commit()
        for client, held in self._staged.items():
            before = self._kept.get(client)
            self._kept[client] = held
            if before is not None:
                self._discard(before)
        self._staged = {}

    def discard(self) -> None:
        """Drop all staged states: the round was interrupted."""
        self.ids.discard()
        staged, self._staged = self._staged, {}
        for held in staged.values():
            self._discard(held)

    @property
    def by_client(self) -> Mapping[int, ClientState]:
        """The committed states, by client; each is fetched when it is used."""
        return _ByClient(self, self._kept)

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors kept, in RAM and on disk."""
        return sum(held.nbytes for held in self._kept.values())

    def table(self, round: int) -> Table:
        """Write all states to the file; return where they are, for the checkpoint of ``round``."""
        for held in self._kept.values():
            if held.place is None:
                self._write(held)
            held.named = True
        self._last = round
        ids = self.ids.table(round)
        if not self._kept:
            return ids
        self._spill.sync()
        places = [held.place for held in self._kept.values() if held.place is not None]
        return {
            "client": torch.tensor(list(self._kept)),
            "offset": torch.tensor([place.offset for place in places]),
            "length": torch.tensor([place.length for place in places]),
            "nbytes": torch.tensor([held.nbytes for held in self._kept.values()]),
            "digest": torch.frombuffer(
                bytearray().join(p.digest for p in places), dtype=torch.uint8
            ).view(-1, 16),
            **ids,
        }

    def release(self, oldest: int) -> None:
        """Free the space of states that only checkpoints of rounds before ``oldest`` name."""
        self.ids.release(oldest)
        while self._waiting and self._waiting[0][0] < oldest:
            self._spill.free(self._waiting.popleft()[1])

    def restore(self, tables: Mapping[int, Table]) -> None:
        """Go on from the newest of these checkpoints' tables; `Damaged` if a state was changed.

        Everything is read once to see that it is whole, and nothing is kept in RAM.
        """
        newest, self.in_use = max(tables), True
        self.ids.restore(tables)
        if "client" not in tables[newest]:
            return
        rows = {round: _rows(table) for round, table in sorted(tables.items()) if "client" in table}
        named = {
            round: {held.place for held in kept.values() if held.place}
            for round, kept in rows.items()
        }
        file = Spill(self.path, set().union(*named.values()))
        for place in sorted(named[newest]):
            file.check(place)
        self._file, self._kept, self._last = file, rows[newest], newest
        needed = named.pop(newest)
        for round, places in reversed(named.items()):
            self._waiting.extendleft((round, place) for place in places - needed)
            needed |= places

    @property
    def _spill(self) -> Spill:
        if self._file is None:
            self._file = Spill(self.path)
        return self._file

    def _fetch(self, held: _Held) -> ClientState:
        if held.state is not None:
            self._recent.move_to_end(held)
            return held.state
        assert held.place is not None
        state = _unpack(self._spill.read(held.place), self.device)
        self._hold(held, state)
        return state

    def _hold(self, held: _Held, state: ClientState) -> None:
        """Store a state in RAM, and write to disk what exceeds the budget."""
        held.state = state
        self._recent[held] = None
        self.in_ram += held.nbytes
        while self._recent and self.in_ram > self.budget:
            oldest = next(iter(self._recent))
            if oldest.place is None:
                self._write(oldest)
            self._let_go(oldest)

    def _write(self, held: _Held) -> None:
        assert held.state is not None
        flat = {
            f"{key}/{name}": tensor
            for key, named in held.state.items()
            for name, tensor in named.items()
        }
        held.place = self._spill.write(pack(flat))

    def _let_go(self, held: _Held) -> None:
        if held in self._recent:
            del self._recent[held]
            self.in_ram -= held.nbytes
        held.state = None

    def _discard(self, held: _Held) -> None:
        """Drop a state that no request uses again. A checkpoint may still name it."""
        if held.state is not None:
            self._let_go(held)
        if held.named and held.place is not None:
            self._waiting.append((self._last, held.place))
        elif held.place is not None:
            self._spill.free(held.place)


class _ByClient(Mapping[int, ClientState]):
    def __init__(self, states: ClientStates, held: Mapping[int, _Held]) -> None:
        self._states, self._held = states, held

    def __getitem__(self, client: int) -> ClientState:
        return self._states._fetch(self._held[client])

    def __iter__(self) -> Iterator[int]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


def _rows(table: Table) -> dict[int, _Held]:
    columns = (table[name].tolist() for name in ("client", "offset", "length", "nbytes"))
    signs = table["digest"].numpy()
    return {
        client: _Held(nbytes, place=Place(offset, length, signs[row].tobytes()))
        for row, (client, offset, length, nbytes) in enumerate(zip(*columns, strict=True))
    }


def _unpack(content: bytes, device: str) -> ClientState:
    state: ClientState = {}
    for path, tensor in load(content).items():
        key, _, name = path.partition("/")
        state.setdefault(key, {})[name] = tensor.to(device)
    return state


def _own(tensor: Tensor) -> Tensor:
    """The tensor, copied if it is a part of something larger, which it would keep alive."""
    return (
        tensor.clone()
        if tensor.untyped_storage().nbytes() > tensor.numel() * tensor.element_size()
        else tensor
    )


def _nbytes(state: ClientState) -> int:
    return sum(t.numel() * t.element_size() for named in state.values() for t in named.values())


def _same(a: ClientState, b: ClientState) -> bool:
    """Whether the very same tensors are in both."""
    return a.keys() == b.keys() and all(
        a[key].keys() == b[key].keys() and all(a[key][name] is b[key][name] for name in a[key])
        for key in a
    )
