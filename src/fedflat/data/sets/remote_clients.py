"""Clients elsewhere: a server knows their names and sizes, and never their data.

    remote_clients('my_federation', run='5f3a...', test=digits())

`fedflat deploy serve` writes it. The file ``runs/RUN.json`` in the federation's folder names the
clients of the run in their order, with what each reported about its data when it joined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedflat.core.json_schema import check
from fedflat.data.examples import ClientData
from fedflat.data.federation import DataSpec, Federation
from fedflat.data.skew import Skew
from fedflat.errors import DataError, SettingError
from fedflat.files import Damaged, read_json
from fedflat.registry.specs import register

CLIENT = {
    "name": str,
    "examples": int,
    "tests": int,
    "inputs": [{"shape": [int], "dtype": str}],
    "targets": {"shape": [int], "dtype": str},
    "classes": int,
    "class_names": [str],
    "columns?": [str],
}
"""What a client reports about its data: see `describe`."""
JOINED = {"clients": [CLIENT]}
ONLINE: dict[str, Callable[[int], Sequence[int]]] = {}
"""By run: returns who can be asked in a round. The server's session sets it."""


def describe(name: str, data: ClientData, classes: int, on: DataSpec) -> dict[str, Any]:
    """What the server learns of a client's data: numbers, shapes and names, no example."""
    one = data.examples.batch(data.index[:1], torch.float32)
    inputs = one.inputs if isinstance(one.inputs, tuple) else (one.inputs,)
    targets = one.targets[0] if isinstance(one.targets, tuple) else one.targets
    return {
        "name": name,
        "examples": len(data),
        "tests": 0 if data.held_out is None else len(data.held_out),
        "inputs": [{"shape": list(x.shape[1:]), "dtype": str(x.dtype)} for x in inputs],
        "targets": {"shape": list(targets.shape[1:]), "dtype": str(targets.dtype)},
        "classes": classes,
        "class_names": list(on.class_names()),
        "columns": list(on.column_names()),
    }


@dataclass(frozen=True)
class RemoteFederation(Federation):
    """Clients whose data are elsewhere, and the server's own test set."""

    here = False

    counts: Sequence[int]
    test: ClientData
    held_out: Sequence[Tensor] | None = None
    run: str = ""

    @property
    def population(self) -> int:
        return len(self.counts)

    def data(self, client: int) -> ClientData:
        """Raise an error: the data are elsewhere."""
        raise SettingError(
            f"the data of client {client} are on another machine. Leave out what needs them here."
        )

    def size(self, client: int) -> int:
        return self.counts[client]

    def sizes(self) -> Sequence[int]:
        return self.counts

    def online(self, round: int) -> Sequence[int] | None:
        """The clients that can be asked in a round; None if that is not known."""
        known = ONLINE.get(self.run)
        return known(round) if known else None

    def skew(self) -> Skew:
        """Raise an error: the data are elsewhere."""
        raise SettingError("the clients' data are on other machines, so nothing is known of them.")

    def to(self, device: str) -> RemoteFederation:
        return replace(self, test=self.test.to(device))

    def pooled(self) -> RemoteFederation:
        """Raise an error: the data are elsewhere."""
        raise SettingError(
            "centralised training needs all data in one place, and these are at the clients. Use a "
            "federated method."
        )


@dataclass(frozen=True, repr=False)
class RemoteClients(DataSpec):
    """The clients of a deployed run.

    path
        The folder of the federation.
    run
        The id of the run.
    test
        The server's own test set: that of another data set.
    """

    origin = "stays with clients on other machines"

    path: str
    run: str = ""
    test: DataSpec | None = None

    def open(self, seed: int) -> Federation:
        """What the server knows of the clients."""
        if self.test is None:
            raise SettingError("remote_clients: the server needs a test set: --test DATA.")
        clients, test = self.joined(), self.test.open(seed).test
        needed = form_of_test(self.test, test)
        for client in clients:
            check_fits(client, needed)
        tests = all(client["tests"] for client in clients)
        return RemoteFederation(
            [client["examples"] for client in clients],
            test,
            [torch.empty(0, dtype=torch.int64)] * len(clients) if tests else None,
            self.run,
        )

    def joined(self) -> list[dict[str, Any]]:
        """The clients of the run in their order."""
        path = Path(self.path) / "runs" / f"{self.run}.json"
        try:
            found = read_json(path)
            check(found, JOINED)
        except Damaged as error:
            raise DataError(
                f"remote_clients: {path} cannot be read: {error}. `fedflat deploy serve` writes it."
            ) from None
        clients: list[dict[str, Any]] = found["clients"]
        return clients


def form_of_test(on: DataSpec, test: ClientData) -> dict[str, Any]:
    """The form that the data of clients must have: that of the server's test set."""
    return describe("", replace(test, held_out=None), test.examples.classes, on)


def check_fits(client: dict[str, Any], needed: dict[str, Any]) -> None:
    """Refuse a client whose data have another form, other classes or columns than are needed."""
    for what in ("inputs", "targets", "classes"):
        if client[what] != needed[what]:
            raise SettingError(
                f"the data of {client['name']} do not fit: their {what} are {client[what]}, and "
                f"those of the server's test set are {needed[what]}. All must have the same form"
                + (f": the classes {_listed(needed['class_names'])}." if what == "classes" else ".")
            )
    check_names(client, needed, "the server's test set")


def check_names(client: dict[str, Any], other: dict[str, Any], whose: str) -> None:
    """Refuse a client whose classes or columns have other names than those of another."""
    for what, shown_as in (("class_names", "classes"), ("columns", "columns")):
        here, there = client.get(what), other.get(what)
        if here and there and here != there:
            raise SettingError(
                f"the data of {client['name']} do not fit: their {shown_as} are {_listed(here)}, "
                f"and those of {whose} are {_listed(there)}. Use the same {shown_as} in the same "
                "order: " + _ADVICE[what]
            )


_ADVICE = {
    "class_names": "`classes=[...]` in the data set names them all.",
    "columns": "`inputs=[...]` in the data set names them.",
}


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (" ..." if len(names) > 20 else "") or "that it has by number"


remote_clients = register("data set", "remote_clients")(RemoteClients)
