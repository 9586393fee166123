"""Group events as the records of `__consumer_offsets`, in Kafka's formats."""

from __future__ import annotations

import struct
from functools import lru_cache
from uuid import UUID

from ottla.core.group.consumer import records as consumer_records
from ottla.core.group.events import (
    NO_TIMESTAMP,
    Event,
    GroupDeleted,
    GroupSaved,
    OffsetCommitted,
    OffsetDeleted,
    OffsetsCommitted,
    SavedMember,
)
from ottla.records.kernel import encode_records
from ottla.records.offset_kernel import encode_offsets as encode_offset_records
from ottla.records.record import Record
from ottla.wire.compile import decode_stored, encode_stored, stored_version
from ottla.wire.stored.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from ottla.wire.stored.offset_commit import OffsetCommitKey, OffsetCommitValue
from ottla.wire.types import ZERO_UUID

Buffer = bytes | bytearray | memoryview

_INT32 = struct.Struct(">i")
# An offset's value without metadata: version, offset, leader epoch, length of the metadata, time of the commit.
_PLAIN_VALUE = struct.Struct(">hqihq")
# The same with the topic's id: the length is one more than it is, and there is one tag, 0, of 16 bytes.
_PLAIN_VALUE_WITH_ID = struct.Struct(">hqiBq3s16s")
_ID_TAG = bytes((1, 0, 16))
# In a record of an offset, everything but the names and the metadata.
MOST_OTHER_BYTES = 96
# A group commits many partitions of a topic at once, and a replay reads them one after the other.
CACHED_KEY_STARTS = 1024
OFFSET_KEY_VERSIONS = (0, 1)
OFFSET_KEY_VERSION = 1
GROUP_KEY_VERSION = 2
VALUE_VERSION = 3
# Kafka reads it since 3.5 (KIP-915), and the id since 4.1.
VALUE_VERSION_WITH_ID = 4
# The only version that can say when an offset expires.
EXPIRING_VALUE_VERSION = 1


def encode(event: Event) -> tuple[bytes, bytes | None]:
    """The key and the value of an event's record; a deletion has no value."""
    match event:
        case OffsetCommitted():
            return _offset_key(event), _offset_value(event)
        case OffsetDeleted():
            return _offset_key(event), None
        case GroupSaved(group_id=group_id):
            return _group_key(group_id), _group_value(event)
        case GroupDeleted(group_id=group_id):
            return _group_key(group_id), None
        case OffsetsCommitted():
            raise AssertionError("it is many records: see encode_offsets")
        case _:
            return consumer_records.encode(event)


