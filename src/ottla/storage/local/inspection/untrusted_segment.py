"""Reading the batches of a segment file without trusting it, in little memory, while a broker may write to it."""

from __future__ import annotations

import os
import re
import struct
import time
from collections.abc import Generator, Iterator
from typing import Final, NamedTuple, Self

from ottla.records.batch import (
    HEADER_BYTES,
    MAGIC,
    MAGIC_AT,
    NO_TIMESTAMP,
    OVERHEAD_BYTES,
    BatchHeader,
    read_batch,
    read_header,
)
from ottla.records.crc import crc32c
from ottla.records.errors import CorruptRecordsError
from ottla.records.legacy import read_message, upgrade_legacy
from ottla.records.record import Record
from ottla.storage.local.folder import layout
from ottla.storage.local.recovery.disk_trouble import whole_batch_position

_WINDOW_BYTES: Final = 256 * 1024
# A batch that is being written now is complete after this time.
_RECENT_SECONDS: Final = 1.0
_WRITING_SECONDS: Final = 0.05
_OFFSET: Final = re.compile(r"\d{20}(?=\.)", re.ASCII)
# Offset and size, which all formats have in common, then the head of a message of magic 0 and 1.
_OLD_HEAD: Final = struct.Struct(">qiIbb")
_OLD_MIN_BYTES: Final = 26


class Flaw(NamedTuple):
    """A fault in a file."""

    position: int
    text: str


class FoundBatch(NamedTuple):
    """A batch, or a message of magic 0 or 1, whose `header` is None and whose first offset is only known inside."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    magic: int
    attributes: int
    crc: int
    is_valid: bool
    header: BatchHeader | None


def base_offset_of(path: str) -> int:
    """The offset in a file's name, also if it is about to be deleted or put in place; 0 if there is none."""
    found = _OFFSET.match(os.path.basename(path))
    return int(found[0]) if found is not None else 0


