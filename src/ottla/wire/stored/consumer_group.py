"""A group of the new protocol (KIP-848) in __consumer_offsets: its epochs, members and assignments.

A null value deletes what the key names. The versions of the keys identify their kinds, as for classic groups.
"""

from __future__ import annotations

from ottla.wire.declare import constant, stored, struct, wire
from ottla.wire.types import Bytes, Int8, Int32, Int64, String, Uuid


@stored(versions="3", flexible="none")
class ConsumerGroupMetadataKey:
    group_id: String


@stored(versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    epoch: Int32
    # Changes with the partitions and the racks of the subscribed topics (KIP-1101).
    metadata_hash: Int64 = wire(tag=0, default=0)


# Kafka before 4.1 has the partitions of the subscribed topics in records of this kind instead of the hash.
@stored(versions="4", flexible="none")
class ConsumerGroupPartitionMetadataKey:
    group_id: String


@stored(versions="5", flexible="none")
class ConsumerGroupMemberMetadataKey:
    group_id: String
    member_id: String


@struct
class ClassicProtocol:
    name: String
    metadata: Bytes


@struct
class ClassicMemberMetadata:
    session_timeout_ms: Int32
    supported_protocols: list[ClassicProtocol]


@stored(versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    subscribed_topic_regex: String | None
    rebalance_timeout_ms: Int32 = wire(default=-1)
    server_assignor: String | None
    # Of a member that speaks the classic protocol; null is written, because Kafka's default is an empty struct.
    classic_member_metadata: ClassicMemberMetadata | None = wire(
        tag=0,
        default_factory=constant(
            ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=[])
        ),
    )


@stored(versions="6", flexible="none")
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: String


@stored(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: Int32
    # Kafka 4.3 and later (KIP-1263).
    assignment_timestamp: Int64 = wire(tag=0, default=0)


@stored(versions="7", flexible="none")
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: String
    member_id: String


@struct
class TargetTopicPartitions:
    topic_id: Uuid
    partitions: list[Int32]


@stored(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: list[TargetTopicPartitions]


@stored(versions="8", flexible="none")
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: String
    member_id: String


@struct
class CurrentTopicPartitions:
    topic_id: Uuid
    partitions: list[Int32]
    # The epoch in which each partition was assigned to the member; Kafka 4.3 and later.
    assignment_epochs: list[Int32] | None = wire(tag=0, default=None)


@stored(versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[CurrentTopicPartitions]
    partitions_pending_revocation: list[CurrentTopicPartitions]


@stored(versions="16", flexible="none")
class ConsumerGroupRegularExpressionKey:
    group_id: String
    regular_expression: String


@stored(versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue:
    topics: list[String]
    version: Int64
    timestamp: Int64
