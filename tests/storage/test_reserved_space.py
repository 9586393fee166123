"""Segments that grow by large writes have disk space ahead of them, and give back what they do not need."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.storage.batches import append, make_batch, read_all, ref_of
from tests.storage.conftest import Opener, crash_copy, patch_in

from ottla.config.topic import TopicConfig
from ottla.ports import StorageError
from ottla.storage.local import LocalStoreOptions
from ottla.storage.local.log import reserved_space
from ottla.storage.local.log.partition_log import LocalLog
from ottla.storage.local.log.reserved_space import RESERVE_FROM_BYTES, RESERVED_BYTES

CONFIG = TopicConfig()
LARGE_BYTES = 400_000
# What a file system may use beside the data.
SLACK_BYTES = 128 << 10


@pytest.fixture(autouse=True)
def _where_space_can_be_reserved(tmp_path: Path) -> None:
    path = tmp_path / "probe"
    with path.open("wb") as file:
        if not reserved_space.reserve(file.fileno(), 0, 4096):
            pytest.skip("the file system of temporary files is not ext4")
    path.unlink()


def fill_with_large(log: LocalLog, count: int) -> list[bytes]:
    """Appends large batches one by one; returns them."""
    batches = []
    for _ in range(count):
        batch = make_batch(log.end_offset, body=os.urandom(LARGE_BYTES))
        append(log, batch)
        batches.append(batch.data)
    return batches


def segment_path(folder: Path, base_offset: int = 0) -> Path:
    return folder / "orders-0" / f"{base_offset:020}.log"


def spare_bytes(path: Path) -> int:
    """The disk space of a file beyond its size, by what the file system says when the data is on the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    status = path.stat()
    return status.st_blocks * 512 - status.st_size


def test_a_segment_that_grows_has_space_ahead_and_keeps_its_size(
    open_store: Opener, tmp_path: Path
) -> None:
    log = open_store(tmp_path).claim(ref_of(), CONFIG)
    path = segment_path(tmp_path)
    most = 0
    for number in range(1, 31):
        fill_with_large(log, 1)
        assert path.stat().st_size == log.size_bytes == number * (LARGE_BYTES + 61)
        spare = spare_bytes(path)
        assert spare <= min(log.size_bytes, RESERVED_BYTES) + SLACK_BYTES
        most = max(most, spare)
    assert most > RESERVED_BYTES - LARGE_BYTES


