"""What the codec compiler makes of small declarations, byte by byte."""

from __future__ import annotations

import struct as struct_module
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.compile import codec_of, decode_message, encode_message
from ottla.wire.declare import fields_of, info_of, message, struct, wire
from ottla.wire.encoder import INLINE_RECORDS_BYTES
from ottla.wire.primitives import read_uvarint, write_uvarint
from ottla.wire.types import (
    Bool,
    Buffer,
    Bytes,
    Float64,
    InPieces,
    Int8,
    Int16,
    Int32,
    Int64,
    MalformedMessageError,
    Records,
    String,
    Uint16,
    Uint32,
    Uuid,
)


@struct
class Point:
    x: Int8
    y: Int8 = wire(since=1, default=5)


@message(api=1000, versions="0-3", flexible="2+")
class Shapes:
    name: String | None = wire(nullable_since=1)
    origin: Point | None = wire(since=1, default=None)
    points: list[Point] = wire(since=1, default_factory=list)
    names: list[String] | None = wire(default=None)
    label: String = wire(since=2, tag=1, default="none")
    marks: list[Int16] = wire(since=2, tag=0, default_factory=list)
    corner: Point = wire(since=3, tag=2, default_factory=lambda: Point(x=0))


@message(api=1001, versions="0", flexible="none")
class OnePoint:
    point: Point


@message(api=1002, versions="0-1", flexible="none")
class Numbers:
    small: Int8
    short: Int16
    port: Uint16
    flag: Bool
    number: Int32
    count: Uint32
    big: Int64
    ratio: Float64
    many: list[Int64]
    ident: Uuid


@message(api=1003, versions="0-1", flexible="1+")
class Blobs:
    before: Int8
    data: Bytes | None
    records: Records | None
    after: Int8


def parts_of(value: Any, version: int) -> list[Buffer]:
    parts: list[Buffer] = []
    parts.append(codec_of(type(value), version).encode(value, bytearray(b"head"), parts))
    return parts


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (0, b"\x00"),
        (127, b"\x7f"),
        (128, b"\x80\x01"),
        (16_383, b"\xff\x7f"),
        (16_384, b"\x80\x80\x01"),
        (0xFFFFFFFF, b"\xff\xff\xff\xff\x0f"),
    ],
)
def test_uvarints_have_seven_bits_a_byte_and_the_lowest_first(value: int, data: bytes) -> None:
    assert write_uvarint(value) == data
    assert read_uvarint(memoryview(b"?" + data + b"?"), 1) == (value, 1 + len(data))


@given(st.integers(0, 0xFFFFFFFF))
def test_uvarints_survive_a_round_trip(value: int) -> None:
    data = write_uvarint(value)
    assert read_uvarint(memoryview(data), 0) == (value, len(data))


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff\x10", b"\x80\x80\x80\x80\x80\x01"])
def test_uvarints_beyond_32_bits_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        read_uvarint(memoryview(data), 0)


def test_numbers_are_big_endian_and_have_no_padding() -> None:
    numbers = Numbers(
        small=-1,
        short=-2,
        port=0xFFFE,
        flag=True,
        number=-3,
        count=0xFFFFFFFD,
        big=-4,
        ratio=1.0,
        many=[1, -1],
        ident=uuid.UUID(int=7),
    )
    data = encode_message(numbers, 0)
    assert data.hex(" ") == (
        "ff ff fe ff fe 01 ff ff ff fd ff ff ff fd ff ff ff ff ff ff ff fc 3f f0 00 00 00 00 00 00 "
        "00 00 00 02 00 00 00 00 00 00 00 01 ff ff ff ff ff ff ff ff "
        "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 07"
    )
    assert decode_message(Numbers, 0, data) == numbers


def test_a_number_that_does_not_fit_is_our_bug_and_not_cut_off() -> None:
    with pytest.raises(struct_module.error):
        encode_message(OnePoint(point=Point(x=200)), 0)