class SegmentFile:
    """The .log file of a segment."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.base_offset = base_offset_of(path)
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size_bytes = os.fstat(self._fd).st_size
        self._window = b""
        self._window_at = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def batches(self, max_bytes: int | None = None) -> Iterator[FoundBatch | Flaw]:
        """The batches, and the faults in and between them."""
        position, end_offset = 0, self.base_offset
        while position < self.size_bytes and (max_bytes is None or position < max_bytes):
            found = self._batch_at(position)
            if isinstance(found, FoundBatch) and not (
                found.is_valid or self._goes_on_behind(found)
            ):
                found = Flaw(position, "the checksum is wrong, and no batch follows")
            if isinstance(found, Flaw):
                following = whole_batch_position(self.path, position + 1, self.base_offset)
                limit = self.size_bytes if following is None else following
                where = (
                    "at the end" if following is None else f"before the next batch at {following}"
                )
                yield Flaw(position, f"{found.text}: {limit - position} invalid bytes {where}")
                position = limit
                continue
            if max_bytes is not None and position + found.size_bytes > max_bytes:
                return
            yield found
            position += found.size_bytes
            if not found.is_valid:
                yield Flaw(found.position, "the checksum is wrong")
                continue
            # The checksum does not cover the offset, which may be wrong by itself.
            if found.base_offset < end_offset:
                yield Flaw(
                    found.position, f"offset {found.base_offset} where {end_offset} comes next"
                )
            end_offset = found.last_offset + 1

    def good_batches(self) -> Generator[FoundBatch, None, None]:
        """The batches whose checksums are right."""
        for found in self.batches():
            if isinstance(found, FoundBatch) and found.is_valid:
                yield found

    def records(self, batch: FoundBatch) -> list[Record]:
        """The records of a batch whose checksum is right. Raises CorruptRecordsError."""
        data = self._read(batch.position, batch.size_bytes)
        records = read_batch(data if batch.header is not None else upgrade_legacy(data), 0)
        for record in records:
            if not (
                batch.header is None or batch.base_offset <= record.offset <= batch.last_offset
            ):
                raise CorruptRecordsError(f"offset {record.offset} does not belong into the batch")
        return records

    def _batch_at(self, position: int) -> FoundBatch | Flaw:
        self._reaches(position + HEADER_BYTES)
        head = self._read(position, min(HEADER_BYTES, self.size_bytes - position))
        if len(head) < _OLD_HEAD.size:
            return Flaw(position, "the last header is incomplete")
        magic = head[MAGIC_AT]
        base_offset, length = _OLD_HEAD.unpack_from(head)[:2]
        size_bytes = OVERHEAD_BYTES + length
        smallest = HEADER_BYTES if magic == MAGIC else _OLD_MIN_BYTES
        if magic > MAGIC or size_bytes < smallest or base_offset < 0:
            return Flaw(position, "there is no batch header")
        if not self._reaches(position + size_bytes):
            return Flaw(position, f"a batch of {size_bytes} bytes is incomplete")
        if magic < MAGIC:
            return self._old_message(position, head, size_bytes)
        head = self._read(position, HEADER_BYTES)
        if len(head) < HEADER_BYTES:
            return Flaw(position, "the file was cut off meanwhile")
        header = read_header(head, 0)
        if header.last_offset_delta < 0 or header.record_count < 0:
            return Flaw(position, "there is no batch header")
        return FoundBatch(
            position,
            size_bytes,
            base_offset,
            header.last_offset,
            header.max_timestamp,
            magic,
            header.attributes,
            header.crc,
            self._crc_is_right(position, size_bytes, header.crc),
            header,
        )

    def _old_message(self, position: int, head: bytes, size_bytes: int) -> FoundBatch:
        offset, _, crc, magic, attributes = _OLD_HEAD.unpack_from(head)
        try:
            data = self._read(position, size_bytes)
            timestamp_ms, is_valid = read_message(data).timestamp, True
        except CorruptRecordsError:
            timestamp_ms, is_valid = NO_TIMESTAMP, False
        return FoundBatch(
            position,
            size_bytes,
            offset,
            offset,
            timestamp_ms,
            magic,
            attributes,
            crc,
            is_valid,
            None,
        )

    def _crc_is_right(self, position: int, size_bytes: int, crc: int) -> bool:
        found, at, end = 0, position + layout.CRC_START, position + size_bytes
        while at < end:
            data = self._read(at, min(_WINDOW_BYTES, end - at))
            if not data:
                return False
            found = crc32c(data, found)
            at += len(data)
        return found == crc

    def _goes_on_behind(self, found: FoundBatch) -> bool:
        """Whether the length of a damaged batch is right: another batch or the end of the file follows it."""
        position = found.position + found.size_bytes
        if position == self.size_bytes:
            return True
        following = self._batch_at(position)
        return (
            isinstance(following, FoundBatch)
            and following.magic == found.magic
            and 0 < following.base_offset - found.last_offset <= layout.MAX_RELATIVE_OFFSET
        )

    def _reaches(self, end: int) -> bool:
        """Whether the file reaches this position, or is about to."""
        if end <= self.size_bytes:
            return True
        if time.time() - os.fstat(self._fd).st_mtime > _RECENT_SECONDS:
            return False
        time.sleep(_WRITING_SECONDS)
        if end <= os.fstat(self._fd).st_size:
            self.size_bytes = end
        return end <= self.size_bytes

    def _read(self, position: int, size_bytes: int) -> bytes:
        """Bytes of the file, from a window that moves with the reader; fewer at the end of the file."""
        start = position - self._window_at
        if start < 0 or start + size_bytes > len(self._window):
            if size_bytes > _WINDOW_BYTES:
                return os.pread(self._fd, size_bytes, position)
            self._window = os.pread(self._fd, _WINDOW_BYTES, position)
            self._window_at, start = position, 0
        return self._window[start : start + size_bytes]
