"""A plugin for pytest: brokers in the test process that are given no folder have theirs in memory, where there is room.

Thousands of tests start a broker, which makes a folder, syncs a few files in it and removes it: on a disk, a good part
of the suite's system time and of its waiting. A test that names a folder (`tmp_path`) has it on the disk, and so
have processes that make one themselves.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 << 30
_made = pytest.StashKey[Path]()


def memory_folder() -> Path | None:
    """Where files are in memory, if the system has such a place with enough room, and lets programs run there."""
    try:
        found = os.statvfs(MEMORY)
    except OSError:
        return None
    has_room = found.f_bavail * found.f_frsize >= ROOM_BYTES
    is_usable = os.access(MEMORY, os.W_OK) and not found.f_flag & os.ST_NOEXEC
    return MEMORY if has_room and is_usable else None


def pytest_configure(config: pytest.Config) -> None:
    memory = memory_folder()
    if memory is None:
        return
    # Where `tmp_path` stays; pytest asks for it later.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    made = Path(tempfile.mkdtemp(prefix="ottla-tests-", dir=memory))
    made.chmod(0o711)  # PostgreSQL runs as another user, who has a folder in it
    config.stash[_made] = made
    tempfile.tempdir = str(made)


def pytest_unconfigure(config: pytest.Config) -> None:
    made = config.stash.get(_made, None)
    if made is not None:
        tempfile.tempdir = None
        shutil.rmtree(made, ignore_errors=True)
