"""What is left of a log after a crash: every whole batch, and nothing else."""

from __future__ import annotations

import logging
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.storage.batches import append, fill, joined, make_batch, offsets_of, read_all, ref_of
from tests.storage.conftest import Opener, crash_copy

from ottla.config.topic import TopicConfig
from ottla.ports import DamagedError, EpochStart, Snapshot
from ottla.storage.local import LocalStoreOptions
from ottla.storage.local.log.index import read_index
from ottla.storage.local.log.partition_log import LocalLog
from ottla.storage.local.recovery import folder_recovery, scan

CONFIG = TopicConfig(index_interval_bytes=250)
END = 2**62


def segment(folder: Path, base_offset: int = 0, suffix: str = ".log") -> Path:
    return folder / "orders-0" / f"{base_offset:020d}{suffix}"


def claim(open_store: Opener, folder: Path) -> LocalLog:
    return open_store(folder).claim(ref_of(), CONFIG)


def check_lookups(log: LocalLog) -> None:
    """Every offset and timestamp is found through the indexes as it is by going through everything."""
    data = read_all(log)
    offsets = offsets_of(data)
    for offset in range(log.start_offset, log.end_offset):
        found = offsets_of(log.read(offset, 0, END))
        assert found[0] == max(known for known in offsets if known <= offset)
        # `fill` gives a batch the time 1000 + 10 * base offset.
        batch = log.batch_at_timestamp(1000 + 10 * offset, 0)
        at_or_after = [known for known in offsets if known >= offset]
        assert (None if batch is None else offsets_of(batch)) == (at_or_after[:1] or None)


def test_a_crash_without_a_torn_write_loses_nothing(open_store: Opener, tmp_path: Path) -> None:
    log = claim(open_store, tmp_path / "a")
    batches = fill(log, 30, records=2)
    log.roll()
    batches += fill(log, 30, records=2)
    log.trim(7)
    log.save_snapshot(Snapshot(60, b"sixty"))
    again = claim(open_store, crash_copy(tmp_path / "a", tmp_path / "b"))
    assert (again.start_offset, again.end_offset) == (7, 120)
    assert read_all(again) == joined(batches[3:])
    assert again.segments() == log.segments()
    assert again.epochs == log.epochs
    assert list(again.snapshots()) == list(log.snapshots())


def test_a_write_torn_at_any_byte_is_cut_and_all_before_it_is_kept(
    open_store: Opener, tmp_path: Path
) -> None:
    source = tmp_path / "a"
    log = claim(open_store, source)
    kept = fill(log, 7, records=2)
    (last,) = fill(log, 1, records=2)
    size_bytes = len(joined(kept))
    for cut in range(len(last.data)):
        copy = crash_copy(source, tmp_path / "b")
        with segment(copy).open("r+b") as file:
            file.truncate(size_bytes + cut)
        store = open_store(copy)
        again = store.claim(ref_of(), CONFIG)
        assert again.end_offset == 14
        assert read_all(again) == joined(kept)
        assert segment(copy).stat().st_size == size_bytes
        append(again, make_batch(14))
        assert offsets_of(read_all(again))[-1] == 14
        store.close()


@pytest.mark.parametrize("tail", [b"\0" * 10, b"\0" * 4096, b"\xff" * 100, bytes(range(256)) * 4])
def test_zeros_and_garbage_after_the_last_batch_are_cut(
    open_store: Opener, tmp_path: Path, tail: bytes
) -> None:
    log = claim(open_store, tmp_path / "a")
    batches = fill(log, 9)
    copy = crash_copy(tmp_path / "a", tmp_path / "b")
    with segment(copy).open("ab") as file:
        file.write(tail)
    again = claim(open_store, copy)
    assert read_all(again) == joined(batches)
    assert segment(copy).stat().st_size == len(joined(batches))


def test_a_flipped_bit_cuts_the_log_at_its_batch(open_store: Opener, tmp_path: Path) -> None:
    source = tmp_path / "a"
    log = claim(open_store, source)
    batches = fill(log, 6, records=2)
    log.roll()
    fill(log, 6, records=2)
    log.save_snapshot(Snapshot(4, b"four"))
    log.save_snapshot(Snapshot(20, b"twenty"))
    rng = random.Random(5)
    for _ in range(60):
        copy = crash_copy(source, tmp_path / "b")
        data = bytearray(segment(copy).read_bytes())
        victim = rng.randrange(6)
        # The base offset and the leader epoch are not covered by the checksum.
        byte = rng.choice([*range(8, 12), *range(16, 100)])
        data[victim * 100 + byte] ^= 1 << rng.randrange(8)
        segment(copy).write_bytes(data)
        store = open_store(copy)
        again = store.claim(ref_of(), CONFIG)
        assert read_all(again) == joined(batches[:victim])
        assert again.end_offset == 2 * victim
        assert [info.base_offset for info in again.segments()] == [0], "later segments are gone"
        assert [kept.offset for kept in again.snapshots()] == ([4] if victim >= 2 else [])
        assert not segment(copy, 20, ".snapshot").exists()
        store.close()


