"""What shows whether a file has changed."""

from __future__ import annotations

import os
from typing import NamedTuple


class FileState(NamedTuple):
    """A file at some moment; one that is changed or replaced has another state."""

    inode: int
    size: int
    changed_ns: int


def state_of(file: str | os.PathLike[str]) -> FileState | None:
    """The state of a file now; None if it cannot be looked at."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return FileState(found.st_ino, found.st_size, found.st_mtime_ns)
