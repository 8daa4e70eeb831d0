"""Keys and certificates of a federation: a CA of its own, the server's, and one per client.

A client's identity is the certificate that is registered under its name. Keys are ECDSA keys on
P-256.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from fedflat.deploy.transport import require_extra
from fedflat.errors import SettingError, shown

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, GeneralName

SERVER = "server"
"""The name in the server's certificate."""
SKEW = timedelta(hours=1)
"""Certificates count from so long before they were made: clocks of machines differ."""


@dataclass(frozen=True)
class Identity:
    """A private key and its certificate, as PEM."""

    key: bytes
    certificate: bytes


def make_ca(name: str, days: int) -> Identity:
    """A new certificate authority."""
    from cryptography import x509

    require_extra()
    key = _new_key()
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    builder = (
        _builder(name, name, key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _signed(builder, key, key)


def issue(ca: Identity, name: str, days: int, hosts: tuple[str, ...] = ()) -> Identity:
    """A new key with a certificate of the authority.

    Args:
        ca: The authority.
        name: The name in the certificate.
        days: How long it counts.
        hosts: Names and addresses at which clients reach the server.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from cryptography.x509.oid import NameOID

    require_extra()
    authority = x509.load_pem_x509_certificate(ca.certificate)
    ca_key = load_pem_private_key(ca.key, password=None)
    issuer = authority.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    key = _new_key()
    names = [_general_name(host) for host in hosts] or [x509.DNSName(name)]
    builder = (
        _builder(name, str(issuer), key, days)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()),  # type: ignore[arg-type]
            critical=False,
        )
    )
    return _signed(builder, key, ca_key)  # type: ignore[arg-type]


def load_certificate(pem: bytes, what: str) -> Certificate:
    """A certificate that counts now; `SettingError` if it is none, or has expired.

    Args:
        pem: The certificate.
        what: What to call it in an error.
    """
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificate(pem)
    except ValueError:
        raise SettingError(
            f"{what} cannot be read: it is no certificate. Use the file that `fedflat deploy init` "
            "wrote."
        ) from None
    now = datetime.now(UTC)
    if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
        raise SettingError(
            f"{what} counts from {certificate.not_valid_before_utc:%Y-%m-%d} to "
            f"{certificate.not_valid_after_utc:%Y-%m-%d}, and today is {now:%Y-%m-%d}. Have a new "
            "one made: `fedflat deploy init FOLDER --renew`."
        )
    return certificate


def load_key(pem: bytes, what: str) -> EllipticCurvePrivateKey:
    """A private key; `SettingError` if it is none."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, EllipticCurvePrivateKey):
        raise SettingError(
            f"{what} cannot be read: it is no private key of a federation. Use the file that "
            "`fedflat deploy init` wrote."
        )
    return key


def fingerprint(certificate: Certificate) -> str:
    """The SHA-256 fingerprint of a certificate, in hexadecimal."""
    from cryptography.hazmat.primitives.hashes import SHA256

    return certificate.fingerprint(SHA256()).hex()


def check_name(name: str) -> str:
    """The name of a client, if it can be one."""
    fits = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    if not fits or len(name) > 60 or not name[0].isalnum() or name.lower() == SERVER:
        raise SettingError(
            "a client's name must be letters, digits, '-' and '_', begin with a letter or a digit, "
            f"have at most 60 characters and not be {SERVER!r}, found {shown(name)}."
        )
    return name


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _builder(name: str, issuer: str, key: EllipticCurvePrivateKey, days: int):  # type: ignore[no-untyped-def]
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + timedelta(days=days))
    )


def _signed(builder, key: EllipticCurvePrivateKey, by: EllipticCurvePrivateKey) -> Identity:  # type: ignore[no-untyped-def]
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.hashes import SHA256

    certificate = builder.sign(by, SHA256())
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return Identity(pem, certificate.public_bytes(serialization.Encoding.PEM))


def _general_name(host: str) -> GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
