from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.assignors.notation import partitions

from ottla.core.assignors.user_data import (
    UNREADABLE,
    Claim,
    decode_claim,
    decode_generation,
    encode_claim,
    encode_generation,
)
from ottla.model import TopicPartition

VERSION_0 = bytes.fromhex("00000001 0001 74 00000002 00000000 00000003")
VERSION_1 = VERSION_0 + bytes.fromhex("00000007")


def test_a_claim_has_the_bytes_of_kafkas_schema() -> None:
    assert encode_claim(partitions("t-0 t-3"), 7) == VERSION_1
    assert encode_claim((), -1) == bytes.fromhex("00000000 ffffffff")


def test_topics_are_in_the_order_of_javas_hash_map() -> None:
    # 'o' is in bucket 15, 'p' in bucket 0.
    assert encode_claim(partitions("o-1 p-2 o-0"), 1) == bytes.fromhex(
        "00000002 0001 70 00000001 00000002 0001 6f 00000002 00000001 00000000 00000001"
    )


def test_claims_of_version_0_have_no_generation() -> None:
    assert decode_claim(VERSION_0) == Claim(partitions("t-0 t-3"), None)


@pytest.mark.parametrize("rest", [b"", b"\0", b"\0\0\0"])
def test_what_is_too_short_for_a_generation_is_not_looked_at(rest: bytes) -> None:
    assert decode_claim(VERSION_0 + rest).generation_id is None


def test_what_follows_the_generation_is_not_looked_at() -> None:
    assert decode_claim(VERSION_1 + b"more") == Claim(partitions("t-0 t-3"), 7)


@pytest.mark.parametrize("nothing", [None, b""])
def test_without_user_data_nothing_is_claimed(nothing: bytes | None) -> None:
    assert decode_claim(nothing) == Claim((), None)


@pytest.mark.parametrize(
    "data",
    [
        b"\0",
        struct.pack(">i", -1),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">ih", 1, -1) + b"\0" * 20,
        struct.pack(">ih", 1, 100) + b"t" * 20,
        struct.pack(">ih", 1, 1) + b"t" + struct.pack(">i", -5) + b"\0" * 8,
        struct.pack(">ih", 1, 1) + b"t" + struct.pack(">i", 8) + b"\0" * 8,
        VERSION_0[:-1],
    ],
)
def test_garbage_claims_nothing(data: bytes) -> None:
    assert decode_claim(data) == UNREADABLE


@given(st.binary())
def test_any_user_data_is_read_without_an_error(data: bytes) -> None:
    decode_claim(data)
    decode_generation(data)


owned = st.lists(
    st.builds(TopicPartition, st.text(max_size=3), st.integers(0, 2**31 - 1)), unique=True
)


@given(owned, st.integers(-1, 2**31 - 1))
def test_a_claim_survives_the_round_trip(made: list[TopicPartition], generation_id: int) -> None:
    claim = decode_claim(encode_claim(made, generation_id))
    assert sorted(claim.partitions) == sorted(made)
    assert claim.generation_id == generation_id


def test_the_cooperative_assignor_writes_its_generation_only() -> None:
    assert encode_generation(7) == bytes.fromhex("00000007")
    assert decode_generation(encode_generation(7)) == 7
    assert decode_generation(None) is None
    assert decode_generation(b"\0\0") == -1
