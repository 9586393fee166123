"""CreateDelegationToken: a token that acts for its owner (KIP-48); since v3 for another owner (KIP-373)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Bytes, Int16, Int32, Int64, String


@struct
class CreatableRenewers:
    principal_type: String
    principal_name: String


@message(api=38, versions="1-3", flexible="2+")
class CreateDelegationTokenRequest:
    owner_principal_type: String | None = wire(since=3, default="")
    owner_principal_name: String | None = wire(since=3, default="")
    renewers: list[CreatableRenewers]
    max_lifetime_ms: Int64


@message(api=38, versions="1-3", flexible="2+")
class CreateDelegationTokenResponse:
    error_code: Int16
    principal_type: String
    principal_name: String
    token_requester_principal_type: String = wire(since=3, default="")
    token_requester_principal_name: String = wire(since=3, default="")
    issue_timestamp_ms: Int64
    expiry_timestamp_ms: Int64
    max_timestamp_ms: Int64
    token_id: String
    hmac: Bytes
    throttle_time_ms: Int32 = wire(default=0)
