"""Where a client keeps its own states: each under the id of the request that made it.

A request names the state that counts, so a repeated request gives the same reply, and a server that
is resumed from an older checkpoint just names an older state.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from safetensors.torch import load

from fedflat.client.piece import ClientState
from fedflat.errors import RunError
from fedflat.files import Damaged, digest, discard, own_folder, pack, read_file, write_file

SUFFIX = ".state"
SIGN = 16
"""Bytes of the digest before the tensors in a file."""


class StateStore:
    """The states of one client, by id, in a folder of its own.

    >>> from tempfile import mkdtemp
    >>> import torch
    >>> store = StateStore(Path(mkdtemp()))
    >>> store.put("0/1/7", {"dual": {"y": torch.ones(2)}})
    >>> store.get("0/1/7")
    {'dual': {'y': tensor([1., 1.])}}
    >>> store.keep_only([])
    >>> store.get("0/1/7") is None
    True
    """

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        self.folder, self.device = folder, device

    def get(self, id: str) -> ClientState | None:
        """The state with this id; None if it is not here."""
        path = self._path(id)
        try:
            content = read_file(path, None)
            if content is None:
                return None
            if digest(content[SIGN:]) != content[:SIGN]:
                raise Damaged("bytes of it are missing or have changed")
        except Damaged as error:
            raise RunError(
                f"{path} cannot be read: {error}. Put back the client's own file, or remove it."
            ) from None
        state: ClientState = {}
        for name, tensor in load(content[SIGN:]).items():
            key, _, name = name.partition("/")
            state.setdefault(key, {})[name] = tensor.to(self.device)
        return state

    def put(self, id: str, state: ClientState) -> None:
        """Keep a state under an id; it is on disk when this returns."""
        own_folder(self.folder)
        flat = {f"{key}/{name}": t for key, named in state.items() for name, t in named.items()}
        content = pack(flat)
        write_file(self._path(id), digest(content) + content)

    def keep_only(self, ids: Collection[str]) -> None:
        """Remove all states but these."""
        kept = {self._path(id) for id in ids}
        for path in self.folder.glob(f"*{SUFFIX}"):
            if path not in kept:
                discard(path)

    def _path(self, id: str) -> Path:
        """An id may hold any character, a file name may not."""
        return self.folder / f"{digest(id.encode()).hex()}{SUFFIX}"
