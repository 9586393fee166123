"""PushTelemetry: the metrics of a client, as OpenTelemetry's MetricsData (KIP-714)."""

from __future__ import annotations

from ottla.wire.declare import message, wire
from ottla.wire.types import Bool, Bytes, Int8, Int16, Int32, Uuid


@message(api=72, versions="0", flexible="0+")
class PushTelemetryRequest:
    client_instance_id: Uuid
    subscription_id: Int32
    terminating: Bool
    compression_type: Int8
    metrics: Bytes


@message(api=72, versions="0", flexible="0+")
class PushTelemetryResponse:
    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16
