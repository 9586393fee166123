"""Shortening a file, and writing it again after a failed sync."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from ottla.storage.local.folder import checkpoint_files, layout

_COPY_BYTES: Final = 1024 * 1024

# Shortens the file of a path to a size in bytes.
Cut = Callable[[str, int], None]


def cut_in_place(path: str, size_bytes: int) -> None:
    """Shortens a file that is not mapped."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.ftruncate(fd, size_bytes)
        os.fsync(fd)
    finally:
        os.close(fd)


def cut_by_copy(path: str, size_bytes: int) -> None:
    """Replaces a file with a copy of its beginning: readers may still use mappings of the old one."""
    temporary = path + layout.TEMPORARY_SUFFIX
    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        target = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            position = 0
            while position < size_bytes:
                data = os.pread(source, min(_COPY_BYTES, size_bytes - position), position)
                if not data:
                    raise OSError(f"{path} is shorter than {size_bytes} bytes")
                checkpoint_files.write_all(target, data)
                position += len(data)
            os.fsync(target)
        finally:
            os.close(target)
    finally:
        os.close(source)
    os.replace(temporary, path)


def write_again(path: str, start: int) -> None:
    """Writes a file's bytes over themselves and syncs them.

    After a failed fsync the kernel may consider pages clean that it never wrote to the disk.
    """
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        while data := os.pread(fd, _COPY_BYTES, start):
            start += os.pwrite(fd, data, start)
        os.fsync(fd)
    finally:
        os.close(fd)