@pytest.mark.parametrize(
    ("version", "data"),
    [
        (0, b"\0\1a" + b"\xff\xff\xff\xff"),
        (1, b"\0\1a" + b"\xff" + b"\0\0\0\0" + b"\xff\xff\xff\xff"),
        (2, b"\2a" + b"\xff" + b"\1" + b"\0" + b"\0"),
        (3, b"\2a" + b"\xff" + b"\1" + b"\0" + b"\0"),
    ],
)
def test_each_version_writes_only_its_own_fields(version: int, data: bytes) -> None:
    assert encode_message(Shapes(name="a"), version) == data
    assert decode_message(Shapes, version, data) == Shapes(name="a")


def test_a_field_that_a_version_lacks_decodes_to_its_default() -> None:
    shapes = Shapes(name="a", points=[Point(x=1, y=2)], label="lost", marks=[1])
    assert decode_message(Shapes, 0, encode_message(shapes, 0)) == Shapes(name="a")
    assert decode_message(OnePoint, 0, b"\x01") == OnePoint(point=Point(x=1, y=5))


def test_mutable_defaults_are_not_shared_between_messages() -> None:
    data = encode_message(Shapes(name="a"), 3)
    first, second = decode_message(Shapes, 3, data), decode_message(Shapes, 3, data)
    first.marks.append(1)
    first.corner.x = 9
    assert second == Shapes(name="a")


def test_a_nullable_struct_has_a_marker() -> None:
    shapes = Shapes(name="a", origin=Point(x=1, y=2))
    assert encode_message(shapes, 2) == b"\2a" + b"\1\1\2\0" + b"\1" + b"\0" + b"\0"
    assert decode_message(Shapes, 2, encode_message(shapes, 2)) == shapes


@pytest.mark.parametrize(("version", "null"), [(1, b"\xff\xff"), (2, b"\0")])
def test_null_is_read_and_written_where_the_version_has_it(version: int, null: bytes) -> None:
    data = encode_message(Shapes(name=None), version)
    assert data.startswith(null)
    assert decode_message(Shapes, version, data) == Shapes(name=None)


def test_null_is_refused_before_the_version_that_allows_it() -> None:
    with pytest.raises(MalformedMessageError, match="name is null"):
        decode_message(Shapes, 0, b"\xff\xff" + b"\xff\xff\xff\xff")
    with pytest.raises(AttributeError):
        encode_message(Shapes(name=None), 0)


@pytest.mark.parametrize(
    "data",
    [
        b"\0\1a" + b"\xff" + b"\xff\xff\xff\xff",  # points is null
        b"\0\1a" + b"\xff" + b"\0\0\0\0" + b"\0\0\0\1" + b"\xff\xff",  # a name in names is null
        b"\xff\xfe" + b"\xff" + b"\0\0\0\0" + b"\xff\xff\xff\xff",  # a length of -2
        b"\0\1a" + b"\xff" + b"\0\0\0\0" + b"\xff\xff\xff\xfe",
        b"\0\1\xff" + b"\xff" + b"\0\0\0\0" + b"\xff\xff\xff\xff",  # not UTF-8
    ],
)
def test_nulls_and_lengths_and_text_that_cannot_be_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        decode_message(Shapes, 1, data)


@pytest.mark.parametrize("length", [0, 1, 126, 127, 128, 16_382, 16_383, 16_384, 32_767])
def test_strings_and_lists_survive_every_width_of_compact_length(length: int) -> None:
    shapes = Shapes(name="n" * length, names=["é"] * length, marks=[-1] * length)
    for version in (2, 3):
        assert decode_message(Shapes, version, encode_message(shapes, version)) == shapes


def test_a_string_too_long_for_older_versions_is_refused() -> None:
    data = encode_message(Shapes(name="n" * 32_768), 2)
    with pytest.raises(MalformedMessageError, match="32768"):
        decode_message(Shapes, 2, data)


