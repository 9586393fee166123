"""Large buffers whose memory is taken when it is written to: making one costs nothing, whatever its size."""

from __future__ import annotations

import mmap
import sys


def fresh_pages(size_bytes: int) -> mmap.mmap:
    """Zeros, of this size; they go back to the system as soon as nobody looks at them."""
    if sys.platform == "win32":
        return mmap.mmap(-1, size_bytes)
    return mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