def test_what_lies_below_the_recovery_point_is_not_scanned(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path / "a")
    log = store.claim(ref_of(), CONFIG)
    batches = fill(log, 100)
    log.roll()
    batches += fill(log, 100)
    store.checkpoint()
    batches += fill(log, 10)
    checked: list[int] = []

    def count(view: memoryview, start: int, end: int, crc: int) -> str | None:
        checked.append(start)
        return scan.check_crc(view, start, end, crc)

    monkeypatch.setattr(folder_recovery, "check_crc", count)
    again = claim(open_store, crash_copy(tmp_path / "a", tmp_path / "b"))
    assert read_all(again) == joined(batches)
    assert 10 <= len(checked) <= 15, "the last ten and what follows the index entry before them"
    check_lookups(again)
    index = read_index(str(segment(tmp_path / "b", 100, "")), 100, 110 * 100)
    index.check_order()
    assert len(index.offset_entries) > 200, "entries from before the crash are kept"


def test_a_small_segment_without_index_entries_is_no_news(
    open_store: Opener, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(tmp_path / "a")
    log = store.claim(ref_of(), TopicConfig())
    fill(log, 3)
    store.checkpoint()
    for name, level in ((".timeindex", logging.DEBUG), (".index", logging.INFO)):
        copy = crash_copy(tmp_path / "a", tmp_path / "b")
        segment(copy, 0, name).write_bytes(b"" if level == logging.DEBUG else b"abc")
        caplog.clear()
        with caplog.at_level(logging.DEBUG):
            open_store(copy).claim(ref_of(), TopicConfig())
        told = [each for each in caplog.records if "scanning it" in each.getMessage()]
        assert [each.levelno for each in told] == [level]


def test_a_damaged_index_at_the_recovery_point_means_a_scan_of_the_segment(
    open_store: Opener, tmp_path: Path
) -> None:
    store = open_store(tmp_path / "a")
    log = store.claim(ref_of(), CONFIG)
    batches = fill(log, 50)
    store.checkpoint()
    batches += fill(log, 10)
    rng = random.Random(7)
    for _ in range(40):
        copy = crash_copy(tmp_path / "a", tmp_path / "b")
        suffix = rng.choice([".index", ".timeindex"])
        data = bytearray(segment(copy, 0, suffix).read_bytes())
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        segment(copy, 0, suffix).write_bytes(data)
        again = open_store(copy)
        found = again.claim(ref_of(), CONFIG)
        assert read_all(found) == joined(batches)
        again.close()


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("content", [None, b"", b"abc", b"\0" * 24, b"\xff" * 24, b"garbage!" * 60])
@pytest.mark.parametrize("base_offset", [0, 40])
def test_missing_and_wrong_indexes_are_rebuilt_after_a_clean_stop(
    open_store: Opener, tmp_path: Path, suffix: str, content: bytes | None, base_offset: int
) -> None:
    store = open_store(tmp_path)
    log = store.claim(ref_of(), CONFIG)
    batches = fill(log, 40)
    log.roll()
    batches += fill(log, 40)
    segments = log.segments()
    store.close()
    path = segment(tmp_path, base_offset, suffix)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    again = claim(open_store, tmp_path)
    assert read_all(again) == joined(batches)
    assert again.segments() == segments
    check_lookups(again)


def test_a_time_index_that_points_elsewhere_is_found_out(
    open_store: Opener, tmp_path: Path
) -> None:
    store = open_store(tmp_path)
    log = store.claim(ref_of(), CONFIG)
    fill(log, 40)
    log.roll()
    fill(log, 1)
    store.close()
    path = segment(tmp_path, 0, ".timeindex")
    data = bytearray(path.read_bytes())
    data[12 + 11] += 9  # the offset of the second entry, still in order
    path.write_bytes(data)
    check_lookups(claim(open_store, tmp_path))


@pytest.mark.parametrize("is_sealed", [True, False])
@pytest.mark.parametrize(
    ("at", "change"),
    [
        (8 + 7, 9),  # the position of the second entry: between batches, still in order
        (8 + 4, 3),  # far behind the end of the file
        (
            8 + 3,
            -2,
        ),  # the offset of the second entry: some of those before it seem to lie behind it
    ],
)
def test_an_offset_index_that_leads_elsewhere_is_found_out(
    open_store: Opener, tmp_path: Path, is_sealed: bool, at: int, change: int
) -> None:
    store = open_store(tmp_path)
    log = store.claim(ref_of(), CONFIG)
    batches = fill(log, 40)
    if is_sealed:
        log.roll()
        fill(log, 1)
    store.close()
    path = segment(tmp_path, 0, ".index")
    data = bytearray(path.read_bytes())
    data[at] += change
    path.write_bytes(data)
    again = claim(open_store, tmp_path)
    for offset in range(40):
        assert offsets_of(again.read(offset, 0, END)) == [offset]
    assert read_all(again)[: len(joined(batches))] == joined(batches)
    fill(again, 5)
    check_lookups(again)


def test_a_clean_start_scans_nothing(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    log = store.claim(ref_of(), CONFIG)
    batches = fill(log, 100)
    log.roll()
    batches += fill(log, 100)
    store.close()
    looked_at: list[int] = []
    walk = scan._walk

    def count(
        view: memoryview,
        found: scan.SegmentScan,
        interval_bytes: int,
        check: scan.Check,
        *others: Any,
    ) -> None:
        assert check is scan.check_nothing, "no checksum is computed"
        looked_at.append(len(view) - found.valid_bytes)
        walk(view, found, interval_bytes, check, *others)

    monkeypatch.setattr(scan, "_walk", count)
    again = claim(open_store, tmp_path)
    assert len(looked_at) == 1
    assert looked_at[0] <= 400, "what follows the last index entry"
    assert read_all(again) == joined(batches)


def test_a_log_that_is_not_in_order_after_a_clean_stop_is_recovered(
    open_store: Opener, tmp_path: Path
) -> None:
    store = open_store(tmp_path)
    log = store.claim(ref_of(), CONFIG)
    batches = fill(log, 20)
    store.close()
    with segment(tmp_path).open("ab") as file:
        file.write(b"half a batch")
    again = claim(open_store, tmp_path)
    assert read_all(again) == joined(batches)


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"0\n5\n", b"0\n1\norders 0 -5\n", b"\xff" * 50]
)
@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"]
)
def test_damaged_checkpoints_mean_a_full_scan(
    open_store: Opener, tmp_path: Path, name: str, content: bytes
) -> None:
    store = open_store(tmp_path / "a")
    log = store.claim(ref_of(), CONFIG)
    batches = fill(log, 20)
    log.roll()
    batches += fill(log, 20)
    store.checkpoint()
    copy = crash_copy(tmp_path / "a", tmp_path / "b")
    (copy / name).write_bytes(content)
    again = claim(open_store, copy)
    assert read_all(again) == joined(batches)
    check_lookups(again)


