"""Metadata: brokers, topics and the leader of each partition; topic ids (KIP-516)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import OPERATIONS_OMITTED, ZERO_UUID, Bool, Int16, Int32, String, Uuid


@struct
class MetadataRequestTopic:
    topic_id: Uuid = wire(since=10, default=ZERO_UUID)
    name: String | None = wire(nullable_since=10)


@message(api=3, versions="0-13", flexible="9+")
class MetadataRequest:
    topics: list[MetadataRequestTopic] | None = wire(nullable_since=1)
    allow_auto_topic_creation: Bool = wire(since=4, default=True)
    include_cluster_authorized_operations: Bool = wire(since=8, until=10, default=False)
    include_topic_authorized_operations: Bool = wire(since=8, default=False)


@struct
class MetadataResponseBroker:
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = wire(since=1, default=None)


@struct
class MetadataResponsePartition:
    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = wire(since=7, default=-1)
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    offline_replicas: list[Int32] = wire(since=5, default_factory=list)


@struct
class MetadataResponseTopic:
    error_code: Int16
    name: String | None = wire(nullable_since=12)
    topic_id: Uuid = wire(since=10, default=ZERO_UUID)
    is_internal: Bool = wire(since=1, default=False)
    partitions: list[MetadataResponsePartition]
    topic_authorized_operations: Int32 = wire(since=8, default=OPERATIONS_OMITTED)


@message(api=3, versions="0-13", flexible="9+")
class MetadataResponse:
    throttle_time_ms: Int32 = wire(since=3, default=0)
    brokers: list[MetadataResponseBroker]
    cluster_id: String | None = wire(since=2, default=None)
    controller_id: Int32 = wire(since=1, default=-1)
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: Int32 = wire(since=8, until=10, default=OPERATIONS_OMITTED)
    error_code: Int16 = wire(since=13, default=0)