def encode_offsets(
    event: OffsetsCommitted, first: int, room_bytes: int, first_delta: int
) -> tuple[bytes, int, int | None]:
    """The records from a number on that fit into so many bytes, of which the first has an offset delta in its batch.

    At least one; then their count, and the number of the next one, None if there is none.
    """
    end = len(event.partitions)
    key_start = _key_start(event.group_id, event.topic)
    largest_bytes = len(key_start) + MOST_OTHER_BYTES
    if any(event.metadata):
        largest_bytes += max(len(text.encode()) for text in event.metadata)
    if (end - first) * largest_bytes > room_bytes:
        end = min(end, first + max(1, room_bytes // largest_bytes))
    section = _encode_offsets(event, key_start, first, end, first_delta)
    return section, end - first, end if end < len(event.partitions) else None


def _encode_offsets(
    event: OffsetsCommitted, key_start: bytes, first: int, end: int, first_delta: int
) -> bytes:
    if event.expires_at_ms != NO_TIMESTAMP:
        return encode_records(
            [
                Record(number, 0, *encode(offset))
                for number, offset in enumerate(event.each()[first:end], first_delta)
            ],
            0,
            0,
        )
    return encode_offset_records(
        key_start,
        event.partitions,
        event.offsets,
        event.leader_epochs,
        event.metadata,
        event.committed_at_ms,
        None if event.topic_id is None else event.topic_id.int.to_bytes(16, "big"),
        first,
        end,
        first_delta,
    )


def decode(key: Buffer | None, value: Buffer | None) -> Event | None:
    """The event of a record; None if it is of a kind that is not known here, as those of share groups.

    Raises MalformedMessageError.
    """
    if key is None:
        return None
    version = stored_version(key)
    if version in OFFSET_KEY_VERSIONS:
        return _offset_event(key, value)
    if version == GROUP_KEY_VERSION:
        return _group_event(decode_stored(GroupMetadataKey, key).group, value)
    return consumer_records.decode(version, key, value)


def _offset_key(event: OffsetCommitted | OffsetDeleted) -> bytes:
    return _key_start(event.group_id, event.topic) + _INT32.pack(event.partition)


@lru_cache(CACHED_KEY_STARTS)
def _key_start(group_id: str, topic: str) -> bytes:
    """The common start of the keys of a group's offsets for a topic: all but the partition, which comes last."""
    key = OffsetCommitKey(group=group_id, topic=topic, partition=0)
    return encode_stored(key, OFFSET_KEY_VERSION)[: -_INT32.size]


def _offset_value(event: OffsetCommitted) -> bytes:
    topic_id = event.topic_id
    expires = event.expires_at_ms != NO_TIMESTAMP
    if not expires and not event.metadata:
        if topic_id is None:
            return _PLAIN_VALUE.pack(
                VALUE_VERSION, event.offset, event.leader_epoch, 0, event.committed_at_ms
            )
        return _PLAIN_VALUE_WITH_ID.pack(
            VALUE_VERSION_WITH_ID,
            event.offset,
            event.leader_epoch,
            1,
            event.committed_at_ms,
            _ID_TAG,
            topic_id.int.to_bytes(16, "big"),
        )
    value = OffsetCommitValue(
        offset=event.offset,
        leader_epoch=event.leader_epoch,
        metadata=event.metadata,
        commit_timestamp=event.committed_at_ms,
        expire_timestamp=event.expires_at_ms,
        topic_id=topic_id or ZERO_UUID,
    )
    if expires:
        return encode_stored(value, EXPIRING_VALUE_VERSION)
    return encode_stored(value, VALUE_VERSION if topic_id is None else VALUE_VERSION_WITH_ID)


def _read_offset_key(data: Buffer) -> tuple[str, str, int]:
    names = _read_key_start(bytes(data[: -_INT32.size]))
    if names is not None:
        return *names, _INT32.unpack_from(data, len(data) - _INT32.size)[0]
    key = decode_stored(OffsetCommitKey, data)
    return key.group, key.topic, key.partition


@lru_cache(CACHED_KEY_STARTS)
def _read_key_start(start: bytes) -> tuple[str, str] | None:
    """The group and the topic of a key's start; None if it has more fields."""
    whole = start + bytes(_INT32.size)
    key = decode_stored(OffsetCommitKey, whole)
    if encode_stored(key, stored_version(start)) != whole:
        return None
    return key.group, key.topic


def _offset_event(key: Buffer, data: Buffer | None) -> OffsetCommitted | OffsetDeleted:
    group_id, topic, partition = _read_offset_key(key)
    if data is None:
        return OffsetDeleted(group_id, topic, partition)
    if len(data) == _PLAIN_VALUE_WITH_ID.size:
        version, offset, leader_epoch, metadata_size, committed_at_ms, tag, topic_id = (
            _PLAIN_VALUE_WITH_ID.unpack(data)
        )
        if version == VALUE_VERSION_WITH_ID and metadata_size == 1 and tag == _ID_TAG:
            return OffsetCommitted(
                group_id,
                topic,
                partition,
                offset,
                leader_epoch,
                "",
                committed_at_ms,
                topic_id=_read_topic_id(topic_id),
            )
    if len(data) == _PLAIN_VALUE.size:
        version, offset, leader_epoch, metadata_size, committed_at_ms = _PLAIN_VALUE.unpack(data)
        if version == VALUE_VERSION and metadata_size == 0:
            return OffsetCommitted(
                group_id, topic, partition, offset, leader_epoch, "", committed_at_ms
            )
    value = decode_stored(OffsetCommitValue, data)
    return OffsetCommitted(
        group_id,
        topic,
        partition,
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        _read_topic_id(value.topic_id.bytes),
    )


@lru_cache(CACHED_KEY_STARTS)
def _read_topic_id(data: bytes) -> UUID | None:
    """One object for all offsets of a topic."""
    topic_id = UUID(bytes=data)
    return None if topic_id == ZERO_UUID else topic_id


def _group_key(group_id: str) -> bytes:
    return encode_stored(GroupMetadataKey(group=group_id), GROUP_KEY_VERSION)


def _group_value(event: GroupSaved) -> bytes:
    value = GroupMetadataValue(
        protocol_type=event.protocol_type,
        generation=event.generation,
        protocol=event.protocol,
        leader=event.leader,
        current_state_timestamp=event.state_timestamp_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in event.members
        ],
    )
    return encode_stored(value, VALUE_VERSION)


def _group_event(group_id: str, data: Buffer | None) -> GroupSaved | GroupDeleted:
    if data is None:
        return GroupDeleted(group_id)
    value = decode_stored(GroupMetadataValue, data)
    members = tuple(
        SavedMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout,
            member.session_timeout,
            bytes(member.subscription),
            bytes(member.assignment),
        )
        for member in value.members
    )
    return GroupSaved(
        group_id,
        value.protocol_type,
        value.generation,
        value.protocol,
        value.leader,
        value.current_state_timestamp,
        members,
    )
