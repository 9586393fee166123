"""Large buffers whose memory is allocated when it is written to."""

from __future__ import annotations

import mmap
import sys


def fresh_pages(size_bytes: int) -> mmap.mmap:
    """A buffer of zeros; the operating system gets its memory back when the last reference is gone."""
    if sys.platform == "win32":
        return mmap.mmap(-1, size_bytes)
    return mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