def test_epochs_that_the_file_has_lost_come_back_from_the_batches(
    open_store: Opener, tmp_path: Path
) -> None:
    store = open_store(tmp_path / "a")
    for _ in range(3):
        log = store.claim(ref_of(), CONFIG)
        fill(log, 5)
    copy = crash_copy(tmp_path / "a", tmp_path / "b")
    (copy / "orders-0" / "leader-epoch-checkpoint").write_bytes(b"")
    again = claim(open_store, copy)
    assert again.epochs == log.epochs
    assert len(again.epochs) == 3


def test_an_epoch_whose_first_batch_was_not_written_is_dropped(
    open_store: Opener, tmp_path: Path
) -> None:
    log = claim(open_store, tmp_path / "a")
    fill(log, 5)
    copy = crash_copy(tmp_path / "a", tmp_path / "b")
    (copy / "orders-0" / "leader-epoch-checkpoint").write_text(f"0\n2\n{log.epoch} 0\n9 5\n")
    again = claim(open_store, copy)
    assert list(again.epochs) == [EpochStart(log.epoch, 0)]
    fill(again, 1)
    assert list(again.epochs) == [EpochStart(log.epoch, 0), EpochStart(again.epoch, 5)]


def test_files_that_do_not_belong_there_do_no_harm(open_store: Opener, tmp_path: Path) -> None:
    log = claim(open_store, tmp_path / "a")
    batches = fill(log, 5)
    copy = crash_copy(tmp_path / "a", tmp_path / "b")
    folder = copy / "orders-0"
    for name in (
        "notes.txt",
        "abc.log",
        "5.log",
        "00000000000000000003.swap",
        "99999999999999999999.log",
    ):
        (folder / name).write_bytes(b"what is this?")
    (folder / "00000000000000000007.index").write_bytes(b"orphan")
    (folder / "00000000000000000000.log.deleted").write_bytes(b"old")
    (folder / "leader-epoch-checkpoint.tmp").write_bytes(b"half")
    (folder / "00000000000000000009.log").mkdir()
    (copy / "no partition").mkdir()
    (copy / "file-0").write_bytes(b"")
    again = claim(open_store, copy)
    assert read_all(again) == joined(batches)
    left = {path.name for path in folder.iterdir()}
    assert "notes.txt" in left
    assert not left & {
        "00000000000000000007.index",
        "00000000000000000000.log.deleted",
        "leader-epoch-checkpoint.tmp",
    }


