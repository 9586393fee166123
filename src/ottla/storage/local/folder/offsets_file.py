"""A checkpoint of one offset per partition that several threads write."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from ottla.storage.local.folder import checkpoint_files

Key = tuple[str, int]


class OffsetsFile:
    """The offsets that were taken last win, in whatever order the writes run; unchanged offsets cost no sync."""

    def __init__(self, path: str, written: Mapping[Key, int] | None = None) -> None:
        """`written` is the known content of the file."""
        self._path = path
        self._lock = threading.Lock()
        self._taken = 0
        self._written = 0
        self._offsets = None if written is None else dict(written)

    def take(self, offsets: dict[Key, int]) -> Callable[[], None]:
        """A write of these offsets, for any thread; it raises OSError. They must not be changed any more."""
        self._taken += 1
        number = self._taken

        def write() -> None:
            with self._lock:
                if number > self._written and offsets != self._offsets:
                    checkpoint_files.write_offsets(self._path, offsets)
                    self._offsets = offsets
                self._written = max(number, self._written)

        return write
