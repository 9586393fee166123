"""Plain Produce requests: both kernels read and write the same, and what the general codec reads and writes."""

from __future__ import annotations

import importlib
import random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.fuzz.mutations import mutate

from ottla.wire import _produce_kernel_py, plain_produce
from ottla.wire._produce_kernel_py import MAX_BATCHES
from ottla.wire.compile import decode_message
from ottla.wire.framing import frame_request
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

try:
    COMPILED: Any = importlib.import_module("ottla.wire._produce_kernel")
except ImportError:
    COMPILED = None
KERNELS: list[Any] = [
    pytest.param(_produce_kernel_py, id="pure"),
    pytest.param(
        COMPILED,
        id="compiled",
        marks=pytest.mark.skipif(COMPILED is None, reason="the compiled kernel is not built"),
    ),
]
both_kernels = pytest.mark.parametrize("kernel", KERNELS)
compiled_needed = pytest.mark.skipif(COMPILED is None, reason="the compiled kernel is not built")

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(max_size=12) | st.sampled_from(["orders", "größe", "x" * 127, "x" * 128, "x" * 200])
VERSIONS = st.integers(3, 13)


@st.composite
def topics(draw: st.DrawFn, version: int) -> TopicProduceData:
    data = draw(
        st.lists(
            st.builds(
                PartitionProduceData,
                index=INT32,
                records=st.none() | st.binary(max_size=150) | st.just(b"r" * 130),
            ),
            max_size=3,
        )
    )
    if version >= 13:
        return TopicProduceData(
            topic_id=draw(st.uuids() | st.just(UUID(int=0))), partition_data=data
        )
    return TopicProduceData(name=draw(NAMES), partition_data=data)


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    version = draw(VERSIONS)
    request = ProduceRequest(
        transactional_id=draw(st.none() | NAMES),
        acks=draw(st.sampled_from([-1, 0, 1]) | st.integers(-32768, 32767)),
        timeout_ms=draw(INT32),
        topic_data=draw(st.lists(topics(version), max_size=3)),
    )
    return frame_request(request, version, draw(INT32), draw(st.none() | NAMES))


def frame_of(
    batches: int = 1, *, version: int = 9, records: bytes | None = b"r", acks: int = -1
) -> bytes:
    data = [PartitionProduceData(index=index, records=records) for index in range(batches)]
    topic = TopicProduceData(partition_data=data)
    if version >= 13:
        topic.topic_id = UUID(int=7)
    else:
        topic.name = "t"
    request = ProduceRequest(acks=acks, timeout_ms=1, topic_data=[topic])
    return frame_request(request, version, 5, "c")


def read(kernel: Any, data: bytes, start: int = 0) -> list[Any]:
    found: list[Any] = kernel.read_plain_requests(memoryview(bytearray(data)), start, len(data))
    return found


def comparable(requests: list[Any]) -> list[Any]:
    return [(*each[:5], [(*batch[:3], bytes(batch[3])) for batch in each[5]]) for each in requests]


@both_kernels
@pytest.mark.parametrize("version", range(3, 14))
def test_a_plain_request_is_read_at_every_version(kernel: Any, version: int) -> None:
    frame = frame_of(2, version=version)
    name = UUID(int=7) if version >= 13 else "t"
    batches = [(0, name, 0, b"r"), (0, name, 1, b"r")]
    assert comparable(read(kernel, frame)) == [(len(frame), version, 5, -1, None, batches)]


@both_kernels
@given(sent=st.lists(frames(), max_size=4))
@settings(max_examples=200)
def test_what_is_read_is_what_the_general_codec_reads(kernel: Any, sent: list[bytes]) -> None:
    data = b"".join(sent)
    start = 0
    for end, version, _, acks, transactional_id, batches in read(kernel, data):
        frame = data[start:end]
        # The header: api key, version, correlation id, and the client id with its length.
        client_bytes = max(0, int.from_bytes(frame[12:14], "big", signed=True))
        position = 14 + client_bytes + (version >= 9)
        request = decode_message(ProduceRequest, version, frame, position)
        assert (request.acks, request.transactional_id) == (acks, transactional_id)
        assert [
            (number, topic, partition, bytes(records))
            for number, topic, partition, records in batches
        ] == [
            (
                number,
                topic.topic_id if version >= 13 else topic.name,
                each.index,
                bytes(each.records),
            )
            for number, topic in enumerate(request.topic_data)
            for each in topic.partition_data
        ]
        start = end


@compiled_needed
@given(sent=st.lists(frames(), max_size=4), seed=st.integers(0, 2**32), damage=st.integers(0, 3))
@settings(max_examples=500)
@example(sent=[frame_of(), frame_of(3, version=13)], seed=0, damage=0)
@example(sent=[frame_of(), frame_of(acks=0), frame_of(version=3)], seed=0, damage=0)
def test_both_kernels_read_the_same_also_of_damaged_bytes(
    sent: list[bytes], seed: int, damage: int
) -> None:
    rng = random.Random(seed)
    received = bytearray()
    for frame in sent:
        changed = bytearray(frame)
        if rng.random() < damage / 3:
            mutate(rng, changed, sent)
        received += changed
    data = bytes(received)
    ours, theirs = read(COMPILED, data), read(_produce_kernel_py, data)
    assert comparable(ours) == comparable(theirs)


