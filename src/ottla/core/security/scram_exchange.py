"""The server's side of SCRAM (RFC 5802), without channel binding, as Kafka has it.

Client first, server first, client final, server final. Extensions are ignored but for delegation tokens, of which there
are none.
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Callable
from typing import Final

from ottla.core.security.sasl_outcomes import Authenticated, Challenge, Outcome, Rejected
from ottla.core.security.scram_credentials import ScramCredential
from ottla.core.security.scram_formulas import (
    ScramMechanism,
    signature,
    stored_key,
    unescaped_name,
    xor,
)

# A name and a nonce, with room to spare.
MAX_MESSAGE_BYTES: Final = 16 << 10

_NAME: Final = r"(?:[^=,\0]|=2C|=3D)+"
_VALUE: Final = r"[^,\0]+"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)?"
_CLIENT_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authorization_id>{_NAME}))?,"
    rf"(?P<bare>(?:m={_VALUE},)?n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})"
    rf"(?P<extensions>(?:,[A-Za-z]+={_VALUE})*))"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<without_proof>c={_BASE64},r=(?P<nonce>{_NONCE})(?:,[A-Za-z]+={_VALUE})*?)"
    rf",p=(?P<proof>{_BASE64})"
)

OTHER_AUTHORIZATION_ID: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


class ScramExchange:
    """One exchange; `find` has a credential for every name, a false one for users that do not exist."""

    max_message_bytes = MAX_MESSAGE_BYTES

    def __init__(
        self,
        mechanism: ScramMechanism,
        find: Callable[[str], ScramCredential],
        nonce: str,
    ) -> None:
        self._mechanism = mechanism
        self._find = find
        self._own_nonce = nonce
        self._nonce = ""
        self.claimed_user: str | None = None
        self._said = ""  # by both sides, until the client's last message
        self._credential: ScramCredential | None = None

    def evaluate(self, message: bytes) -> Outcome:
        """The answer to a message of the client."""
        if len(message) > MAX_MESSAGE_BYTES:
            return Rejected("a message is too long")
        text = message.decode(errors="replace")
        if self._credential is None:
            return self._first(text)
        return self._final(text, self._credential)

    def _first(self, text: str) -> Outcome:
        found = _CLIENT_FIRST.fullmatch(text)
        if found is None:
            return Rejected("the client's first message is not valid")
        user = unescaped_name(found["name"])
        if user is None:
            return Rejected("the user's name is not valid")
        if ",tokenauth=true" in found["extensions"].lower():
            return Rejected("there are no delegation tokens")
        credential = self._find(user)
        if found["authorization_id"] not in (None, user):
            return Rejected("another authorization id", OTHER_AUTHORIZATION_ID)
        self.claimed_user, self._credential = user, credential
        self._nonce = found["nonce"] + self._own_nonce
        salt = base64.b64encode(credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._said = f"{found['bare']},{answer}"
        return Challenge(answer.encode())

    def _final(self, text: str, credential: ScramCredential) -> Outcome:
        found = _CLIENT_FINAL.fullmatch(text)
        if found is None:
            return Rejected("the client's last message is not valid")
        if found["nonce"] != self._nonce:
            # https://github.com/confluentinc/librdkafka/pull/4895; Kafka 4 refuses it, too.
            is_repeated = found["nonce"].endswith(self._nonce)
            hint = ": update librdkafka, before 2.6.1 it repeats its own" if is_repeated else ""
            return Rejected(f"the nonce is not that of this exchange{hint}")
        mechanism = self._mechanism
        messages = f"{self._said},{found['without_proof']}".encode()
        proof = base64.b64decode(found["proof"])
        mask = signature(mechanism, credential.stored_key, messages)
        if len(proof) != len(mask) or not hmac.compare_digest(
            stored_key(mechanism, xor(proof, mask)), credential.stored_key
        ):
            return Rejected("the user does not exist, or the password is wrong")
        own_proof = base64.b64encode(signature(mechanism, credential.server_key, messages)).decode()
        assert self.claimed_user is not None
        return Authenticated(self.claimed_user, f"v={own_proof}".encode())
