"""What the records of internal topics say."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.internal_topics import of_group, of_transaction
from ottla.core.assignors.model import Subscription
from ottla.core.assignors.protocol import encode_subscription
from ottla.core.group import records as group_records
from ottla.core.group.events import GroupDeleted, GroupSaved, OffsetCommitted, SavedMember
from ottla.core.txn import records as transaction_records
from ottla.core.txn.events import TransactionDeleted

DATA = st.none() | st.binary(max_size=60)


def test_committed_offsets_are_decoded() -> None:
    event = OffsetCommitted("kitchen", "orders", 2, 42, 7, "note", 1000)
    key, value = of_group(*group_records.encode(event))
    assert key is not None
    assert value is not None
    assert key == {
        "type": "offset_commit",
        "version": 1,
        "group": "kitchen",
        "topic": "orders",
        "partition": 2,
    }
    assert (value["offset"], value["leader_epoch"], value["metadata"]) == (42, 7, "note")
    assert value["topic_id"] is None


def test_groups_are_decoded_with_what_their_members_said() -> None:
    said = encode_subscription(Subscription(("orders",), user_data=b"\xff"))
    member = SavedMember("m-1", None, "c", "/127.0.0.1", 1, 2, said, b"\x00\x00garbage")
    event = GroupSaved("kitchen", "consumer", 3, "range", "m-1", 1000, (member,))
    key, value = of_group(*group_records.encode(event))
    assert key is not None
    assert value is not None
    assert (key["type"], value["generation"]) == ("group_metadata", 3)
    assert value["members"][0]["subscription"]["topics"] == ["orders"]
    assert value["members"][0]["assignment"] == {"base64": "AABnYXJiYWdl"}
    assert of_group(*group_records.encode(GroupDeleted("kitchen")))[1] is None


def test_kinds_of_records_that_are_not_decoded_are_named() -> None:
    key, value = of_group(struct.pack(">h", 5) + b"rest", b"\x00\x00x")
    assert key == {
        "type": "consumer_group_member_metadata",
        "version": 5,
        "base64": "AAVyZXN0",
    }
    assert value == {"version": 0, "base64": "AAB4"}
    assert (of_group(struct.pack(">h", 99), None)[0] or {})["type"] == "unknown"
    assert (of_transaction(struct.pack(">h", 99), None)[0] or {})["type"] == "unknown"


def test_transactions_are_decoded() -> None:
    key, value = of_transaction(*transaction_records.encode(TransactionDeleted("till")))
    assert (key or {})["transactional_id"] == "till"
    assert value is None


@given(DATA, DATA, st.sampled_from([0, 1, 2, 3, 77]))
def test_garbage_is_shown_as_bytes(key: bytes | None, value: bytes | None, version: int) -> None:
    for decode in (of_group, of_transaction):
        decode(key, value)
        decode(struct.pack(">h", version) + (key or b""), value)
