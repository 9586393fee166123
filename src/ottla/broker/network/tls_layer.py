"""TLS between a socket and a connection: a protocol for the socket's transport, and the transport of the connection.

The layers of asyncio and uvloop are not used: they hold a large buffer for each connection, have no limit on
handshakes, and tell nobody why one has failed (ADR 0051). Here all connections of a node decrypt out of one buffer into
the one that they receive into, responses are encrypted in pieces as the client reads them, and handshakes take turns.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from contextlib import suppress
from enum import Enum
from typing import Any, Final, Protocol, cast

from ottla.broker.loop.loop_share import LoopShare
from ottla.broker.network.handshakes import Handshakes
from ottla.broker.network.piecewise_transport import PIECE_BYTES, take_piece
from ottla.ports import Buffer

# While the connection does not read, at most about this much waits here, encrypted.
MAX_WAITING_BYTES: Final = 64 << 10
# The most that a client may send during its handshake, with a chain of certificates.
MAX_HANDSHAKE_BYTES: Final = 128 << 10
# Records that bring no bytes of the client, such as those that change the keys: each costs as much as kilobytes. The
# JDK changes them after 128 GiB.
MAX_SILENT_RECORDS: Final = 100
# The records that are decrypted before others have their turn: thousands of small ones fit into one receive, and each
# takes some microseconds.
RECORDS_AT_ONCE: Final = 500
RECORD_HEADER_BYTES: Final = 5
# The most that OpenSSL may take for a record. It refuses a longer one as soon as it sees its header.
MAX_RECORD_BYTES: Final = RECORD_HEADER_BYTES + (16 << 10) + 2048
_PROTOCOL_VERSION_ALERT: Final = b"\x15\x03\x03\x00\x02\x02\x46"
_TLS_HANDSHAKE: Final = 0x16
_FOREIGN: Final = (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI")
_PROBLEMS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it has sent no certificate, which ssl.client.auth requires",
    "UNSUPPORTED_PROTOCOL": "it speaks no version of TLS that ssl.enabled.protocols has",
    "NO_SHARED_CIPHER": "it has no cipher suite in common with this listener",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust the certificate of this listener (unknown CA)",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not accept the certificate of this listener",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not accept the certificate of this listener",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the certificate of this listener has expired",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it speaks no version of TLS that ssl.enabled.protocols has",
}


class _State(Enum):
    NEW = 0
    HANDSHAKE = 1
    OPEN = 2
    CLOSING = 3  # what waits to be sent is sent, then the socket is closed
    CLOSED = 4


class Secured(Protocol):
    """A connection on top of TLS."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...

    def handshake_done(self, certificate: bytes | None) -> None:
        """The connection is encrypted; the client's certificate is DER."""
        ...

    def handshake_failed(self, reason: str) -> None: ...

    def get_buffer(self, sizehint: int) -> memoryview: ...

    def buffer_updated(self, nbytes: int) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...


class TlsHost(Protocol):
    """What the layer needs from its server."""

    @property
    def share(self) -> LoopShare: ...

    @property
    def encrypted_buffer(self) -> memoryview: ...

    @property
    def handshakes(self) -> Handshakes: ...


class ContextSource(Protocol):
    """Has the context for new connections, which changes with the certificates."""

    @property
    def context(self) -> ssl.SSLContext: ...


