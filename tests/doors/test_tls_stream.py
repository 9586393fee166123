"""What a client of a door with TLS may send."""

from __future__ import annotations

import asyncio
import ssl
from types import SimpleNamespace
from typing import cast

import pytest
from tests.doors.conftest import Certificates

from ottla.doors.tls_stream import MAX_RECEIVED_BYTES, TlsStream


class SilentTls:
    """Decrypts records in which the client says nothing, such as those that change the keys."""

    def read(self, count: int) -> bytes:
        raise ssl.SSLWantReadError


def test_records_without_anything_in_them_come_to_an_end(certificates: Certificates) -> None:
    async def talk() -> None:
        reader = asyncio.StreamReader()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.server)
        writer = SimpleNamespace(write=lambda data: None)
        stream = TlsStream(reader, cast(asyncio.StreamWriter, writer), context)
        stream._tls = cast(ssl.SSLObject, SilentTls())
        reader.feed_data(bytes(MAX_RECEIVED_BYTES + 1))
        await stream.read_until(b"\r\n", 8192)

    with pytest.raises(ConnectionError, match="the client sends too much"):
        asyncio.run(talk())
