"""Disk space for a segment that grows: on ext4, a large write into space that the file has already is cheaper.

ext4 otherwise does its bookkeeping for each block that a write adds. The file keeps its size: readers, recovery and
other programs see no difference, only the file system counts more blocks. Elsewhere nothing is reserved: tmpfs would
fill the memory with zeros, and XFS reserves space itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from typing import Final

# Segments below this size reserve nothing, and no segment reserves more at once than it has.
RESERVE_FROM_BYTES: Final = 1 << 20
RESERVED_BYTES: Final = 4 << 20
# More blocks than this behind the end of a file were reserved: ext4 itself adds less.
_SLACK_BYTES: Final = 256 << 10
_BLOCK_BYTES: Final = 512  # the unit of st_blocks
_KEEP_SIZE: Final = 1  # FALLOC_FL_KEEP_SIZE
_EXT4: Final = 0xEF53  # f_type of statfs(2), its first field
_STATFS_BYTES: Final = 256
_FIELD_BYTES: Final = 4


def _system_calls() -> ctypes.CDLL | None:
    """The C library, where it can reserve space."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    try:
        library.fallocate.argtypes = ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64
        library.fstatfs.argtypes = ctypes.c_int, ctypes.c_void_p
    except AttributeError:
        return None
    return library if ctypes.sizeof(ctypes.c_long) == ctypes.sizeof(ctypes.c_int64) else None


_LIBRARY: Final = _system_calls()


def reserve(fd: int, size_bytes: int, reserved_bytes: int) -> bool:
    """Reserves space behind the end of a file of this size; False if there is none to be had."""
    if _LIBRARY is None or not _is_on_ext4(_LIBRARY, fd):
        return False
    if _LIBRARY.fallocate(fd, _KEEP_SIZE, size_bytes, reserved_bytes) == 0:
        return True
    give_back(fd, size_bytes)  # a part may have been reserved
    return False


def _is_on_ext4(library: ctypes.CDLL, fd: int) -> bool:
    status = ctypes.create_string_buffer(_STATFS_BYTES)
    if library.fstatfs(fd, status) != 0:
        return False
    return int.from_bytes(status.raw[:_FIELD_BYTES], sys.byteorder) == _EXT4


def give_back(fd: int, size_bytes: int) -> None:
    """Frees the space behind the end of a file of this size; a file of another size stays as it is."""
    with contextlib.suppress(OSError):
        if os.fstat(fd).st_size == size_bytes:
            os.ftruncate(fd, size_bytes)


def give_back_if_left(path: str, size_bytes: int) -> None:
    """Frees the space that a process left reserved when it ended without a stop."""
    if size_bytes < RESERVE_FROM_BYTES:
        return
    with contextlib.suppress(OSError):
        found = os.stat(path)
        blocks_bytes = found.st_blocks * _BLOCK_BYTES
        if found.st_size == size_bytes and blocks_bytes > size_bytes + _SLACK_BYTES:
            os.truncate(path, size_bytes)
