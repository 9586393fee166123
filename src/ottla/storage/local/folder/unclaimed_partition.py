"""Size, age and offsets of a partition that is not claimed, from the names in its folder."""

from __future__ import annotations

import os

from ottla.ports import UnclaimedLog
from ottla.storage.local.folder import layout
from ottla.storage.local.log.index import NO_TIMESTAMP, TIME_ENTRY, TIME_ENTRY_BYTES


def read_unclaimed_log(path: str, start_offset: int, end_offset: int) -> UnclaimedLog:
    """The size of a partition's segments, and the largest timestamp of the first one.

    The offsets are those of the checkpoints; the names of segments may be ahead of them.
    """
    size_bytes = 0
    first: str | None = None
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.name.endswith(layout.LOG_SUFFIX):
                size_bytes += entry.stat().st_size
                # The names are offsets of one length, so that they sort as they are.
                first = entry.name if first is None else min(first, entry.name)
    if first is None or not size_bytes:
        return UnclaimedLog(size_bytes, NO_TIMESTAMP, start_offset, max(start_offset, end_offset))
    start_offset = max(start_offset, int(first.removesuffix(layout.LOG_SUFFIX)))
    end_offset = max(start_offset, end_offset)
    stem = os.path.join(path, first.removesuffix(layout.LOG_SUFFIX))
    last_time_ms = _last_time_ms(stem + layout.TIME_INDEX_SUFFIX)
    return UnclaimedLog(size_bytes, last_time_ms, start_offset, end_offset)


def _last_time_ms(path: str) -> int:
    """The last timestamp of a time index, which is the segment's largest; NO_TIMESTAMP if it is empty."""
    try:
        with open(path, "rb", buffering=0) as file:
            size_bytes = os.fstat(file.fileno()).st_size
            if not size_bytes or size_bytes % TIME_ENTRY_BYTES:
                return NO_TIMESTAMP
            last = os.pread(file.fileno(), TIME_ENTRY_BYTES, size_bytes - TIME_ENTRY_BYTES)
            return int(TIME_ENTRY.unpack(last)[0])
    except FileNotFoundError:
        return NO_TIMESTAMP
