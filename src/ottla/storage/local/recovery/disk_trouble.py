"""The errors of failed writes, and the whole batches in bytes that recovery cuts off."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator
from typing import Final

from ottla.ports import StorageError, StorageFullError
from ottla.storage.local.folder import checkpoint_files, layout
from ottla.storage.local.recovery.scan import check_crc

_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_MAGIC: Final = bytes([layout.BATCH_MAGIC])
_MAGIC_AT: Final = 16
_COPY_BYTES: Final = 1024 * 1024

# The flaws between a segment and the one before it.
SEGMENTS_OVERLAP: Final = "it begins below %(end_offset)d, where the segment before it ends"
SEGMENT_MISSING: Final = (
    "%(path)s begins at %(offset)d, but the segment before it ends at %(end_offset)d: "
    "what lay between is lost, unless the topic is compacted"
)

_unpack: Final = layout.BATCH_SCAN.unpack_from


def refusal(what: str, error: OSError) -> StorageError:
    """The error of a write that left nothing in the log; if the disk is full, the claim goes on."""
    kind = StorageFullError if error.errno in _NO_ROOM else StorageError
    return kind(f"{what}: {error}")


def whole_batch_position(path: str, start: int, lowest_offset: int) -> int | None:
    """The position of the first whole batch at or behind `start`; batches may begin at any byte."""
    size_bytes = os.path.getsize(path)
    if size_bytes - start < layout.BATCH_HEADER_BYTES:
        return None
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for at in _positions_of(_MAGIC, data, start + _MAGIC_AT):
            position = at - _MAGIC_AT
            if position + layout.BATCH_HEADER_BYTES > size_bytes:
                return None
            if _is_whole_batch(data, position, lowest_offset):
                return position
    return None


def _positions_of(byte: bytes, data: mmap.mmap, start: int) -> Iterator[int]:
    """The positions of a byte, searched in pieces, so that other threads can run in between."""
    for begin in range(start, len(data), _COPY_BYTES):
        end = begin + _COPY_BYTES
        at = data.find(byte, begin, end)
        while at >= 0:
            yield at
            at = data.find(byte, at + 1, end)


def _is_whole_batch(data: mmap.mmap, position: int, lowest_offset: int) -> bool:
    base_offset, length, _, _, crc, delta, _ = _unpack(data, position)
    end = position + length + layout.BATCH_PREFIX_BYTES
    # The offset first: it excludes nearly every position, so that few checksums are computed.
    if not lowest_offset <= base_offset <= lowest_offset + layout.MAX_RELATIVE_OFFSET:
        return False
    if length < layout.MIN_BATCH_LENGTH or delta < 0 or end > len(data):
        return False
    with memoryview(data) as view:
        return check_crc(view, position, end, crc) is None


def keep_aside(path: str, start: int) -> str:
    """Copies the end of a file, from `start`, durably to a new file beside it; returns the path of the copy."""
    target_path = _fresh_path(path)
    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        target = os.open(target_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            while data := os.pread(source, _COPY_BYTES, start):
                checkpoint_files.write_all(target, data)
                start += len(data)
            os.fsync(target)
        finally:
            os.close(target)
    finally:
        os.close(source)
    checkpoint_files.sync_path(os.path.dirname(path))
    return target_path


def _fresh_path(path: str) -> str:
    number = 1
    while os.path.exists(f"{path}{layout.CUT_MARK}{number}"):
        number += 1
    return f"{path}{layout.CUT_MARK}{number}"