def test_a_segment_of_garbage_is_emptied_and_the_log_goes_on(
    open_store: Opener, tmp_path: Path
) -> None:
    log = claim(open_store, tmp_path / "a")
    fill(log, 5)
    copy = crash_copy(tmp_path / "a", tmp_path / "b")
    segment(copy).write_bytes(random.Random(3).randbytes(5000))
    again = claim(open_store, copy)
    assert (again.end_offset, again.epochs) == (0, ())
    fill(again, 3)
    assert offsets_of(read_all(again)) == [0, 1, 2]


def test_a_log_that_lost_more_than_was_trimmed_begins_anew_at_its_start(
    open_store: Opener, tmp_path: Path
) -> None:
    log = claim(open_store, tmp_path / "a")
    fill(log, 10)
    log.trim(8)
    copy = crash_copy(tmp_path / "a", tmp_path / "b")
    with segment(copy).open("r+b") as file:
        file.truncate(500)
    again = claim(open_store, copy)
    assert (again.start_offset, again.end_offset) == (8, 8)
    fill(again, 1)
    assert offsets_of(read_all(again)) == [8]


def test_a_segment_that_overlaps_the_one_before_it_is_removed(
    open_store: Opener, tmp_path: Path
) -> None:
    log = claim(open_store, tmp_path / "a")
    batches = fill(log, 10)
    copy = crash_copy(tmp_path / "a", tmp_path / "b")
    segment(copy, 5).write_bytes(joined(batches[5:8]))
    again = claim(open_store, copy)
    assert read_all(again) == joined(batches)
    assert [info.base_offset for info in again.segments()] == [0]


def test_one_partition_that_cannot_be_checked_does_not_stop_the_others(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path / "a")
    batches = {}
    for partition in range(3):
        batches[partition] = fill(store.claim(ref_of(partition=partition), CONFIG), 5)
    copy = crash_copy(tmp_path / "a", tmp_path / "b")
    scan_file = scan.scan_file

    def fail(path: str, found: scan.SegmentScan, *others: Any) -> scan.SegmentScan:
        if "orders-1" in path:
            raise OSError(5, "Input/output error")
        return scan_file(path, found, *others)

    monkeypatch.setattr(folder_recovery, "scan_file", fail)
    again = open_store(copy)
    monkeypatch.setattr(folder_recovery, "scan_file", scan_file)
    for partition in range(3):
        log = again.claim(ref_of(partition=partition), CONFIG)
        assert read_all(log) == joined(batches[partition])


def test_a_checkpoint_that_comes_with_the_tick_bounds_the_recovery(
    open_store: Opener, tmp_path: Path
) -> None:
    store = open_store(tmp_path / "a", LocalStoreOptions(checkpoint_interval_ms=1000))
    log = store.claim(ref_of(), CONFIG)
    fill(log, 10)
    store.tick(2**60)
    text = (tmp_path / "a" / "recovery-point-offset-checkpoint").read_text()
    assert text == "0\n1\norders 0 10\n"


def test_a_folder_that_has_lost_its_segments_is_damaged_until_the_loss_is_accepted(
    open_store: Opener, tmp_path: Path
) -> None:
    store = open_store(tmp_path)
    log = store.claim(ref_of(), CONFIG)
    fill(log, 10)
    log.trim(4)
    store.close()
    shutil.rmtree(tmp_path / "orders-0")
    (tmp_path / "orders-0").mkdir()
    store = open_store(tmp_path)
    with pytest.raises(DamagedError, match="everything below offset 10 was on disk"):
        store.claim(ref_of(), CONFIG)
    store.close()
    (tmp_path / "recovery-point-offset-checkpoint").unlink()
    again = claim(open_store, tmp_path)
    assert (again.start_offset, again.end_offset) == (4, 4)
