"""The certificates by which brokers on several machines know each other.

Every broker makes a key and a certificate when it starts, and keeps the key to itself. The certificate is told to the
others by the store that all of them trust, together with the broker's address. So each end of a link shows exactly the
certificate that the store has for it, and nobody has to make, install or renew any.

Needs cryptography (`pip install 'ottla[shared]'`).
"""

from __future__ import annotations

import datetime
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ottla.errors import ConfigError

# Certificates are as old as their processes; clocks of other machines may be behind.
_BACKDATED: Final = datetime.timedelta(days=1)
_LASTING: Final = datetime.timedelta(days=3650)


class OwnCertificate(NamedTuple):
    """The certificate of this process (PEM), and its key."""

    certificate: str
    key: str


def make_certificate(node_name: str) -> OwnCertificate:
    """A key, and a certificate that it has signed itself."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID
    except ImportError as error:
        raise ConfigError(
            "brokers that share a store need the package cryptography: pip install 'ottla[shared]'"
        ) from error
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, node_name[:64] or "broker")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + _LASTING)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return OwnCertificate(
        certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode(),
    )


def context_for_peer(
    own: OwnCertificate, certificate: str, purpose: str | None = None
) -> ssl.SSLContext:
    """For a connection to the broker of one certificate; what it is for, if it is no link, is told in the handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # the certificate says who it is, wherever it is
    _set_up(context, own, certificate)
    if purpose is not None:
        context.set_alpn_protocols([purpose])
    return context


def context_for_all(
    own: OwnCertificate, certificates: Mapping[int, str], purposes: Sequence[str] = ()
) -> ssl.SSLContext:
    """For connections of the brokers of these certificates, and for these purposes besides links."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    # A session that is resumed would outlive the check of its certificate.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    _set_up(context, own, "".join(certificates.values()))
    if purposes:
        context.set_alpn_protocols(list(purposes))
    return context


def _set_up(context: ssl.SSLContext, own: OwnCertificate, trusted: str) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if trusted:
        context.load_verify_locations(cadata=trusted)
    # Python's ssl reads keys from files only. The folder has mode 0700 and is removed at once.
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "own.pem")
        file.write_text(own.key + own.certificate, encoding="ascii")
        context.load_cert_chain(file)


def node_of(shown: bytes | None, certificates: Mapping[int, str]) -> int | None:
    """The node whose certificate an end of a connection has shown (DER)."""
    for node_id, certificate in certificates.items():
        if shown is not None and ssl.PEM_cert_to_DER_cert(certificate) == shown:
            return node_id
    return None
