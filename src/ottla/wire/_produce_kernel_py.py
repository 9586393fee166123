"""The codec of plain Produce requests in pure Python, on the general codec: the same results as _produce_kernel.pyx."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final
from uuid import UUID

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
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.wire.types import Buffer, MalformedMessageError

# The number of the topic in its request, its name or id, the partition, and the records.
PlainBatch = tuple[int, str | UUID, int, memoryview]
# Where the frame ends, version, correlation id, acks, transactional id, and batches.
PlainRequest = tuple[int, int, int, int, str | None, list[PlainBatch]]

MAX_BATCHES: Final = 64
SMALLEST_FRAME: Final = 8
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
ACKS_NONE: Final = 0
_INFO: Final = info_of(ProduceRequest)


def read_plain_requests(received: memoryview, start: int, end: int) -> list[PlainRequest]:
    """The plain Produce requests from `start` on, as far as they are complete before `end`."""
    if not 0 <= start <= end <= len(received):
        raise ValueError("no range of the received bytes")
    found = []
    while end - start >= SIZE_BYTES:
        (size,) = read_size(received, start)
        if size < SMALLEST_FRAME or size > end - start - SIZE_BYTES:
            break
        following = start + SIZE_BYTES + size
        request = _read(received[start:following], following)
        if request is None:
            break
        found.append(request)
        start = following
    return found


def _read(framed: memoryview, end: int) -> PlainRequest | None:
    frame = framed[SIZE_BYTES:]
    try:
        api_key, version, correlation_id = read_request_start(frame)
        if api_key != _INFO.api_key or version not in _INFO.versions:
            return None
        header = read_request_header(frame, version >= _INFO.flexible_since)
        request = decode_message(ProduceRequest, version, frame, header.body_position)
    except MalformedMessageError:
        return None
    batches: list[PlainBatch] = []
    for number, topic in enumerate(request.topic_data):
        if not topic.partition_data:
            return None
        named = topic.topic_id if version >= FIRST_VERSION_WITH_TOPIC_IDS else topic.name
        for data in topic.partition_data:
            if data.records is None:
                return None
            batches.append((number, named, data.index, data.records))
    if not 0 < len(batches) <= MAX_BATCHES or not _is_encoding_of(
        framed, request, version, correlation_id, header.client_id
    ):
        return None
    return end, version, correlation_id, request.acks, request.transactional_id, batches


def _is_encoding_of(
    framed: memoryview,
    request: ProduceRequest,
    version: int,
    correlation_id: int,
    client_id: str | None,
) -> bool:
    """Whether a frame is what our encoder writes: no tagged fields, no bytes behind the last field."""
    position = 0
    parts: Sequence[Buffer] = request_parts(request, version, correlation_id, client_id)
    for part in parts:
        if framed[position : position + len(part)] != part:
            return False
        position += len(part)
    return position == len(framed)


def write_plain_responses(
    requests: Sequence[PlainRequest],
    base_offsets: Sequence[int],
    append_times: Sequence[int],
    start_offsets: Sequence[int],
) -> bytearray:
    """The responses to plain requests whose batches were all appended; those with acks=0 have none."""
    out = bytearray()
    first = 0
    for _, version, correlation_id, acks, _, batches in requests:
        numbered = list(enumerate(batches, first))
        first += len(batches)
        if first > len(base_offsets):
            raise ValueError("a batch without an offset")
        if acks == ACKS_NONE:
            continue
        topics = []
        for _, group in groupby(numbered, key=lambda each: each[1][0]):
            members = list(group)
            response = TopicProduceResponse(
                partition_responses=[
                    PartitionProduceResponse(
                        index=batch[2],
                        error_code=0,
                        base_offset=base_offsets[place],
                        log_append_time_ms=append_times[place],
                        log_start_offset=start_offsets[place],
                    )
                    for place, batch in members
                ]
            )
            _name(response, members[0][1], version)
            topics.append(response)
        out += b"".join(frame_response(ProduceResponse(responses=topics), version, correlation_id))
    return out


def _name(response: TopicProduceResponse, batch: PlainBatch, version: int) -> None:
    topic = batch[1]
    if version >= FIRST_VERSION_WITH_TOPIC_IDS:
        assert not isinstance(topic, str)
        response.topic_id = topic
    else:
        assert isinstance(topic, str)
        response.name = topic
