"""Messages are read only if a registered sender has signed them for this receiver."""

from __future__ import annotations

import pytest

from fedflat.deploy.transport import missing_packages

if missing_packages():
    pytest.skip("needs the extra fedflat[deploy]", allow_module_level=True)

from fedflat.deploy.certificates import Identity, issue, load_certificate, load_key, make_ca
from fedflat.deploy.envelope import MAGIC, Reader, RejectedMessage, Signer
from fedflat.errors import SettingError


@pytest.fixture(scope="module")
def ca() -> Identity:
    return make_ca("test", 10)


@pytest.fixture(scope="module")
def a(ca: Identity) -> Identity:
    return issue(ca, "a", 10)


@pytest.fixture(scope="module")
def b(ca: Identity) -> Identity:
    return issue(ca, "b", 10)


def signer(name: str, pair: Identity) -> Signer:
    return Signer(name, load_key(pair.key, "the key"))


def reader(most: int = 10_000, **known: Identity) -> Reader:
    peers = {name: load_certificate(one.certificate, name) for name, one in known.items()}
    return Reader("server", peers, most)


def test_a_signed_message_is_read(a: Identity) -> None:
    content = signer("a", a).seal("server", "reply", "s1", b"body", request="0/1/0")
    found = reader(a=a).open(content)
    assert (found.sender, found.kind, found.session, found.body) == ("a", "reply", "s1", b"body")
    assert found.fields == {"request": "0/1/0"}


@pytest.mark.parametrize("place", [0, len(MAGIC) + 5, -1, -30])
def test_a_changed_byte_is_noticed(a: Identity, place: int) -> None:
    content = bytearray(signer("a", a).seal("server", "reply", "s1", b"body" * 20))
    content[place] ^= 1
    with pytest.raises(RejectedMessage):
        reader(a=a).open(content)


def test_the_name_of_another_needs_its_key(a: Identity, b: Identity) -> None:
    content = signer("a", b).seal("server", "reply", "s1", b"body")
    with pytest.raises(RejectedMessage, match="not signed by 'a'"):
        reader(a=a, b=b).open(content)


def test_strangers_are_not_read(a: Identity, b: Identity) -> None:
    content = signer("b", b).seal("server", "hello", "")
    with pytest.raises(RejectedMessage, match="'b', which is not registered") as refused:
        reader(a=a).open(content)
    assert refused.value.sender == "b"


def test_messages_to_others_are_not_read(a: Identity) -> None:
    with pytest.raises(RejectedMessage, match="it is for 'b'"):
        reader(a=a).open(signer("a", a).seal("b", "hello", ""))


def test_a_large_message_is_not_read(a: Identity) -> None:
    content = signer("a", a).seal("server", "reply", "s1", bytes(20_000))
    with pytest.raises(RejectedMessage, match="at most 10,000 are read"):
        reader(a=a).open(content)


@pytest.mark.parametrize("content", [b"", b"x", MAGIC, MAGIC + b"\xff" * 40, MAGIC + bytes(8)])
def test_what_is_no_message_is_not_read(a: Identity, content: bytes) -> None:
    with pytest.raises(RejectedMessage):
        reader(a=a).open(content)


def test_an_expired_certificate_is_refused(ca: Identity) -> None:
    old = issue(ca, "old", 0)
    with pytest.raises(SettingError, match="deploy init FOLDER --renew"):
        load_certificate(old.certificate, "the certificate of old")
