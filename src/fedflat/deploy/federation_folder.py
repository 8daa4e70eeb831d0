"""The folder of a federation on the server's machine, and the file of each participant.

federation.json         its name, the server's address, and its clients
ca.key, ca.crt          its certificate authority; the key can make new participants
server.key, server.crt  the server's
clients/NAME.crt        the registered certificate of each client; remove it to shut a client out
participants/NAME.join  for the client alone: its key, its certificate, and where the server is
runs/RUN.json           the clients of a run, in their order: see `fedflat.data.sets.remote_clients`
status.json             what the server does: see `status.py`
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedflat.composition.disclosure import BEFORE, DESCRIPTION, NUMBERS, Disclosed, disclosure_text
from fedflat.core.json_schema import check
from fedflat.deploy.certificates import (
    SERVER,
    Identity,
    check_name,
    issue,
    load_certificate,
    load_key,
    make_ca,
)
from fedflat.errors import SettingError, shown
from fedflat.experiments.experiment import Experiment
from fedflat.files import Damaged, own_folder, parse_json, read_file, read_json, write_file

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


FEDERATION = {"name": str, "host": str, "port": int, "tls": bool, "clients": [str]}
PARTICIPANT = {
    "federation": str,
    "client": str,
    "host": str,
    "port": int,
    "tls": bool,
    "ca": str,
    "certificate": str,
    "key": str,
    "server": str,
}
CLIENTS, PARTICIPANTS, RUNS = "clients", "participants", "runs"


@dataclass(frozen=True)
class FederationFolder:
    path: Path
    name: str
    host: str
    """Where clients reach the server."""
    port: int
    tls: bool
    clients: tuple[str, ...]
    """The names of its clients, sorted."""

    @property
    def listens_on(self) -> str:
        """The address that the server listens on."""
        loopback = self.host in ("127.0.0.1", "localhost")
        return "127.0.0.1" if loopback else "0.0.0.0"

    def identity(self) -> Identity:
        """The server's key and certificate."""
        pair = Identity(_secret(self.path / "server.key"), _secret(self.path / "server.crt"))
        load_certificate(pair.certificate, f"the server's certificate in {self.path}")
        load_key(pair.key, f"{self.path / 'server.key'}")
        load_certificate(_secret(self.path / "ca.crt"), f"the CA's certificate in {self.path}")
        return pair

    def certificates(self) -> dict[str, Certificate]:
        """The registered certificates of clients by name, without those that have expired."""
        found = {}
        for name, pem in self._registered():
            with suppress(SettingError):
                found[name] = load_certificate(pem, f"the certificate of {name}")
        if not found:
            raise SettingError(
                f"{self.path}: no client has a certificate that counts. Make some: `fedflat deploy "
                f"init {self.path} --clients NAMES`."
            )
        return found

    def expired(self) -> list[str]:
        """Why registered certificates do not count, one sentence each."""
        found = []
        for name, pem in self._registered():
            try:
                load_certificate(pem, f"the certificate of {name}")
            except SettingError as error:
                found.append(str(error))
        return found

    def _registered(self) -> Iterator[tuple[str, bytes]]:
        for name in self.clients:
            pem = read_file(self.path / CLIENTS / f"{name}.crt")
            if pem is not None:
                yield name, pem

    def credentials(self) -> dict[str, str]:
        """The files of the server's TLS, by the transport's names; none without TLS."""
        if not self.tls:
            return {}
        files = {"ca_cert": "ca.crt", "server_cert": "server.crt", "server_key": "server.key"}
        return {name: str(self.path.resolve() / file) for name, file in files.items()}


@dataclass(frozen=True)
class Participant:
    """A federation as one of its clients sees it, from the file that it was given."""

    federation: str
    client: str
    host: str
    port: int
    tls: bool
    ca: str
    certificate: str
    key: str
    server: str

    @property
    def url(self) -> str:
        return f"grpc://{self.host}:{self.port}"

    def write_credentials(self, folder: Path) -> dict[str, str]:
        """Write the files of the client's TLS; return them by the transport's names."""
        if not self.tls:
            return {}
        named = {"ca_cert": self.ca, "client_cert": self.certificate, "client_key": self.key}
        found = {}
        for name, pem in named.items():
            path = folder / f"{name}.pem"
            _write_secret(path, pem.encode())
            found[name] = str(path.resolve())
        return found


def make_federation(
    path: Path, host: str, port: int, clients: Sequence[str], *, days: int, tls: bool
) -> FederationFolder:
    if (path / "federation.json").exists():
        raise SettingError(f"{path} is a federation already. Add clients to it, or name another.")
    path.mkdir(parents=True, exist_ok=True)
    for place in (CLIENTS, PARTICIPANTS, RUNS):
        own_folder(path / place)
    name = f"fedflat-{secrets.token_hex(4)}"
    ca = make_ca(name, 10 * days)
    _write_pair(path / "ca", ca)
    hosts = tuple(dict.fromkeys((host, "localhost", "127.0.0.1")))
    _write_pair(path / SERVER, issue(ca, SERVER, days, hosts))
    folder = FederationFolder(path, name, host, port, tls, ())
    return add_clients(folder, clients, days=days)


