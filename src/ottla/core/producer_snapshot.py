"""The format of a producer snapshot: Kafka's, with an entry for each recent batch instead of the last one only.

Kafka's reader lets a later entry of a producer replace an earlier one, so it reads these files, too. Our reader
recognises a retry of any of the recent batches also after a restart.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.records.crc import crc32c

if TYPE_CHECKING:
    from ottla.core.producer_state import ProducerEntry

SNAPSHOT_VERSION = 1
_START = struct.Struct(">hIi")
_CRC_END = 6
_ENTRY = struct.Struct(">qhiqiqiq")


class CorruptSnapshotError(Exception):
    """A producer snapshot is damaged; the state has to come from an older one or from the log."""


class SnapshotEntry(NamedTuple):
    """One batch of a producer in a snapshot; the offset is -1 for a producer without batches."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    transaction_first_offset: int


class SnapshotDraft:
    """A snapshot that is encoded in steps: a producer that changes meanwhile is encoded before its change."""

    def __init__(self, producers: Mapping[int, ProducerEntry]) -> None:
        self._left = dict(producers)
        self._entries = bytearray()
        self._count = 0

    @property
    def is_complete(self) -> bool:
        return not self._left

    def before_change(self, producer: ProducerEntry) -> None:
        """Encodes a producer as it is; one that is newer than the snapshot is not part of it."""
        if self._left.get(producer.producer_id) is producer:
            del self._left[producer.producer_id]
            self._add(producer)

    def advance(self, count: int) -> None:
        """Encodes the next `count` producers."""
        if count >= len(self._left):
            for producer in self._left.values():
                self._add(producer)
            self._left.clear()
            return
        for _ in range(count):
            self._add(self._left.popitem()[1])

    def _add(self, producer: ProducerEntry) -> None:
        for entry in producer.snapshot_entries():
            self._entries += _ENTRY.pack(*entry)
            self._count += 1

    def finish(self) -> bytes:
        """The whole snapshot."""
        self.advance(len(self._left))
        body = struct.pack(">i", self._count) + self._entries
        return struct.pack(">hI", SNAPSHOT_VERSION, crc32c(body)) + body


def snapshot_entries(data: bytes) -> Iterator[SnapshotEntry]:
    """An iterator of the entries of a snapshot; raises CorruptSnapshotError before the first if it is damaged."""
    if len(data) < _START.size:
        raise CorruptSnapshotError(f"{len(data)} bytes are too few")
    version, crc, count = _START.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise CorruptSnapshotError(f"version {version}")
    if crc32c(memoryview(data)[_CRC_END:]) != crc:
        raise CorruptSnapshotError("the checksum is wrong")
    if len(data) != _START.size + count * _ENTRY.size:
        raise CorruptSnapshotError(f"{count} entries do not make {len(data)} bytes")
    found = _ENTRY.iter_unpack(memoryview(data)[_START.size :])
    return map(SnapshotEntry._make, found)


def read_snapshot(data: bytes) -> list[SnapshotEntry]:
    """All entries of a snapshot; CorruptSnapshotError if it is damaged."""
    return list(snapshot_entries(data))
