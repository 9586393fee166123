"""StreamsGroupDescribe: the members and topologies of Kafka Streams groups (KIP-1071)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import OPERATIONS_OMITTED, Bool, Int8, Int16, Int32, Int64, String, Uint16


@message(api=89, versions="0-1", flexible="0+")
class StreamsGroupDescribeRequest:
    group_ids: list[String]
    include_authorized_operations: Bool
    include_topology_description: Bool = wire(since=1, default=False)


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
class Subtopology:
    subtopology_id: String
    source_topics: list[String]
    repartition_sink_topics: list[String]
    state_changelog_topics: list[TopicInfo]
    repartition_source_topics: list[TopicInfo]


@struct
class Topology:
    epoch: Int32
    subtopologies: list[Subtopology] | None = wire(default=None)


@struct
class Endpoint:
    host: String
    port: Uint16


@struct
class TaskOffset:
    subtopology_id: String
    partition: Int32
    offset: Int64


@struct
class TaskIds:
    subtopology_id: String
    partitions: list[Int32]


@struct
class Assignment:
    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]


@struct
class Member:
    member_id: String
    member_epoch: Int32
    instance_id: String | None = wire(default=None)
    rack_id: String | None = wire(default=None)
    client_id: String
    client_host: String
    topology_epoch: Int32
    process_id: String
    user_endpoint: Endpoint | None = wire(default=None)
    client_tags: list[KeyValue]
    task_offsets: list[TaskOffset]
    task_end_offsets: list[TaskOffset]
    assignment: Assignment
    target_assignment: Assignment
    is_classic: Bool


@struct
class TopologyDescriptionNode:
    name: String
    node_type: Int8
    source_topics: list[String]
    sink_topic: String | None = wire(default=None)
    stores: list[String]
    successors: list[String]


@struct
class TopologyDescriptionSubtopology:
    subtopology_id: String
    nodes: list[TopologyDescriptionNode]


@struct
class TopologyDescriptionGlobalStore:
    source: TopologyDescriptionNode
    processor: TopologyDescriptionNode


@struct
class TopologyDescription:
    subtopologies: list[TopologyDescriptionSubtopology]
    global_stores: list[TopologyDescriptionGlobalStore]


@struct
class DescribedGroup:
    error_code: Int16
    error_message: String | None = wire(default=None)
    group_id: String
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    topology: Topology | None = wire(default=None)
    members: list[Member]
    authorized_operations: Int32 = wire(default=OPERATIONS_OMITTED)
    topology_description: TopologyDescription | None = wire(since=1, default=None)
    topology_description_status: Int8 = wire(since=1, default=0)
    assignor_name: String | None = wire(since=1, default=None)


@message(api=89, versions="0-1", flexible="0+")
class StreamsGroupDescribeResponse:
    throttle_time_ms: Int32 = wire(default=0)
    groups: list[DescribedGroup]
