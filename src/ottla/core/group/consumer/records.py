"""Events of groups of the new protocol as the records of `__consumer_offsets`, in Kafka's formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ottla.core.assignors.server_side.model import Partitions
from ottla.core.group.consumer.events import (
    AssignedPartitions,
    ClassicProtocols,
    ConsumerGroupEvent,
    CurrentAssignment,
    CurrentDeleted,
    CurrentSaved,
    GroupEpochDeleted,
    GroupEpochSaved,
    MemberDeleted,
    MemberSaved,
    MemberState,
    MemberSubscription,
    PartitionMetadataDeleted,
    PartitionMetadataFound,
    PatternForgotten,
    PatternResolved,
    TargetDeleted,
    TargetEpochDeleted,
    TargetEpochSaved,
    TargetSaved,
)
from ottla.wire.compile import decode_stored, encode_stored
from ottla.wire.stored.consumer_group import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    TargetTopicPartitions,
)

Buffer = bytes | bytearray | memoryview

# The versions of keys: they identify the kind of a record.
GROUP_EPOCH_KEY = 3
PARTITION_METADATA_KEY = 4
MEMBER_KEY = 5
TARGET_EPOCH_KEY = 6
TARGET_KEY = 7
CURRENT_KEY = 8
PATTERN_KEY = 16
VALUE_VERSION = 0
_STATES = {state.value: state for state in MemberState}


# Writing.


def encode(event: ConsumerGroupEvent) -> tuple[bytes, bytes | None]:
    """The key and the value of an event's record; a deletion has no value."""
    key, version = _key(event)
    value = _value(event)
    return encode_stored(key, version), None if value is None else encode_stored(
        value, VALUE_VERSION
    )


def _key(event: ConsumerGroupEvent) -> tuple[Any, int]:
    group_id = event.group_id
    match event:
        case CurrentSaved() | CurrentDeleted():
            current = ConsumerGroupCurrentMemberAssignmentKey(
                group_id=group_id, member_id=event.member_id
            )
            return current, CURRENT_KEY
        case TargetSaved() | TargetDeleted():
            target = ConsumerGroupTargetAssignmentMemberKey(
                group_id=group_id, member_id=event.member_id
            )
            return target, TARGET_KEY
        case MemberSaved() | MemberDeleted():
            member = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=event.member_id)
            return member, MEMBER_KEY
        case GroupEpochSaved() | GroupEpochDeleted():
            return ConsumerGroupMetadataKey(group_id=group_id), GROUP_EPOCH_KEY
        case TargetEpochSaved() | TargetEpochDeleted():
            return ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), TARGET_EPOCH_KEY
        case PartitionMetadataFound() | PartitionMetadataDeleted():
            return ConsumerGroupPartitionMetadataKey(group_id=group_id), PARTITION_METADATA_KEY
        case PatternResolved() | PatternForgotten():
            pattern = ConsumerGroupRegularExpressionKey(
                group_id=group_id, regular_expression=event.pattern
            )
            return pattern, PATTERN_KEY


def _value(event: ConsumerGroupEvent) -> Any:
    match event:
        case CurrentSaved(current=current):
            return ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=current.epoch,
                previous_member_epoch=current.previous_epoch,
                state=current.state,
                assigned_partitions=_current_topics(current.assigned),
                partitions_pending_revocation=_current_topics(current.revoking),
            )
        case TargetSaved(partitions=partitions):
            return ConsumerGroupTargetAssignmentMemberValue(
                topic_partitions=[
                    TargetTopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
                    for topic_id, numbers in partitions.items()
                ]
            )
        case MemberSaved(subscription=subscription):
            return _member_value(subscription)
        case GroupEpochSaved():
            return ConsumerGroupMetadataValue(epoch=event.epoch, metadata_hash=event.metadata_hash)
        case TargetEpochSaved():
            return ConsumerGroupTargetAssignmentMetadataValue(
                assignment_epoch=event.epoch, assignment_timestamp=event.computed_at_ms
            )
        case PatternResolved():
            return ConsumerGroupRegularExpressionValue(
                topics=sorted(event.topics), version=event.version, timestamp=event.resolved_at_ms
            )
        case _:
            assert not isinstance(event, PartitionMetadataFound), "only Kafka before 4.1 wrote it"
            return None


def _current_topics(assigned: AssignedPartitions) -> list[CurrentTopicPartitions]:
    return [
        CurrentTopicPartitions(
            topic_id=topic_id,
            partitions=list(epochs),
            assignment_epochs=list(epochs.values()),
        )
        for topic_id, epochs in assigned.items()
    ]


def _member_value(subscription: MemberSubscription) -> ConsumerGroupMemberMetadataValue:
    classic = subscription.classic
    return ConsumerGroupMemberMetadataValue(
        instance_id=subscription.instance_id,
        rack_id=subscription.rack_id,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=sorted(subscription.topics),
        subscribed_topic_regex=subscription.pattern,
        rebalance_timeout_ms=subscription.rebalance_timeout_ms,
        server_assignor=subscription.assignor,
        classic_member_metadata=None
        if classic is None
        else ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=name, metadata=metadata)
                for name, metadata in classic.protocols
            ],
        ),
    )


