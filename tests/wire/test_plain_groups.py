"""Plain requests to group coordinators: both kernels read and write the same, and what the general codec does."""

from __future__ import annotations

import importlib
import random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.fuzz.mutations import mutate

from ottla.wire import _group_kernel_py
from ottla.wire._group_kernel_py import MAX_ASSIGNMENTS, MAX_OFFSETS, MAX_PROTOCOLS, MAX_TOPICS
from ottla.wire.compile import decode_message
from ottla.wire.declare import info_of
from ottla.wire.framing import SIZE_BYTES, frame_request, read_request_header
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

try:
    COMPILED: Any = importlib.import_module("ottla.wire._group_kernel")
except ImportError:
    COMPILED = None
KERNELS: list[Any] = [
    pytest.param(_group_kernel_py, id="pure"),
    pytest.param(
        COMPILED,
        id="compiled",
        marks=pytest.mark.skipif(COMPILED is None, reason="the compiled kernel is not built"),
    ),
]
both_kernels = pytest.mark.parametrize("kernel", KERNELS)
compiled_needed = pytest.mark.skipif(COMPILED is None, reason="the compiled kernel is not built")

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(max_size=12) | st.sampled_from(["orders", "größe", "x" * 127, "x" * 128, "x" * 200])
DATA = st.binary(max_size=40) | st.just(b"d" * 126) | st.just(b"d" * 127)
READERS = {
    HeartbeatRequest: "read_plain_heartbeat",
    SyncGroupRequest: "read_plain_sync",
    JoinGroupRequest: "read_plain_join",
    OffsetCommitRequest: "read_plain_commit",
}
READ_AT = [
    (message, version)
    for message in READERS
    for version in range(info_of(message).versions.first, info_of(message).versions.last + 1)
]
at_every_version = pytest.mark.parametrize(
    ("message", "version"), READ_AT, ids=[f"{m.__name__}-{v}" for m, v in READ_AT]
)


@st.composite
def heartbeats(draw: st.DrawFn, version: int) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=draw(NAMES),
        generation_id=draw(INT32),
        member_id=draw(NAMES),
        group_instance_id=draw(st.none() | NAMES) if version >= 3 else None,
    )


@st.composite
def syncs(draw: st.DrawFn, version: int) -> SyncGroupRequest:
    texts = st.none() | NAMES
    return SyncGroupRequest(
        group_id=draw(NAMES),
        generation_id=draw(INT32),
        member_id=draw(NAMES),
        group_instance_id=draw(texts) if version >= 3 else None,
        protocol_type=draw(texts) if version >= 5 else None,
        protocol_name=draw(texts) if version >= 5 else None,
        assignments=draw(
            st.lists(
                st.builds(SyncGroupRequestAssignment, member_id=NAMES, assignment=DATA), max_size=4
            )
        ),
    )


@st.composite
def joins(draw: st.DrawFn, version: int) -> JoinGroupRequest:
    texts = st.none() | NAMES
    return JoinGroupRequest(
        group_id=draw(NAMES),
        session_timeout_ms=draw(INT32),
        rebalance_timeout_ms=draw(INT32) if version >= 1 else -1,
        member_id=draw(NAMES),
        group_instance_id=draw(texts) if version >= 5 else None,
        protocol_type=draw(NAMES),
        protocols=draw(
            st.lists(st.builds(JoinGroupRequestProtocol, name=NAMES, metadata=DATA), max_size=4)
        ),
        reason=draw(texts) if version >= 8 else None,
    )


@st.composite
def commits(draw: st.DrawFn, version: int) -> OffsetCommitRequest:
    topics = []
    for _ in range(draw(st.integers(0, 3))):
        topic = OffsetCommitRequestTopic(
            partitions=draw(
                st.lists(
                    st.builds(
                        OffsetCommitRequestPartition,
                        partition_index=INT32,
                        committed_offset=INT64,
                        committed_leader_epoch=INT32 if version >= 6 else st.just(-1),
                        committed_metadata=st.none() | NAMES,
                    ),
                    max_size=3,
                )
            )
        )
        if version >= 10:
            topic.topic_id = draw(st.uuids())
        else:
            topic.name = draw(NAMES)
        topics.append(topic)
    return OffsetCommitRequest(
        group_id=draw(NAMES),
        generation_id_or_member_epoch=draw(INT32),
        member_id=draw(NAMES),
        group_instance_id=draw(st.none() | NAMES) if version >= 7 else None,
        retention_time_ms=draw(INT64) if version <= 4 else -1,
        topics=topics,
    )


