"""GetTelemetrySubscriptions: which of its metrics a client should push, and how often (KIP-714)."""

from __future__ import annotations

from ottla.wire.declare import message, wire
from ottla.wire.types import ZERO_UUID, Bool, Int8, Int16, Int32, String, Uuid


@message(api=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest:
    # All zeros in the first request of a client: the broker then gives it an id.
    client_instance_id: Uuid


@message(api=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse:
    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16
    client_instance_id: Uuid = wire(default=ZERO_UUID)
    subscription_id: Int32 = wire(default=0)
    accepted_compression_types: list[Int8]
    push_interval_ms: Int32 = wire(default=0)
    telemetry_max_bytes: Int32 = wire(default=0)
    delta_temporality: Bool = wire(default=False)
    # Prefixes of names; "*" alone is every metric, no prefix at all none.
    requested_metrics: list[String]
