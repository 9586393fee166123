"""Mutated logins against a broker process: nobody gets in, and nobody else notices."""

from __future__ import annotations

import json
import random
import re
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from joserfc import jwk, jwt
from tests.broker.processes import ServeProcess
from tests.broker.security.handshakes import Peer, connected, scram_of
from tests.fuzz.mutations import mutate
from tests.fuzz.wire import Control, FuzzError, Tally

from ottla.client.security.mechanisms import OAuthBearer, Plain, Token
from ottla.client.security.scram import scram
from ottla.wire.framing import frame_request
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

USER, PASSWORD = "alice", "the-right-password-of-the-fuzzer"
GUESS = "a-wrong-guess-of-the-fuzzer"
MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
METADATA_ID = 0x7A7A7A7A
ANSWER_SECONDS = 20.0
STALL_SECONDS = 0.02
_ADDRESS = re.compile(r"listener SASL_PLAINTEXT \(SASL_PLAINTEXT\) on (\S+)")


@dataclass
class LoginTally:
    """What a run has done."""

    conversations: int = 0
    answers: int = 0
    closed: int = 0
    checks: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.conversations} logins in {self.seconds:.0f} s, {self.answers} answers, "
            f"{self.closed} closed by the broker, {self.checks} checks"
        )


def messages(rng: random.Random, token: str) -> tuple[str, list[bytes]]:
    """A mechanism, and messages of a login that cannot succeed."""
    mechanism = rng.choice((*MECHANISMS.split(","), "GSSAPI", ""))
    user = rng.choice((USER, "nobody", "a=b,c", "ü"))
    if mechanism == "PLAIN":
        return mechanism, [Plain(user, GUESS).first()]
    if mechanism.startswith("SCRAM"):
        proof = b"c=biws,r=nonce,p=" + b"A" * rng.choice((43, 86)) + b"="
        return mechanism, [scram(mechanism, user, GUESS, "nonce").first(), proof]
    return mechanism, [OAuthBearer(Token(token)).first(), b"\x01"]


def conversation(rng: random.Random, token: str) -> bytes:
    """The frames of a login and of a request behind it; some are damaged."""
    mechanism, said = messages(rng, token)
    version = rng.choice((0, 1, 1, 1))
    frames = []
    if rng.random() < 0.5:
        versions = ApiVersionsRequest(client_software_name="f", client_software_version="1")
        frames.append(frame_request(versions, rng.choice((0, 3, 4)), 1, "fuzz"))
    frames.append(frame_request(SaslHandshakeRequest(mechanism=mechanism), version, 2, "fuzz"))
    for number, data in enumerate(said):
        if rng.random() < 0.7:
            damaged = bytearray(data)
            mutate(rng, damaged, said)
            # Damage that happens to be the password would be no fault of the broker's.
            data = bytes(damaged).replace(PASSWORD.encode(), b"")
        if version:
            request_version = rng.choice((0, 1, 2))
            request = SaslAuthenticateRequest(auth_bytes=data)
            frames.append(frame_request(request, request_version, 3 + number, "fuzz"))
        else:
            frames.append(struct.pack(">i", len(data)) + data)
    if rng.random() < 0.4:
        place = rng.randrange(len(frames))
        damaged = bytearray(frames[place])
        mutate(rng, damaged, frames)
        if len(damaged) >= 4 and rng.random() < 0.8:
            struct.pack_into(">i", damaged, 0, len(damaged) - 4)
        frames[place] = bytes(damaged)
    if rng.random() < 0.1:
        rng.shuffle(frames)
    metadata = frame_request(MetadataRequest(topics=[]), 5, METADATA_ID, "fuzz")
    return b"".join((*frames, metadata))


def run_conversation(address: tuple[str, int], sent: bytes, tally: LoginTally) -> None:
    received = b""
    with socket.create_connection(address, ANSWER_SECONDS) as connected_socket:
        try:
            connected_socket.sendall(sent)
            connected_socket.settimeout(STALL_SECONDS)
            while piece := connected_socket.recv(1 << 16):
                received += piece
            tally.closed += 1
        except (ConnectionError, TimeoutError):
            # Without an end it waits for the rest of a frame.
            pass
    tally.conversations += 1
    for number in answers(received):
        tally.answers += 1
        if number == METADATA_ID:
            raise FuzzError(f"a login without the password got in:\n{sent!r}\n{received!r}")


def answers(received: bytes) -> Iterator[int]:
    """The correlation ids of whole answers; an answer without a header has none."""
    position = 0
    while len(received) - position >= 4:
        (size,) = struct.unpack_from(">i", received, position)
        if size < 0:
            raise FuzzError(f"an answer has size {size}")
        position += 4
        if size >= 4 and len(received) - position >= size:
            yield int.from_bytes(received[position : position + 4], "big")
        position += size


def log_in(address: str) -> None:
    with connected(address) as peer:
        _log_in(peer)
        if peer.lines[-1] != "< MetadataResponse error 0":
            raise FuzzError(f"the right password does not get in: {peer.lines}")


def _log_in(peer: Peer) -> None:
    peer.versions()
    peer.handshake("SCRAM-SHA-256")
    peer.log_in(scram_of("SCRAM-SHA-256", USER, PASSWORD))
    peer.metadata()


def run_logins(folder: Path, seed: int, conversations: int, check_every: int) -> LoginTally:
    """Plays that many conversations to a broker of its own."""
    rng = random.Random(seed)
    keys = folder / "jwks.json"
    key = jwk.generate_key("EC", "P-256", {"kid": "k"})
    keys.write_text(json.dumps({"keys": [key.as_dict(private=False)]}))
    # Signed, and over since long ago.
    token = jwt.encode({"alg": "ES256", "kid": "k"}, {"sub": USER, "iat": 1, "exp": 2}, key)
    password = folder / "password"
    password.write_text(PASSWORD)
    process = ServeProcess(folder)
    process.start(
        *("--listen", "SASL_PLAINTEXT://127.0.0.1:0", "--user", f"{USER}:@{password}"),
        *("--set", f"sasl.enabled.mechanisms={MECHANISMS}"),
        *("--set", f"sasl.oauthbearer.jwks.endpoint.url={keys.as_uri()}"),
        *("--set", "connection.failed.authentication.delay.ms=0"),
    )
    tally, seen = LoginTally(), Tally()
    began = time.monotonic()
    try:
        found = _ADDRESS.search(process.log)
        if found is None:
            raise FuzzError(f"no listener: {process.log}")
        host, _, port = found[1].rpartition(":")
        control = Control(process)
        control.topic_ids()
        while tally.conversations < conversations:
            for _ in range(min(check_every, conversations - tally.conversations)):
                run_conversation((host, int(port)), conversation(rng, token), tally)
            control.check(seen)
            log_in(found[1])
            tally.checks += 1
        if process.stop() != 0:
            raise FuzzError("the broker did not stop in order")
        for secret in (PASSWORD, GUESS, token):
            if secret in process.log:
                raise FuzzError("a secret is in the log")
    finally:
        process.kill()
    tally.seconds = time.monotonic() - began
    return tally
