"""Reading the batches of a segment file one by one, to check them and to rebuild its indexes."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from typing import Final

from ottla.ports import EpochStart
from ottla.records.crc import crc32c
from ottla.storage.local.folder import layout
from ottla.storage.local.log.index import DamagedIndexError, SegmentIndex, empty_index

_unpack: Final = layout.BATCH_SCAN.unpack_from

# How much of a segment is read on the event loop to rebuild an index: it takes a few milliseconds.
READ_AT_ONCE_BYTES: Final = 256 * 1024

# Called with the path, descriptor and position of a scan; returns the position at which it is called next.
Pause = Callable[[str, int, int], int]
# What is wrong with the content of a batch (view, start, end, crc); None if it is right.
Check = Callable[[memoryview, int, int, int], str | None]


class SegmentScan:
    """The state of a scan: up to where the file is valid, why not further, and the indexes up to there."""

    __slots__ = ("end_offset", "epochs", "flaw", "index", "size_bytes", "valid_bytes")

    def __init__(self, index: SegmentIndex, start: int, end_offset: int) -> None:
        self.index = index
        self.valid_bytes = start
        self.end_offset = end_offset
        self.size_bytes = start
        self.epochs: list[EpochStart] = []
        self.flaw: str | None = None


def check_crc(view: memoryview, start: int, end: int, crc: int) -> str | None:
    """Verifies the checksum of a batch."""
    if crc32c(view[start + layout.CRC_START : end]) != crc:
        return "the checksum is wrong"
    return None


def check_nothing(view: memoryview, start: int, end: int, crc: int) -> str | None:
    """Accepts the content of a batch without reading it."""
    return None


def never_pause(path: str, fd: int, position: int) -> int:
    """Scans a segment without a pause."""
    return layout.MAX_SEGMENT_BYTES + 1


def scan_file(
    path: str, scan: SegmentScan, interval_bytes: int, check: Check, pause: Pause = never_pause
) -> SegmentScan:
    """Scans on from `scan.valid_bytes` to the end of the file or to the first invalid batch."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        scan.size_bytes = os.fstat(fd).st_size
        if scan.size_bytes <= scan.valid_bytes:
            if scan.size_bytes < scan.valid_bytes:
                scan.flaw = f"the file has {scan.size_bytes} bytes instead of {scan.valid_bytes}"
            return scan
        mapping = mmap.mmap(fd, scan.size_bytes, access=mmap.ACCESS_READ)
        _walk(
            memoryview(mapping),
            scan,
            interval_bytes,
            check,
            lambda position: pause(path, fd, position),
        )
    finally:
        os.close(fd)
    return scan


def _walk(
    view: memoryview,
    scan: SegmentScan,
    interval_bytes: int,
    check: Check,
    pause: Callable[[int], int],
) -> None:
    size_bytes = len(view)
    position = scan.valid_bytes
    end_offset = scan.end_offset
    index = scan.index
    largest_offset = index.base_offset + layout.MAX_RELATIVE_OFFSET
    latest_epoch = -1
    pause_at = pause(position)
    while position < size_bytes:
        if position >= pause_at:
            pause_at = pause(position)
        if size_bytes - position < layout.BATCH_HEADER_BYTES:
            scan.flaw = "the last header is incomplete"
            break
        base_offset, length, epoch, magic, crc, delta, timestamp_ms = _unpack(view, position)
        batch_bytes = length + layout.BATCH_PREFIX_BYTES
        last_offset = base_offset + delta
        if length < layout.MIN_BATCH_LENGTH or magic != layout.BATCH_MAGIC or delta < 0:
            scan.flaw = "there is no batch header"
            break
        if position + batch_bytes > size_bytes:
            scan.flaw = "the last batch is incomplete"
            break
        if base_offset < end_offset or last_offset > largest_offset:
            scan.flaw = f"offset {base_offset} is out of order"
            break
        scan.flaw = check(view, position, position + batch_bytes, crc)
        if scan.flaw is not None:
            break
        index.add(last_offset, position, batch_bytes, timestamp_ms, interval_bytes)
        if epoch > latest_epoch:
            latest_epoch = epoch
            scan.epochs.append(EpochStart(epoch, base_offset))
        position += batch_bytes
        end_offset = last_offset + 1
    scan.valid_bytes = position
    scan.end_offset = end_offset


def build_index(
    path: str, base_offset: int, interval_bytes: int, pause: Pause = never_pause
) -> SegmentIndex:
    """Builds the indexes of a segment from the headers of its batches."""
    scan = SegmentScan(empty_index(base_offset), 0, base_offset)
    index = scan_file(path, scan, interval_bytes, check_nothing, pause).index
    index.add_time_entry()
    return index


def read_header(path: str, position: int) -> bytes:
    """The batch header at a position to which an index leads; DamagedIndexError if the file ends before."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        header = os.pread(fd, layout.BATCH_SCAN.size, position)
    finally:
        os.close(fd)
    if len(header) != layout.BATCH_SCAN.size:
        raise DamagedIndexError(f"no batch at {position}")
    return header
