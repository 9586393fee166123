"""GetTelemetrySubscriptions: tells a client which of its metrics to push, and how often (KIP-714)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import Reply, RequestContext
from ottla.broker.telemetry.client_instances import Client
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.records.compression import Codec
from ottla.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

# In Kafka's order, which is the clients' order of preference.
ACCEPTED_CODECS: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)


def handle(
    node: Node, request: GetTelemetrySubscriptionsRequest, context: RequestContext
) -> Reply[GetTelemetrySubscriptionsResponse]:
    return node.cluster.share.answer(_respond(node, request, context))


def client_of(context: RequestContext) -> Client:
    """The client that sent a request."""
    caller = context.caller
    return Client(context.client_id, caller.software_name, caller.software_version, caller.peer)


def _respond(
    node: Node, request: GetTelemetrySubscriptionsRequest, context: RequestContext
) -> Generator[None, None, GetTelemetrySubscriptionsResponse]:
    instance = yield from node.telemetry.get(request.client_instance_id, client_of(context))
    if isinstance(instance, Refused):
        return GetTelemetrySubscriptionsResponse(
            error_code=instance.error, accepted_compression_types=[], requested_metrics=[]
        )
    return GetTelemetrySubscriptionsResponse(
        error_code=ErrorCode.NONE,
        client_instance_id=instance.instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(ACCEPTED_CODECS),
        push_interval_ms=instance.wanted.push_interval_ms,
        telemetry_max_bytes=node.telemetry.max_bytes,
        # Sums of several nodes can be added up only if each has its own part.
        delta_temporality=True,
        requested_metrics=list(instance.wanted.metrics),
    )


API = serve(
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    handle,
    needs_metrics_page=True,
)