REQUESTS: dict[Any, Any] = {
    HeartbeatRequest: heartbeats,
    SyncGroupRequest: syncs,
    JoinGroupRequest: joins,
    OffsetCommitRequest: commits,
}


@st.composite
def frames(draw: st.DrawFn) -> tuple[Any, bytes]:
    message, version = draw(st.sampled_from(READ_AT))
    request = draw(REQUESTS[message](version))
    return message, frame_request(request, version, draw(INT32), draw(st.none() | NAMES))


def simple(message: Any, version: int) -> Any:
    """A request that is plain at a version."""
    if message is HeartbeatRequest:
        return HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
    if message is SyncGroupRequest:
        given = [SyncGroupRequestAssignment(member_id="m", assignment=b"a")]
        return SyncGroupRequest(group_id="g", generation_id=3, member_id="m", assignments=given)
    if message is JoinGroupRequest:
        known = [JoinGroupRequestProtocol(name="range", metadata=b"s")]
        return JoinGroupRequest(
            group_id="g",
            session_timeout_ms=1,
            member_id="m",
            protocol_type="consumer",
            protocols=known,
        )
    return commit_of(1, version)


def commit_of(partitions: int, version: int, topics: int = 1) -> OffsetCommitRequest:
    asked = []
    for _ in range(topics):
        topic = OffsetCommitRequestTopic(
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=number, committed_offset=7, committed_metadata=None
                )
                for number in range(partitions)
            ]
        )
        if version >= 10:
            topic.topic_id = UUID(int=7)
        else:
            topic.name = "t"
        asked.append(topic)
    return OffsetCommitRequest(group_id="g", member_id="", topics=asked)


def read(kernel: Any, message: Any, data: bytes) -> Any:
    return getattr(kernel, READERS[message])(memoryview(bytearray(data)), 0, len(data))


def fields_of(message: Any, request: Any, version: int) -> tuple[Any, ...]:
    """What is read of a request, apart from its header."""
    if message is HeartbeatRequest:
        return request.group_id, request.generation_id, request.member_id, request.group_instance_id
    if message is SyncGroupRequest:
        return (
            *(request.group_id, request.generation_id, request.member_id),
            *(request.group_instance_id, request.protocol_type, request.protocol_name),
            [(each.member_id, each.assignment) for each in request.assignments],
        )
    if message is JoinGroupRequest:
        return (
            *(request.group_id, request.session_timeout_ms, request.rebalance_timeout_ms),
            *(request.member_id, request.group_instance_id, request.protocol_type),
            [(each.name, each.metadata) for each in request.protocols],
            request.reason,
        )
    return (
        *(request.group_id, request.generation_id_or_member_epoch, request.member_id),
        *(request.group_instance_id, request.retention_time_ms),
        [
            (
                topic.topic_id if version >= 10 else topic.name,
                [each.partition_index for each in topic.partitions],
                [each.committed_offset for each in topic.partitions],
                [each.committed_leader_epoch for each in topic.partitions],
                [each.committed_metadata for each in topic.partitions],
            )
            for topic in request.topics
        ],
    )


# Reading.


@both_kernels
@at_every_version
def test_a_plain_request_is_read_at_every_version(kernel: Any, message: Any, version: int) -> None:
    request = simple(message, version)
    frame = frame_request(request, version, 5, "c")
    found = read(kernel, message, frame)
    assert found == (len(frame), version, 5, "c", *fields_of(message, request, version))


@both_kernels
@given(sent=frames())
@settings(max_examples=300)
def test_what_is_read_is_what_the_general_codec_reads(kernel: Any, sent: tuple[Any, bytes]) -> None:
    message, frame = sent
    found = read(kernel, message, frame)
    body = memoryview(frame)[SIZE_BYTES:]
    version = int.from_bytes(frame[6:8], "big")
    header = read_request_header(body, version >= info_of(message).flexible_since)
    request = decode_message(message, version, body, header.body_position)
    if found is None:
        # Commits without a topic or a partition are for the handler.
        assert message is OffsetCommitRequest
        assert not request.topics or not all(topic.partitions for topic in request.topics)
        return
    start = (len(frame), version, header.correlation_id, header.client_id)
    assert found == (*start, *fields_of(message, request, version))


