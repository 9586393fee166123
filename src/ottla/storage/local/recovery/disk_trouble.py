"""Disk trouble: what a failed call means, and what is kept of bytes that have to be cut off."""

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

# What is wrong between a segment and the one before it.
SEGMENTS_OVERLAP: Final = "it begins below %(end_offset)d, where the segment before it ends"
SEGMENT_MISSING: Final = (
    "%(path)s begins at %(offset)d, but the segment before it ends at %(end_offset)d: "
    "what lay between is lost, unless the topic is compacted"
)

_unpack: Final = layout.BATCH_SCAN.unpack_from


def refusal(what: str, error: OSError) -> StorageError:
    """The error of a write of which nothing was kept: for want of room it does not end the claim."""
    kind = StorageFullError if error.errno in _NO_ROOM else StorageError
    return kind(f"{what}: {error}")


def whole_batch_position(path: str, start: int, lowest_offset: int) -> int | None:
    """Where the first whole batch lies at or behind a position, wherever it begins."""
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
    """Where a byte occurs; other threads have their turn between pieces, however long it does not."""
    for begin in range(start, len(data), _COPY_BYTES):
        end = begin + _COPY_BYTES
        at = data.find(byte, begin, end)
        while at >= 0:
            yield at
            at = data.find(byte, at + 1, end)


def _is_whole_batch(data: mmap.mmap, position: int, lowest_offset: int) -> bool:
    base_offset, length, _, _, crc, delta, _ = _unpack(data, position)
    end = position + length + layout.BATCH_PREFIX_BYTES
    # The offset first: it rules out nearly everything, so that few checksums are computed.
    if not lowest_offset <= base_offset <= lowest_offset + layout.MAX_RELATIVE_OFFSET:
        return False
    if length < layout.MIN_BATCH_LENGTH or delta < 0 or end > len(data):
        return False
    with memoryview(data) as view:
        return check_crc(view, position, end, crc) is None


def keep_aside(path: str, start: int) -> str:
    """Copies a file from a position on to a file beside it, durably; returns its path."""
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
