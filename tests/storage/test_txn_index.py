"""The .txnindex files: Kafka's format, and what a crash or damage makes of them."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.storage.batches import fill, ref_of
from tests.storage.conftest import Opener, crash_copy, patch_in

from ottla.config.topic import TopicConfig
from ottla.core.aborted import AbortedSpan
from ottla.ports import Snapshot, StorageError
from ottla.storage.local.log.transaction_index import ENTRY_BYTES, sound_bytes

CONFIG = TopicConfig()
SPANS = [AbortedSpan(1, 0, 4, 5), AbortedSpan(2**40, 1, 6, 7), AbortedSpan(3, 5, 9, 10)]


def file_of(folder: Path, base_offset: int = 0) -> Path:
    return folder / "orders-0" / f"{base_offset:020d}.txnindex"


def filled(open_store: Opener, folder: Path) -> None:
    log = open_store(folder).claim(ref_of(), CONFIG)
    fill(log, 10)
    for span in SPANS:
        log.note_aborted(span)


def test_an_entry_has_kafkas_format(open_store: Opener, tmp_path: Path) -> None:
    filled(open_store, tmp_path)
    expected = b"".join(struct.pack(">hqqqq", 0, *span) for span in SPANS)
    assert file_of(tmp_path).read_bytes() == expected
    assert len(expected) == 3 * ENTRY_BYTES == 3 * 34


def test_a_segment_without_aborted_transactions_has_no_file(
    open_store: Opener, tmp_path: Path
) -> None:
    log = open_store(tmp_path).claim(ref_of(), CONFIG)
    fill(log, 10)
    log.roll()
    log.close()
    assert not list((tmp_path / "orders-0").glob("*.txnindex"))


def test_the_file_is_deleted_with_its_segment(open_store: Opener, tmp_path: Path) -> None:
    store = open_store(tmp_path)
    log = store.claim(ref_of(), TopicConfig(file_delete_delay_ms=0))
    fill(log, 10)
    log.note_aborted(SPANS[0])
    log.roll()
    fill(log, 1)
    log.trim(10)
    assert not file_of(tmp_path).exists()
    store.tick(10**15)
    store.close()
    assert not [name for name in os.listdir(tmp_path / "orders-0") if "txnindex" in name]


def test_a_snapshot_does_not_wait_for_the_file_of_a_deleted_segment(
    open_store: Opener, tmp_path: Path
) -> None:
    log = open_store(tmp_path).claim(ref_of(), CONFIG)
    fill(log, 10)
    log.note_aborted(SPANS[0])
    log.roll()
    log.trim(10)
    log.save_snapshot(Snapshot(10, b"state"))
    assert list(log.snapshots()) == [Snapshot(10, b"state")]


def test_more_files_than_are_kept_in_memory(open_store: Opener, tmp_path: Path) -> None:
    log = open_store(tmp_path).claim(ref_of(), CONFIG)
    spans = []
    for number in range(40):
        fill(log, 3)
        spans.append(AbortedSpan(number, 3 * number, 3 * number + 2, 3 * number + 3))
        log.note_aborted(spans[-1])
        log.roll()
    assert list(log.aborted(0)) == spans
    for span in spans:
        log.note_aborted(span)
    assert list(log.aborted(60)) == spans[20:]


def test_an_entry_torn_at_any_byte_is_cut_and_found_again_by_the_replay(
    open_store: Opener, tmp_path: Path
) -> None:
    filled(open_store, tmp_path / "a")
    for size_bytes in range(2 * ENTRY_BYTES, 3 * ENTRY_BYTES):
        folder = crash_copy(tmp_path / "a", tmp_path / "b")
        os.truncate(file_of(folder), size_bytes)
        store = open_store(folder)
        log = store.claim(ref_of(), CONFIG)
        assert list(log.aborted(0)) == SPANS[:2]
        log.note_aborted(SPANS[2])
        assert list(log.aborted(0)) == SPANS
        assert file_of(folder).stat().st_size == 3 * ENTRY_BYTES
        store.close()


def test_entries_behind_the_end_of_a_torn_log_are_cut(open_store: Opener, tmp_path: Path) -> None:
    filled(open_store, tmp_path / "a")
    folder = crash_copy(tmp_path / "a", tmp_path / "b")
    log_file = folder / "orders-0" / f"{0:020d}.log"
    os.truncate(log_file, log_file.stat().st_size - 1)
    log = open_store(folder).claim(ref_of(), CONFIG)
    assert log.end_offset == 9
    assert list(log.aborted(0)) == SPANS[:2]


def test_damage_without_a_checksum_is_cut_and_takes_the_snapshots_behind_it(
    open_store: Opener, tmp_path: Path
) -> None:
    store = open_store(tmp_path)
    log = store.claim(ref_of(), CONFIG)
    for span in SPANS:
        fill(log, span.last_offset + 1 - log.end_offset)
        log.note_aborted(span)
        log.save_snapshot(Snapshot(log.end_offset, b"state"))
    store.close()
    (tmp_path / "orders-0" / "transaction-index-checkpoint").unlink()
    data = bytearray(file_of(tmp_path).read_bytes())
    data[ENTRY_BYTES] = 0xFF
    file_of(tmp_path).write_bytes(data)
    again = open_store(tmp_path).claim(ref_of(), CONFIG)
    assert list(again.aborted(0)) == SPANS[:1]
    assert list(again.snapshots()) == []


@pytest.mark.parametrize("is_clean", [False, True])
def test_damage_takes_the_snapshots_behind_which_a_replay_would_not_look(
    open_store: Opener, tmp_path: Path, is_clean: bool
) -> None:
    store = open_store(tmp_path / "a")
    log = store.claim(ref_of(), CONFIG)
    for span in SPANS:
        fill(log, span.last_offset + 1 - log.end_offset)
        log.note_aborted(span)
        log.save_snapshot(Snapshot(log.end_offset, b"state"))
    folder = tmp_path / "a"
    if is_clean:
        store.close()
    else:
        folder = crash_copy(folder, tmp_path / "b")
    data = bytearray(file_of(folder).read_bytes())
    data[ENTRY_BYTES] = 0xFF
    file_of(folder).write_bytes(data)
    again = open_store(folder).claim(ref_of(), CONFIG)
    assert list(again.aborted(0)) == [], "which of its entries are right is not known"
    assert list(again.snapshots()) == []
    for span in SPANS:
        again.note_aborted(span)
    assert list(again.aborted(0)) == SPANS


def test_a_snapshot_is_saved_only_when_the_entries_below_it_are_on_disk(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_store(tmp_path).claim(ref_of(), CONFIG)
    fill(log, 10)
    log.note_aborted(SPANS[0])

    def failing(fd: int) -> None:
        raise OSError("no disk")

    with monkeypatch.context() as patch:
        patch_in(tmp_path, patch, os, "fsync", failing)
        with pytest.raises(StorageError, match="no disk"):
            log.save_snapshot(Snapshot(10, b"state"))
    assert list(log.snapshots()) == []
    log.save_snapshot(Snapshot(10, b"state"))
    assert list(log.snapshots()) == [Snapshot(10, b"state")]


def test_a_write_that_fails_leaves_no_half_entry(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_store(tmp_path).claim(ref_of(), CONFIG)
    fill(log, 10)
    log.note_aborted(SPANS[0])
    real_write = os.write

    def half(fd: int, data: memoryview) -> int:
        real_write(fd, data[: len(data) // 2])
        raise OSError("no disk")

    with monkeypatch.context() as patch:
        patch_in(tmp_path, patch, os, "write", half)
        with pytest.raises(StorageError, match="no disk"):
            log.note_aborted(SPANS[1])
    assert list(log.aborted(0)) == SPANS[:1]
    log.note_aborted(SPANS[1])
    assert (
        list(
            open_store(crash_copy(tmp_path, tmp_path.parent / "c"))
            .claim(ref_of(), CONFIG)
            .aborted(0)
        )
        == SPANS[:2]
    )


@given(data=st.binary(max_size=200), base_offset=st.integers(0, 5), end_offset=st.integers(5, 99))
def test_garbage_is_no_entry(data: bytes, base_offset: int, end_offset: int) -> None:
    good_bytes = sound_bytes(data, base_offset, end_offset)
    assert good_bytes % ENTRY_BYTES == 0
    assert 0 <= good_bytes <= len(data)
