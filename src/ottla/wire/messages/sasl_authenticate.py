"""SaslAuthenticate: one step of a SASL exchange (KIP-152), and how long the session lasts (KIP-368)."""

from __future__ import annotations

from ottla.wire.declare import message, wire
from ottla.wire.types import Bytes, Int16, Int64, String


@message(api=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    auth_bytes: Bytes


@message(api=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    error_code: Int16
    error_message: String | None
    auth_bytes: Bytes
    session_lifetime_ms: Int64 = wire(since=1, default=0)
