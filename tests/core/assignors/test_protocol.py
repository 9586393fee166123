from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.assignors.notation import partitions

from ottla.core.assignors.model import Assignment, Subscription
from ottla.core.assignors.protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.model import TopicPartition
from ottla.wire.types import MalformedMessageError

FULL = Subscription(("t", "u"), b"data", partitions("t-0 t-1 u-5"), 7, "rack")


def test_a_subscription_has_the_bytes_of_kafkas_schema() -> None:
    assert encode_subscription(FULL) == bytes.fromhex(
        "0003 00000002 0001 74 0001 75 00000004 64617461"
        "00000002 0001 74 00000002 00000000 00000001 0001 75 00000001 00000005"
        "00000007 0004 7261636b"
    )


def test_topics_and_owned_partitions_are_written_in_order() -> None:
    mixed = replace(FULL, topics=("u", "t"), owned_partitions=partitions("u-5 t-1 t-0"))
    assert encode_subscription(mixed) == encode_subscription(FULL)


def test_an_older_version_leaves_out_what_it_has_no_field_for() -> None:
    parts = {
        0: Subscription(("t", "u"), b"data"),
        1: Subscription(("t", "u"), b"data", FULL.owned_partitions),
        2: Subscription(("t", "u"), b"data", FULL.owned_partitions, 7),
        3: FULL,
    }
    for version, part in parts.items():
        assert decode_subscription(encode_subscription(FULL, version)) == part


def test_a_version_from_the_future_is_read_as_far_as_it_is_known() -> None:
    data = b"\0\x09" + encode_subscription(FULL)[2:] + b"more"
    assert decode_subscription(data) == FULL


def test_an_empty_rack_is_none() -> None:
    assert decode_subscription(encode_subscription(replace(FULL, rack_id=""))).rack_id is None


def test_the_instance_id_comes_from_beside_the_subscription() -> None:
    assert decode_subscription(encode_subscription(FULL), "i").group_instance_id == "i"


def test_an_assignment_has_the_bytes_of_kafkas_schema() -> None:
    assert encode_assignment(Assignment(partitions("u-5 t-1 u-0"))) == bytes.fromhex(
        "0003 00000002 0001 75 00000002 00000005 00000000 0001 74 00000001 00000001 ffffffff"
    )


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\5"])
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        decode_subscription(data)
    with pytest.raises(MalformedMessageError):
        decode_assignment(data)


names = st.text(max_size=3)
owned = st.lists(st.builds(TopicPartition, names, st.integers(0, 9)), unique=True).map(sorted)


@given(
    st.builds(
        Subscription,
        topics=st.lists(names, unique=True).map(sorted).map(tuple),
        user_data=st.none() | st.binary(max_size=3),
        owned_partitions=owned.map(tuple),
        generation_id=st.integers(-1, 2**31 - 1),
        rack_id=st.none() | st.text(min_size=1, max_size=3),
        group_instance_id=st.none() | names,
    )
)
def test_a_subscription_survives_the_round_trip(made: Subscription) -> None:
    again = decode_subscription(encode_subscription(made), made.group_instance_id)
    assert replace(again, topics=(), owned_partitions=()) == replace(
        made, topics=(), owned_partitions=()
    )
    assert sorted(again.topics) == sorted(made.topics)
    assert sorted(again.owned_partitions) == sorted(made.owned_partitions)


@given(st.builds(Assignment, owned.map(tuple), st.none() | st.binary(max_size=3)))
def test_an_assignment_survives_the_round_trip(made: Assignment) -> None:
    assert decode_assignment(encode_assignment(made)) == made