@compiled_needed
@given(sent=frames(), seed=st.integers(0, 2**32), resized=st.booleans())
@settings(max_examples=1000)
@example(sent=(HeartbeatRequest, b"\0\0\0\x08" + b"\0" * 8), seed=0, resized=False)
def test_both_kernels_read_the_same_of_damaged_bytes(
    sent: tuple[Any, bytes], seed: int, resized: bool
) -> None:
    frame = sent[1]
    changed = bytearray(frame)
    mutate(random.Random(seed), changed, [frame])
    if resized:
        changed[:SIZE_BYTES] = max(0, len(changed) - SIZE_BYTES).to_bytes(4, "big")
    data = bytes(changed)
    for each in READERS:
        assert read(COMPILED, each, data) == read(_group_kernel_py, each, data)


def with_size(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def heartbeat_frame() -> bytes:
    return frame_request(simple(HeartbeatRequest, 4), 4, 5, "c")


NOT_PLAIN = {
    "an unknown version": with_size(b"\0\x0c\0\x05" + heartbeat_frame()[8:]),
    "another API": with_size(b"\0\x0d" + heartbeat_frame()[6:]),
    "a tagged field": with_size(heartbeat_frame()[4:-1] + b"\1\0\0"),
    "bytes behind the last field": with_size(heartbeat_frame()[4:] + b"\0"),
    "a length in more bytes than it needs": with_size(
        heartbeat_frame()[4:].replace(b"\x02g", b"\x82\x00g")
    ),
    "a name that is no text": with_size(heartbeat_frame()[4:].replace(b"\x02g", b"\x02\xff")),
    "a name that is null": with_size(heartbeat_frame()[4:].replace(b"\x02g", b"\x00")),
    "a client id that is no text": with_size(heartbeat_frame()[4:].replace(b"\0\1c", b"\0\1\xff")),
    "a negative size": b"\xff\xff\xff\xff" + heartbeat_frame()[4:],
    "a frame that is not complete": heartbeat_frame()[:-1],
    "nothing": b"",
}


@both_kernels
@pytest.mark.parametrize("data", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_what_is_not_plain_is_left_to_the_general_codec(kernel: Any, data: bytes) -> None:
    assert read(kernel, HeartbeatRequest, data) is None


@both_kernels
def test_more_elements_than_are_answered_in_one_go_are_not_plain(kernel: Any) -> None:
    def join(count: int) -> bytes:
        request = simple(JoinGroupRequest, 9)
        request.protocols = request.protocols * count
        return frame_request(request, 9, 1, None)

    def sync(count: int) -> bytes:
        request = simple(SyncGroupRequest, 5)
        request.assignments = request.assignments * count
        return frame_request(request, 5, 1, None)

    def commit(partitions: int, topics: int) -> bytes:
        return frame_request(commit_of(partitions, 9, topics), 9, 1, None)

    for message, most, too_many in (
        (JoinGroupRequest, join(MAX_PROTOCOLS), join(MAX_PROTOCOLS + 1)),
        (SyncGroupRequest, sync(MAX_ASSIGNMENTS), sync(MAX_ASSIGNMENTS + 1)),
        (OffsetCommitRequest, commit(1, MAX_TOPICS), commit(1, MAX_TOPICS + 1)),
        (OffsetCommitRequest, commit(MAX_OFFSETS, 1), commit(MAX_OFFSETS + 1, 1)),
        (OffsetCommitRequest, commit(MAX_OFFSETS // 2, 2), commit(MAX_OFFSETS // 2 + 1, 2)),
    ):
        assert read(kernel, message, most) is not None
        assert read(kernel, message, too_many) is None


@both_kernels
@pytest.mark.parametrize("message", READERS)
def test_reading_begins_and_ends_where_it_is_told(kernel: Any, message: Any) -> None:
    frame = frame_request(simple(message, 3), 3, 5, "c")
    data = memoryview(bytearray(b"before" + frame * 2))
    reader = getattr(kernel, READERS[message])
    assert reader(data, 6, len(data))[0] == 6 + len(frame)
    assert reader(data, 6, 6 + len(frame) - 1) is None
    for start, end in ((-1, 4), (5, 4), (0, len(data) + 1)):
        with pytest.raises(ValueError, match="no range"):
            reader(data, start, end)


# Writing.

TEXTS = st.none() | NAMES
MEMBERS = st.lists(st.tuples(NAMES, TEXTS, DATA), max_size=4).map(tuple)


def decoded(message: Any, version: int, data: bytearray) -> Any:
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    assert int.from_bytes(data[4:8], "big", signed=True) == 5
    info = info_of(message)
    return decode_message(message, version, data, 8 + (version >= info.flexible_since))


@compiled_needed
@given(version=st.integers(0, 4), correlation_id=INT32, error=INT16)
def test_both_kernels_write_the_same_heartbeats(
    version: int, correlation_id: int, error: int
) -> None:
    arguments = (version, correlation_id, error)
    ours = COMPILED.write_heartbeat_response(*arguments)
    assert ours == _group_kernel_py.write_heartbeat_response(*arguments)


@compiled_needed
@given(
    version=st.integers(0, 5),
    correlation_id=INT32,
    error=INT16,
    protocol_type=TEXTS,
    protocol=TEXTS,
    assignment=DATA,
)
def test_both_kernels_write_the_same_assignments(version: int, **fields: Any) -> None:
    ours = COMPILED.write_sync_response(version, *fields.values())
    assert ours == _group_kernel_py.write_sync_response(version, *fields.values())


@compiled_needed
@given(
    version=st.integers(0, 9),
    correlation_id=INT32,
    error=INT16,
    generation=INT32,
    protocol_type=TEXTS,
    protocol=TEXTS,
    leader=NAMES,
    skip_assignment=st.booleans(),
    member_id=NAMES,
    members=MEMBERS,
)
def test_both_kernels_write_the_same_generations(version: int, **fields: Any) -> None:
    if version < 7 and fields["protocol"] is None:
        fields["protocol"] = ""
    ours = COMPILED.write_join_response(version, *fields.values())
    assert ours == _group_kernel_py.write_join_response(version, *fields.values())


@compiled_needed
@given(
    version=st.integers(2, 10),
    correlation_id=INT32,
    named=st.lists(st.tuples(NAMES, st.uuids(), st.lists(INT32, max_size=3)), max_size=3),
    codes=st.data(),
)
def test_both_kernels_write_the_same_commits(
    version: int, correlation_id: int, named: list[Any], codes: st.DataObject
) -> None:
    topics: list[Any] = [
        (topic_id if version >= 10 else name, partitions, [], [], [])
        for name, topic_id, partitions in named
    ]
    count = sum(len(topic[1]) for topic in topics)
    errors = codes.draw(st.none() | st.lists(INT16, min_size=count, max_size=count))
    ours = COMPILED.write_commit_response(version, correlation_id, topics, errors)
    assert ours == _group_kernel_py.write_commit_response(version, correlation_id, topics, errors)


@both_kernels
@pytest.mark.parametrize("version", range(5))
def test_heartbeats_are_read_by_the_general_codec(kernel: Any, version: int) -> None:
    data = kernel.write_heartbeat_response(version, 5, 27)
    assert decoded(HeartbeatResponse, version, data) == HeartbeatResponse(error_code=27)


@both_kernels
@pytest.mark.parametrize("version", range(6))
def test_assignments_are_read_by_the_general_codec(kernel: Any, version: int) -> None:
    data = kernel.write_sync_response(version, 5, 0, "consumer", "range", b"assigned")
    found = decoded(SyncGroupResponse, version, data)
    assert (found.error_code, found.assignment) == (0, b"assigned")
    if version >= 5:
        assert (found.protocol_type, found.protocol_name) == ("consumer", "range")


@both_kernels
@pytest.mark.parametrize("version", range(10))
def test_generations_are_read_by_the_general_codec(kernel: Any, version: int) -> None:
    members = (("one", None, b"1"), ("two", "static", b"2"))
    data = kernel.write_join_response(
        version, 5, 0, 3, "consumer", "range", "one", True, "two", members
    )
    found = decoded(JoinGroupResponse, version, data)
    assert (found.generation_id, found.protocol_name) == (3, "range")
    assert (found.leader, found.member_id) == ("one", "two")
    assert [(each.member_id, each.metadata) for each in found.members] == [
        ("one", b"1"),
        ("two", b"2"),
    ]
    if version >= 9:
        assert found.skip_assignment


@both_kernels
@pytest.mark.parametrize("version", range(2, 11))
def test_commits_are_read_by_the_general_codec(kernel: Any, version: int) -> None:
    named = UUID(int=9) if version >= 10 else "t"
    topics: list[Any] = [(named, [0, 4], [], [], []), (named, [1], [], [], [])]
    for codes in (None, [0, 3, 12]):
        data = kernel.write_commit_response(version, 5, topics, codes)
        found = decoded(OffsetCommitResponse, version, data)
        assert [
            (each.partition_index, each.error_code)
            for topic in found.topics
            for each in topic.partitions
        ] == list(zip((0, 4, 1), codes or (0, 0, 0), strict=True))


@both_kernels
def test_a_partition_without_a_code_is_a_bug(kernel: Any) -> None:
    with pytest.raises(ValueError, match="for each partition"):
        kernel.write_commit_response(9, 1, [("t", [0, 1], [], [], [])], [0])
