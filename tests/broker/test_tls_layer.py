"""The TLS between a socket and a connection: bytes arrive as they were sent, however they are cut and held up."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.client.security.certificates import Certificates, make_certificates

from ottla.broker.loop.loop_share import LoopShare
from ottla.broker.network.handshakes import Handshakes
from ottla.broker.network.piecewise_transport import PIECE_BYTES
from ottla.broker.network.tls_layer import (
    MAX_HANDSHAKE_BYTES,
    MAX_SILENT_RECORDS,
    RECORDS_AT_ONCE,
    TlsHost,
    TlsLayer,
)

BUFFER_BYTES = 64 << 10


class Socket(asyncio.Transport):
    """The transport of a socket that takes so many bytes, until it is told to take more."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self.room: int | None = None
        self.protocol: TlsLayer | None = None
        self.is_read = True
        self.is_closed = self.is_aborted = False

    def write(self, data: Any) -> None:
        self.sent += data
        if self.room is not None:
            self.room -= len(data)
            if self.room <= 0:
                assert self.protocol is not None
                self.protocol.pause_writing()

    def take(self) -> bytes:
        """What the broker has sent; the socket has room again."""
        taken = bytes(self.sent)
        self.sent.clear()
        return taken

    def get_write_buffer_size(self) -> int:
        return len(self.sent)

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True


class Secured:
    """A connection that notes what it gets; it may stop reading after so many bytes."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.pause_after: int | None = None
        self.is_secure = self.is_paused = False
        self.reason = ""
        self.certificate: bytes | None = None
        self._buffer = memoryview(bytearray(BUFFER_BYTES))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def handshake_done(self, certificate: bytes | None) -> None:
        self.is_secure, self.certificate = True, certificate

    def handshake_failed(self, reason: str) -> None:
        self.reason = reason

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._buffer[:nbytes]
        if self.pause_after is not None and len(self.received) >= self.pause_after:
            self.pause_after = None
            self.transport.pause_reading()

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False

    def connection_lost(self, exc: Exception | None) -> None: ...


class Pair:
    """A client of OpenSSL's, and the layer with a connection on top."""

    def __init__(self, certificates: Certificates) -> None:
        loop = asyncio.get_running_loop()
        self.buffer = memoryview(bytearray(BUFFER_BYTES))
        host = SimpleNamespace(
            share=LoopShare(loop.time),
            encrypted_buffer=self.buffer,
            handshakes=Handshakes(loop.time),
        )
        self.host = host
        self.secured, self.socket = Secured(), Socket()
        source = SimpleNamespace(context=certificates.server_context())
        self.layer = TlsLayer(cast(TlsHost, host), source, self.secured)
        self.socket.protocol = self.layer
        self.layer.connection_made(self.socket)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=str(certificates.ca))
        self.tls = context.wrap_bio(self._in, self._out, server_hostname="127.0.0.1")

    async def shake_hands(self) -> None:
        while not self.secured.is_secure:
            with suppress(ssl.SSLWantReadError):
                self.tls.do_handshake()
            self.deliver(self._out.read())
            for _ in range(3):
                await asyncio.sleep(0)
            self._in.write(self.socket.take())

    def deliver(self, data: bytes) -> None:
        """Gives the layer what arrives at once."""
        for start in range(0, len(data), BUFFER_BYTES):
            piece = data[start : start + BUFFER_BYTES]
            self.layer.get_buffer(-1)[: len(piece)] = piece
            self.layer.buffer_updated(len(piece))

    def encrypted(self, data: bytes) -> bytes:
        self.tls.write(data)
        return self._out.read()

    def decrypted(self, count: int) -> bytes:
        """What the client can read now."""
        self._in.write(self.socket.take())
        found = bytearray()
        while len(found) < count:
            try:
                piece = self.tls.read(count - len(found))
            except ssl.SSLWantReadError:
                break
            if not piece:  # the farewell
                break
            found += piece
        return bytes(found)