# Reading.


def _read_group_epoch(key: Buffer, data: Buffer | None) -> ConsumerGroupEvent:
    group_id = decode_stored(ConsumerGroupMetadataKey, key).group_id
    if data is None:
        return GroupEpochDeleted(group_id)
    value = decode_stored(ConsumerGroupMetadataValue, data)
    return GroupEpochSaved(group_id, value.epoch, value.metadata_hash)


def _read_partition_metadata(key: Buffer, data: Buffer | None) -> ConsumerGroupEvent:
    group_id = decode_stored(ConsumerGroupPartitionMetadataKey, key).group_id
    return PartitionMetadataDeleted(group_id) if data is None else PartitionMetadataFound(group_id)


def _read_member(key: Buffer, data: Buffer | None) -> ConsumerGroupEvent:
    read = decode_stored(ConsumerGroupMemberMetadataKey, key)
    if data is None:
        return MemberDeleted(read.group_id, read.member_id)
    value = decode_stored(ConsumerGroupMemberMetadataValue, data)
    found = value.classic_member_metadata
    classic = None
    # Older records of ours lack the field, where Kafka's have null.
    if found is not None and found.supported_protocols:
        protocols = tuple((each.name, bytes(each.metadata)) for each in found.supported_protocols)
        classic = ClassicProtocols(found.session_timeout_ms, protocols)
    subscription = MemberSubscription(
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        frozenset(value.subscribed_topic_names),
        value.subscribed_topic_regex or "",
        value.rebalance_timeout_ms,
        value.server_assignor,
        classic,
    )
    return MemberSaved(read.group_id, read.member_id, subscription)


def _read_target_epoch(key: Buffer, data: Buffer | None) -> ConsumerGroupEvent:
    group_id = decode_stored(ConsumerGroupTargetAssignmentMetadataKey, key).group_id
    if data is None:
        return TargetEpochDeleted(group_id)
    value = decode_stored(ConsumerGroupTargetAssignmentMetadataValue, data)
    return TargetEpochSaved(group_id, value.assignment_epoch, value.assignment_timestamp)


def _read_target(key: Buffer, data: Buffer | None) -> ConsumerGroupEvent:
    read = decode_stored(ConsumerGroupTargetAssignmentMemberKey, key)
    if data is None:
        return TargetDeleted(read.group_id, read.member_id)
    value = decode_stored(ConsumerGroupTargetAssignmentMemberValue, data)
    partitions: Partitions = {
        each.topic_id: frozenset(each.partitions) for each in value.topic_partitions
    }
    return TargetSaved(read.group_id, read.member_id, partitions)


def _read_current(key: Buffer, data: Buffer | None) -> ConsumerGroupEvent:
    read = decode_stored(ConsumerGroupCurrentMemberAssignmentKey, key)
    if data is None:
        return CurrentDeleted(read.group_id, read.member_id)
    value = decode_stored(ConsumerGroupCurrentMemberAssignmentValue, data)
    current = CurrentAssignment(
        value.member_epoch,
        value.previous_member_epoch,
        _read_state(value.state),
        _read_assigned(value.assigned_partitions, value.member_epoch),
        _read_assigned(value.partitions_pending_revocation, value.member_epoch),
    )
    return CurrentSaved(read.group_id, read.member_id, current)


def _read_state(number: int) -> MemberState:
    return _STATES.get(number, MemberState.UNKNOWN)


def _read_assigned(
    topics: Iterable[CurrentTopicPartitions], member_epoch: int
) -> AssignedPartitions:
    assigned = {}
    for each in topics:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            # Kafka before 4.3 did not write them; the epoch of a static member that is away is negative.
            epochs = [max(member_epoch, 0)] * len(each.partitions)
        assigned[each.topic_id] = dict(zip(each.partitions, epochs, strict=True))
    return assigned


def _read_pattern(key: Buffer, data: Buffer | None) -> ConsumerGroupEvent:
    read = decode_stored(ConsumerGroupRegularExpressionKey, key)
    if data is None:
        return PatternForgotten(read.group_id, read.regular_expression)
    value = decode_stored(ConsumerGroupRegularExpressionValue, data)
    return PatternResolved(
        read.group_id,
        read.regular_expression,
        frozenset(value.topics),
        value.version,
        value.timestamp,
    )


_READERS: dict[int, Callable[[Buffer, Buffer | None], ConsumerGroupEvent]] = {
    GROUP_EPOCH_KEY: _read_group_epoch,
    PARTITION_METADATA_KEY: _read_partition_metadata,
    MEMBER_KEY: _read_member,
    TARGET_EPOCH_KEY: _read_target_epoch,
    TARGET_KEY: _read_target,
    CURRENT_KEY: _read_current,
    PATTERN_KEY: _read_pattern,
}


def decode(key_version: int, key: Buffer, value: Buffer | None) -> ConsumerGroupEvent | None:
    """The event of a record; None if its key is not of a group of the new protocol. Raises MalformedMessageError."""
    read = _READERS.get(key_version)
    return None if read is None else read(key, value)
