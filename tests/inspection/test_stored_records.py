"""Records of internal topics as people and programs read them."""

from __future__ import annotations

import json
import struct
from uuid import UUID

import pytest

from ottla.core.catalog import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from ottla.core.group import records as group_records
from ottla.core.group.consumer.events import (
    ClassicProtocols,
    CurrentAssignment,
    CurrentSaved,
    GroupEpochSaved,
    MemberSaved,
    MemberState,
    MemberSubscription,
    TargetSaved,
)
from ottla.core.group.events import (
    GroupDeleted,
    GroupSaved,
    OffsetCommitted,
    OffsetDeleted,
    SavedMember,
)
from ottla.core.txn import records as txn_records
from ottla.core.txn.events import TransactionSaved
from ottla.core.txn.states import TxnState
from ottla.inspection.stored_records import kafka_texts, read_stored_record
from ottla.model import TopicPartition, topic_id_text
from ottla.wire.compile import encode_stored
from ottla.wire.stored.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.types import MalformedMessageError


def test_a_committed_offset_is_read() -> None:
    key, value = group_records.encode(OffsetCommitted("g", "orders", 3, 42, 7, "note", 1000))
    record = read_stored_record(GROUPS_TOPIC, key, value)
    assert record.as_data() == {
        "kind": "offset_commit",
        "key": {"version": 1, "data": {"group": "g", "topic": "orders", "partition": 3}},
        "value": {
            "version": 3,
            "data": {"offset": 42, "leader_epoch": 7, "metadata": "note", "commit_timestamp": 1000},
        },
    }
    assert kafka_texts(record, 0) == (
        '{"type":"1","data":{"group":"g","topic":"orders","partition":3}}',
        '{"version":"3","data":{"offset":42,"leaderEpoch":7,"metadata":"note","commitTimestamp":1000}}',
    )


def test_a_deletion_has_no_value() -> None:
    key, value = group_records.encode(OffsetDeleted("g", "orders", 3))
    record = read_stored_record(GROUPS_TOPIC, key, value)
    assert record.as_data()["value"] is None
    assert kafka_texts(record, 0)[1] == "<DELETE>"
    key, value = group_records.encode(GroupDeleted("g"))
    assert read_stored_record(GROUPS_TOPIC, key, value).kind == "group_metadata"


def test_a_members_subscription_is_read_where_it_can_be() -> None:
    subscription = encode_stored(ConsumerProtocolSubscription(topics=["orders"]), 1)
    member = SavedMember("m", None, "c", "/h", 1, 2, subscription, b"\x01")
    saved = GroupSaved("g", "consumer", 1, "range", "m", 5, (member,))
    record = read_stored_record(GROUPS_TOPIC, *group_records.encode(saved))
    (found,) = record.as_data()["value"]["data"]["members"]
    assert found["subscription"] == {
        "topics": ["orders"],
        "user_data": None,
        "owned_partitions": [],
    }
    assert found["assignment"] == "AQ=="
    saved = GroupSaved("g", "connect", 1, "x", "m", 5, (member,))
    record = read_stored_record(GROUPS_TOPIC, *group_records.encode(saved))
    (found,) = record.as_data()["value"]["data"]["members"]
    assert isinstance(found["subscription"], str)
    json.dumps(record.as_data())


def test_the_state_of_a_transaction_has_its_name() -> None:
    partitions = (TopicPartition("orders", 0),)
    saved = TransactionSaved(
        "tx", 5, 1, 60_000, TxnState.PREPARE_COMMIT, partitions, 7, 6, -1, -1, 2
    )
    record = read_stored_record(TRANSACTIONS_TOPIC, *txn_records.encode(saved))
    data = record.as_data()
    assert data["key"]["data"] == {"transactional_id": "tx"}
    assert data["value"]["data"]["state"] == "PrepareCommit"
    assert data["value"]["data"]["transaction_partitions"] == [
        {"topic": "orders", "partition_ids": [0]}
    ]
    assert "state" not in (kafka_texts(record, 0)[1] or "")


def test_a_group_of_the_new_protocol_is_read() -> None:
    topic_id = UUID(int=7)
    classic = ClassicProtocols(45_000, (("range", b"\0\1"),))
    subscription = MemberSubscription(
        client_id="c", client_host="/h", topics=frozenset({"orders"}), classic=classic
    )
    current = CurrentAssignment(4, 3, MemberState.STABLE, {topic_id: {0: 2, 1: 4}})
    epoch, member, target, assigned = (
        read_stored_record(GROUPS_TOPIC, *group_records.encode(event)).as_data()
        for event in (
            GroupEpochSaved("g", 4, 99),
            MemberSaved("g", "m", subscription),
            TargetSaved("g", "m", {topic_id: frozenset({1, 0})}),
            CurrentSaved("g", "m", current),
        )
    )
    assert epoch == {
        "kind": "consumer_group_metadata",
        "key": {"version": 3, "data": {"group_id": "g"}},
        "value": {"version": 0, "data": {"epoch": 4, "metadata_hash": 99}},
    }
    assert member["key"]["data"] == {"group_id": "g", "member_id": "m"}
    assert member["value"]["data"]["subscribed_topic_names"] == ["orders"]
    assert member["value"]["data"]["classic_member_metadata"] == {
        "session_timeout_ms": 45_000,
        "supported_protocols": [{"name": "range", "metadata": "AAE="}],
    }
    text = topic_id_text(topic_id)
    assert target["value"]["data"] == {
        "topic_partitions": [{"topic_id": text, "partitions": [0, 1]}]
    }
    assert assigned["value"]["data"]["assigned_partitions"] == [
        {"topic_id": text, "partitions": [0, 1], "assignment_epochs": [2, 4]}
    ]


def test_a_kind_that_is_not_known_is_named_as_such() -> None:
    record = read_stored_record(GROUPS_TOPIC, struct.pack(">h", 11) + b"x", b"\0\1")
    assert record.kind == "share_group_metadata"
    assert record.as_data()["key"] == {"version": 11, "data": "AAt4"}
    assert kafka_texts(record, 9) == ("Unknown record type 11 at offset 9, skipping.", None)
    assert read_stored_record(TRANSACTIONS_TOPIC, b"\0\5", None).kind == "unknown"


@pytest.mark.parametrize(("key", "value"), [(None, b""), (b"\0", None), (b"\0\1\0", b"\0\1")])
def test_garbage_is_malformed(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(MalformedMessageError):
        read_stored_record(GROUPS_TOPIC, key, value)