def run(certificates: Certificates, play: Callable[[Pair], Any]) -> None:
    async def main() -> None:
        pair = Pair(certificates)
        await pair.shake_hands()
        await play(pair)

    asyncio.run(main())


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@settings(max_examples=25)
@given(
    sizes=st.lists(st.integers(1, 70_000), min_size=1, max_size=5),
    cuts=st.lists(st.integers(1, 40_000), min_size=1, max_size=8),
    pause_after=st.none() | st.integers(1, 100_000),
)
def test_what_the_client_sends_arrives_however_it_is_cut(
    certificates: Certificates, sizes: list[int], cuts: list[int], pause_after: int | None
) -> None:
    data = [bytes([number]) * size for number, size in enumerate(sizes)]

    async def play(pair: Pair) -> None:
        pair.secured.pause_after = pause_after
        sent = b"".join(map(pair.encrypted, data))
        start = number = 0
        while start < len(sent):
            end = start + cuts[number % len(cuts)]
            pair.deliver(sent[start:end])
            start, number = end, number + 1
        pair.layer.resume_reading()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert pair.secured.received == b"".join(data)

    run(certificates, play)


@settings(max_examples=25)
@given(
    sizes=st.lists(st.integers(1, 3 * PIECE_BYTES), min_size=1, max_size=6),
    room=st.integers(1, 2 * PIECE_BYTES),
)
def test_what_the_connection_sends_arrives_as_the_client_reads(
    certificates: Certificates, sizes: list[int], room: int
) -> None:
    data = [bytes([number]) * size for number, size in enumerate(sizes)]

    async def play(pair: Pair) -> None:
        pair.socket.room = room
        pair.layer.write(data[0])
        pair.layer.writelines(data[1:])
        expected, found = b"".join(data), bytearray()
        while len(found) < len(expected):
            assert len(pair.socket.sent) < room + 2 * PIECE_BYTES, "the rest waits unencrypted"
            found += pair.decrypted(len(expected) - len(found))
            pair.socket.room = room
            pair.layer.resume_writing()
        assert found == expected
        assert not pair.secured.is_paused
        assert pair.layer.get_write_buffer_size() == 0

    run(certificates, play)


def test_the_rest_is_sent_before_the_socket_is_closed(certificates: Certificates) -> None:
    async def play(pair: Pair) -> None:
        pair.socket.room = 1
        pair.layer.write(b"x" * (4 * PIECE_BYTES))
        pair.layer.close()
        assert pair.layer.is_closing()
        found = bytearray()
        while not pair.socket.is_closed:
            found += pair.decrypted(4 * PIECE_BYTES)
            pair.socket.room = 1
            pair.layer.resume_writing()
        found += pair.decrypted(4 * PIECE_BYTES)
        assert len(found) == 4 * PIECE_BYTES
        assert pair.tls.read(1) == b"", "and a farewell"

    run(certificates, play)


def test_a_paused_connection_holds_little_of_what_arrives(certificates: Certificates) -> None:
    async def play(pair: Pair) -> None:
        pair.layer.pause_reading()
        sent = pair.encrypted(b"x" * 1_000_000)
        delivered = 0
        while pair.socket.is_read:
            pair.deliver(sent[delivered : delivered + BUFFER_BYTES])
            delivered += BUFFER_BYTES
        assert delivered <= 3 * BUFFER_BYTES
        assert not pair.secured.received
        pair.layer.resume_reading()
        assert pair.socket.is_read

    run(certificates, play)


@pytest.mark.parametrize("farewell", [True, False])
def test_a_client_that_goes_while_nothing_is_read_ends_the_connection(
    certificates: Certificates, farewell: bool
) -> None:
    async def play(pair: Pair) -> None:
        pair.layer.pause_reading()
        if farewell:
            with pytest.raises(ssl.SSLWantReadError):
                pair.tls.unwrap()
            pair.deliver(pair._out.read())
        assert pair.layer.eof_received()
        assert pair.socket.is_aborted

    run(certificates, play)


