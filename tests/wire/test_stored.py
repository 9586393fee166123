"""What records carry: every version byte by byte, there and back, against kio and other clients."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
import pkgutil
import random
import uuid
from typing import Any, NamedTuple

import pytest
from aiokafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer import metadata as kafka_python
from kio.serial import entity_reader, entity_writer
from tests.wire.every_message import any_values, full_struct, plain_struct
from tests.wire.test_declarations import compare_struct

import ottla.wire.stored
from ottla.wire.compile import decode_stored, encode_stored, stored_version
from ottla.wire.declare import stored_info_of
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
)
from ottla.wire.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionPrefix,
    TopicPartition,
    subscribed_topics,
)
from ottla.wire.stored.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from ottla.wire.stored.offset_commit import OffsetCommitKey, OffsetCommitValue
from ottla.wire.stored.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from ottla.wire.types import MalformedMessageError


class Case(NamedTuple):
    """A stored format at a version."""

    cls: type[Any]
    version: int

    @property
    def flexible(self) -> bool:
        return self.version >= stored_info_of(self.cls).flexible_since

    def __str__(self) -> str:
        return f"{self.cls.__name__}-v{self.version}"


FORMATS = (
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
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    SubscriptionPrefix,
    TransactionLogKey,
    TransactionLogValue,
)
CASES = tuple(
    Case(cls, version)
    for cls in FORMATS
    for version in range(stored_info_of(cls).versions.first, stored_info_of(cls).versions.last + 1)
)
CONSUMER_PROTOCOL = tuple(
    case for case in CASES if case.cls.__name__.startswith("ConsumerProtocol")
)
every_case = pytest.mark.parametrize("case", CASES, ids=str)
every_consumer_case = pytest.mark.parametrize("case", CONSUMER_PROTOCOL, ids=str)
hypothesis_settings = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def test_every_declared_format_is_tested_here() -> None:
    declared = set()
    for module_info in pkgutil.iter_modules(ottla.wire.stored.__path__):
        module = importlib.import_module(f"ottla.wire.stored.{module_info.name}")
        for value in vars(module).values():
            try:
                stored_info_of(value)
            except (KeyError, TypeError):
                continue
            declared.add(value)
    assert declared == set(FORMATS)


# There and back


@every_case
@hypothesis_settings
@given(data=st.data())
def test_a_value_survives_the_way_there_and_back(case: Case, data: st.DataObject) -> None:
    value = data.draw(any_values(case.cls, case.version))
    encoded = encode_stored(value, case.version)
    assert encoded == case.version.to_bytes(2, "big") + plain_struct(
        value, case.version, case.flexible, {}
    )
    assert stored_version(encoded) == case.version
    assert decode_stored(case.cls, encoded) == value
    assert decode_stored(case.cls, memoryview(encoded)) == value


@pytest.mark.parametrize("case", [case for case in CASES if case.flexible], ids=str)
def test_unknown_tagged_fields_are_skipped(case: Case) -> None:
    value = full_struct(case.cls, case.version)
    body = plain_struct(value, case.version, True, {77: b"later", 300: b""})
    assert decode_stored(case.cls, case.version.to_bytes(2, "big") + body) == value


# Garbage


@every_case
def test_every_truncation_is_refused(case: Case) -> None:
    encoded = encode_stored(full_struct(case.cls, case.version), case.version)
    for end in range(len(encoded)):
        with pytest.raises(MalformedMessageError):
            decode_stored(case.cls, encoded[:end])


@every_case
def test_mutated_bytes_decode_or_are_refused(case: Case) -> None:
    rng = random.Random(str(case))
    encoded = encode_stored(full_struct(case.cls, case.version), case.version)
    for _ in range(200):
        mutated = bytearray(encoded)
        for _ in range(rng.randint(1, 4)):
            byte = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            mutated[rng.randrange(len(mutated))] = byte
        decode_or_refuse(case.cls, bytes(mutated))


@every_case
@hypothesis_settings
@given(garbage=st.binary(max_size=64))
def test_any_bytes_decode_or_are_refused(case: Case, garbage: bytes) -> None:
    decode_or_refuse(case.cls, garbage)
    decode_or_refuse(case.cls, case.version.to_bytes(2, "big") + garbage)


def decode_or_refuse(cls: type[Any], data: bytes) -> None:
    """Decodes, and lets only the exception through that the caller is promised."""
    with contextlib.suppress(MalformedMessageError):
        assert isinstance(decode_stored(cls, data), cls)


# Versions that are not known


@pytest.mark.parametrize("cls", FORMATS, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("version", [-32768, -1])
def test_a_negative_version_is_refused(cls: type[Any], version: int) -> None:
    newest = stored_info_of(cls).versions.last
    body = encode_stored(full_struct(cls, newest), newest)[2:]
    with pytest.raises(MalformedMessageError, match=rf"{cls.__name__} has no version {version}"):
        decode_stored(cls, version.to_bytes(2, "big", signed=True) + body)


@pytest.mark.parametrize(
    ("cls", "version"),
    [
        (OffsetCommitKey, 2),
        (GroupMetadataKey, 0),
        (GroupMetadataKey, 1),
        (GroupMetadataKey, 3),
        (OffsetCommitValue, 5),
        (GroupMetadataValue, 5),
        (GroupMetadataValue, 32767),
        (TransactionLogKey, 1),
        (TransactionLogValue, 2),
    ],
)
def test_a_version_that_a_record_does_not_have_is_refused(cls: type[Any], version: int) -> None:
    newest = stored_info_of(cls).versions.last
    body = encode_stored(full_struct(cls, newest), newest)[2:]
    with pytest.raises(MalformedMessageError, match=rf"{cls.__name__} has no version {version}"):
        decode_stored(cls, version.to_bytes(2, "big") + body)
    with pytest.raises(ValueError, match=rf"{cls.__name__} has no version {version}"):
        encode_stored(full_struct(cls, newest), version)


@pytest.mark.parametrize("cls", [ConsumerProtocolSubscription, ConsumerProtocolAssignment])
@pytest.mark.parametrize("version", [4, 5, 32767])
def test_a_newer_consumer_protocol_is_read_as_the_newest_known(
    cls: type[Any], version: int
) -> None:
    value = full_struct(cls, 3)
    body = encode_stored(value, 3)[2:]
    assert decode_stored(cls, version.to_bytes(2, "big") + body + b"a field of the future") == value
    with pytest.raises(ValueError, match="has no version"):
        encode_stored(value, version)


@pytest.mark.parametrize("data", [b"", b"\0"])
def test_less_than_a_version_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        stored_version(data)


# Byte by byte

OFFSET = OffsetCommitValue(
    offset=0x0102030405060708,
    leader_epoch=9,
    metadata="mé",
    commit_timestamp=0x1112131415161718,
    expire_timestamp=0x2122232425262728,
    topic_id=uuid.UUID("00112233-4455-6677-8899-aabbccddeeff"),
)
OFFSET_BYTES = {
    0: "0000 0102030405060708 0003 6dc3a9 1112131415161718",
    1: "0001 0102030405060708 0003 6dc3a9 1112131415161718 2122232425262728",
    2: "0002 0102030405060708 0003 6dc3a9 1112131415161718",
    3: "0003 0102030405060708 00000009 0003 6dc3a9 1112131415161718",
    4: "0004 0102030405060708 00000009 04 6dc3a9 1112131415161718"
    "01 00 10 00112233445566778899aabbccddeeff",
}
GROUP = GroupMetadataValue(
    protocol_type="consumer",
    generation=3,
    protocol="range",
    leader=None,
    current_state_timestamp=0x1112131415161718,
    members=[
        MemberMetadata(
            member_id="m",
            group_instance_id="i",
            client_id="c",
            client_host="/h",
            rebalance_timeout=5,
            session_timeout=6,
            subscription=b"sub",
            assignment=b"",
        )
    ],
)
_GROUP_START = "0008 636f6e73756d6572 00000003 0005 72616e6765 ffff"
GROUP_BYTES = {
    0: f"0000 {_GROUP_START} 000000010001 6d 0001 63 0002 2f68 00000006 00000003 737562 00000000",
    1: f"0001 {_GROUP_START} 00000001"
    "0001 6d 0001 63 0002 2f68 00000005 00000006 00000003 737562 00000000",
    2: f"0002 {_GROUP_START} 1112131415161718 00000001"
    "0001 6d 0001 63 0002 2f68 00000005 00000006 00000003 737562 00000000",
    3: f"0003 {_GROUP_START} 1112131415161718 00000001"
    "0001 6d 0001 69 0001 63 0002 2f68 00000005 00000006 00000003 737562 00000000",
    4: "0004 09 636f6e73756d6572 00000003 06 72616e6765 00 1112131415161718 02"
    "02 6d 02 69 02 63 03 2f68 00000005 00000006 04 737562 01 00 00",
}
# As the serializers of Apache Kafka 4.1.0 write them.
TRANSACTION = TransactionLogValue(
    producer_id=0x0102030405060708,
    previous_producer_id=0x3132333435363738,
    next_producer_id=0x4142434445464748,
    producer_epoch=9,
    transaction_timeout_ms=60_000,
    transaction_status=1,
    transaction_partitions=[
        PartitionsSchema(topic="t", partition_ids=[0, 258]),
        PartitionsSchema(topic="é", partition_ids=[]),
    ],
    transaction_last_update_timestamp_ms=0x1112131415161718,
    transaction_start_timestamp_ms=0x2122232425262728,
    client_transaction_version=2,
    next_producer_epoch=10,
)
_TRANSACTION_START = "0102030405060708 0009 0000ea60 01"
_TRANSACTION_TIMES = "1112131415161718 2122232425262728"
TRANSACTION_BYTES = {
    0: f"0000 {_TRANSACTION_START} 00000002 0001 74 00000002 00000000 00000102"
    f"0002 c3a9 00000000 {_TRANSACTION_TIMES}",
    1: f"0001 {_TRANSACTION_START} 03 02 74 03 00000000 00000102 00 03 c3a9 01 00"
    f"{_TRANSACTION_TIMES} 04 00 08 3132333435363738 01 08 4142434445464748 02 02 0002 03 02 000a",
}
TRANSACTION_BYTES_WITHOUT_PARTITIONS = {
    0: f"0000 {_TRANSACTION_START} ffffffff {_TRANSACTION_TIMES}",
    1: f"0001 {_TRANSACTION_START} 00 {_TRANSACTION_TIMES} 00",
}


@pytest.mark.parametrize("version", OFFSET_BYTES)
def test_the_bytes_of_an_offset_are_those_of_kafka(version: int) -> None:
    data = bytes.fromhex(OFFSET_BYTES[version])
    assert encode_stored(OFFSET, version) == data
    read = decode_stored(OffsetCommitValue, data)
    assert (read.offset, read.metadata) == (OFFSET.offset, OFFSET.metadata)
    assert read.commit_timestamp == OFFSET.commit_timestamp
    assert read.leader_epoch == (9 if version >= 3 else -1)
    assert read.expire_timestamp == (OFFSET.expire_timestamp if version == 1 else -1)
    assert read.topic_id == (OFFSET.topic_id if version == 4 else uuid.UUID(int=0))


def test_an_offset_without_a_topic_id_has_no_tagged_field() -> None:
    data = bytes.fromhex("0004 0000000000000001 ffffffff 01 0000000000000002 00")
    value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=2)
    assert encode_stored(value, 4) == data
    assert decode_stored(OffsetCommitValue, data) == value


@pytest.mark.parametrize("version", GROUP_BYTES)
def test_the_bytes_of_a_group_are_those_of_kafka(version: int) -> None:
    data = bytes.fromhex(GROUP_BYTES[version])
    assert encode_stored(GROUP, version) == data
    read = decode_stored(GroupMetadataValue, data)
    assert (read.protocol_type, read.generation) == ("consumer", 3)
    assert (read.protocol, read.leader) == ("range", None)
    assert read.current_state_timestamp == (GROUP.current_state_timestamp if version >= 2 else -1)
    (member,) = read.members
    assert (member.member_id, member.client_id, member.client_host) == ("m", "c", "/h")
    assert member.group_instance_id == ("i" if version >= 3 else None)
    assert member.rebalance_timeout == (5 if version >= 1 else -1)
    assert (member.session_timeout, member.subscription, member.assignment) == (6, b"sub", b"")


# As Apache Kafka 4.3.1 wrote them.
MEMBER = ConsumerGroupMemberMetadataValue(
    instance_id=None,
    rack_id=None,
    client_id="one",
    client_host="/127.0.0.1",
    subscribed_topic_names=["orders"],
    subscribed_topic_regex="",
    rebalance_timeout_ms=300_000,
    server_assignor=None,
    classic_member_metadata=None,
)
_MEMBER_START = "0000 00 00 04 6f6e65 0b 2f3132372e302e302e31 02 07 6f7264657273 01 000493e0 00"


def test_the_bytes_of_a_member_of_the_new_protocol_are_those_of_kafka() -> None:
    data = bytes.fromhex(f"{_MEMBER_START} 01 00 01 00")
    assert encode_stored(MEMBER, 0) == data
    assert decode_stored(ConsumerGroupMemberMetadataValue, data) == MEMBER


def test_the_bytes_of_a_classic_member_among_others_are_those_of_kafka() -> None:
    classic = ClassicMemberMetadata(
        session_timeout_ms=3000, supported_protocols=[ClassicProtocol(name="range", metadata=b"x")]
    )
    value = dataclasses.replace(MEMBER, classic_member_metadata=classic)
    data = bytes.fromhex(f"{_MEMBER_START} 01 00 10 01 00000bb8 02 06 72616e6765 02 78 00 00")
    assert encode_stored(value, 0) == data
    assert decode_stored(ConsumerGroupMemberMetadataValue, data) == value


def without_tags(value: TransactionLogValue) -> TransactionLogValue:
    """What is left of a transaction in a version that has no tagged fields."""
    return dataclasses.replace(
        value,
        previous_producer_id=-1,
        next_producer_id=-1,
        client_transaction_version=0,
        next_producer_epoch=-1,
    )


@pytest.mark.parametrize("version", TRANSACTION_BYTES)
def test_the_bytes_of_a_transaction_are_those_of_kafka(version: int) -> None:
    data = bytes.fromhex(TRANSACTION_BYTES[version])
    value = TRANSACTION if version == 1 else without_tags(TRANSACTION)
    assert encode_stored(value, version) == data
    assert decode_stored(TransactionLogValue, data) == value


@pytest.mark.parametrize("version", TRANSACTION_BYTES_WITHOUT_PARTITIONS)
def test_a_transaction_without_partitions_has_null_for_them(version: int) -> None:
    data = bytes.fromhex(TRANSACTION_BYTES_WITHOUT_PARTITIONS[version])
    value = dataclasses.replace(without_tags(TRANSACTION), transaction_partitions=None)
    assert encode_stored(value, version) == data
    assert decode_stored(TransactionLogValue, data) == value


def test_the_bytes_of_keys_are_those_of_kafka() -> None:
    key = OffsetCommitKey(group="g", topic="tt", partition=258)
    assert encode_stored(key, 0) == bytes.fromhex("0000 0001 67 0002 7474 00000102")
    assert encode_stored(key, 1) == bytes.fromhex("0001 0001 67 0002 7474 00000102")
    assert encode_stored(GroupMetadataKey(group="g"), 2) == bytes.fromhex("0002 0001 67")
    transaction = TransactionLogKey(transactional_id="id")
    assert encode_stored(transaction, 0) == bytes.fromhex("0000 0002 6964")


# The consumer protocol as others write it


def kio_of(case: Case) -> type[Any]:
    folder = {
        ConsumerProtocolSubscription: "consumer_protocol_subscription",
        ConsumerProtocolAssignment: "consumer_protocol_assignment",
    }[case.cls]
    module = importlib.import_module(f"kio.schema.{folder}.v{case.version}")
    kio: type[Any] = getattr(module, case.cls.__name__)
    return kio


@every_consumer_case
def test_fields_have_the_order_names_nulls_and_defaults_of_kafka(case: Case) -> None:
    assert kio_of(case).__flexible__ == case.flexible
    compare_struct(case.cls, case.version, kio_of(case))


@pytest.mark.parametrize("cls", [ConsumerProtocolSubscription, ConsumerProtocolAssignment])
def test_the_newest_version_is_that_of_kio(cls: type[Any]) -> None:
    with pytest.raises(ModuleNotFoundError):
        kio_of(Case(cls, stored_info_of(cls).versions.last + 1))


@every_consumer_case
@hypothesis_settings
@given(data=st.data())
def test_kio_reads_what_we_write_and_writes_the_same_bytes(case: Case, data: st.DataObject) -> None:
    body = encode_stored(data.draw(any_values(case.cls, case.version)), case.version)[2:]
    entity, size = entity_reader(kio_of(case))(body, 0)
    assert size == len(body)
    with io.BytesIO() as buffer:
        entity_writer(kio_of(case))(buffer, entity)
        assert buffer.getvalue() == body


PARTITIONS = [
    TopicPartition(topic="a", partitions=[0, 7]),
    TopicPartition(topic="b", partitions=[]),
]
OWNED = [("a", [0, 7]), ("b", [])]


@pytest.mark.parametrize("user_data", [None, b"", b"sticky"])
@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_subscription_has_the_bytes_of_kafka_python(
    version: int, user_data: bytes | None
) -> None:
    ours = ConsumerProtocolSubscription(topics=["a", "b"], user_data=user_data)
    added: dict[str, Any] = {}
    if version >= 1:
        ours.owned_partitions, added["owned_partitions"] = PARTITIONS, OWNED
    if version >= 2:
        ours.generation_id = added["generation_id"] = 12
    if version >= 3:
        ours.rack_id = added["rack_id"] = "rack"
    theirs = kafka_python.ConsumerProtocolSubscription(
        version=version, topics=["a", "b"], user_data=user_data, **added
    ).encode()
    assert encode_stored(ours, version) == theirs
    assert decode_stored(ConsumerProtocolSubscription, theirs) == ours


@pytest.mark.parametrize("user_data", [None, b"", b"sticky"])
@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_an_assignment_has_the_bytes_of_kafka_python(version: int, user_data: bytes | None) -> None:
    ours = ConsumerProtocolAssignment(assigned_partitions=PARTITIONS, user_data=user_data)
    theirs = kafka_python.ConsumerProtocolAssignment(
        version=version, assigned_partitions=OWNED, user_data=user_data
    ).encode()
    assert encode_stored(ours, version) == theirs
    assert decode_stored(ConsumerProtocolAssignment, theirs) == ours


@pytest.mark.parametrize("user_data", [None, b"", b"sticky"])
def test_the_consumer_protocol_has_the_bytes_of_aiokafka(user_data: bytes | None) -> None:
    subscription = ConsumerProtocolSubscription(topics=["a", "b"], user_data=user_data)
    theirs = ConsumerProtocolMemberMetadata(0, ["a", "b"], user_data).encode()
    assert encode_stored(subscription, 0) == theirs
    assert decode_stored(ConsumerProtocolSubscription, theirs) == subscription
    assignment = ConsumerProtocolAssignment(assigned_partitions=PARTITIONS, user_data=user_data)
    theirs = ConsumerProtocolMemberAssignment(0, OWNED, user_data).encode()
    assert encode_stored(assignment, 0) == theirs
    assert decode_stored(ConsumerProtocolAssignment, theirs) == assignment


# The topics of a subscription


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 32767])
def test_the_topics_of_a_subscription_of_any_version_are_read(version: int) -> None:
    subscription = full_struct(ConsumerProtocolSubscription, 3)
    body = encode_stored(subscription, min(version, 3))[2:]
    topics = subscribed_topics(version.to_bytes(2, "big") + body)
    assert topics == subscription.topics


def test_the_topics_are_read_where_a_client_left_out_the_fields_of_its_version() -> None:
    subscription = ConsumerProtocolSubscription(topics=["a", "b"])
    claims_more = b"\0\1" + encode_stored(subscription, 0)[2:]
    assert subscribed_topics(claims_more) == ["a", "b"]
    with pytest.raises(MalformedMessageError):
        decode_stored(ConsumerProtocolSubscription, claims_more)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0", b"\0\0\0\0\0\1", b"not a subscription"])
def test_what_is_no_subscription_has_no_topics(data: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        subscribed_topics(data)
