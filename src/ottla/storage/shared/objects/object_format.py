"""The bytes of an object: batches of one or several partitions, and what shows that they are complete.

    header   magic, version, object id, cluster id, CRC-32C                     64 bytes
    runs     consecutive batches of a partition, exactly as on the wire, one run after another
    footer   for each run: partition id, base and end offset, size, CRC-32C     32 bytes each
    trailer  number of runs, CRC-32C of header, footer and this number, magic   16 bytes

Every byte is under a checksum or compared, so any truncation and any flipped bit is found. The object id and the
cluster id say where an object belongs that is found in a bucket. Numbers are big-endian.

The key of an object has its id: `<2 hex>/<object id>-<16 hex>`, with random digits. They begin differently, since
stores divide their load by the beginning of keys, and differ from those of the same id in an earlier cluster.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.ports import Buffer, DamagedError
from ottla.records.crc import crc32c
from ottla.storage.shared.errors import ForeignClusterError

VERSION: Final = 1
HEADER_BYTES: Final = 64
FOOTER_ENTRY_BYTES: Final = 32
TRAILER_BYTES: Final = 16
MAX_CLUSTER_ID_BYTES: Final = 42

_HEAD_MAGIC: Final = b"OTTLAOBJ"
_TAIL_MAGIC: Final = b"OTTLAEND"
_HEADER: Final = struct.Struct(f">8sHq{MAX_CLUSTER_ID_BYTES}s")  # and its CRC
_ENTRY: Final = struct.Struct(">qqqiI")
_TRAILER: Final = struct.Struct(">II8s")
_UINT32: Final = struct.Struct(">I")
_KEY: Final = re.compile(r"[0-9a-f]{2}/(0|[1-9][0-9]{0,18})-[0-9a-f]{16}")


# Keys.


def object_key(object_id: int, random_bits: int) -> str:
    """The key of an object, by 72 random bits."""
    token = f"{random_bits & (2**72 - 1):018x}"
    return f"{token[:2]}/{object_id}-{token[2:]}"


def object_id_of(key: str) -> int | None:
    """The id in a key, None if it is not one of ours."""
    match = _KEY.fullmatch(key)
    return None if match is None else int(match[1])


# Writing.


class ObjectWriter:
    """Collects the parts of an object without copying them."""

    def __init__(self, cluster_id: str, object_id: int) -> None:
        name = cluster_id.encode("ascii")
        if not 0 < len(name) <= MAX_CLUSTER_ID_BYTES:
            raise ValueError(
                f"a cluster id has 1 to {MAX_CLUSTER_ID_BYTES} characters: {cluster_id}"
            )
        header = _HEADER.pack(_HEAD_MAGIC, VERSION, object_id, name)
        header += _UINT32.pack(crc32c(header))
        self._parts: list[Buffer] = [header]
        self._entries: list[bytes] = []
        self._position = HEADER_BYTES

    @property
    def run_count(self) -> int:
        return len(self._entries)

    @property
    def size_bytes(self) -> int:
        """The size of the object, if it ended now."""
        return self._position + len(self._entries) * FOOTER_ENTRY_BYTES + TRAILER_BYTES

    def add(
        self, partition_id: int, base_offset: int, end_offset: int, parts: Sequence[Buffer]
    ) -> int:
        """Adds a run and returns its position. The parts must not change until the object is stored."""
        size_bytes = crc = 0
        for part in parts:
            crc = crc32c(part, crc)
            size_bytes += len(part)
        position = self._position
        self._parts.extend(parts)
        self._entries.append(_ENTRY.pack(partition_id, base_offset, end_offset, size_bytes, crc))
        self._position = position + size_bytes
        return position

    def finish(self) -> Sequence[Buffer]:
        """The parts of the whole object."""
        footer = b"".join(self._entries)
        count = _UINT32.pack(len(self._entries))
        crc = crc32c(count, crc32c(footer, crc32c(self._parts[0])))
        return [*self._parts, footer, _TRAILER.pack(len(self._entries), crc, _TAIL_MAGIC)]


# Reading.


class ObjectHeader(NamedTuple):
    cluster_id: str
    object_id: int


class RunInObject(NamedTuple):
    partition_id: int
    base_offset: int
    end_offset: int
    position: int
    size_bytes: int
    crc: int


class ObjectContents(NamedTuple):
    header: ObjectHeader
    runs: Sequence[RunInObject]


def read_header(data: Buffer) -> ObjectHeader:
    """The header of an object, of which `data` has at least the first bytes."""
    view = memoryview(data)
    if len(view) < HEADER_BYTES:
        raise DamagedError(f"it has {len(view)} bytes: less than its header")
    magic, version, object_id, name = _HEADER.unpack_from(view)
    if magic != _HEAD_MAGIC:
        raise DamagedError("it does not begin as our objects do")
    if _UINT32.unpack_from(view, _HEADER.size)[0] != crc32c(view[: _HEADER.size]):
        raise DamagedError("the checksum of its header is wrong")
    if version != VERSION:
        raise DamagedError(f"it has version {version} of the format, which is not known here")
    return ObjectHeader(name.rstrip(b"\0").decode("ascii"), object_id)


def footer_bytes(trailer: Buffer) -> int:
    """The size of footer and trailer together, by the trailer, which is the end of an object."""
    if len(trailer) < TRAILER_BYTES:
        raise DamagedError("it has no trailer")
    count, _, magic = _TRAILER.unpack_from(trailer, len(trailer) - TRAILER_BYTES)
    if magic != _TAIL_MAGIC:
        raise DamagedError("it does not end as our objects do: it is truncated, or has more bytes")
    size_bytes: int = count * FOOTER_ENTRY_BYTES + TRAILER_BYTES
    return size_bytes


def read_footer(header: Buffer, footer: Buffer, size_bytes: int) -> Sequence[RunInObject]:
    """The runs of an object of this size, by its first HEADER_BYTES and its last `footer_bytes`."""
    view = memoryview(footer)
    expected_bytes = footer_bytes(view)
    if len(view) != expected_bytes or HEADER_BYTES + expected_bytes > size_bytes:
        raise DamagedError(f"its footer has not the {expected_bytes} bytes of which it tells")
    count, crc, _ = _TRAILER.unpack_from(view, expected_bytes - TRAILER_BYTES)
    checked = view[: expected_bytes - TRAILER_BYTES + 4]
    if crc32c(checked, crc32c(memoryview(header)[:HEADER_BYTES])) != crc:
        raise DamagedError("the checksum of its footer is wrong")
    runs = []
    position = HEADER_BYTES
    for index in range(count):
        partition_id, base, end, run_bytes, run_crc = _ENTRY.unpack_from(
            view, index * FOOTER_ENTRY_BYTES
        )
        runs.append(RunInObject(partition_id, base, end, position, run_bytes, run_crc))
        position += run_bytes
    if position + expected_bytes != size_bytes:
        raise DamagedError(
            f"it has {size_bytes} bytes, and its footer tells of {position + expected_bytes}"
        )
    return runs


def check_run(run: RunInObject, data: Buffer) -> None:
    """Raises DamagedError if these are not the bytes of the run."""
    if len(data) != run.size_bytes or crc32c(data) != run.crc:
        raise DamagedError(
            f"the checksum of offsets {run.base_offset} to {run.end_offset} of partition id"
            f" {run.partition_id} is wrong"
        )


def check_belongs(header: ObjectHeader, cluster_id: str, object_id: int) -> None:
    """Raises if the object is of another cluster, or not the one of this id."""
    if header.cluster_id != cluster_id:
        raise ForeignClusterError(f"it belongs to cluster {header.cluster_id}, not to {cluster_id}")
    if header.object_id != object_id:
        raise DamagedError(f"it is object {header.object_id}, not {object_id}")


def read_object(data: Buffer) -> ObjectContents:
    """What is in an object, all of which is verified; DamagedError says what is wrong."""
    view = memoryview(data)
    header = read_header(view)
    if len(view) < HEADER_BYTES + TRAILER_BYTES:
        raise DamagedError("it has no trailer")
    size_bytes = footer_bytes(view)
    if size_bytes > len(view) - HEADER_BYTES:
        raise DamagedError("it is smaller than its footer")
    runs = read_footer(view[:HEADER_BYTES], view[len(view) - size_bytes :], len(view))
    for run in runs:
        check_run(run, view[run.position : run.position + run.size_bytes])
    return ObjectContents(header, runs)
