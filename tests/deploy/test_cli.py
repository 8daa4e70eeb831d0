"""The commands of a deployment, and what they refuse: status 2 and a sentence."""

from __future__ import annotations

import json
import socket
import stat
from pathlib import Path

import pytest

from fedflat.deploy.transport import missing_packages

if missing_packages():
    pytest.skip("needs the extra fedflat[deploy]", allow_module_level=True)

from deploy.real_clients import free_port
from fedflat.cli import deploy, main
from fedflat.deploy import transport
from fedflat.deploy.certificates import Identity, issue
from fedflat.deploy.federation_folder import open_federation_folder

TEST = ("--test", "digits()")
DATA = ("--data", "digits(iid(), clients=1)")


@pytest.fixture
def fed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A federation of two clients; the current folder is its parent's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDFLAT_WATCHED", "1")
    monkeypatch.setattr(deploy, "end_with_parent", lambda: None)
    words = ["deploy", "init", "federation", "--clients", "a,b"]
    assert main([*words, "--address", f"127.0.0.1:{free_port()}"]) == 0
    return tmp_path / "federation"


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The sentence with which a command is refused."""
    capsys.readouterr()
    assert main(["deploy", *words]) == 2
    output = capsys.readouterr()
    assert not output.out
    return output.err.splitlines()[-1]


def test_keys_can_be_read_by_their_owner_only(fed: Path) -> None:
    for secret in (fed / "ca.key", fed / "server.key", fed / "participants" / "a.join"):
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_clients_can_be_added_and_renewed(fed: Path) -> None:
    before = (fed / "clients" / "a.crt").read_bytes()
    assert main(["deploy", "init", "federation", "--clients", "c"]) == 0
    assert open_federation_folder(fed).clients == ("a", "b", "c")
    assert (fed / "clients" / "a.crt").read_bytes() == before
    assert main(["deploy", "init", "federation", "--renew"]) == 0
    assert (fed / "clients" / "a.crt").read_bytes() != before
    server = json.loads((fed / "participants" / "a.join").read_text())["server"]
    assert server == (fed / "server.crt").read_text()


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ("server", "not be 'server'"),
        ("a b", "letters, digits"),
        ("_a", "begin with a letter or a digit"),
        ("", "name the clients"),
    ],
)
def test_names_that_clients_cannot_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], names: str, why: str
) -> None:
    assert why in refused(capsys, "init", str(tmp_path / "new"), "--clients", names)


def test_an_address_without_a_port(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("init", str(tmp_path / "new"), "--clients", "a", "--address", "example.org")
    assert "an address must be HOST:PORT" in refused(capsys, *words)


def test_a_port_in_use(fed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", open_federation_folder(fed).port))
        other.listen()
        assert "Another process may use the port" in refused(capsys, "serve", "fedavg", *TEST)


def test_a_server_that_is_not_there(fed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("join", "federation/participants/a.join", *DATA, "--wait", "0.5")
    assert "no server answers at 127.0.0.1" in refused(capsys, *words)


def test_an_expired_certificate(fed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ca = Identity((fed / "ca.key").read_bytes(), (fed / "ca.crt").read_bytes())
    path = fed / "participants" / "a.join"
    old = issue(ca, "a", 0)
    text = json.loads(path.read_text())
    text |= {"certificate": old.certificate.decode(), "key": old.key.decode()}
    path.write_text(json.dumps(text))
    words = ("join", "federation/participants/a.join", *DATA)
    assert "fedflat deploy init FOLDER --renew" in refused(capsys, *words)
    (fed / "server.crt").write_bytes(issue(ca, "server", 0).certificate)
    assert "federation counts from" in refused(capsys, "serve", "fedavg", *TEST)


@pytest.mark.parametrize("content", [None, "", "{}", "[1]"])
def test_what_is_no_file_of_a_participant(
    fed: Path, capsys: pytest.CaptureFixture[str], content: str | None
) -> None:
    path = fed.parent / "x.join"
    if content is not None:
        path.write_text(content)
    assert "x.join is no file of a participant" in refused(capsys, "join", str(path), *DATA)


def test_no_tls_must_be_asked_for_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "plain"
    words = ["init", str(folder), "--clients", "a", "--insecure-no-tls"]
    assert main(["deploy", *words]) == 0
    assert "WITHOUT TLS" in capsys.readouterr().out
    why = refused(capsys, "serve", "fedavg", "--federation", str(folder))
    assert "anybody on the way can read what is sent" in why


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "name a method"),
        (("fedavg",), "--test 'digits()'"),
        (("fedavg", "--seeds", "3"), "one run at a time"),
        (("fedavg", "--round-timeout", "5"), "--min-replies 1"),
        (("fedavg", "--federation", "nowhere"), "is not the folder of a federation"),
        (("fedavg", "--test", "nothing()"), "nothing"),
        (("fedavg", *TEST, "--max-message", "-1"), "--max-message must be a number"),
        (("fedavg", *TEST, "--max-message", "3000"), "--max-message must be a number"),
        (("fedavg", *TEST, "--wait", "-1"), "wait must be a number"),
        (("--resume", "nowhere"), "nowhere"),
        (("fedavg", *TEST, "--logger", "csv"), "not a logger"),
        (("fedavg", *TEST, "--model", "nothing"), "unknown model"),
        (("centralised()", *TEST), "needs all data in one place"),
        (("dp(noise=1)", *TEST), "secret=True"),
    ],
)
def test_what_a_server_refuses(
    fed: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], why: str
) -> None:
    assert why in refused(capsys, "serve", *words)


def test_too_few_clients(fed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    why = refused(capsys, "serve", "fedavg", *TEST, "--wait", "0.3", "--quiet")
    assert "after 0.3 s, 0 of the 2 clients that are needed are here. Missing: a, b." in why
    assert main(["deploy", "status", "federation"]) == 0
    assert "was stopped" in capsys.readouterr().out


def test_a_server_says_what_leaves_clients_by_its_topology(
    fed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("serve", "fedavg", *TEST, "--wait", "0.3", "--topology", "chains(groups=2)")
    assert main(["deploy", *words]) == 2
    printed = capsys.readouterr().err
    assert "Models go from client to client" in printed
    assert "names of classes and columns" in printed


def test_a_status_without_a_server(fed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "has no status" in refused(capsys, "status", "federation")


def test_without_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(transport, "PACKAGES", ("nvflare", "no_such_package"))
    why = refused(capsys, "init", str(tmp_path / "new"), "--clients", "a")
    assert "no_such_package must be installed for it" in why
