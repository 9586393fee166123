"""Codecs that pause: they give what the others give, and stop at a limit."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

import pytest
from tests.wire.every_message import CASES, Case, full_value

from ottla.wire.compile import decode_in_slices, encode_message, sliced_codec_of
from ottla.wire.framing import frame_response, frame_response_in_slices
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from ottla.wire.source import SLICE_ELEMENTS
from ottla.wire.types import Buffer, MalformedMessageError

T = TypeVar("T")
NO_LIMIT = 1 << 30


def run(steps: Generator[None, None, T]) -> tuple[T, int]:
    """What a generator returns, and how often it paused."""
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value, pauses
        pauses += 1


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_message_is_the_same_in_slices(case: Case) -> None:
    value = full_value(case)
    data = encode_message(value, case.version)
    parts: list[Buffer] = []
    last, _ = run(sliced_codec_of(case.cls, case.version).encode(value, bytearray(), parts))
    assert b"".join([*map(bytes, parts), last]) == data
    decoded, _ = run(decode_in_slices(case.cls, case.version, memoryview(data), 0, NO_LIMIT))
    assert decoded == value
    for end in range(0, len(data), 7):
        with pytest.raises(MalformedMessageError):
            run(decode_in_slices(case.cls, case.version, memoryview(data[:end]), 0, NO_LIMIT))


def many_names(count: int) -> memoryview:
    topics = [MetadataRequestTopic(name=f"t-{number}") for number in range(count)]
    return memoryview(encode_message(MetadataRequest(topics=topics), 9))


def test_long_lists_are_read_with_pauses() -> None:
    decoded, pauses = run(decode_in_slices(MetadataRequest, 9, many_names(5000), 0, NO_LIMIT))
    assert decoded.topics[-1].name == "t-4999"
    assert pauses == 5000 // SLICE_ELEMENTS


def test_long_lists_are_written_with_pauses() -> None:
    topics = [
        MetadataResponseTopic(error_code=0, name=f"t-{number}", partitions=[])
        for number in range(5000)
    ]
    response = MetadataResponse(brokers=[], controller_id=0, topics=topics)
    parts, pauses = run(frame_response_in_slices(response, 9, 7))
    assert list(map(bytes, parts)) == list(map(bytes, frame_response(response, 9, 7)))
    assert pauses == 5000 // SLICE_ELEMENTS


def test_too_many_elements_are_refused_before_they_are_read() -> None:
    steps: Any = decode_in_slices(MetadataRequest, 9, many_names(1001), 0, 1000)
    with pytest.raises(MalformedMessageError, match="too many elements"):
        next(steps)
    assert run(decode_in_slices(MetadataRequest, 9, many_names(1000), 0, 1000))[0] is not None


def test_tagged_fields_have_a_limit() -> None:
    data = encode_message(MetadataRequest(topics=[]), 9)
    assert data.endswith(b"\x00")
    hostile = data[:-1] + b"\xff\xff\x03" + b"\x00" * (1 << 16)
    with pytest.raises(MalformedMessageError, match="tagged fields"):
        run(decode_in_slices(MetadataRequest, 9, memoryview(hostile), 0, NO_LIMIT))
