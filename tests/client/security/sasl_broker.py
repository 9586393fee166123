"""The broker's side of SASL, written from the RFCs and KIP-152."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from typing import Any, Protocol

from tests.client.network.fake_broker import FakeBroker

from ottla.errors import ErrorCode
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

USER, PASSWORD, TOKEN = "alice", "se,cr=et", "good.token"


class Exchange(Protocol):
    """What the broker says to a message of the client: (text, over); None refuses it."""

    def answer(self, said: bytes) -> tuple[bytes, bool] | None: ...


class ScramServer:
    """The other side of SCRAM (RFC 5802), written from the RFC alone."""

    def __init__(self, hash_name: str, password: str, iterations: int = 4096) -> None:
        self.hash_name = hash_name
        self.salt = b"salt of the server"
        self.iterations = iterations
        self.salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), self.salt, iterations)
        self.said = ""

    def mac(self, key: bytes, text: bytes) -> bytes:
        return hmac.digest(key, text, self.hash_name)

    def first(self, client_first: bytes) -> bytes:
        header, separator, bare = client_first.decode().partition("n,,")
        assert (header, separator) == ("", "n,,")
        nonce = dict(part.split("=", 1) for part in bare.split(","))["r"]
        salt = base64.b64encode(self.salt).decode()
        answer = f"r={nonce}more,s={salt},i={self.iterations}"
        self.said = f"{bare},{answer}"
        return answer.encode()

    def final(self, client_final: bytes) -> bytes | None:
        """The server's signature; None if the proof is wrong."""
        without_proof, _, proof = client_final.decode().partition(",p=")
        said = f"{self.said},{without_proof}".encode()
        client_key = self.mac(self.salted, b"Client Key")
        stored_key = hashlib.new(self.hash_name, client_key).digest()
        signature = self.mac(stored_key, said)
        found = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
        if hashlib.new(self.hash_name, found).digest() != stored_key:
            return None
        server_key = self.mac(self.salted, b"Server Key")
        return b"v=" + base64.b64encode(self.mac(server_key, said))


class PlainExchange:
    def answer(self, said: bytes) -> tuple[bytes, bool] | None:
        return (b"", True) if said == f"\0{USER}\0{PASSWORD}".encode() else None


class ScramExchange:
    def __init__(self, hash_name: str) -> None:
        self._server = ScramServer(hash_name, PASSWORD)

    def answer(self, said: bytes) -> tuple[bytes, bool] | None:
        if not self._server.said:
            return self._server.first(said), False
        signature = self._server.final(said)
        return None if signature is None else (signature, True)


class TokenExchange:
    def answer(self, said: bytes) -> tuple[bytes, bool] | None:
        if said == b"\x01":
            return None
        if said == f"n,,\x01auth=Bearer {TOKEN}\x01\x01".encode():
            return b"", True
        return b'{"status":"invalid_token"}', False


EXCHANGES: dict[str, Callable[[], Exchange]] = {
    "PLAIN": PlainExchange,
    "SCRAM-SHA-256": lambda: ScramExchange("sha256"),
    "SCRAM-SHA-512": lambda: ScramExchange("sha512"),
    "OAUTHBEARER": TokenExchange,
}


class SaslBroker(FakeBroker):
    """A broker that hangs up on those who have not said who they are, as Kafka does."""

    def __init__(self, *mechanisms: str, **options: Any) -> None:
        super().__init__(**options)
        self.mechanisms = list(mechanisms)
        self.session_lifetime_ms = 0
        self.authentications = 0
        self._exchanges: dict[int, Exchange] = {}
        self._known: set[int] = set()
        for request_class, answer in list(self.answers.items()):
            if request_class is not ApiVersionsRequest:
                self.answers[request_class] = self._guarded(answer)
        self.answers[SaslHandshakeRequest] = self._handshake
        self.answers[SaslAuthenticateRequest] = self._authenticate

    def _guarded(self, answer: Callable[[Any, int], Any]) -> Callable[[Any, int], Any]:
        def guarded(request: Any, version: int) -> Any:
            connection = self.asked[-1].connection
            if connection in self._known and connection not in self._exchanges:
                return answer(request, version)
            self.drop_connections()
            return None

        return guarded

    def _handshake(self, request: SaslHandshakeRequest, version: int) -> SaslHandshakeResponse:
        assert version == 1
        code = ErrorCode.NONE
        if request.mechanism not in self.mechanisms:
            code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        else:
            self._exchanges[self.asked[-1].connection] = EXCHANGES[request.mechanism]()
        return SaslHandshakeResponse(error_code=code, mechanisms=self.mechanisms)

    def _authenticate(
        self, request: SaslAuthenticateRequest, version: int
    ) -> SaslAuthenticateResponse:
        connection = self.asked[-1].connection
        said = self._exchanges[connection].answer(request.auth_bytes)
        if said is None:
            return SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                error_message="Authentication failed: wrong",
                auth_bytes=b"",
            )
        text, is_over = said
        if is_over:
            del self._exchanges[connection]
            self._known.add(connection)
            self.authentications += 1
        return SaslAuthenticateResponse(
            error_code=0,
            error_message=None,
            auth_bytes=text,
            session_lifetime_ms=self.session_lifetime_ms if is_over else 0,
        )