def add_clients(folder: FederationFolder, names: Sequence[str], *, days: int) -> FederationFolder:
    """Make keys, certificates and files for more clients; a client that exists gets new ones."""
    ca = Identity(_secret(folder.path / "ca.key"), _secret(folder.path / "ca.crt"))
    load_certificate(ca.certificate, f"the CA of {folder.path}")
    server = _secret(folder.path / "server.crt").decode()
    for name in map(check_name, names):
        pair = issue(ca, name, days)
        file = {
            "federation": folder.name,
            "client": name,
            "host": folder.host,
            "port": folder.port,
            "tls": folder.tls,
            "ca": ca.certificate.decode(),
            "certificate": pair.certificate.decode(),
            "key": pair.key.decode(),
            "server": server,
        }
        _write_secret(
            folder.path / PARTICIPANTS / f"{name}.join", json.dumps(file, indent=1).encode()
        )
        write_file(folder.path / CLIENTS / f"{name}.crt", pair.certificate)
    clients = tuple(sorted({*folder.clients, *names}))
    if len({name.lower() for name in clients}) < len(clients):
        raise SettingError("deploy: two clients differ by capital letters only. Rename one.")
    made = FederationFolder(folder.path, folder.name, folder.host, folder.port, folder.tls, clients)
    text = {name: getattr(made, name) for name in FEDERATION} | {"clients": list(clients)}
    write_file(folder.path / "federation.json", json.dumps(text, indent=1).encode())
    return made


def renew_server(folder: FederationFolder, *, days: int) -> None:
    """Make a new key and certificate for the server; clients need new files after it."""
    ca = Identity(_secret(folder.path / "ca.key"), _secret(folder.path / "ca.crt"))
    hosts = tuple(dict.fromkeys((folder.host, "localhost", "127.0.0.1")))
    _write_pair(folder.path / SERVER, issue(ca, SERVER, days, hosts))


def open_federation_folder(path: Path) -> FederationFolder:
    try:
        text = read_json(path / "federation.json")
        check(text, FEDERATION)
    except Damaged as error:
        raise SettingError(
            f"{path} is not the folder of a federation: federation.json: {error}. Make one: "
            f"`fedflat deploy init {path} --clients NAMES`."
        ) from None
    return FederationFolder(path, **(text | {"clients": tuple(text["clients"])}))


def read_participant(path: Path) -> Participant:
    """Read the file that a client was given."""
    try:
        content = read_file(path)
        if content is None:
            raise Damaged("it is not there")
        text: dict[str, Any] = parse_json(content)
        check(text, PARTICIPANT)
    except Damaged as error:
        raise SettingError(
            f"{path} is no file of a participant: {error}. Use the file NAME.join that `fedflat "
            "deploy init` wrote on the server's machine."
        ) from None
    found = Participant(**text)
    check_name(found.client)
    load_certificate(found.certificate.encode(), f"the certificate of {found.client} in {path}")
    load_certificate(found.ca.encode(), f"the CA's certificate in {path}")
    load_certificate(found.server.encode(), f"the server's certificate in {path}")
    load_key(found.key.encode(), f"the key in {path}")
    return found


def parse_address(text: str) -> tuple[str, int]:
    """Read HOST:PORT."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise SettingError(
            f"an address must be HOST:PORT, such as fl.example.org:8443, found {shown(text)}."
        )
    return host, int(port)


def _write_pair(path: Path, pair: Identity) -> None:
    _write_secret(path.with_suffix(".key"), pair.key)
    write_file(path.with_suffix(".crt"), pair.certificate)


def _write_secret(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read."""
    mask = os.umask(0o077)
    try:
        write_file(path, content)
    finally:
        os.umask(mask)


def _secret(path: Path) -> bytes:
    try:
        content = read_file(path)
    except Damaged as error:
        raise SettingError(f"{path} cannot be read: {error}.") from None
    if content is None:
        raise SettingError(
            f"{path} is not there. Use the whole folder that `fedflat deploy init` wrote."
        )
    return content


JOINED = Disclosed(
    BEFORE,
    DESCRIPTION,
    "number of examples, their shapes, names of classes and columns, when it is online",
)
TESTS = Disclosed(
    "evaluations", NUMBERS, "scores on the client's own test examples, if it keeps some"
)


def deployment_text(exp: Experiment, recorded: Sequence[str] = ()) -> str:
    """What leaves each client, as lines of text.

    Args:
        exp: The run.
        recorded: Metrics that clients compute for ``--record``.
    """
    further = [JOINED, TESTS]
    if recorded:
        further.append(Disclosed("every round", NUMBERS, f"recorded: {', '.join(recorded)}"))
    method = replace(exp.method, topology=exp.topology)
    return disclosure_text(method, describers=exp.init.describers, further=further)
