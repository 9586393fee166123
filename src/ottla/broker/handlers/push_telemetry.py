"""PushTelemetry: takes the metrics of a client (KIP-714)."""

from __future__ import annotations

from ottla.broker.handlers.get_telemetry_subscriptions import client_of
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import Reply, RequestContext
from ottla.broker.telemetry.client_instances import Push
from ottla.core.outcomes import Refused, error_of
from ottla.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


def handle(
    node: Node, request: PushTelemetryRequest, context: RequestContext
) -> Reply[PushTelemetryResponse]:
    return _respond(node, request, context)


async def _respond(
    node: Node, request: PushTelemetryRequest, context: RequestContext
) -> PushTelemetryResponse:
    push = Push(
        subscription_id=request.subscription_id,
        terminating=request.terminating,
        compression_type=request.compression_type,
        size_bytes=len(request.metrics),
    )
    checking = node.telemetry.check_push(request.client_instance_id, client_of(context), push)
    instance = await node.cluster.share.run(checking)
    if isinstance(instance, Refused):
        return PushTelemetryResponse(error_code=instance.error)
    refused = None
    if request.metrics:
        refused = await node.telemetry.receive(instance, push, request.metrics)
    return PushTelemetryResponse(error_code=error_of(refused))


API = serve(PushTelemetryRequest, PushTelemetryResponse, handle, needs_metrics_page=True)
