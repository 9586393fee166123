"""The catalog: a journal of changes, one line each, that is synced before a change counts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Final

from ottla.events import EventLog
from ottla.ports import CatalogConflictError, Follower, JsonValue, StorageError
from ottla.records.crc import crc32c
from ottla.storage.local.folder import checkpoint_files

logger = EventLog(__name__)

# The journal is rewritten when it has this size, and is this many times larger than its live entries.
_REWRITE_BYTES: Final = 256 * 1024
_REWRITE_FACTOR: Final = 4
_CRC_DIGITS: Final = 8
# Credentials of users are for no one else: passwords can be guessed by them.
_MODE: Final = 0o600


def encode_line(revision: int, epoch: int, changes: Mapping[str, JsonValue]) -> bytes:
    """A line: the CRC-32C of the rest in hexadecimal, a space, JSON."""
    body = json.dumps(
        {"revision": revision, "epoch": epoch, "changes": changes}, separators=(",", ":")
    ).encode("ascii")
    return b"%08x %s\n" % (crc32c(body), body)


def decode_line(line: bytes) -> tuple[int, int, dict[str, JsonValue]]:
    """Revision, epoch and changes of a line without its end; ValueError if it is damaged."""
    digits, space, body = (
        line[:_CRC_DIGITS],
        line[_CRC_DIGITS : _CRC_DIGITS + 1],
        line[_CRC_DIGITS + 1 :],
    )
    if len(digits) != _CRC_DIGITS or space != b" " or digits != b"%08x" % crc32c(body):
        raise ValueError("the checksum is wrong")
    fields = json.loads(body)
    return fields["revision"], fields["epoch"], fields["changes"]


class Journal:
    """Implements Catalog; keeps the engine's claim epoch beside it."""

    def __init__(self, path: str) -> None:
        self._path = path
        # Called before each change, for what has to be durable before it.
        self.sync_first: Callable[[], None] | None = None
        self._entries: dict[str, JsonValue] = {}
        self._revision = 0
        self._epoch = 0
        self._follower: Follower | None = None
        self._failure: str | None = None
        # Below this size it does not look whether it should be rewritten.
        self._looks_at_bytes = _REWRITE_BYTES
        self.is_new = not os.path.exists(path)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        # One of an earlier version can be read by others; it had no credentials of users.
        with suppress(PermissionError):
            os.fchmod(self._fd, _MODE)
        try:
            self._size_bytes = self._load()
            if self.is_new:
                checkpoint_files.sync_path(os.path.dirname(path))
        except BaseException:
            os.close(self._fd)
            raise

    @property
    def revision(self) -> int:
        return self._revision

    @property
    def epoch(self) -> int:
        return self._epoch

    def entries(self) -> Mapping[str, JsonValue]:
        return MappingProxyType(self._entries)

    def follow(self, follower: Follower) -> None:
        self._follower = follower

    def commit(self, changes: Mapping[str, JsonValue], expected_revision: int) -> int:
        if expected_revision != self._revision:
            raise CatalogConflictError(
                f"the catalog is at revision {self._revision}, not {expected_revision}"
            )
        if self.sync_first is not None:
            self.sync_first()
        # Through JSON: callers keep no reference to stored values, and a restart gives the same ones.
        self._append(encode_line(self._revision + 1, self._epoch, changes))
        stored = json.loads(json.dumps(dict(changes)))
        self._apply(self._revision + 1, self._epoch, stored)
        self._rewrite_if_large()
        if self._follower is not None:
            self._follower(self._revision, stored)
        return self._revision

    def raise_epoch(self, epoch: int) -> None:
        """Durably sets the claim epoch, which never goes down."""
        if epoch > self._epoch:
            self._append(encode_line(self._revision, epoch, {}))
            self._epoch = epoch

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _apply(self, revision: int, epoch: int, changes: Mapping[str, JsonValue]) -> None:
        for key, value in changes.items():
            if value is None:
                self._entries.pop(key, None)
            else:
                self._entries[key] = value
        self._revision = revision
        self._epoch = epoch

    def _load(self) -> int:
        """Reads the file, cutting off a line that a crash left unfinished; returns its size."""
        data = checkpoint_files.read_small_file(self._path) or b""
        position, number = 0, 0
        while position < len(data):
            end = data.find(b"\n", position)
            line = data[position : end if end >= 0 else len(data)]
            try:
                revision, epoch, changes = decode_line(line)
                if number and revision not in (self._revision, self._revision + 1):
                    raise ValueError(f"revision {revision} follows {self._revision}")
            except (ValueError, KeyError, TypeError) as error:
                if end < 0:
                    logger.warning(
                        "journal_cut",
                        "%(path)s: cutting off an unfinished last line of %(bytes)d bytes",
                        path=self._path,
                        bytes=len(line),
                    )
                    os.ftruncate(self._fd, position)
                    os.fsync(self._fd)
                    return position
                raise StorageError(
                    f"{self._path} is damaged in line {number + 1}: {error}; restore it from "
                    "a copy, as the topics and settings in it would be lost otherwise"
                ) from error
            self._apply(revision, epoch, changes)
            position += len(line) + 1
            number += 1
        if position > len(data):  # only the line's end is missing
            os.pwrite(self._fd, b"\n", len(data))
            os.fsync(self._fd)
        return position

    def _append(self, line: bytes) -> None:
        if self._failure is not None:
            raise StorageError(self._failure)
        start = self._size_bytes
        try:
            written = 0
            while written < len(line):
                written += os.pwrite(self._fd, line[written:], start + written)
            os.fsync(self._fd)
        except OSError as error:
            try:
                os.ftruncate(self._fd, start)
                os.fsync(self._fd)
            except OSError as second:
                # The line may or may not be there after a restart, so no other may follow it.
                self._failure = (
                    f"{self._path} could not be written ({error}, {second}); start again"
                )
            raise StorageError(f"cannot write {self._path}: {error}") from error
        self._size_bytes += len(line)

    def _rewrite_if_large(self) -> None:
        if self._size_bytes < self._looks_at_bytes:
            return
        # It takes a tenth of a second for 50,000 entries: not with every change.
        line = encode_line(self._revision, self._epoch, self._entries)
        self._looks_at_bytes = max(_REWRITE_BYTES, _REWRITE_FACTOR * len(line))
        if self._size_bytes < _REWRITE_FACTOR * len(line):
            return
        try:
            checkpoint_files.replace_file(self._path, line, mode=_MODE)
            fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            checkpoint_files.sync_path(os.path.dirname(self._path))
        except OSError as error:
            self._failure = f"{self._path} could not be rewritten ({error}); start again"
            logger.error("journal_failed", "%(reason)s", path=self._path, reason=self._failure)
            return
        os.close(self._fd)
        self._fd = fd
        self._size_bytes = len(line)
