"""Group events as records of `__consumer_offsets`: byte for byte, there and back, and what is not ours."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.group.classic.group import ClassicState, restored
from ottla.core.group.consumer.events import MemberSaved, MemberSubscription
from ottla.core.group.events import (
    Event,
    GroupDeleted,
    GroupSaved,
    OffsetCommitted,
    OffsetDeleted,
    SavedMember,
)
from ottla.core.group.records import decode, encode
from ottla.wire.compile import encode_stored
from ottla.wire.stored.offset_commit import OffsetCommitKey, OffsetCommitValue
from ottla.wire.types import ZERO_UUID, MalformedMessageError


def text(value: str | None) -> bytes:
    """A string as records have it; None is a length of -1."""
    if value is None:
        return struct.pack(">h", -1)
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def blob(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


OFFSET_KEY = struct.pack(">h", 1) + text("g") + text("orders") + struct.pack(">i", 3)
GROUP_KEY = struct.pack(">h", 2) + text("g")
MEMBER = SavedMember("a", "i", "client", "/127.0.0.1", 60_000, 10_000, b"sub", b"assigned")
SAVED = GroupSaved("g", "consumer", 4, "range", "a", 1234, (MEMBER,))
COMMITTED = OffsetCommitted("g", "orders", 3, 42, 5, "where", 1234)
TOPIC_ID = UUID(int=4711)
ID_TAG = b"\x01\x00\x10" + TOPIC_ID.bytes

CASES: list[tuple[Event, bytes, bytes | None]] = [
    (OffsetDeleted("g", "orders", 3), OFFSET_KEY, None),
    (
        COMMITTED._replace(metadata=""),
        OFFSET_KEY,
        struct.pack(">hqi", 3, 42, 5) + text("") + struct.pack(">q", 1234),
    ),
    (
        COMMITTED,
        OFFSET_KEY,
        struct.pack(">hqi", 3, 42, 5) + text("where") + struct.pack(">q", 1234),
    ),
    # With the topic's id, which has a tag of its own.
    (
        COMMITTED._replace(metadata="", topic_id=TOPIC_ID),
        OFFSET_KEY,
        struct.pack(">hqi", 4, 42, 5) + b"\x01" + struct.pack(">q", 1234) + ID_TAG,
    ),
    (
        COMMITTED._replace(topic_id=TOPIC_ID),
        OFFSET_KEY,
        struct.pack(">hqi", 4, 42, 5) + b"\x06where" + struct.pack(">q", 1234) + ID_TAG,
    ),
    # A commit that names its retention time: version 1, which knows no leader epoch.
    (
        OffsetCommitted("g", "orders", 3, 42, -1, "", 1234, 5678),
        OFFSET_KEY,
        struct.pack(">hq", 1, 42) + text("") + struct.pack(">qq", 1234, 5678),
    ),
    (GroupDeleted("g"), GROUP_KEY, None),
    (
        SAVED,
        GROUP_KEY,
        struct.pack(">h", 3)
        + text("consumer")
        + struct.pack(">i", 4)
        + text("range")
        + text("a")
        + struct.pack(">qi", 1234, 1)
        + text("a")
        + text("i")
        + text("client")
        + text("/127.0.0.1")
        + struct.pack(">ii", 60_000, 10_000)
        + blob(b"sub")
        + blob(b"assigned"),
    ),
    (
        GroupSaved("g", "", 0, None, None, -1, ()),
        GROUP_KEY,
        struct.pack(">h", 3)
        + text("")
        + struct.pack(">i", 0)
        + text(None)
        + text(None)
        + struct.pack(">qi", -1, 0),
    ),
]
IDS = [type(event).__name__ for event, _, _ in CASES]


@pytest.mark.parametrize(("event", "key", "value"), CASES, ids=IDS)
def test_the_bytes_are_those_that_kafka_writes(
    event: Event, key: bytes, value: bytes | None
) -> None:
    assert encode(event) == (key, value)
    assert decode(key, value) == event
    view = None if value is None else memoryview(value)
    assert decode(memoryview(key), view) == event


@given(
    group=st.text(max_size=6),
    topic=st.text(max_size=6),
    partition=st.integers(-(1 << 31), (1 << 31) - 1),
    offset=st.integers(-(1 << 63), (1 << 63) - 1),
    metadata=st.sampled_from(["", "where"]),
    committed_at_ms=st.integers(-(1 << 63), (1 << 63) - 1),
    topic_id=st.none() | st.uuids(),
)
def test_the_short_ways_for_offsets_lead_to_the_bytes_that_the_declarations_give(
    group: str,
    topic: str,
    partition: int,
    offset: int,
    metadata: str,
    committed_at_ms: int,
    topic_id: UUID | None,
) -> None:
    event = OffsetCommitted(
        group, topic, partition, offset, 7, metadata, committed_at_ms, topic_id=topic_id
    )
    key = encode_stored(OffsetCommitKey(group=group, topic=topic, partition=partition), 1)
    value = encode_stored(
        OffsetCommitValue(
            offset=offset,
            leader_epoch=7,
            metadata=metadata,
            commit_timestamp=committed_at_ms,
            topic_id=topic_id or ZERO_UUID,
        ),
        3 if topic_id is None else 4,
    )
    assert encode(event) == (key, value)
    assert decode(key, value) == event


@pytest.mark.parametrize("more", [b"\0", b"later", bytes(4), bytes(40)])
def test_what_follows_a_key_is_not_taken_for_its_partition(more: bytes) -> None:
    for version in (0, 1):
        key = struct.pack(">h", version) + OFFSET_KEY[2:] + more
        assert decode(key, None) == OffsetDeleted("g", "orders", 3)


def test_the_oldest_key_of_an_offset_is_read() -> None:
    old_key = struct.pack(">h", 0) + OFFSET_KEY[2:]
    assert decode(old_key, None) == OffsetDeleted("g", "orders", 3)
    assert decode(old_key, encode(COMMITTED)[1]) == COMMITTED


@pytest.mark.parametrize(
    ("version", "body", "expected"),
    [
        (
            0,
            struct.pack(">q", 42) + text("where") + struct.pack(">q", 1234),
            COMMITTED._replace(leader_epoch=-1),
        ),
        (
            1,
            struct.pack(">q", 42) + text("where") + struct.pack(">qq", 1234, 99),
            COMMITTED._replace(leader_epoch=-1, expires_at_ms=99),
        ),
        (
            2,
            struct.pack(">q", 42) + text("where") + struct.pack(">q", 1234),
            COMMITTED._replace(leader_epoch=-1),
        ),
        (
            4,
            struct.pack(">qi", 42, 5) + b"\x06where" + struct.pack(">q", 1234) + b"\0",
            COMMITTED,
        ),
        (
            4,
            struct.pack(">qi", 42, 5)
            + b"\x06where"
            + struct.pack(">q", 1234)
            + b"\x01\x00\x10"
            + bytes(range(16)),
            COMMITTED._replace(topic_id=UUID(bytes=bytes(range(16)))),
        ),
    ],
)
def test_offsets_of_every_version_are_read(
    version: int, body: bytes, expected: OffsetCommitted
) -> None:
    assert decode(OFFSET_KEY, struct.pack(">h", version) + body) == expected


@pytest.mark.parametrize("version", [0, 1, 2])
def test_groups_of_older_versions_are_read(version: int) -> None:
    body = text("consumer") + struct.pack(">i", 4) + text("range") + text("a")
    if version >= 2:
        body += struct.pack(">q", 1234)
    body += struct.pack(">i", 1) + text("a") + text("client") + text("/127.0.0.1")
    if version >= 1:
        body += struct.pack(">i", 60_000)
    body += struct.pack(">i", 10_000) + blob(b"sub") + blob(b"assigned")
    event = decode(GROUP_KEY, struct.pack(">h", version) + body)
    member = MEMBER._replace(instance_id=None, rebalance_timeout_ms=60_000 if version >= 1 else -1)
    expected = SAVED._replace(members=(member,), state_timestamp_ms=1234 if version >= 2 else -1)
    assert event == expected
    # Where no rebalance timeout was written, the session timeout stands for it.
    group = restored(expected)
    assert group.rebalance_timeout_ms == (60_000 if version >= 1 else 10_000)
    assert group.state is ClassicState.STABLE


def test_a_saved_group_is_the_same_after_it_was_restored() -> None:
    other = MEMBER._replace(member_id="b", instance_id=None)
    for saved in (
        SAVED,
        SAVED._replace(members=(other, MEMBER), leader="a"),
        SAVED._replace(members=(), leader=None, protocol=None),
    ):
        assert restored(saved).saved() == saved


def test_a_restored_group_whose_leader_is_gone_has_another() -> None:
    assert restored(SAVED._replace(leader="gone")).leader == "a"


# What is not ours


@pytest.mark.parametrize("key_type", [9, 10, 15, 17, 999, -1])
def test_records_of_other_kinds_are_ignored(key_type: int) -> None:
    key = struct.pack(">h", key_type) + b"whatever"
    assert decode(key, b"whatever") is None
    assert decode(key, None) is None


def test_a_record_without_a_key_is_ignored() -> None:
    assert decode(None, b"whatever") is None


@pytest.mark.parametrize(("event", "key", "value"), CASES, ids=IDS)
def test_every_truncation_is_malformed(event: Event, key: bytes, value: bytes | None) -> None:
    for length in range(len(key)):
        with pytest.raises(MalformedMessageError):
            decode(key[:length], value)
    for length in range(len(value or b"")):
        with pytest.raises(MalformedMessageError):
            decode(key, (value or b"")[:length])


@pytest.mark.parametrize("version", [-1, 5, 32767])
@pytest.mark.parametrize("key", [OFFSET_KEY, GROUP_KEY])
def test_values_of_unknown_versions_are_malformed(key: bytes, version: int) -> None:
    with pytest.raises(MalformedMessageError):
        decode(key, struct.pack(">h", version) + bytes(100))


@given(key=st.binary(max_size=40), value=st.none() | st.binary(max_size=60))
def test_garbage_is_ignored_or_malformed(key: bytes, value: bytes | None) -> None:
    try:
        decode(key, value)
    except MalformedMessageError:
        return


@given(
    st.sampled_from([OFFSET_KEY, GROUP_KEY]),
    st.integers(0, 4),
    st.binary(max_size=80),
)
def test_garbage_in_a_value_is_malformed_or_a_value(key: bytes, version: int, body: bytes) -> None:
    try:
        event = decode(key, struct.pack(">h", version) + body)
    except MalformedMessageError:
        return
    assert isinstance(event, OffsetCommitted | GroupSaved)


NAMES = st.text(max_size=20).filter(lambda name: name.isprintable())
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
MEMBERS = st.builds(
    SavedMember,
    NAMES,
    st.none() | NAMES,
    NAMES,
    NAMES,
    INT32,
    INT32,
    st.binary(max_size=50),
    st.binary(max_size=50),
)
EVENTS = st.one_of(
    st.builds(OffsetDeleted, NAMES, NAMES, INT32),
    st.builds(GroupDeleted, NAMES),
    st.builds(
        OffsetCommitted,
        *(NAMES, NAMES, INT32, INT64, INT32, NAMES, INT64, st.just(-1)),
        st.none() | st.uuids(),
    ),
    # What says when it expires has no leader epoch: no client says both. Nor has it a place for the topic's id.
    st.builds(
        OffsetCommitted,
        *(NAMES, NAMES, INT32, INT64, st.just(-1), NAMES, INT64, INT64.filter(lambda ms: ms != -1)),
        st.none(),
    ),
    st.builds(
        GroupSaved,
        NAMES,
        NAMES,
        INT32,
        st.none() | NAMES,
        st.none() | NAMES,
        INT64,
        st.lists(MEMBERS, max_size=3).map(tuple),
    ),
)


@given(EVENTS)
def test_every_event_survives_the_way_there_and_back(event: Event) -> None:
    assert decode(*encode(event)) == event


def test_a_member_of_the_new_protocol_does_not_speak_the_classic_one() -> None:
    saved = MemberSaved("g", "m", MemberSubscription(client_id="c", topics=frozenset({"orders"})))
    key, value = encode(saved)
    assert value is not None
    assert value.endswith(bytes.fromhex("01 00 01 00")), "null, as Kafka writes it"
    assert decode(key, value) == saved
    assert decode(key, value[:-4] + b"\0") == saved, "records of ours once lacked the field"
