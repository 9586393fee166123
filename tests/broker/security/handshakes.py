"""Scripts of raw frames to a listener with SASL, and what a broker answers: one line for each step."""

from __future__ import annotations

import base64
import re
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from ottla.client.security.mechanisms import Mechanism, Plain
from ottla.client.security.scram import scram, scram_with_token
from ottla.model import Endpoint
from ottla.wire.compile import decode_message
from ottla.wire.declare import info_of
from ottla.wire.framing import frame_request, response_header_is_flexible
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

USER, PASSWORD = "alice", "alice-secret"
SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
CLOSED: Final = "closed"
WAIT_SECONDS: Final = 20.0
_SIZE = struct.Struct(">i")
_RESPONSES: dict[type[Any], type[Any]] = {
    ApiVersionsRequest: ApiVersionsResponse,
    MetadataRequest: MetadataResponse,
    SaslAuthenticateRequest: SaslAuthenticateResponse,
    SaslHandshakeRequest: SaslHandshakeResponse,
}
# What differs with every run: nonces, salts and signatures.
_RANDOM: Final = re.compile(rb"(?<=r=nonce)[^,]+|(?<=,s=)[^,]+|(?<=v=)[^,]+")


class Peer:
    """One connection, and what happened on it."""

    def __init__(self, address: str) -> None:
        endpoint = Endpoint.parse(address)
        self._socket = socket.create_connection((endpoint.host, endpoint.port), WAIT_SECONDS)
        self.lines: list[str] = []
        self._next_id = 0

    def close(self) -> None:
        self._socket.close()

    def note(self, text: str) -> None:
        self.lines.append(text)

    def ask(self, request: Any, version: int) -> Any:
        """Sends a request; returns the response, or None if the connection is closed."""
        self.note(f"> {type(request).__name__.removesuffix('Request')} v{version}")
        response_class = _RESPONSES[type(request)]
        answer = self._exchange(frame_request(request, version, self._next_id, "script"))
        self._next_id += 1
        if answer is None:
            return None
        info = info_of(response_class)
        flexible = response_header_is_flexible(info.api_key, version >= info.flexible_since)
        try:
            response = decode_message(response_class, version, answer, 5 if flexible else 4)
        except Exception:
            # The error of ApiVersions has version 0, whatever was asked.
            response = decode_message(response_class, 0, answer, 4)
        self.note(f"< {shown(response)}")
        return response

    def send_frame(self, frame: bytes, name: str) -> bytes | None:
        """Sends a frame without a header; returns what comes back, or None if the connection is closed."""
        self.note(f"> {name}")
        answer = self._exchange(_SIZE.pack(len(frame)) + frame)
        if answer is not None:
            # Of an answer to ApiVersions, the beginning with its error.
            shown_bytes = answer[:6] if name.startswith("ApiVersions") else answer
            self.note(f"< frame {_RANDOM.sub(b'...', shown_bytes)!r}")
        return answer

    def announce(self, size: int) -> None:
        """Sends only the size of a frame."""
        self.note(f"> a frame of {size} bytes is announced")
        self._exchange(_SIZE.pack(size))

    def _exchange(self, data: bytes) -> bytes | None:
        try:
            self._socket.sendall(data)
            start = self._exactly(4)
            answer = None if start is None else self._exactly(_SIZE.unpack(start)[0])
        except ConnectionError:
            answer = None
        if answer is None:
            self.note(f"< {CLOSED}")
        return answer

    def _exactly(self, count: int) -> bytes | None:
        data = b""
        while len(data) < count:
            piece = self._socket.recv(count - len(data))
            if not piece:
                return None
            data += piece
        return data

    # Steps that scripts have in common.

    def versions(self, version: int = 3, software: str = "script") -> None:
        self.ask(
            ApiVersionsRequest(client_software_name=software, client_software_version="1"), version
        )

    def metadata(self) -> None:
        self.ask(MetadataRequest(topics=[]), 5)

    def handshake(self, mechanism: str, version: int = 1) -> None:
        self.ask(SaslHandshakeRequest(mechanism=mechanism), version)

    def message(self, data: bytes, version: int = 2) -> bytes | None:
        """Sends a message of the mechanism; returns the broker's, or None at the end."""
        response = self.ask(SaslAuthenticateRequest(auth_bytes=data), version)
        return None if response is None or response.error_code else bytes(response.auth_bytes)

    def log_in(self, mechanism: Mechanism, version: int = 2) -> None:
        data: bytes | None = mechanism.first()
        while data is not None:
            challenge = self.message(data, version)
            if challenge is None:
                return
            data = mechanism.respond(challenge)

    def log_in_by_frames(self, mechanism: Mechanism) -> None:
        data: bytes | None = mechanism.first()
        while data is not None:
            challenge = self.send_frame(data, "a message without a header")
            if challenge is None:
                return
            data = mechanism.respond(challenge)

    def expect_end(self) -> None:
        """Notes that the broker closes the connection, if it has not done so, or is content."""
        if self.lines[-1].startswith("< error 0,"):
            self.metadata()
        elif self.lines[-1] != f"< {CLOSED}":
            try:
                rest = self._socket.recv(1)
            except ConnectionError:
                rest = b""
            self.note(f"< {'more' if rest else CLOSED}")


