"""A checkpoint of one offset per partition that more than one thread writes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from ottla.storage.local.folder import checkpoint_files

Key = tuple[str, int]


class OffsetsFile:
    """Keeps what was taken last, in whatever order the writes come; offsets that are there already cost no sync."""

    def __init__(self, path: str, written: Mapping[Key, int] | None = None) -> None:
        """`written` is what the file is known to hold."""
        self._path = path
        self._lock = threading.Lock()
        self._taken = 0
        self._written = 0
        self._offsets = None if written is None else dict(written)

    def take(self, offsets: Mapping[Key, int]) -> Callable[[], None]:
        """A write of these offsets, for any thread; it raises OSError."""
        self._taken += 1
        number, copied = self._taken, dict(offsets)

        def write() -> None:
            with self._lock:
                if number > self._written and copied != self._offsets:
                    checkpoint_files.write_offsets(self._path, copied)
                    self._offsets = copied
                self._written = max(number, self._written)

        return write
