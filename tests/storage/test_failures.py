"""A disk that is full, fails, or cannot be reached costs what was not acknowledged, and nothing else."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.storage.batches import append, fill, joined, make_batch, offsets_of, read_all, ref_of
from tests.storage.conftest import Opener, crash_copy, patch_in

from ottla.config.topic import TopicConfig
from ottla.ports import FencedError, StorageError
from ottla.storage.local.sync import group_commit

CONFIG = TopicConfig()

real_pwrite = os.pwrite


def full_disk(*_: object, **options: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def full_disk_after(allowed_bytes: int) -> Callable[[int, bytes, int], int]:
    """A disk that takes some bytes and then no more; each call writes at most seven."""
    left = allowed_bytes

    def pwrite(fd: int, data: bytes, position: int) -> int:
        nonlocal left
        if not left:
            full_disk()
        written = real_pwrite(fd, memoryview(data)[: min(left, 7)], position)
        left -= written
        return written

    return pwrite


def test_a_full_disk_refuses_the_append_and_keeps_the_log(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_store(tmp_path / "a").claim(ref_of(), CONFIG)
    batches = fill(log, 3)
    path = tmp_path / "a" / "orders-0" / "00000000000000000000.log"
    for allowed_bytes in (0, 1, 50, 99):
        with monkeypatch.context() as patch:
            patch_in(tmp_path, patch, os, "pwrite", full_disk_after(allowed_bytes))
            with pytest.raises(StorageError, match="No space left"):
                append(log, make_batch(3))
        assert log.end_offset == 3
        assert path.stat().st_size == 300, "nothing of the failed write is left"
    batches += fill(log, 2)
    assert read_all(log) == joined(batches)
    again = open_store(crash_copy(tmp_path / "a", tmp_path / "b")).claim(ref_of(), CONFIG)
    assert read_all(again) == joined(batches)


def test_short_writes_are_continued(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_store(tmp_path).claim(ref_of(), CONFIG)
    patch_in(tmp_path, monkeypatch, os, "pwrite", full_disk_after(10_000))
    batches = fill(log, 5)
    assert read_all(log) == joined(batches)


def test_a_write_that_cannot_be_taken_back_ends_the_claim_and_the_next_one_mends_it(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    log = store.claim(ref_of(), CONFIG)
    batches = fill(log, 3)
    view = log.read(0, 1000, 3)
    with monkeypatch.context() as patch:
        patch_in(tmp_path, patch, os, "pwrite", full_disk_after(50))
        patch_in(tmp_path, patch, os, "ftruncate", full_disk)
        with pytest.raises(StorageError, match="take back"):
            append(log, make_batch(3))
    for _ in range(2):
        with pytest.raises(StorageError, match="take back"):
            append(log, make_batch(3))
    again = store.claim(ref_of(), CONFIG)
    assert again.epoch > log.epoch
    assert read_all(again) == joined(batches)
    batches += fill(again, 2)
    assert read_all(again) == joined(batches)
    assert offsets_of(view) == [0, 1, 2], "what was read before stays valid"


def test_a_failed_epoch_entry_fails_the_append(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_store(tmp_path).claim(ref_of(), CONFIG)
    with monkeypatch.context() as patch:
        patch_in(tmp_path, patch, os, "replace", full_disk)
        with pytest.raises(StorageError, match="No space left"):
            append(log, make_batch(0))
    assert (log.end_offset, log.epochs) == (0, ())
    fill(log, 1)
    assert [(entry.epoch, entry.start_offset) for entry in log.epochs] == [(log.epoch, 0)]


def test_a_roll_that_fails_leaves_the_log_as_it_was(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_store(tmp_path).claim(ref_of(), TopicConfig(index_interval_bytes=100))
    batches = fill(log, 10)
    with monkeypatch.context() as patch:
        patch_in(tmp_path, patch, os, "write", full_disk)
        with pytest.raises(StorageError, match="new segment"):
            log.roll()
    batches += fill(log, 10)
    log.roll()
    batches += fill(log, 1)
    assert [info.base_offset for info in log.segments()] == [0, 20]
    assert read_all(log) == joined(batches)


def test_a_failed_sync_ends_the_claim_and_the_next_one_brings_the_data_to_disk(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    log = store.claim(ref_of(), CONFIG)
    batches = fill(log, 3)
    log.flush()
    batches += fill(log, 3)
    with monkeypatch.context() as patch:
        patch_in(tmp_path, patch, group_commit, "_sync_data", full_disk)
        with pytest.raises(StorageError, match="cannot sync"):
            log.flush()
    with pytest.raises(StorageError, match="cannot sync"):
        append(log, make_batch(6))
    written: list[int] = []

    def pwrite(fd: int, data: bytes, position: int) -> int:
        written.append(position)
        return real_pwrite(fd, data, position)

    with monkeypatch.context() as patch:
        patch_in(tmp_path, patch, os, "pwrite", pwrite)
        again = store.claim(ref_of(), CONFIG)
    assert written, "pages that the kernel takes for clean are written again"
    assert read_all(again) == joined(batches)
    fill(again, 1)
    with pytest.raises(FencedError):
        append(log, make_batch(6))


def test_a_claim_fails_while_the_disk_does(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    log = store.claim(ref_of(), CONFIG)
    batches = fill(log, 3)
    with monkeypatch.context() as patch:
        patch_in(tmp_path, patch, group_commit, "_sync_data", full_disk)
        patch_in(tmp_path, patch, os, "fsync", full_disk)
        with pytest.raises(StorageError):
            log.flush()
        with pytest.raises(StorageError):
            store.claim(ref_of(), CONFIG)
    assert read_all(store.claim(ref_of(), CONFIG)) == joined(batches)


def test_a_store_with_a_failed_log_is_not_marked_as_clean(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    other = store.claim(ref_of(partition=1), CONFIG)
    log = store.claim(ref_of(), CONFIG)
    batches = fill(log, 3)
    fill(other, 2)
    with monkeypatch.context() as patch:
        patch_in(tmp_path, patch, group_commit, "_sync_data", full_disk)
        with pytest.raises(StorageError):
            log.flush()
    store.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    again = open_store(tmp_path)
    assert read_all(again.claim(ref_of(), CONFIG)) == joined(batches)
    assert again.claim(ref_of(partition=1), CONFIG).end_offset == 2


def test_a_sync_that_fails_at_the_stop_is_not_called_clean(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    batches = fill(store.claim(ref_of(), CONFIG), 3)
    with monkeypatch.context() as patch:
        patch_in(tmp_path, patch, group_commit, "_sync_data", full_disk)
        store.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert read_all(open_store(tmp_path).claim(ref_of(), CONFIG)) == joined(batches)


def test_a_trim_that_is_not_durable_is_not_done(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_store(tmp_path).claim(ref_of(), CONFIG)
    fill(log, 5)
    with monkeypatch.context() as patch:
        patch_in(tmp_path, patch, os, "replace", full_disk)
        with pytest.raises(StorageError, match="trim"):
            log.trim(3)
    assert log.start_offset == 0
    log.trim(3)
    assert log.start_offset == 3


def test_a_catalog_change_that_is_not_durable_is_not_made(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path / "a")
    catalog = store.catalog
    catalog.commit({"a": 1}, catalog.revision)
    revision = catalog.revision
    for allowed_bytes in (0, 20):
        with monkeypatch.context() as patch:
            patch_in(tmp_path, patch, os, "pwrite", full_disk_after(allowed_bytes))
            with pytest.raises(StorageError, match="No space left"):
                catalog.commit({"b": 2}, revision)
        assert (catalog.revision, dict(catalog.entries())) == (revision, {"a": 1})
    catalog.commit({"c": 3}, revision)
    again = open_store(crash_copy(tmp_path / "a", tmp_path / "b"))
    assert again.catalog.entries() == {"a": 1, "c": 3}


def test_a_catalog_whose_state_on_disk_is_unknown_takes_no_further_change(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = open_store(tmp_path).catalog
    catalog.commit({"a": 1}, catalog.revision)
    revision = catalog.revision
    with monkeypatch.context() as patch:
        patch_in(tmp_path, patch, os, "fsync", full_disk)
        with pytest.raises(StorageError, match="No space left"):
            catalog.commit({"b": 2}, revision)
    with pytest.raises(StorageError, match="start again"):
        catalog.commit({"c": 3}, revision)


def test_a_data_folder_that_cannot_be_used_is_named(open_store: Opener, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="file/data"):
        open_store(tmp_path / "file" / "data")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
def test_a_data_folder_without_permission_is_named(open_store: Opener, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o500)
    with pytest.raises(StorageError, match="data"):
        open_store(folder)


def test_a_segment_that_was_shortened_behind_our_back_is_an_error_not_a_crash(
    open_store: Opener, tmp_path: Path
) -> None:
    log = open_store(tmp_path).claim(ref_of(), CONFIG)
    fill(log, 3)
    log.roll()
    fill(log, 3)
    os.truncate(tmp_path / "orders-0" / "00000000000000000000.log", 150)
    os.truncate(tmp_path / "orders-0" / "00000000000000000003.log", 150)
    with pytest.raises(StorageError, match="shorter"):
        log.read(0, 1000, 6)
    with pytest.raises(StorageError, match="shorter"):
        log.read(3, 1000, 6)


def test_a_batch_length_that_cannot_be_is_an_error_not_an_endless_loop(
    open_store: Opener, tmp_path: Path
) -> None:
    log = open_store(tmp_path).claim(ref_of(), CONFIG)
    fill(log, 3)
    with (tmp_path / "orders-0" / "00000000000000000000.log").open("r+b") as file:
        file.seek(108)
        file.write(b"\0\0\0\0")
    with pytest.raises(StorageError, match="damaged"):
        log.read(2, 1000, 6)
