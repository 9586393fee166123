"""Confluent's wire format: the bytes before a payload."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import DeserializationError
from ottla.schemas.framing import (
    prefix,
    read_frame,
    read_message_indexes,
    write_message_indexes,
)

GUID = UUID(int=0x1234)


def test_an_id_is_a_zero_byte_and_four_bytes() -> None:
    assert prefix(258) == b"\x00\x00\x00\x01\x02"
    assert read_frame(b"\x00\x00\x00\x01\x02x", (), False)[::2] == (258, 5)


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ((0,), b"\x00"),
        ((1,), b"\x02\x02"),
        ((1, 0), b"\x04\x02\x00"),
        ((100,), b"\x02\xc8\x01"),
    ],
)
def test_message_indexes_are_zigzag_numbers_and_the_first_is_short(
    path: tuple[int, ...], data: bytes
) -> None:
    assert write_message_indexes(path) == data
    assert read_message_indexes(data + b"rest", 0) == (path, len(data))


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=20))
def test_message_indexes_are_read_as_they_were_written(path: list[int]) -> None:
    data = write_message_indexes(tuple(path))
    assert read_message_indexes(b"xx" + data, 2) == (tuple(path), len(data) + 2)


@given(st.binary(max_size=30), st.booleans())
def test_garbage_is_refused_or_read_within_its_bounds(data: bytes, is_key: bool) -> None:
    try:
        frame = read_frame(data, (), is_key)
        _, at = read_message_indexes(frame.data, frame.payload_at)
        assert at <= len(data)
    except DeserializationError:
        pass


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "0 bytes"),
        (b"\x00\x00\x00", "3 bytes"),
        (b'{"id": 7}', "begins with byte 123"),
        (b"\x01" + b"x" * 8, "begins with byte 1"),
    ],
)
def test_what_no_schema_serializer_wrote_is_refused(data: bytes, match: str) -> None:
    with pytest.raises(DeserializationError, match=match) as caught:
        read_frame(data, (), False)
    assert caught.value.raw == data


@pytest.mark.parametrize(
    ("is_key", "name"), [(True, "__key_schema_id"), (False, "__value_schema_id")]
)
def test_a_guid_in_a_header_leaves_the_payload_as_it_is(is_key: bool, name: str) -> None:
    headers = (("other", b"x"), (name, b"\x01" + GUID.bytes))
    assert read_frame(b"payload", headers, is_key) == (GUID, b"payload", 0)
    with pytest.raises(DeserializationError):
        read_frame(b"payload", headers, not is_key)


def test_the_indexes_of_a_guid_in_a_header_come_before_the_payload() -> None:
    headers = (("__value_schema_id", b"\x01" + GUID.bytes + b"\x02\x02"),)
    frame = read_frame(b"payload", headers, False)
    assert read_message_indexes(frame.data, frame.payload_at) == ((1,), 2)
