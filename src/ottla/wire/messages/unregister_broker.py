"""UnregisterBroker: makes a cluster forget a broker that is gone (KIP-500)."""

from __future__ import annotations

from ottla.wire.declare import message, wire
from ottla.wire.types import Int16, Int32, String


@message(api=64, versions="0", flexible="0+")
class UnregisterBrokerRequest:
    broker_id: Int32


@message(api=64, versions="0", flexible="0+")
class UnregisterBrokerResponse:
    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16
    error_message: String | None
