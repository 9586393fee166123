"""CreateTopics: makes topics (KIP-4), returning their configs (KIP-525) and ids (KIP-516)."""

from __future__ import annotations

from ottla.wire.declare import message, struct, wire
from ottla.wire.types import ZERO_UUID, Bool, Int8, Int16, Int32, String, Uuid


@struct
class CreatableReplicaAssignment:
    partition_index: Int32
    broker_ids: list[Int32]


@struct
class CreatableTopicConfig:
    name: String
    value: String | None


@struct
class CreatableTopic:
    name: String
    num_partitions: Int32
    replication_factor: Int16
    assignments: list[CreatableReplicaAssignment]
    configs: list[CreatableTopicConfig]


@message(api=19, versions="2-7", flexible="5+")
class CreateTopicsRequest:
    topics: list[CreatableTopic]
    timeout_ms: Int32 = wire(default=60_000)
    validate_only: Bool = wire(default=False)


@struct
class CreatableTopicConfigs:
    name: String
    value: String | None
    read_only: Bool
    config_source: Int8 = wire(default=-1)
    is_sensitive: Bool


@struct
class CreatableTopicResult:
    name: String
    topic_id: Uuid = wire(since=7, default=ZERO_UUID)
    error_code: Int16
    error_message: String | None = wire(default=None)
    topic_config_error_code: Int16 = wire(since=5, tag=0, default=0)
    num_partitions: Int32 = wire(since=5, default=-1)
    replication_factor: Int16 = wire(since=5, default=-1)
    configs: list[CreatableTopicConfigs] | None = wire(since=5, default=None)


@message(api=19, versions="2-7", flexible="5+")
class CreateTopicsResponse:
    throttle_time_ms: Int32 = wire(default=0)
    topics: list[CreatableTopicResult]
