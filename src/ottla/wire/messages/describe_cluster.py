"""DescribeCluster: brokers and controller (KIP-700), and which are fenced (KIP-1073)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import OPERATIONS_OMITTED, Bool, Int8, Int16, Int32, String


@message(api=60, versions="0-2", flexible="0+")
class DescribeClusterRequest:
    include_cluster_authorized_operations: Bool
    endpoint_type: Int8 = wire(since=1, default=1)
    include_fenced_brokers: Bool = wire(since=2, default=False)


@struct
class DescribeClusterBroker:
    broker_id: Int32
    host: String
    port: Int32
    rack: String | None = wire(default=None)
    is_fenced: Bool = wire(since=2, default=False)


@message(api=60, versions="0-2", flexible="0+")
class DescribeClusterResponse:
    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16
    error_message: String | None = wire(default=None)
    endpoint_type: Int8 = wire(since=1, default=1)
    cluster_id: String
    controller_id: Int32 = wire(default=-1)
    brokers: list[DescribeClusterBroker]
    cluster_authorized_operations: Int32 = wire(default=OPERATIONS_OMITTED)
