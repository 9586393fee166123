"""A limit on the number of open files."""

from __future__ import annotations

import resource
from collections import OrderedDict
from typing import Final, Protocol

# Each open segment holds a file to write, a mapping and perhaps two mapped indexes.
_FILES_PER_SEGMENT: Final = 4
_MAX_SEGMENTS: Final = 4096


class Releasable(Protocol):
    """Something that holds open files and can open them again when it needs them."""

    used: bool

    def release(self) -> None:
        """Closes the files."""
        ...


def default_open_segments() -> int:
    """As many segments as half of the files that this process may open allow."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MAX_SEGMENTS
    return max(16, min(_MAX_SEGMENTS, soft // 2 // _FILES_PER_SEGMENT))


class OpenFiles:
    """Releases the files that were not used for longest, by the clock algorithm: a use costs one assignment."""

    def __init__(self, limit: int) -> None:
        self._limit = max(limit, 1)
        self._open: OrderedDict[Releasable, None] = OrderedDict()

    def opened(self, item: Releasable) -> None:
        """Adds a newly opened item; releases others if there are too many."""
        while len(self._open) >= self._limit:
            candidate, _ = self._open.popitem(last=False)
            if candidate.used:
                candidate.used = False
                self._open[candidate] = None
            else:
                candidate.release()
        item.used = True
        self._open[item] = None

    def forget(self, item: Releasable) -> None:
        """Removes an item that its owner has released."""
        self._open.pop(item, None)