def test_a_small_segment_reserves_nothing(open_store: Opener, tmp_path: Path) -> None:
    log = open_store(tmp_path).claim(ref_of(), CONFIG)
    fill_with_large(log, RESERVE_FROM_BYTES // (LARGE_BYTES + 61))
    assert spare_bytes(segment_path(tmp_path)) <= SLACK_BYTES


def test_a_closed_segment_has_no_spare_space(open_store: Opener, tmp_path: Path) -> None:
    store = open_store(tmp_path)
    batches = fill_with_large(store.claim(ref_of(), CONFIG), 5)
    assert spare_bytes(segment_path(tmp_path)) > SLACK_BYTES
    store.close()
    assert spare_bytes(segment_path(tmp_path)) <= SLACK_BYTES
    assert read_all(open_store(tmp_path).claim(ref_of(), CONFIG)) == b"".join(batches)


def test_a_full_segment_gives_its_spare_space_back(open_store: Opener, tmp_path: Path) -> None:
    config = TopicConfig(segment_bytes=3_000_000)
    log = open_store(tmp_path).claim(ref_of(), config)
    batches = fill_with_large(log, 8)
    assert [segment.base_offset for segment in log.segments()] == [0, 7]
    assert spare_bytes(segment_path(tmp_path)) <= SLACK_BYTES
    assert read_all(log) == b"".join(batches)


def test_a_segment_whose_files_are_released_gives_its_spare_space_back(
    open_store: Opener, tmp_path: Path
) -> None:
    store = open_store(tmp_path, LocalStoreOptions(max_open_segments=1))
    log = store.claim(ref_of(), CONFIG)
    batches = fill_with_large(log, 5)
    for name in ("other", "another"):
        append(store.claim(ref_of(name), CONFIG), make_batch(0))
    assert spare_bytes(segment_path(tmp_path)) <= SLACK_BYTES
    batches += fill_with_large(log, 2)
    assert spare_bytes(segment_path(tmp_path)) > SLACK_BYTES
    assert read_all(log) == b"".join(batches)


def test_a_new_claim_keeps_what_the_earlier_one_has_written(
    open_store: Opener, tmp_path: Path
) -> None:
    store = open_store(tmp_path)
    batches = fill_with_large(store.claim(ref_of(), CONFIG), 5)
    log = store.claim(ref_of(), CONFIG)
    assert spare_bytes(segment_path(tmp_path)) <= SLACK_BYTES
    batches += fill_with_large(log, 1)
    assert read_all(log) == b"".join(batches)


def test_what_a_killed_process_had_reserved_is_freed(open_store: Opener, tmp_path: Path) -> None:
    folder = tmp_path / "b"
    batches = fill_with_large(open_store(tmp_path / "a").claim(ref_of(), CONFIG), 5)
    crash_copy(tmp_path / "a", folder)
    path = segment_path(folder)
    with path.open("r+b") as file:  # a copy has no reserved space
        assert reserved_space.reserve(file.fileno(), path.stat().st_size, RESERVED_BYTES)
    assert spare_bytes(path) > SLACK_BYTES
    log = open_store(folder).claim(ref_of(), CONFIG)
    assert spare_bytes(path) <= SLACK_BYTES
    assert read_all(log) == b"".join(batches)


@pytest.mark.parametrize("taken_bytes", [0, 100_000])
def test_a_failed_write_leaves_the_log_as_it_was(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken_bytes: int
) -> None:
    log = open_store(tmp_path).claim(ref_of(), CONFIG)
    batches = fill_with_large(log, 5)
    with monkeypatch.context() as patch:
        patch_in(tmp_path, patch, os, "pwrite", disk_full_after(taken_bytes))
        with pytest.raises(StorageError, match="No space left"):
            fill_with_large(log, 1)
    assert segment_path(tmp_path).stat().st_size == log.size_bytes
    assert spare_bytes(segment_path(tmp_path)) <= SLACK_BYTES
    batches += fill_with_large(log, 5)
    assert read_all(log) == b"".join(batches)


def disk_full_after(taken_bytes: int) -> Callable[[int, bytes, int], int]:
    """A disk that takes a part of the first write, and then no more."""
    real_pwrite = os.pwrite
    parts = [taken_bytes] if taken_bytes else []

    def pwrite(fd: int, data: bytes, position: int) -> int:
        if not parts:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real_pwrite(fd, memoryview(data)[: parts.pop()], position)

    return pwrite


def test_where_no_space_can_be_reserved_writes_go_on(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reserved_space, "_LIBRARY", None)
    log = open_store(tmp_path).claim(ref_of(), CONFIG)
    batches = fill_with_large(log, 5)
    assert spare_bytes(segment_path(tmp_path)) <= SLACK_BYTES
    assert read_all(log) == b"".join(batches)


class _FullDisk:
    """The C library with a disk that has room for a part of what is asked for."""

    def __init__(self, real: ctypes.CDLL) -> None:
        self._real = real
        self.fstatfs = real.fstatfs

    def fallocate(self, fd: int, mode: int, start: int, size_bytes: int) -> int:
        assert self._real.fallocate(fd, mode, start, size_bytes // 2) == 0
        return -1


def test_what_a_full_disk_has_reserved_is_freed_and_writes_go_on(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = reserved_space._LIBRARY
    assert library is not None
    monkeypatch.setattr(reserved_space, "_LIBRARY", _FullDisk(library))
    log = open_store(tmp_path).claim(ref_of(), CONFIG)
    batches = fill_with_large(log, 3)
    assert spare_bytes(segment_path(tmp_path)) <= SLACK_BYTES
    batches += fill_with_large(log, 3)
    assert read_all(log) == b"".join(batches)


def test_a_file_that_was_cut_by_others_is_not_made_longer(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"data")
    with path.open("r+b") as file:
        reserved_space.give_back(file.fileno(), 10)
    assert path.read_bytes() == b"data"
