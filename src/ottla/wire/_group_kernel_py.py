"""The codec of plain requests to group coordinators in pure Python, on the general codec: as _group_kernel.pyx."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from ottla.wire.columns import columns_of
from ottla.wire.compile import decode_message
from ottla.wire.declare import info_of
from ottla.wire.framing import (
    SIZE_BYTES,
    frame_response,
    read_request_header,
    read_request_start,
    read_size,
    request_parts,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.types import Buffer, MalformedMessageError

# A topic's name or id, partitions, offsets, leader epochs, and metadata.
PlainOffsets = tuple[str | UUID, list[int], list[int], list[int], list[str | None]]
# Each begins with: where the frame ends, version, correlation id, client id, and the group's id.
# Generation, member id, instance id.
PlainHeartbeat = tuple[int, int, int, str | None, str, int, str, str | None]
# Generation, member id, instance id, protocol type, protocol, and assignments by member id.
PlainSync = tuple[
    *tuple[int, int, int, str | None, str, int, str, str | None],
    *tuple[str | None, str | None, list[tuple[str, bytes]]],
]
# Session timeout, rebalance timeout, member id, instance id, protocol type, protocols, and reason.
PlainJoin = tuple[
    *tuple[int, int, int, str | None, str, int, int, str, str | None],
    *tuple[str, list[tuple[str, bytes]], str | None],
]
# Generation, member id, instance id, retention time, and offsets by topic.
PlainCommit = tuple[
    *tuple[int, int, int, str | None, str, int, str, str | None], *tuple[int, list[PlainOffsets]]
]
# The id, the instance id and the metadata of a member.
PlainMember = tuple[str, str | None, bytes]

SMALLEST_FRAME: Final = 8
MAX_PROTOCOLS: Final = 64
MAX_ASSIGNMENTS: Final = 4096
MAX_TOPICS: Final = 64
MAX_OFFSETS: Final = 512
FIRST_VERSION_WITH_TOPIC_IDS: Final = 10


# Reading.


class _Read(NamedTuple):
    """A plain request: the fields that all have, and the message."""

    start: tuple[int, int, int, str | None]
    request: Any


def _read(message: type[Any], received: memoryview, start: int, end: int) -> _Read | None:
    if not 0 <= start <= end <= len(received):
        raise ValueError("no range of the received bytes")
    if end - start < SIZE_BYTES:
        return None
    (size,) = read_size(received, start)
    if size < SMALLEST_FRAME or size > end - start - SIZE_BYTES:
        return None
    following = start + SIZE_BYTES + size
    framed = received[start:following]
    frame = framed[SIZE_BYTES:]
    info = info_of(message)
    try:
        api_key, version, correlation_id = read_request_start(frame)
        if api_key != info.api_key or version not in info.versions:
            return None
        header = read_request_header(frame, version >= info.flexible_since)
        request = decode_message(message, version, frame, header.body_position)
    except MalformedMessageError:
        return None
    if not _is_encoding_of(framed, request, version, correlation_id, header.client_id):
        return None
    return _Read((following, version, correlation_id, header.client_id), request)


def _is_encoding_of(
    framed: memoryview, request: Any, version: int, correlation_id: int, client_id: str | None
) -> bool:
    """Whether a frame is what our encoder writes: no tagged fields, no bytes behind the last field."""
    position = 0
    parts: Sequence[Buffer] = request_parts(request, version, correlation_id, client_id)
    for part in parts:
        if framed[position : position + len(part)] != part:
            return False
        position += len(part)
    return position == len(framed)


def read_plain_heartbeat(received: memoryview, start: int, end: int) -> PlainHeartbeat | None:
    """The Heartbeat at `start`, if it is plain and complete before `end`."""
    found = _read(HeartbeatRequest, received, start, end)
    if found is None:
        return None
    request = found.request
    return (
        *found.start,
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
    )


def read_plain_sync(received: memoryview, start: int, end: int) -> PlainSync | None:
    """The SyncGroup at `start`, if it is plain and complete before `end`."""
    found = _read(SyncGroupRequest, received, start, end)
    if found is None or len(found.request.assignments) > MAX_ASSIGNMENTS:
        return None
    request = found.request
    return (
        *found.start,
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        request.protocol_type,
        request.protocol_name,
        [(each.member_id, each.assignment) for each in request.assignments],
    )


def read_plain_join(received: memoryview, start: int, end: int) -> PlainJoin | None:
    """The JoinGroup at `start`, if it is plain and complete before `end`."""
    found = _read(JoinGroupRequest, received, start, end)
    if found is None or len(found.request.protocols) > MAX_PROTOCOLS:
        return None
    request = found.request
    return (
        *found.start,
        request.group_id,
        request.session_timeout_ms,
        request.rebalance_timeout_ms,
        request.member_id,
        request.group_instance_id,
        request.protocol_type,
        [(each.name, each.metadata) for each in request.protocols],
        request.reason,
    )


def read_plain_commit(received: memoryview, start: int, end: int) -> PlainCommit | None:
    """The OffsetCommit at `start`, if it is plain and complete before `end`."""
    found = _read(OffsetCommitRequest, received, start, end)
    if found is None:
        return None
    request = found.request
    counts = [len(topic.partitions) for topic in request.topics]
    if not 0 < len(counts) <= MAX_TOPICS or not all(counts) or sum(counts) > MAX_OFFSETS:
        return None
    has_ids = found.start[1] >= FIRST_VERSION_WITH_TOPIC_IDS
    topics: list[PlainOffsets] = []
    for topic in request.topics:
        partitions, offsets, leader_epochs, metadata = columns_of(
            topic.partitions, OffsetCommitRequestPartition
        )
        named = topic.topic_id if has_ids else topic.name
        topics.append((named, partitions, offsets, leader_epochs, metadata))
    return (
        *found.start,
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        request.retention_time_ms,
        topics,
    )


# Writing.


def _frame(response: Any, version: int, correlation_id: int) -> bytearray:
    return bytearray().join(frame_response(response, version, correlation_id))


def write_heartbeat_response(version: int, correlation_id: int, error: int) -> bytearray:
    """The frame of a response to a Heartbeat."""
    return _frame(HeartbeatResponse(error_code=error), version, correlation_id)


def write_sync_response(
    version: int,
    correlation_id: int,
    error: int,
    protocol_type: str | None,
    protocol: str | None,
    assignment: bytes,
) -> bytearray:
    """The frame of a response to a SyncGroup."""
    response = SyncGroupResponse(
        error_code=error,
        protocol_type=protocol_type,
        protocol_name=protocol,
        assignment=assignment,
    )
    return _frame(response, version, correlation_id)


def write_join_response(
    version: int,
    correlation_id: int,
    error: int,
    generation: int,
    protocol_type: str | None,
    protocol: str | None,
    leader: str,
    skip_assignment: bool,
    member_id: str,
    members: tuple[PlainMember, ...],
) -> bytearray:
    """The frame of a response to a JoinGroup; members are their ids, instance ids and metadata."""
    response = JoinGroupResponse(
        error_code=error,
        generation_id=generation,
        protocol_type=protocol_type,
        protocol_name=protocol,
        leader=leader,
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=[
            JoinGroupResponseMember(member_id=name, group_instance_id=instance_id, metadata=data)
            for name, instance_id, data in members
        ],
    )
    return _frame(response, version, correlation_id)


def write_commit_response(
    version: int, correlation_id: int, topics: list[PlainOffsets], codes: list[int] | None
) -> bytearray:
    """The frame of a response to an OffsetCommit; topics as they were read.

    `codes` are the errors of all partitions, None if there is none.
    """
    count = sum(len(topic[1]) for topic in topics)
    if codes is None:
        codes = [0] * count
    if len(codes) != count:
        raise ValueError("an error code for each partition is needed")
    following = iter(codes)
    response = OffsetCommitResponse(topics=[])
    for named, partitions, *_ in topics:
        answered = OffsetCommitResponseTopic(
            partitions=[
                OffsetCommitResponsePartition(partition_index=index, error_code=next(following))
                for index in partitions
            ]
        )
        if isinstance(named, UUID):
            answered.topic_id = named
        else:
            answered.name = named
        response.topics.append(answered)
    return _frame(response, version, correlation_id)
