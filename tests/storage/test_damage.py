"""Damage is told apart from a torn write, and acknowledged records are never deleted silently."""

from __future__ import annotations

import logging
import os
import random
from pathlib import Path

import pytest
from tests.storage.batches import Batch, append, fill, joined, make_batch, read_all, ref_of
from tests.storage.conftest import Opener, crash_copy

from ottla.config.topic import TopicConfig
from ottla.ports import DamagedError
from ottla.storage.local import LocalStore
from ottla.storage.local.recovery.disk_trouble import whole_batch_position

CONFIG = TopicConfig(index_interval_bytes=250)
BATCH_BYTES = 100


def segment(folder: Path, base_offset: int = 0, suffix: str = ".log") -> Path:
    return folder / "orders-0" / f"{base_offset:020d}{suffix}"


def twenty_batches(store: LocalStore) -> list[Batch]:
    """Offsets 0 to 9 in one segment, 10 to 19 in the next."""
    log = store.claim(ref_of(), CONFIG)
    batches = fill(log, 10)
    log.roll()
    return batches + fill(log, 10)


def synced(store: LocalStore) -> None:
    """Makes everything durable and writes the recovery point."""
    for log in store._logs():
        log.flush()
    store.checkpoint()


def kept_aside(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "orders-0").glob("*.cut-*"))}


def spoil(path: Path, position: int, size_bytes: int = 30) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(b"\xff" * size_bytes)


def test_whole_batches_behind_damage_above_the_recovery_point_are_kept_aside(
    open_store: Opener, tmp_path: Path
) -> None:
    batches = twenty_batches(open_store(tmp_path / "a"))
    folder = crash_copy(tmp_path / "a", tmp_path / "b")
    spoil(segment(folder), 5 * BATCH_BYTES + 40)
    spoiled = segment(folder).read_bytes()
    log = open_store(folder).claim(ref_of(), CONFIG)
    assert log.end_offset == 5
    assert read_all(log) == joined(batches[:5])
    assert kept_aside(folder) == {
        f"{0:020d}.log.cut-1": spoiled[5 * BATCH_BYTES :],
        f"{10:020d}.log.cut-1": joined(batches[10:]),
    }
    again = fill(log, 3)
    assert read_all(log) == joined(batches[:5] + again)


def test_a_torn_last_write_leaves_nothing_aside(open_store: Opener, tmp_path: Path) -> None:
    twenty_batches(open_store(tmp_path / "a"))
    for cut_bytes in (1, 50, 99):
        folder = crash_copy(tmp_path / "a", tmp_path / "b")
        os.truncate(segment(folder, 10), 10 * BATCH_BYTES - cut_bytes)
        store = open_store(folder)
        assert store.claim(ref_of(), CONFIG).end_offset == 19
        store.close()
        assert kept_aside(folder) == {}


def test_files_kept_aside_are_not_overwritten_and_not_read(
    open_store: Opener, tmp_path: Path
) -> None:
    twenty_batches(open_store(tmp_path / "a"))
    folder = tmp_path / "a"
    for number in (1, 2):
        folder = crash_copy(folder, tmp_path / f"copy-{number}")
        spoil(segment(folder), (6 - number) * BATCH_BYTES + 40)
        store = open_store(folder)
        log = store.claim(ref_of(), CONFIG)
        assert log.end_offset == 6 - number
        fill(log, 4)
    assert [name for name in kept_aside(folder) if name.startswith("0" * 20)] == [
        f"{0:020d}.log.cut-1",
        f"{0:020d}.log.cut-2",
    ]