class TlsLayer(asyncio.Transport, asyncio.BufferedProtocol):
    """The TLS of one connection."""

    def __init__(self, host: TlsHost, source: ContextSource, secured: Secured) -> None:
        super().__init__()
        self._host = host
        self._source = source
        self._secured = secured
        self._state = _State.NEW
        self._waits_for_turn = False
        self._reading_paused = False  # by the connection
        self._socket_paused = False  # by this layer
        self._is_reading = False
        self._reads_soon = False
        self._has_ended = False  # the client has sent everything
        # Encrypted bytes that OpenSSL has not got: it gets one record at a time, and says whether anything was in it.
        self._waiting = bytearray()
        self._fed_bytes = 0  # of these, the beginning that it has
        self._silent_records = 0
        self._records_left = 0  # of this turn
        self._peeked = b""
        self._write_paused = False  # by the socket
        self._unsent: deque[memoryview] = deque()
        self._first_bytes = b""

    # Called by the socket's transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._below = cast(asyncio.Transport, transport)
        self._secured.connection_made(self)
        if self._state is _State.CLOSED:  # refused
            return
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = self._source.context
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._state = _State.HANDSHAKE
        self._host.handshakes.begin(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_handshake()
        self._state = _State.CLOSED
        self._unsent.clear()
        self._secured.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._host.encrypted_buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._state is _State.OPEN:
            self._waiting += self._host.encrypted_buffer[:nbytes]
            if not self._reads_soon:
                self._read()
            if (self._reading_paused or self._reads_soon) and (
                len(self._waiting) > MAX_WAITING_BYTES
            ):
                self._pause_socket()
        elif self._state is _State.HANDSHAKE:
            received = self._host.encrypted_buffer[:nbytes]
            if not self._first_bytes:
                self._first_bytes = bytes(received[:4])
            self._incoming.write(received)
            if self._incoming.pending > MAX_HANDSHAKE_BYTES:
                self.fail_handshake("it has sent too much without finishing its handshake")
            elif not self._waits_for_turn:
                self._waits_for_turn = True
                self._host.share.call_next(self._advance_handshake)

    def eof_received(self) -> bool:
        if self._state is _State.HANDSHAKE and not self._first_bytes:
            self.abort()  # as those do that only look whether there is somebody
        elif self._state is _State.HANDSHAKE:
            self.fail_handshake(
                "it has closed the connection during the handshake: perhaps it does not accept the "
                "certificate of this listener"
            )
        elif self._state is _State.OPEN:
            self._has_ended = True
            if self._reading_paused:
                if not self._has_request():
                    self.abort()  # nobody is left to take what the connection works at
            elif not self._reads_soon:
                self._read()
        return True

    def pause_writing(self) -> None:
        self._write_paused = True
        if self._state is _State.OPEN:
            self._secured.pause_writing()

    def resume_writing(self) -> None:
        self._write_paused = False
        self._pump()
        if self._unsent or self._write_paused:
            return
        if self._state is _State.CLOSING:
            self._close_below()
        elif self._state is _State.OPEN:
            self._secured.resume_writing()

    # The handshake.

    @property
    def waits_for_client(self) -> bool:
        """Whether the handshake goes on when the client sends something."""
        return not self._waits_for_turn

    def _advance_handshake(self) -> None:
        self._waits_for_turn = False
        if self._state is not _State.HANDSHAKE:
            return
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except (ssl.SSLError, OSError) as error:
            self.fail_handshake(self._problem(error))
            return
        self._end_handshake()
        self._flush()
        self._state = _State.OPEN
        self._waiting += self._incoming.read()
        self._secured.handshake_done(self._tls.getpeercert(binary_form=True))
        self._read()

    def fail_handshake(self, reason: str) -> None:
        """Ends the connection; the client gets the alert that TLS has for it, if there is one."""
        self._end_handshake()
        self._state = _State.CLOSING
        self._secured.handshake_failed(reason)
        if self._outgoing.pending:
            self._flush()
        elif self._first_bytes and self._first_bytes[0] != _TLS_HANDSHAKE:
            # OpenSSL has no alert for what is not TLS. By Kafka's, clients without TLS see what is wrong.
            self._below.write(_PROTOCOL_VERSION_ALERT)
        self._state = _State.CLOSED
        self._below.close()

    def _end_handshake(self) -> None:
        self._host.handshakes.end(self)

    def _problem(self, error: Exception) -> str:
        if self._first_bytes[0] != _TLS_HANDSHAKE:
            sent = "an HTTP request" if self._first_bytes in _FOREIGN else "plaintext"
            return f"it sent {sent}, and this listener speaks TLS (clients set security.protocol)"
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"its certificate is not accepted: {error.verify_message}"
        reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
        return _PROBLEMS.get(reason) or (reason or str(error)).replace("_", " ").lower()

    # Bytes in.

    def _read(self) -> None:
        """Decrypts as long as there is something to decrypt, and the connection takes it."""
        if self._is_reading:
            return
        self._is_reading = True
        self._records_left = RECORDS_AT_ONCE
        try:
            while not self._reading_paused and self._state is _State.OPEN:
                buffer = self._secured.get_buffer(-1)
                size_bytes = self._decrypt(buffer)
                if size_bytes:
                    self._secured.buffer_updated(size_bytes)
                if size_bytes < len(buffer):
                    break
        finally:
            self._is_reading = False
        if self._state is not _State.OPEN:
            return
        if self._reading_paused:
            return
        if self._waiting and not self._records_left:
            self._reads_soon = True
            self._host.share.call_next(self._read_again)
        elif self._has_ended and not self._waiting:
            self.close()
        elif self._socket_paused:
            self._socket_paused = False
            self._below.resume_reading()

    def _decrypt(self, buffer: memoryview) -> int:
        """Fills the buffer as far as it goes; returns the number of bytes."""
        filled = len(self._peeked)
        if filled:
            buffer[:filled] = self._peeked
            self._peeked = b""
        size_bytes, tls = len(buffer), self._tls
        try:
            while filled < size_bytes and (tls.pending() or self._feed()):
                try:
                    count = tls.read(size_bytes - filled, buffer[filled:] if filled else buffer)
                except ssl.SSLWantReadError:
                    self._silent_records += 1
                    if self._silent_records > MAX_SILENT_RECORDS:
                        self._break("it sends records without anything in them")
                        break
                    continue
                if not count:
                    self._has_ended = True
                    break
                filled += cast(int, count)
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self._has_ended = True
            self._waiting.clear()
            self._fed_bytes = 0
        except ssl.SSLError as error:
            self._break(self._problem(error))
        if self._fed_bytes:
            del self._waiting[: self._fed_bytes]
            self._fed_bytes = 0
        if self._outgoing.pending:  # an answer of TLS itself, such as to a new key
            self._flush()
        return filled

    def _feed(self) -> bool:
        """Gives OpenSSL the next record, or at the end what is left; False if there is none for this turn."""
        if not self._records_left:
            return False
        waiting, start = self._waiting, self._fed_bytes
        end = len(waiting)
        if end - start >= RECORD_HEADER_BYTES:
            size = RECORD_HEADER_BYTES + int.from_bytes(waiting[start + 3 : start + 5], "big")
            end = start + min(size, MAX_RECORD_BYTES)
        if end - start >= RECORD_HEADER_BYTES and end <= len(waiting):
            self._fed_bytes = end
        elif self._has_ended:
            end = self._fed_bytes = len(waiting)
        else:
            return False
        self._records_left -= 1
        if end > start:
            with memoryview(waiting) as bytes_now:
                self._incoming.write(bytes_now[start:end])
        else:
            self._incoming.write_eof()
        return True

    def _has_request(self) -> bool:
        """Whether there is something that the connection has not read."""
        if not self._peeked:
            self._records_left = RECORDS_AT_ONCE
            first = bytearray(1)
            self._peeked = bytes(first[: self._decrypt(memoryview(first))])
        return bool(self._peeked)

    def _break(self, reason: str) -> None:
        """Ends a connection whose bytes are no TLS any more, or nothing else."""
        self._flush()
        self._state = _State.CLOSED
        self._secured.handshake_failed(f"its TLS is broken: {reason}")
        self._below.close()

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        self._reading_paused = False
        if self._socket_paused and self._state is _State.OPEN:
            self._socket_paused = False
            self._below.resume_reading()
        # The connection may be in the middle of something: it gets its bytes in the next turn of the loop.
        if not (self._is_reading or self._reads_soon) and self._has_bytes:
            self._reads_soon = True
            asyncio.get_running_loop().call_soon(self._read_again)

    @property
    def _has_bytes(self) -> bool:
        return self._state is _State.OPEN and bool(
            self._waiting or self._tls.pending() or self._peeked or self._has_ended
        )

    def _read_again(self) -> None:
        self._reads_soon = False
        self._read()

    def _pause_socket(self) -> None:
        if not self._socket_paused and not self._below.is_closing():
            self._socket_paused = True
            self._below.pause_reading()

    # Bytes out.

    def write(self, data: Buffer) -> None:
        if self._state is not _State.OPEN:
            return
        if self._unsent or self._write_paused or len(data) > PIECE_BYTES:
            self._unsent.append(memoryview(data))
            self._pump()
        else:
            self._encrypt(data)

    def writelines(self, list_of_data: Any) -> None:
        if self._state is _State.OPEN:
            self._unsent.extend(map(memoryview, list_of_data))
            self._pump()

    def _pump(self) -> None:
        while self._unsent and not self._write_paused and not self._below.is_closing():
            self._encrypt(take_piece(self._unsent))

    def _encrypt(self, piece: Buffer) -> None:
        try:
            self._tls.write(piece)
        except ssl.SSLError as error:
            self._unsent.clear()
            self._break(self._problem(error))
            return
        self._below.write(self._outgoing.read())

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._below.write(self._outgoing.read())

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self._unsent)) + self._below.get_write_buffer_size()

    # The end, and what the connection asks.

    def is_closing(self) -> bool:
        return self._state in (_State.CLOSING, _State.CLOSED) or self._below.is_closing()

    def close(self) -> None:
        """Closes after all bytes are sent."""
        if self._state is _State.HANDSHAKE or self._state is _State.NEW:
            self.abort()
        elif self._state is _State.OPEN:
            self._state = _State.CLOSING
            self._pause_socket()
            if not self._unsent:
                self._close_below()

    def _close_below(self) -> None:
        self._state = _State.CLOSED
        # It tells the client that nothing follows. The client's own farewell is not waited for.
        with suppress(ssl.SSLError, OSError, ValueError):
            self._tls.unwrap()
        self._flush()
        self._below.close()

    def abort(self) -> None:
        self._end_handshake()
        self._state = _State.CLOSED
        self._unsent.clear()
        self._below.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        # The socket is not the connection's to look at: its end shows here by itself.
        return default if name == "socket" else self._below.get_extra_info(name, default)

    def is_reading(self) -> bool:
        return not self._reading_paused
