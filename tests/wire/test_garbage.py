"""Bytes that are not the message they claim to be cost a MalformedMessageError and nothing else."""

from __future__ import annotations

import random
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.wire.every_message import CASES, Case, full_value, plain_encode, varint

from ottla.wire.compile import codec_of, decode_message, encode_message
from ottla.wire.declare import fields_of
from ottla.wire.framing import read_request_header, read_request_start
from ottla.wire.types import MalformedMessageError

every_case = pytest.mark.parametrize("case", CASES, ids=str)
FLEXIBLE = tuple(case for case in CASES if case.flexible)
# Lengths that a hostile peer may claim: as int32, as int16 and as a compact length.
ABSURD_LENGTHS = (
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xfe",
    b"\x7f\xff",
    b"\x80\x00",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff",
)


def decode_or_refuse(case: Case, data: bytes) -> Any:
    """Decodes, and lets only the exception through that the caller is promised."""
    try:
        return decode_message(case.cls, case.version, data)
    except MalformedMessageError:
        return None
    except Exception as error:
        raise AssertionError(f"{case} of {data.hex()}") from error


@every_case
def test_every_truncation_is_refused(case: Case) -> None:
    data = encode_message(full_value(case), case.version)
    for end in range(len(data)):
        with pytest.raises(MalformedMessageError):
            decode_message(case.cls, case.version, data[:end])


@every_case
def test_mutated_and_random_bytes_decode_or_are_refused(case: Case) -> None:
    rng = random.Random(str(case))
    data = encode_message(full_value(case), case.version)
    for _ in range(40):
        mutated = bytearray(data)
        for _ in range(rng.randint(1, 4) if mutated else 0):
            byte = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            mutated[rng.randrange(len(mutated))] = byte
        decode_or_refuse(case, bytes(mutated))
        decode_or_refuse(case, rng.randbytes(rng.randrange(64)))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=st.sampled_from(CASES), data=st.binary(max_size=200))
def test_any_bytes_decode_or_are_refused(case: Case, data: bytes) -> None:
    decode_or_refuse(case, data)


@every_case
def test_absurd_lengths_cost_neither_memory_nor_time(case: Case) -> None:
    data = encode_message(full_value(case), case.version)
    codec_of(case.cls, case.version)
    tracemalloc.start()
    started = time.thread_time()
    try:
        for position in range(0, len(data), max(1, len(data) // 25)):
            for length in ABSURD_LENGTHS:
                decode_or_refuse(case, data[:position] + length + data[position + len(length) :])
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 1_000_000
    assert time.thread_time() - started < 5


@pytest.mark.parametrize("case", FLEXIBLE, ids=str)
@pytest.mark.parametrize(
    "unknown", [{90: b""}, {90: b"\xff\xff", 0xFFFFFFFF: b"x" * 200}], ids=["empty", "long"]
)
def test_unknown_tagged_fields_are_skipped_in_every_struct(
    case: Case, unknown: dict[int, bytes]
) -> None:
    message = full_value(case)
    data = plain_encode(case, message, unknown)
    assert len(data) > len(encode_message(message, case.version))
    assert decode_message(case.cls, case.version, data) == message


@pytest.mark.parametrize("case", FLEXIBLE, ids=str)
def test_more_unknown_tagged_fields_than_one_byte_counts_are_skipped(case: Case) -> None:
    message = full_value(case)
    data = plain_encode(case, message, dict.fromkeys(range(100, 300), b"x"))
    assert decode_message(case.cls, case.version, data) == message


@pytest.mark.parametrize("case", FLEXIBLE, ids=str)
@pytest.mark.parametrize("count", [1, 200, 0xFFFFFFFF])
def test_a_claim_of_more_tagged_fields_than_there_are_is_refused(case: Case, count: int) -> None:
    message = full_value(case)
    for field in fields_of(case.cls):
        if field.tagged_in(case.version) and field.default is not None:
            setattr(message, field.name, field.default())
    data = encode_message(message, case.version)
    assert data.endswith(b"\0")  # the message's own count of tagged fields
    with pytest.raises(MalformedMessageError):
        decode_message(case.cls, case.version, data[:-1] + varint(count))


@settings(max_examples=200, deadline=None)
@given(frame=st.binary(max_size=40), flexible=st.booleans())
@example(frame=b"", flexible=True)
@example(frame=b"\0\0\0\0\0\0\0\0\x7f\xff", flexible=False)
@example(frame=b"\0\0\0\0\0\0\0\0\0\1\xff", flexible=False)
@example(frame=b"\0\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\x0f", flexible=True)
def test_any_request_header_is_read_or_refused(frame: bytes, flexible: bool) -> None:
    view = memoryview(frame)
    try:
        header = read_request_header(view, flexible)
    except MalformedMessageError:
        return
    assert header[:3] == read_request_start(view)
    assert header.body_position <= len(frame)