@compiled_needed
@given(sent=st.lists(frames(), min_size=1, max_size=4), numbers=st.data())
@settings(max_examples=200)
def test_both_kernels_write_the_same_responses(sent: list[bytes], numbers: st.DataObject) -> None:
    requests = read(COMPILED, b"".join(sent))
    count = sum(len(each[5]) for each in requests)
    columns = [numbers.draw(st.lists(INT64, min_size=count, max_size=count)) for _ in range(3)]
    ours = COMPILED.write_plain_responses(requests, *columns)
    assert ours == _produce_kernel_py.write_plain_responses(requests, *columns)


@both_kernels
@pytest.mark.parametrize("version", range(3, 14))
def test_responses_are_read_by_the_general_codec(kernel: Any, version: int) -> None:
    requests = read(kernel, frame_of(2, version=version))
    data = kernel.write_plain_responses(requests, [10, 20], [-1, 99], [3, 4])
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    response = decode_message(ProduceResponse, version, data, 8 + (version >= 9))
    found = [
        (each.index, each.error_code, each.base_offset, each.log_append_time_ms)
        for each in response.responses[0].partition_responses
    ]
    assert found == [(0, 0, 10, -1), (1, 0, 20, 99)]


@both_kernels
def test_a_request_without_acks_has_no_response(kernel: Any) -> None:
    requests = read(kernel, frame_of(acks=0) + frame_of(acks=1) + frame_of(acks=0))
    columns = ([1, 2, 3], [-1] * 3, [0] * 3)
    assert len(requests) == 3
    only = kernel.write_plain_responses(requests, *columns)
    assert only == kernel.write_plain_responses(requests[1:2], [2], [-1], [0])
    assert kernel.write_plain_responses(requests[:1], [1], [-1], [0]) == b""


# What is not plain.


def with_size(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


NOT_PLAIN = {
    "another API": with_size(b"\0\1" + frame_of()[6:]),
    "an unknown version": with_size(b"\0\0\0\x0e" + frame_of()[8:]),
    "no records": frame_of(records=None),
    "no partition": frame_of(0),
    "too many partitions": frame_of(MAX_BATCHES + 1),
    "a tagged field": with_size(frame_of()[4:-1] + b"\1\0\0"),
    "bytes behind the last field": with_size(frame_of()[4:] + b"\0"),
    "a length in more bytes than it needs": with_size(
        frame_of()[4:].replace(b"\x02t", b"\x82\x00t")
    ),
    "a name that is no text": with_size(frame_of()[4:].replace(b"\x02t", b"\x02\xff")),
    "a client id that is no text": with_size(frame_of()[4:].replace(b"\0\1c", b"\0\1\xff")),
    "a negative size": b"\xff\xff\xff\xff" + frame_of(),
}


@both_kernels
@pytest.mark.parametrize("data", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_reading_ends_before_what_is_not_plain(kernel: Any, data: bytes) -> None:
    assert read(kernel, data) == []
    assert len(read(kernel, frame_of() + data + frame_of())) == 1


@both_kernels
def test_reading_begins_and_ends_where_it_is_told(kernel: Any) -> None:
    frame = frame_of()
    data = memoryview(bytearray(b"before" + frame * 3))
    assert len(kernel.read_plain_requests(data, 6, len(data))) == 3
    assert len(kernel.read_plain_requests(data, 6, len(data) - 1)) == 2
    for start, end in ((-1, 4), (5, 4), (0, len(data) + 1)):
        with pytest.raises(ValueError, match="no range"):
            kernel.read_plain_requests(data, start, end)


@both_kernels
def test_a_batch_without_an_offset_is_a_bug(kernel: Any) -> None:
    requests = read(kernel, frame_of(2))
    with pytest.raises(ValueError, match="without an offset"):
        kernel.write_plain_responses(requests, [1], [-1], [0])


@both_kernels
def test_records_are_not_copied(kernel: Any) -> None:
    data = bytearray(frame_of(records=b"records"))
    ((*_, batches),) = kernel.read_plain_requests(memoryview(data), 0, len(data))
    data[data.index(b"records")] = ord("R")
    assert bytes(batches[0][3]) == b"Records"


@given(
    sent=st.lists(
        st.tuples(st.integers(3, 13), st.none() | st.text(max_size=300), INT32), max_size=4
    )
)
def test_timeouts_are_found_in_what_was_received(sent: list[tuple[int, str | None, int]]) -> None:
    partition = PartitionProduceData(index=0, records=b"r")
    data = b"".join(
        frame_request(
            ProduceRequest(
                transactional_id=name,
                acks=-1,
                timeout_ms=timeout_ms,
                topic_data=[TopicProduceData(name="t", partition_data=[partition])],
            ),
            version,
            5,
            "c",
        )
        for version, name, timeout_ms in sent
    )
    received = memoryview(bytearray(data))
    requests = plain_produce.read_plain_requests(received, 0, len(data))
    assert len(requests) == len(sent)
    found = plain_produce.timeouts_of(received, 0, requests)
    assert found == [timeout_ms for _, _, timeout_ms in sent]