def test_tagged_fields_are_written_in_order_of_tag_and_only_when_set() -> None:
    shapes = Shapes(name="a", label="b", marks=[3])
    plain = b"\2a" + b"\xff" + b"\1" + b"\0"
    assert encode_message(shapes, 2) == plain + b"\2" + b"\0\3\2\0\3" + b"\1\2\2b"
    assert encode_message(Shapes(name="a", label="b"), 2) == plain + b"\1" + b"\1\2\2b"
    corner = Shapes(name="a", corner=Point(x=4))
    assert encode_message(corner, 3) == plain + b"\1" + b"\2\3\4\5\0"
    assert decode_message(Shapes, 3, encode_message(corner, 3)) == corner


def test_a_tag_of_a_later_version_is_skipped() -> None:
    data = encode_message(Shapes(name="a", corner=Point(x=4)), 3)
    assert decode_message(Shapes, 2, data) == Shapes(name="a")


@pytest.mark.parametrize("tagged", [b"\1\1\3\2b?", b"\1\1\1\2b", b"\1\1\x7f\2b", b"\1\1"])
def test_a_tagged_field_of_another_size_than_it_says_is_refused(tagged: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        decode_message(Shapes, 2, b"\2a" + b"\xff" + b"\1" + b"\0" + tagged)


@pytest.mark.parametrize("version", [0, 1])
def test_records_are_a_view_of_the_receive_buffer_and_bytes_are_a_copy(version: int) -> None:
    sent = Blobs(before=1, data=b"data", records=b"recs", after=2)
    buffer = bytearray(encode_message(sent, version))
    blobs = decode_message(Blobs, version, buffer)
    buffer[:] = bytes(len(buffer))
    assert isinstance(blobs.records, memoryview)
    assert blobs.records == bytes(4)
    assert blobs.data == b"data"


@pytest.mark.parametrize("version", [0, 1])
def test_records_in_pieces_are_encoded_one_behind_the_other_without_a_copy(version: int) -> None:
    pieces = (b"header", memoryview(b"r" * INLINE_RECORDS_BYTES), bytearray(b"end"))
    scattered: Any = InPieces(*pieces)
    assert len(scattered) == sum(map(len, pieces))
    parts = parts_of(Blobs(before=1, data=b"", records=scattered, after=2), version)
    assert len(parts) == 5
    assert all(part is piece for part, piece in zip(parts[1:4], pieces, strict=True))
    whole = Blobs(before=1, data=b"", records=b"".join(pieces), after=2)
    assert b"".join(parts)[4:] == encode_message(whole, version)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("make", [bytes, bytearray, lambda data: memoryview(bytes(data))])
def test_large_records_become_a_part_of_their_own_without_a_copy(version: int, make: Any) -> None:
    records = make(b"r" * INLINE_RECORDS_BYTES)
    blobs = Blobs(before=1, data=b"", records=records, after=2)
    parts = parts_of(blobs, version)
    assert len(parts) == 3
    assert parts[1] is records
    joined = b"".join(parts)
    assert joined.startswith(b"head")
    assert joined[4:] == encode_message(blobs, version)
    assert decode_message(Blobs, version, joined, 4) == blobs


@pytest.mark.parametrize("version", [0, 1])
def test_small_records_stay_between_their_neighbours(version: int) -> None:
    records = b"r" * (INLINE_RECORDS_BYTES - 1)
    assert len(parts_of(Blobs(before=1, data=None, records=records, after=2), version)) == 1
    assert len(parts_of(Blobs(before=1, data=None, records=None, after=2), version)) == 1


def test_null_and_empty_records_are_told_apart() -> None:
    for version in (0, 1):
        for records in (None, b""):
            blobs = Blobs(before=1, data=records, records=records, after=2)
            assert decode_message(Blobs, version, encode_message(blobs, version)) == blobs


def test_a_version_that_was_not_declared_has_no_codec() -> None:
    with pytest.raises(ValueError, match="Shapes has no version 4"):
        codec_of(Shapes, 4)
    assert info_of(Shapes).versions == (0, 3)
    assert 3 in info_of(Shapes).versions
    assert 4 not in info_of(Shapes).versions


def test_a_field_that_some_versions_lack_must_have_a_default() -> None:
    @struct
    class Incomplete:
        late: Int8 = wire(since=1)

    with pytest.raises(TypeError, match="late is not in every version"):
        fields_of(Incomplete)
