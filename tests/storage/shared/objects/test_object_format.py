"""Objects say by themselves what is in them, and whether it is complete."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.ports import DamagedError
from ottla.storage.shared.errors import ForeignClusterError
from ottla.storage.shared.objects.object_format import (
    HEADER_BYTES,
    ObjectWriter,
    check_belongs,
    footer_bytes,
    object_id_of,
    object_key,
    read_footer,
    read_header,
    read_object,
)

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
runs = st.lists(
    st.tuples(
        st.integers(1, 2**63 - 1),
        st.integers(0, 2**40),
        st.integers(1, 1000),
        st.lists(st.binary(max_size=40), max_size=3),
    ),
    max_size=4,
)
SAMPLE = [(7, 0, 10, [b"first", b" run"]), (9, 100, 1, [b"second run"])]


def written(
    some: list[tuple[int, int, int, list[bytes]]], object_id: int = 5, cluster_id: str = CLUSTER
) -> tuple[bytes, list[int]]:
    writer = ObjectWriter(cluster_id, object_id)
    positions = [
        writer.add(partition_id, base, base + count, parts)
        for partition_id, base, count, parts in some
    ]
    size_bytes = writer.size_bytes
    data = b"".join(writer.finish())
    assert len(data) == size_bytes
    return data, positions


@given(runs, st.integers(0, 2**63 - 1))
def test_what_was_written_is_read(
    some: list[tuple[int, int, int, list[bytes]]], object_id: int
) -> None:
    data, positions = written(some, object_id)
    contents = read_object(data)
    assert contents.header == (CLUSTER, object_id)
    check_belongs(contents.header, CLUSTER, object_id)
    assert [run.position for run in contents.runs] == positions
    for run, (partition_id, base, count, parts) in zip(contents.runs, some, strict=True):
        assert run[:3] == (partition_id, base, base + count)
        assert data[run.position : run.position + run.size_bytes] == b"".join(parts)


def test_parts_are_not_copied() -> None:
    part = memoryview(bytearray(b"records"))
    writer = ObjectWriter(CLUSTER, 1)
    writer.add(1, 0, 1, [part])
    assert any(each is part for each in writer.finish())


def test_header_and_footer_are_read_without_the_runs() -> None:
    data, _ = written(SAMPLE)
    size_bytes = footer_bytes(data[-16:])
    assert read_header(data[:HEADER_BYTES]).object_id == 5
    found = read_footer(data[:HEADER_BYTES], data[-size_bytes:], len(data))
    assert found == read_object(data).runs


def test_every_flipped_bit_is_found() -> None:
    data, _ = written(SAMPLE)
    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with pytest.raises(DamagedError):
                read_object(damaged)


def test_every_truncation_and_every_addition_is_found() -> None:
    data, _ = written(SAMPLE)
    for size_bytes in range(len(data)):
        for damaged in (data[:size_bytes], data[size_bytes + 1 :], data + data[: size_bytes + 1]):
            with pytest.raises(DamagedError):
                read_object(damaged)


@given(st.binary(max_size=300))
def test_garbage_is_refused_as_damage(garbage: bytes) -> None:
    data, _ = written(SAMPLE)
    for damaged in (garbage, data[:HEADER_BYTES] + garbage, garbage + data[-16:]):
        if damaged != data:
            with pytest.raises(DamagedError):
                read_object(damaged)


@given(st.data(), runs)
def test_a_changed_range_is_found(
    draw: st.DataObject, some: list[tuple[int, int, int, list[bytes]]]
) -> None:
    data, _ = written(some)
    start = draw.draw(st.integers(0, len(data) - 1))
    patch = draw.draw(st.binary(min_size=1, max_size=20))
    damaged = data[:start] + patch + data[start + len(patch) :]
    if damaged != data:
        with pytest.raises(DamagedError):
            read_object(damaged)


def test_an_object_of_another_cluster_or_another_id_is_recognised() -> None:
    header = read_object(written(SAMPLE, 5, "another")[0]).header
    with pytest.raises(ForeignClusterError, match="belongs to cluster another"):
        check_belongs(header, CLUSTER, 5)
    with pytest.raises(DamagedError, match="is object 5, not 6"):
        check_belongs(header, "another", 6)


def test_a_footer_of_one_object_does_not_fit_another() -> None:
    one, _ = written(SAMPLE, 5)
    two, _ = written(SAMPLE, 6)
    with pytest.raises(DamagedError, match="footer is wrong"):
        read_object(two[:HEADER_BYTES] + one[HEADER_BYTES:])


@pytest.mark.parametrize("cluster_id", ["", "x" * 43, "é"])
def test_a_cluster_id_that_does_not_fit_is_refused(cluster_id: str) -> None:
    with pytest.raises(ValueError, match=r"cluster id|ascii"):
        ObjectWriter(cluster_id, 1)


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**72 - 1))
def test_a_key_has_the_id_of_its_object(object_id: int, random_bits: int) -> None:
    assert object_id_of(object_key(object_id, random_bits)) == object_id


@pytest.mark.parametrize(
    "key",
    ["cluster.json", "01/0257-" + "0" * 16, "1/257-" + "0" * 16, "01/257-" + "0" * 15, "01/257-"],
)
def test_other_keys_have_no_object(key: str) -> None:
    assert object_id_of("01/257-" + "0" * 16) == 257
    assert object_id_of(key) is None
    assert object_id_of(f"x/01/257-{'0' * 16}") is None
