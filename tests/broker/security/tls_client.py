"""Clients that speak TLS to a broker, with a certificate or without one."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from ottla.client.raw import RawConnection
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def context_for(ca: Path, certificate: Path | None = None, version: str = "") -> ssl.SSLContext:
    """What a client trusts, and the certificate by which it is known."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(ca)
    if certificate is not None:
        context.load_cert_chain(certificate)
    if version:
        context.minimum_version = context.maximum_version = VERSIONS[version]
    return context


class TlsConnection(RawConnection):
    """A connection that is encrypted before the first request."""

    def __init__(self, address: str, context: ssl.SSLContext, **options: Any) -> None:
        super().__init__(address, **options)
        try:
            self.tls = context.wrap_socket(self.socket, server_hostname="127.0.0.1")
        except BaseException:
            self.socket.close()
            raise
        self.socket = self.tls


def ask(connection: RawConnection) -> MetadataResponse:
    """Something that every client asks first."""
    answer: MetadataResponse = connection.call(MetadataRequest(topics=[]), MetadataResponse, 12)
    return answer
