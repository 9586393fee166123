"""RenewDelegationToken: makes a delegation token last longer (KIP-48)."""

from __future__ import annotations

from ottla.wire.declare import message, wire
from ottla.wire.types import Bytes, Int16, Int32, Int64


@message(api=39, versions="1-2", flexible="2+")
class RenewDelegationTokenRequest:
    hmac: Bytes
    renew_period_ms: Int64


@message(api=39, versions="1-2", flexible="2+")
class RenewDelegationTokenResponse:
    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = wire(default=0)
