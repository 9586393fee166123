"""StreamsGroupHeartbeat: membership of Kafka Streams groups (KIP-1071)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import Bool, Int8, Int16, Int32, Int64, String, Uint16


@struct
class KeyValue:
    key: String
    value: String


@struct
class TopicInfo:
    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: list[KeyValue]


@struct
class CopartitionGroup:
    source_topics: list[Int16]
    source_topic_regex: list[Int16]
    repartition_source_topics: list[Int16]


@struct
class Subtopology:
    subtopology_id: String
    source_topics: list[String]
    source_topic_regex: list[String]
    state_changelog_topics: list[TopicInfo]
    repartition_sink_topics: list[String]
    repartition_source_topics: list[TopicInfo]
    copartition_groups: list[CopartitionGroup]


@struct
class Topology:
    epoch: Int32
    subtopologies: list[Subtopology]


@struct
class TaskIds:
    subtopology_id: String
    partitions: list[Int32]


@struct
class Endpoint:
    host: String
    port: Uint16


@struct
class TaskOffset:
    subtopology_id: String
    partition: Int32
    offset: Int64


@message(api=88, versions="0-1", flexible="0+")
class StreamsGroupHeartbeatRequest:
    group_id: String
    member_id: String
    member_epoch: Int32
    endpoint_information_epoch: Int32
    instance_id: String | None = wire(default=None)
    rack_id: String | None = wire(default=None)
    rebalance_timeout_ms: Int32 = wire(default=-1)
    topology: Topology | None = wire(default=None)
    active_tasks: list[TaskIds] | None = wire(default=None)
    standby_tasks: list[TaskIds] | None = wire(default=None)
    warmup_tasks: list[TaskIds] | None = wire(default=None)
    process_id: String | None = wire(default=None)
    user_endpoint: Endpoint | None = wire(default=None)
    client_tags: list[KeyValue] | None = wire(default=None)
    task_offsets: list[TaskOffset] | None = wire(default=None)
    task_end_offsets: list[TaskOffset] | None = wire(default=None)
    shutdown_application: Bool = wire(default=False)


@struct
class Status:
    status_code: Int8
    status_detail: String


@struct
class TopicPartition:
    topic: String
    partitions: list[Int32]


@struct
class EndpointToPartitions:
    user_endpoint: Endpoint
    active_partitions: list[TopicPartition]
    standby_partitions: list[TopicPartition]


@message(api=88, versions="0-1", flexible="0+")
class StreamsGroupHeartbeatResponse:
    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16
    error_message: String | None = wire(default=None)
    member_id: String
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    acceptable_recovery_lag_legacy: Int32 = wire(until=0, default=0)
    task_offset_interval_ms: Int32
    acceptable_recovery_lag: Int64 = wire(since=1, default=-1)
    status: list[Status] | None
    active_tasks: list[TaskIds] | None = wire(default=None)
    standby_tasks: list[TaskIds] | None = wire(default=None)
    warmup_tasks: list[TaskIds] | None = wire(default=None)
    topology_description_required: Bool = wire(since=1, default=False)
    endpoint_information_epoch: Int32
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = wire(default=None)