def shown(response: Any) -> str:
    """What is the same in every run."""
    if isinstance(response, ApiVersionsResponse | MetadataResponse):
        error = getattr(response, "error_code", 0)
        return f"{type(response).__name__} error {error}"
    if isinstance(response, SaslHandshakeResponse):
        return f"error {response.error_code}, {', '.join(sorted(response.mechanisms)) or 'no mechanism'}"
    data = _RANDOM.sub(b"...", bytes(response.auth_bytes))
    lifetime = "for some time" if response.session_lifetime_ms else "without end"
    return f"error {response.error_code}, {response.error_message!r}, {data!r}, {lifetime}"


def plain(user: str = USER, password: str = PASSWORD) -> Plain:
    return Plain(user, password)


def scram_of(mechanism: str, user: str = USER, password: str = PASSWORD) -> Mechanism:
    return scram(mechanism, user, password, "nonce")


Script = Callable[[Peer], object]


def login(mechanism: str, make: Callable[[], Mechanism], version: int = 2) -> Script:
    """ApiVersions, the login, and a request."""

    def script(peer: Peer) -> None:
        peer.versions()
        peer.handshake(mechanism)
        peer.log_in(make(), version)
        if peer.lines[-1] != f"< {CLOSED}" and "error 0" in peer.lines[-1]:
            peer.metadata()
            peer.handshake(mechanism)
            peer.message(b"")
        else:
            peer.expect_end()

    return script


def login_by_frames(mechanism: str, make: Callable[[], Mechanism]) -> Script:
    """A handshake of version 0, whose messages have no headers."""

    def script(peer: Peer) -> None:
        peer.handshake(mechanism, 0)
        peer.log_in_by_frames(make())
        if peer.lines[-1] != f"< {CLOSED}":
            peer.metadata()

    return script


def messages(mechanism: str, *sent: bytes, version: int = 1) -> Script:
    """A handshake, and messages whatever they are."""

    def script(peer: Peer) -> None:
        peer.handshake(mechanism, version)
        for data in sent:
            if version:
                peer.message(data)
            else:
                peer.send_frame(data, "a message without a header")
        peer.expect_end()

    return script


def steps(*each: Script) -> Script:
    def script(peer: Peer) -> None:
        for step in each:
            if peer.lines and peer.lines[-1] == f"< {CLOSED}":
                break
            step(peer)

    return script


def unsigned_token(subject: str) -> bytes:
    """A token that nothing vouches for and that has no times."""
    parts = [b'{"alg":"none"}', f'{{"sub":"{subject}"}}'.encode()]
    text = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts) + b"."
    return b"n,,\x01auth=Bearer " + text + b"\x01\x01"


def second_handshake(peer: Peer) -> None:
    peer.handshake(SHA_256)
    peer.message(scram_of(SHA_256).first())
    peer.handshake(SHA_256)
    peer.expect_end()


def reauthentication(first: Callable[[], Mechanism], again: Callable[[], Mechanism]) -> Script:
    def script(peer: Peer) -> None:
        mechanism = first()
        peer.handshake(mechanism.name)
        peer.log_in(mechanism)
        peer.metadata()
        mechanism = again()
        peer.handshake(mechanism.name)
        peer.log_in(mechanism)
        if "error 0" in peer.lines[-1]:
            peer.metadata()
            # Not again within a second.
            peer.handshake(mechanism.name)
            peer.metadata()
        else:
            peer.expect_end()

    return script