@pytest.mark.parametrize("position", [3 * BATCH_BYTES, 9 * BATCH_BYTES])
def test_damage_below_the_recovery_point_is_refused_and_nothing_is_changed(
    open_store: Opener, tmp_path: Path, position: int
) -> None:
    store = open_store(tmp_path / "a")
    log = store.claim(ref_of(), CONFIG)
    batches = fill(log, 10)
    synced(store)
    batches += fill(log, 5)
    folder = crash_copy(tmp_path / "a", tmp_path / "b")
    # The scan begins at the index entry before the recovery point; without an index, at the start.
    segment(folder, suffix=".index").unlink()
    spoil(segment(folder), position)
    before = segment(folder).read_bytes()
    store = open_store(folder)
    for _ in range(2):
        with pytest.raises(DamagedError, match=f"position {position}, offset .* below offset 10"):
            store.claim(ref_of(), CONFIG)
    assert segment(folder).read_bytes() == before
    assert kept_aside(folder) == {}
    store.close()
    assert not (folder / ".kafka_cleanshutdown").exists(), "the next start has to look again"
    # The message says how to go on without what is lost.
    (folder / "recovery-point-offset-checkpoint").unlink()
    again = open_store(folder).claim(ref_of(), CONFIG)
    assert read_all(again) == joined(batches[: position // BATCH_BYTES])
    assert len(kept_aside(folder)) == 1


def test_a_missing_last_segment_below_the_recovery_point_is_damage(
    open_store: Opener, tmp_path: Path
) -> None:
    store = open_store(tmp_path / "a")
    twenty_batches(store)
    synced(store)
    folder = crash_copy(tmp_path / "a", tmp_path / "b")
    segment(folder, 10).unlink()
    with pytest.raises(DamagedError, match="ends at offset 10"):
        open_store(folder).claim(ref_of(), CONFIG)


def test_a_file_that_was_shortened_after_a_clean_stop_is_damage(
    open_store: Opener, tmp_path: Path
) -> None:
    """Cut where a batch ends, so that no header tells."""
    store = open_store(tmp_path)
    twenty_batches(store)
    store.close()
    os.truncate(segment(tmp_path, 10), 5 * BATCH_BYTES)
    store = open_store(tmp_path)
    with pytest.raises(DamagedError, match="offset 15"):
        store.claim(ref_of(), CONFIG)
    assert segment(tmp_path, 10).stat().st_size == 5 * BATCH_BYTES


def test_a_hole_above_the_recovery_point_is_told(
    open_store: Opener, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_store(tmp_path / "a").claim(ref_of(), CONFIG)
    for _ in range(3):
        fill(log, 10)
        log.roll()
    folder = crash_copy(tmp_path / "a", tmp_path / "b")
    segment(folder, 10).unlink()
    with caplog.at_level(logging.WARNING):
        again = open_store(folder).claim(ref_of(), CONFIG)
    assert "begins at 20, but the segment before it ends at 10" in caplog.text
    assert again.end_offset == 30


def test_damage_found_while_reading_ends_the_claim_and_the_next_one_is_refused(
    open_store: Opener, tmp_path: Path
) -> None:
    store = open_store(tmp_path)
    twenty_batches(store)
    log = store.claim(ref_of(), CONFIG)
    spoil(segment(tmp_path), 5 * BATCH_BYTES)
    segment(tmp_path, suffix=".index").unlink()
    with pytest.raises(DamagedError, match=r"0\.log is damaged"):
        log.read(7, 1000, 20)
    with pytest.raises(DamagedError, match="below offset 20"):
        store.claim(ref_of(), CONFIG)
    other = store.claim(ref_of("payments"), CONFIG)
    fill(other, 3)
    assert other.end_offset == 3


def test_damage_anywhere_crashes_nothing_and_loses_nothing_before_it(
    open_store: Opener, tmp_path: Path
) -> None:
    rng = random.Random(3)
    batches = twenty_batches(open_store(tmp_path / "a"))
    for _ in range(60):
        folder = crash_copy(tmp_path / "a", tmp_path / "b")
        files = sorted((folder / "orders-0").iterdir())
        target = rng.choice(files)
        size_bytes = target.stat().st_size
        at = rng.randrange(max(size_bytes, 1))
        if rng.random() < 0.3:
            os.truncate(target, at)
        else:
            spoil(target, at, rng.randint(1, 20))
        store = open_store(folder)
        log = store.claim(ref_of(), CONFIG)
        found = read_all(log)
        assert joined(batches).startswith(found)
        if target.suffix == ".log":
            base_offset = int(target.name.split(".")[0])
            assert len(found) >= base_offset * BATCH_BYTES + at // BATCH_BYTES * BATCH_BYTES
        else:
            assert found == joined(batches)
        store.close()


def test_a_whole_batch_is_found_wherever_it_begins(tmp_path: Path, open_store: Opener) -> None:
    batches = twenty_batches(open_store(tmp_path / "a"))
    rng = random.Random(1)
    path = tmp_path / "file"
    for _ in range(50):
        noise = rng.randbytes(rng.randrange(300)).replace(b"\x02", b"\x03")
        path.write_bytes(noise + batches[7].data + noise)
        assert whole_batch_position(path.as_posix(), 0, 5) == len(noise)
        assert whole_batch_position(path.as_posix(), 0, 8) is None, "that offset was there already"
        path.write_bytes(noise + batches[7].data[:-1])
        assert whole_batch_position(path.as_posix(), 0, 5) is None


def test_a_file_that_shrinks_while_it_is_mapped_costs_its_partition_only(
    open_store: Opener, tmp_path: Path
) -> None:
    store = open_store(tmp_path)
    log = store.claim(ref_of(), TopicConfig())
    fill(log, 2000)
    log.roll()
    fill(log, 2)
    assert read_all(log)
    os.truncate(min((tmp_path / "orders-0").glob("*.log")), 5000)
    with pytest.raises(DamagedError, match="shorter"):
        log.read(1000, 1000, 3000)
    other = store.claim(ref_of("other"), TopicConfig())
    fill(other, 1)
    assert read_all(other)


@pytest.mark.parametrize("damage", ["zeros at the end", "zeros", "gone"])
def test_a_damaged_time_index_of_the_last_segment_is_noticed(
    open_store: Opener, tmp_path: Path, damage: str
) -> None:
    store = open_store(tmp_path)
    log = store.claim(ref_of(), CONFIG)
    for offset in range(60):
        # The largest is in the middle: what is behind the last index entry does not say it.
        append(log, make_batch(offset, timestamp_ms=1000 + offset if offset < 30 else 500))
    latest = log.batch_of_max_timestamp()
    store.close()
    path = segment(tmp_path, suffix=".timeindex")
    data = path.read_bytes()
    assert len(data) > 48
    path.write_bytes(
        {
            "zeros at the end": data[:30] + bytes(len(data) - 30),
            "zeros": bytes(len(data)),
            "gone": b"",
        }[damage]
    )
    assert open_store(tmp_path).claim(ref_of(), CONFIG).batch_of_max_timestamp() == latest
