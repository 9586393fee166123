"""SaslHandshake: the mechanism by which the client authenticates; version 1 announces SaslAuthenticate (KIP-152)."""

from __future__ import annotations

from ottla.wire.declare import message
from ottla.wire.types import Int16, String


@message(api=17, versions="0-1", flexible="none")
class SaslHandshakeRequest:
    mechanism: String


@message(api=17, versions="0-1", flexible="none")
class SaslHandshakeResponse:
    error_code: Int16
    mechanisms: list[String]
