"""Mutated TLS handshakes against a broker process: nobody gets in without a certificate, and nobody else notices."""

from __future__ import annotations

import random
import re
import socket
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.broker.processes import ServeProcess
from tests.broker.security.tls_client import VERSIONS, TlsConnection, ask, context_for
from tests.client.security.certificates import Certificates, make_certificates
from tests.fuzz.mutations import mutate
from tests.fuzz.wire import Control, FuzzError, Tally

from ottla.wire.framing import frame_request
from ottla.wire.messages.metadata import MetadataRequest

# Longer than the broker takes for an answer; a client that waits for the rest of a damaged message gets none.
STALL_SECONDS = 0.01
FLIGHTS = 3
_ADDRESS = re.compile(r"listener SSL \(SSL\) on (\S+)")
_REQUEST = frame_request(MetadataRequest(topics=[]), 5, 1, "fuzz")


@dataclass
class HandshakeTally:
    """What a run has done."""

    handshakes: int = 0
    finished: int = 0
    closed: int = 0
    checks: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.handshakes} handshakes in {self.seconds:.0f} s, {self.finished} finished by the client, "
            f"{self.closed} closed by the broker, {self.checks} checks"
        )


class Handshake:
    """A client without a good certificate, whose messages may be damaged."""

    def __init__(
        self, rng: random.Random, certificates: Certificates, tally: HandshakeTally
    ) -> None:
        self._rng = rng
        self._tally = tally
        stranger = certificates.folder / "stranger.pem"
        own = rng.choice((None, stranger, certificates.expired))
        context = context_for(certificates.ca, own, rng.choice(("", *VERSIONS)))
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname="127.0.0.1")
        self._is_finished = False
        self._damaged = rng.randrange(FLIGHTS)

    def play(self, address: tuple[str, int]) -> None:
        self._tally.handshakes += 1
        with socket.create_connection(address, 10) as connected, suppress(ConnectionError):
            connected.settimeout(STALL_SECONDS)
            for flight in range(FLIGHTS):
                self._advance()
                self._send(connected, is_damaged=flight == self._damaged)
                received = self._receive(connected)
                if received == b"":
                    self._tally.closed += 1
                    return
                self._in.write(received or b"")

    def _advance(self) -> None:
        with suppress(ssl.SSLError):
            self._tls.do_handshake()
            if not self._is_finished:
                self._is_finished = True
                self._tally.finished += 1
                self._tls.write(_REQUEST)
            if self._tls.read(100):
                raise FuzzError("a client without a certificate got an answer")

    def _send(self, connected: socket.socket, *, is_damaged: bool) -> None:
        data = bytearray(self._out.read())
        if is_damaged:
            mutate(self._rng, data, [_REQUEST])
        cut = self._rng.randrange(len(data) + 1)
        connected.sendall(data[:cut])
        connected.sendall(data[cut:])

    def _receive(self, connected: socket.socket) -> bytes | None:
        try:
            return connected.recv(1 << 16)
        except TimeoutError:
            return None


def run_handshakes(folder: Path, seed: int, handshakes: int, check_every: int) -> HandshakeTally:
    """Plays that many handshakes to a broker of its own."""
    rng = random.Random(seed)
    certificates = make_certificates(folder)
    known = context_for(certificates.ca, certificates.client)
    process = ServeProcess(folder)
    process.start(
        *("--listen", "SSL://127.0.0.1:0", "--set", "ssl.client.auth=required"),
        *("--set", f"ssl.keystore.location={certificates.server}"),
        *("--set", f"ssl.truststore.location={certificates.ca}"),
    )
    tally, seen = HandshakeTally(), Tally()
    began = time.monotonic()
    try:
        found = _ADDRESS.search(process.log)
        if found is None:
            raise FuzzError(f"no listener: {process.log}")
        host, _, port = found[1].rpartition(":")
        control = Control(process)
        control.topic_ids()
        while tally.handshakes < handshakes:
            for _ in range(min(check_every, handshakes - tally.handshakes)):
                Handshake(rng, certificates, tally).play((host, int(port)))
            control.check(seen)
            with TlsConnection(found[1], known) as connection:
                ask(connection)
            tally.checks += 1
        if process.stop() != 0:
            raise FuzzError("the broker did not stop in order")
    finally:
        process.kill()
    tally.seconds = time.monotonic() - began
    return tally