def test_requests_of_a_client_that_goes_are_still_read(certificates: Certificates) -> None:
    async def play(pair: Pair) -> None:
        pair.layer.pause_reading()
        pair.deliver(pair.encrypted(b"request"))
        pair.layer.eof_received()
        assert not pair.socket.is_closed
        pair.layer.resume_reading()
        await asyncio.sleep(0)
        assert pair.secured.received == b"request"
        assert pair.socket.is_closed

    run(certificates, play)


def test_bytes_that_are_no_tls_end_the_connection(certificates: Certificates) -> None:
    async def play(pair: Pair) -> None:
        pair.deliver(b"\x17\x03\x03\x00\x20" + b"x" * 32)
        assert pair.socket.is_closed
        assert "its TLS is broken" in pair.secured.reason

    run(certificates, play)


@settings(max_examples=25)
@given(st.binary(min_size=1, max_size=300))
def test_garbage_instead_of_a_handshake_is_refused(certificates: Certificates, data: bytes) -> None:
    async def main() -> None:
        pair = Pair(certificates)
        pair.deliver(data)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if not pair.socket.is_closed:  # it may be the beginning of a handshake
            pair.layer.eof_received()
        assert pair.socket.is_closed
        assert pair.secured.reason
        assert not pair.secured.received
        assert len(pair.host.handshakes) == 0

    asyncio.run(main())


def test_a_handshake_that_has_no_end_is_refused(certificates: Certificates) -> None:
    async def main() -> None:
        pair = Pair(certificates)
        sent = 0
        while not pair.socket.is_closed and sent < 2 * MAX_HANDSHAKE_BYTES:
            pair.deliver(b"\x16" + b"\x03" * 9999)
            sent += 10_000
        assert pair.socket.is_closed

    asyncio.run(main())


class SilentTls:
    """Decrypts records in which the client says nothing, such as those that change the keys."""

    def pending(self) -> int:
        return 0

    def read(self, count: int, buffer: memoryview) -> int:
        raise ssl.SSLWantReadError


def test_a_client_that_sends_records_without_anything_in_them_is_cut_off(
    certificates: Certificates,
) -> None:
    async def play(pair: Pair) -> None:
        pair.layer._tls = cast(ssl.SSLObject, SilentTls())
        record = bytes((0x17, 3, 3, 0, 22)) + bytes(22)
        pair.deliver(record * MAX_SILENT_RECORDS)
        assert not pair.layer.is_closing()
        pair.deliver(record * 1000)
        assert pair.socket.is_closed
        assert pair.secured.reason.endswith("it sends records without anything in them")

    run(certificates, play)


def test_the_smallest_records_are_decrypted_in_several_turns(certificates: Certificates) -> None:
    async def play(pair: Pair) -> None:
        said = bytes(range(256)) * 10
        data = b"".join(pair.encrypted(said[at : at + 1]) for at in range(len(said)))
        assert len(data) < BUFFER_BYTES
        pair.deliver(data)
        assert len(pair.secured.received) == RECORDS_AT_ONCE
        for _ in range(20):
            await asyncio.sleep(0)
        assert pair.secured.received == said
        pair.deliver(pair.encrypted(b"request"))
        assert pair.secured.received.endswith(b"request")

    run(certificates, play)


@pytest.mark.parametrize("ends", [False, True])
def test_what_waits_for_its_turn_is_bounded_and_arrives(
    certificates: Certificates, ends: bool
) -> None:
    async def play(pair: Pair) -> None:
        said = bytes(range(256)) * 16
        data = b"".join(pair.encrypted(said[at : at + 1]) for at in range(len(said)))
        pair.deliver(data)
        assert not pair.socket.is_read
        if ends:
            pair.layer.eof_received()
        for _ in range(20):
            await asyncio.sleep(0)
        assert pair.secured.received == said
        assert pair.socket.is_closed == ends
        assert ends or pair.socket.is_read

    run(certificates, play)
