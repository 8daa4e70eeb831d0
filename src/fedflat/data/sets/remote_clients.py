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
}
"""What a client reports about its data: see `describe`."""
ROSTER = {"clients": [CLIENT]}
ONLINE: dict[str, Callable[[int], Sequence[int]]] = {}
"""By run: returns who can be asked in a round. The server's session sets it."""


def describe(
    name: str, data: ClientData, classes: int, class_names: Sequence[str]
) -> dict[str, Any]:
    """What the server learns of a client's data: numbers and shapes, no example."""
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
        "class_names": list(class_names),
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
        clients, test = self.roster(), self.test.open(seed).test
        for client in clients:
            check_fits(client, test)
        tests = all(client["tests"] for client in clients)
        return RemoteFederation(
            [client["examples"] for client in clients],
            test,
            [torch.empty(0, dtype=torch.int64)] * len(clients) if tests else None,
            self.run,
        )

    def roster(self) -> list[dict[str, Any]]:
        """The clients of the run in their order."""
        path = Path(self.path) / "runs" / f"{self.run}.json"
        try:
            found = read_json(path)
            check(found, ROSTER)
        except Damaged as error:
            raise DataError(
                f"remote_clients: {path} cannot be read: {error}. `fedflat deploy serve` writes it."
            ) from None
        clients: list[dict[str, Any]] = found["clients"]
        return clients


def check_fits(client: dict[str, Any], test: ClientData) -> None:
    """Refuse a client whose data have other shapes or classes than the server's test set."""
    needed = describe("", replace(test, held_out=None), test.examples.classes, ())
    for what in ("inputs", "targets", "classes"):
        if client[what] != needed[what]:
            raise SettingError(
                f"the data of {client['name']} do not fit: their {what} are {client[what]}, and "
                f"those of the server's test set are {needed[what]}. All must have the same form."
            )


remote_clients = register("data set", "remote_clients")(RemoteClients)