# By listener: SHORT has sessions that end.
SCRIPTS: Final[dict[str, dict[str, Script]]] = {
    "SASL": {
        "plain": login("PLAIN", plain),
        "plain with SaslAuthenticate v0": login("PLAIN", plain, 0),
        "plain with SaslAuthenticate v1": login("PLAIN", plain, 1),
        "scram 256": login(SHA_256, lambda: scram_of(SHA_256)),
        "scram 512": login(SHA_512, lambda: scram_of(SHA_512)),
        "plain without headers": login_by_frames("PLAIN", plain),
        "scram without headers": login_by_frames(SHA_256, lambda: scram_of(SHA_256)),
        "plain, wrong password": login("PLAIN", lambda: plain(password="guess")),
        "plain, unknown user": login("PLAIN", lambda: plain(user="nobody")),
        "plain, wrong password, without headers": login_by_frames(
            "PLAIN", lambda: plain(password="guess")
        ),
        "scram, wrong password": login(SHA_256, lambda: scram_of(SHA_256, password="guess")),
        "scram, unknown user": login(SHA_256, lambda: scram_of(SHA_256, user="nobody")),
        "scram, wrong password, without headers": login_by_frames(
            SHA_512, lambda: scram_of(SHA_512, password="guess")
        ),
        "scram with a delegation token": login(
            SHA_256, lambda: scram_with_token(SHA_256, "id", "mac", "nonce")
        ),
        "plain, no name": messages("PLAIN", b"\0\0secret"),
        "plain, no password": messages("PLAIN", b"\0alice\0"),
        "plain, too few parts": messages("PLAIN", b"alice"),
        "plain, too many parts": messages("PLAIN", b"a\0b\0c\0d"),
        "plain for another": messages("PLAIN", b"other\0alice\0alice-secret"),
        "plain for itself": messages("PLAIN", b"alice\0alice\0alice-secret"),
        "plain, garbage without headers": messages("PLAIN", b"\xff\xfe", version=0),
        "scram, garbage": messages(SHA_256, b"garbage"),
        "scram, empty": messages(SHA_256, b""),
        "scram, channel binding": messages(SHA_256, b"p=tls-unique,,n=alice,r=nonce"),
        "scram, wrong escape": messages(SHA_256, b"n,,n=al=ice,r=nonce"),
        "scram for another": messages(SHA_256, b"n,a=other,n=alice,r=nonce"),
        "scram, garbage at the end": messages(SHA_256, b"n,,n=alice,r=nonce", b"garbage"),
        "scram, another nonce": messages(SHA_256, b"n,,n=alice,r=nonce", b"c=biws,r=other,p=AAAA"),
        "scram, extensions": messages(SHA_256, b"n,,n=alice,r=nonce,a=b", b"garbage"),
        "token, garbage": messages("OAUTHBEARER", b"garbage"),
        "token, no auth": messages("OAUTHBEARER", b"n,,\x01x=y\x01\x01"),
        "token, basic": messages("OAUTHBEARER", b"n,,\x01auth=Basic abc\x01\x01"),
        "token that is none": messages("OAUTHBEARER", b"n,,\x01auth=Bearer abc\x01\x01", b"\x01"),
        "token without a signature": messages("OAUTHBEARER", unsigned_token("alice"), b"\x01"),
        "a mechanism that is not enabled": steps(
            lambda peer: peer.handshake("GSSAPI"), Peer.expect_end
        ),
        "a mechanism that is not enabled, v0": steps(
            lambda peer: peer.handshake("plain", 0), Peer.expect_end
        ),
        "a request before the login": Peer.metadata,
        "a request after ApiVersions": steps(Peer.versions, Peer.metadata),
        "a request after the handshake": steps(
            lambda peer: peer.handshake("PLAIN"), Peer.metadata, Peer.expect_end
        ),
        "ApiVersions twice": steps(Peer.versions, Peer.versions),
        "ApiVersions of another version, then of ours": steps(
            lambda peer: peer.send_frame(b"\0\x12\0\x63\0\0\0\x07\xff\xff\0", "ApiVersions v99"),
            Peer.versions,
            lambda peer: peer.handshake("PLAIN"),
        ),
        "ApiVersions with a wrong name, then a right one": steps(
            lambda peer: peer.versions(software="-"), Peer.versions
        ),
        "ApiVersions after the handshake": steps(
            lambda peer: peer.handshake("PLAIN"), Peer.versions, Peer.expect_end
        ),
        "SaslAuthenticate before the handshake": lambda peer: peer.message(b"\0a\0b"),
        "two handshakes": second_handshake,
        "garbage": steps(lambda peer: peer.send_frame(b"garbage garbage", "garbage")),
        "an empty frame": steps(lambda peer: peer.send_frame(b"", "an empty frame")),
        "a frame that is too large": lambda peer: peer.announce(600_000),
        "a frame of negative size": lambda peer: peer.announce(-2),
        "a frame that is too large, after the handshake": steps(
            lambda peer: peer.handshake("PLAIN"), lambda peer: peer.announce(600_000)
        ),
    },
    "SHORT": {
        "plain again": reauthentication(plain, plain),
        "scram again": reauthentication(lambda: scram_of(SHA_256), lambda: scram_of(SHA_256)),
        "another mechanism": reauthentication(plain, lambda: scram_of(SHA_256)),
        "a wrong password": reauthentication(plain, lambda: plain(password="guess")),
        "a wrong password by scram": reauthentication(
            lambda: scram_of(SHA_512), lambda: scram_of(SHA_512, password="guess")
        ),
        "another user": reauthentication(plain, lambda: plain("bob", "bob-secret")),
    },
    "OPEN": {
        "a handshake": lambda peer: peer.handshake("PLAIN"),
        "SaslAuthenticate": lambda peer: peer.message(b"\0a\0b"),
    },
}


@contextmanager
def connected(address: str) -> Iterator[Peer]:
    peer = Peer(address)
    try:
        yield peer
    finally:
        peer.close()


def play(listener: str, name: str, address: str) -> list[str]:
    """The lines of a script."""
    with connected(address) as peer:
        SCRIPTS[listener][name](peer)
        return peer.lines
