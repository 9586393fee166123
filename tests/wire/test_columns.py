"""Lists of structs as columns: both kernels, and their place in codecs."""

from __future__ import annotations

import importlib
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire import _columns_kernel_py
from ottla.wire.columns import Columns, columns_of
from ottla.wire.compile import decode_message, encode_message
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.types import MalformedMessageError


def _compiled() -> Any:
    try:
        return importlib.import_module("ottla.wire._columns_kernel")
    except ImportError:
        return None


COMPILED = _compiled()
compiled_needed = pytest.mark.skipif(COMPILED is None, reason="the compiled kernel is not built")
both_kernels = pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(_columns_kernel_py, id="pure"),
        pytest.param(COMPILED, id="compiled", marks=compiled_needed),
    ],
)
KINDS = b"bhHiIq?sS"
RANGES = {"b": (-128, 127), "h": (-(2**15), 2**15 - 1), "H": (0, 2**16 - 1)}
RANGES |= {"i": (-(2**31), 2**31 - 1), "I": (0, 2**32 - 1), "q": (-(2**63), 2**63 - 1)}


def value_of(kind: int) -> st.SearchStrategy[Any]:
    letter = chr(kind)
    if letter == "?":
        return st.booleans()
    if letter in "sS":
        text = st.text(max_size=200)
        return text if letter == "s" else st.none() | text
    return st.integers(*RANGES[letter])


@st.composite
def tables(draw: st.DrawFn) -> tuple[bytes, int, list[list[Any]]]:
    kinds = bytes(draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=6)))
    count = draw(st.integers(0, 5))
    columns = [draw(st.lists(value_of(kind), min_size=count, max_size=count)) for kind in kinds]
    return kinds, count, columns


def outcome(function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Exception as error:
        return type(error), str(error)


@both_kernels
@given(tables(), st.booleans(), st.binary(max_size=3))
def test_columns_survive_the_round_trip(
    kernel: Any, table: tuple[bytes, int, list[list[Any]]], flexible: bool, before: bytes
) -> None:
    kinds, count, columns = table
    out = bytearray(before)
    kernel.write_columns(out, columns, count, kinds, flexible)
    twin = bytearray(before)
    _columns_kernel_py.write_columns(twin, columns, count, kinds, flexible)
    assert out == twin
    read = kernel.read_columns(memoryview(out), len(before), count, kinds, flexible)
    assert read == (columns, len(out))


@compiled_needed
@given(
    tables(),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255))),
    st.data(),
)
def test_both_kernels_say_the_same_of_garbage(
    table: tuple[bytes, int, list[list[Any]]],
    flexible: bool,
    changes: list[tuple[int, int]],
    data: st.DataObject,
) -> None:
    kinds, count, columns = table
    out = bytearray()
    _columns_kernel_py.write_columns(out, columns, count, kinds, flexible)
    for place, byte in changes:
        if place < len(out):
            out[place] = byte
    end = data.draw(st.integers(0, len(out)))
    arguments = memoryview(out)[:end], 0, count + data.draw(st.integers(-1, 2)), kinds, flexible
    assert outcome(COMPILED.read_columns, *arguments) == outcome(
        _columns_kernel_py.read_columns, *arguments
    )


@both_kernels
@pytest.mark.parametrize("flexible", [False, True])
def test_a_list_that_ends_too_early_is_malformed(kernel: Any, flexible: bool) -> None:
    out = bytearray()
    kernel.write_columns(out, [[1, 2], ["one", None]], 2, b"iS", flexible)
    for end in range(len(out)):
        with pytest.raises(MalformedMessageError):
            kernel.read_columns(memoryview(out)[:end], 0, 2, b"iS", flexible)


@both_kernels
def test_unknown_tagged_fields_are_skipped(kernel: Any) -> None:
    data = bytes((0, 7, 2, 5, 1, 99, 6, 0, 0, 8, 0))
    assert kernel.read_columns(data, 0, 2, b"h", True) == ([[7, 8]], len(data))


@both_kernels
@pytest.mark.parametrize("number", [2**15, -(2**15) - 1, 2**70])
def test_a_number_that_does_not_fit_is_refused(kernel: Any, number: int) -> None:
    with pytest.raises(struct.error):
        kernel.write_columns(bytearray(), [[number]], 1, b"h", False)


@both_kernels
def test_columns_have_one_length(kernel: Any) -> None:
    with pytest.raises(ValueError, match="different lengths"):
        kernel.write_columns(bytearray(), [[1, 2], [1]], 2, b"hh", False)


PARTITIONS = [
    OffsetCommitRequestPartition(
        partition_index=number,
        committed_offset=1 << 40,
        committed_leader_epoch=-1,
        committed_metadata=["", None, "where I was"][number],
    )
    for number in range(3)
]


@pytest.mark.parametrize("version", range(2, 11))
def test_a_message_with_columns_is_the_one_with_structs(version: int) -> None:
    request = OffsetCommitRequest(
        group_id="g", member_id="", topics=[OffsetCommitRequestTopic(partitions=PARTITIONS)]
    )
    data = encode_message(request, version)
    decoded = decode_message(OffsetCommitRequest, version, data)
    columns = decoded.topics[0].partitions
    assert isinstance(columns, Columns)
    assert columns == PARTITIONS
    assert list(columns) == PARTITIONS
    assert decoded == request
    assert encode_message(decoded, version) == data
    assert columns[-1] == PARTITIONS[-1]
    assert columns[1:] == PARTITIONS[1:]
    assert columns_of(PARTITIONS, OffsetCommitRequestPartition) == list(columns.values)


def test_columns_are_joined() -> None:
    kind = OffsetCommitResponsePartition
    topic = OffsetCommitResponseTopic(name="t", partitions=Columns(kind, [[1, 2], [0, 3]]))
    assert isinstance(topic.partitions, Columns)
    topic.partitions.extend([kind(partition_index=5, error_code=7)])
    topic.partitions.extend(Columns(kind, [[6], [0]]))
    response = OffsetCommitResponse(topics=[topic])
    decoded = decode_message(OffsetCommitResponse, 9, encode_message(response, 9))
    found = [(one.partition_index, one.error_code) for one in decoded.topics[0].partitions]
    assert found == [(1, 0), (2, 3), (5, 7), (6, 0)]
