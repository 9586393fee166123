"""SCRAM (RFC 5802, RFC 7677): both sides prove that they know the password, without sending it."""

from __future__ import annotations

import base64
import binascii
import hmac
import re

from ottla.client.security.mechanisms import authentication_error
from ottla.core.security.scram_formulas import (
    BY_SASL_NAME,
    MIN_ITERATIONS,
    ScramMechanism,
    client_key,
    escaped_name,
    salted_password,
    server_key,
    signature,
    stored_key,
    xor,
)

# With fewer iterations than Kafka's minimum a false broker could guess the password; more only cost time.
MAX_ITERATIONS = 1_000_000

# "n": no channel binding, which Kafka does not have; no authorization id.
_GS2_HEADER = "n,,"
_BASE64 = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)?"
_EXTENSIONS = r"(?:,[A-Za-z]=[^,\0]+)*"
# A message that begins with the reserved "m=" must be refused, and matches neither.
_SERVER_FIRST = re.compile(
    rf"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>{_BASE64}),i=(?P<iterations>[1-9][0-9]{{0,9}})"
    + _EXTENSIONS,
    re.ASCII,
)
_SERVER_FINAL = re.compile(
    rf"(?:e=(?P<error>[^,\0]+)|v=(?P<signature>{_BASE64})){_EXTENSIONS}", re.ASCII
)


class Scram:
    """One exchange: client first, server first, client final, server final."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        username: str,
        password: str,
        nonce: str,
        extensions: str = "",
    ) -> None:
        self.name = mechanism.sasl_name
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._first_bare = f"n={escaped_name(username)},r={nonce}{extensions}"
        self._server_signature: bytes | None = None
        self._verified = False

    def first(self) -> bytes:
        return (_GS2_HEADER + self._first_bare).encode()

    def respond(self, challenge: bytes) -> bytes | None:
        text = challenge.decode(errors="replace")
        if self._verified:
            raise authentication_error(f"The broker goes on after the end of {self.name}.")
        if self._server_signature is not None:
            self._check_final(text)
            return None
        return self._final(text)

    def _final(self, server_first: str) -> bytes:
        found = _SERVER_FIRST.fullmatch(server_first)
        if found is None:
            raise authentication_error(f"The broker's first message of {self.name} is not valid.")
        nonce = found["nonce"]
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise authentication_error(f"The broker's nonce of {self.name} does not extend ours.")
        iterations = int(found["iterations"])
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise authentication_error(
                f"The broker wants {iterations} iterations of {self.name}: "
                f"from {MIN_ITERATIONS} to {MAX_ITERATIONS} are accepted."
            )
        binding = base64.b64encode(_GS2_HEADER.encode()).decode()
        without_proof = f"c={binding},r={nonce}"
        said = f"{self._first_bare},{server_first},{without_proof}".encode()
        mechanism = self._mechanism
        salted = salted_password(mechanism, self._password, _decoded(found["salt"]), iterations)
        key = client_key(mechanism, salted)
        proof = xor(key, signature(mechanism, stored_key(mechanism, key), said))
        self._server_signature = signature(mechanism, server_key(mechanism, salted), said)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _check_final(self, server_final: str) -> None:
        found = _SERVER_FINAL.fullmatch(server_final)
        if found is None:
            raise authentication_error(f"The broker's last message of {self.name} is not valid.")
        if found["error"] is not None:
            raise authentication_error(f"The broker ended {self.name}: {found['error']}.")
        assert self._server_signature is not None
        if not hmac.compare_digest(_decoded(found["signature"]), self._server_signature):
            raise authentication_error(
                "The broker could not prove that it knows the password: it may be a false one."
            )
        self._verified = True


def scram(name: str, username: str, password: str, nonce: str) -> Scram:
    """An exchange with a name and a password."""
    return Scram(BY_SASL_NAME[name], username, password, nonce)


def scram_with_token(name: str, token_id: str, token_mac: str, nonce: str) -> Scram:
    """An exchange with a delegation token (KIP-48)."""
    return Scram(BY_SASL_NAME[name], token_id, token_mac, nonce, ",tokenauth=true")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise authentication_error("The broker sent text that is not base 64.") from error
