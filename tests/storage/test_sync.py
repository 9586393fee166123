"""Group commit, timed flushes, and what waits for them."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from pathlib import Path

import pytest
from tests.storage.batches import SteppingClock, append, fill, joined, make_batch, read_all, ref_of
from tests.storage.conftest import Opener, claim_checked, crash_copy, is_about, patch_in

from ottla.config.topic import TopicConfig
from ottla.ports import FencedError, Snapshot, StorageError, monotonic_ms
from ottla.storage.local import LocalStoreOptions
from ottla.storage.local.recovery import folder_recovery
from ottla.storage.local.sync import group_commit

EVERY_ONE = TopicConfig(flush_messages=1)
SYNC = "ottla.storage.local.sync.group_commit._sync_data"


class CountedSync:
    """Stands in for fdatasync: counts, and can be made to wait or to fail."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.count = 0
        self.gate = threading.Event()
        self.gate.set()
        self.fails = False

    def __call__(self, fd: int) -> None:
        if not is_about(self._folder, fd):
            os.fdatasync(fd)
            return
        assert self.gate.wait(10)
        self.count += 1
        if self.fails:
            raise OSError(errno.EIO, "Input/output error")
        os.fdatasync(fd)


@pytest.fixture
def sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CountedSync:
    counted = CountedSync(tmp_path)
    monkeypatch.setattr(SYNC, counted)
    return counted


def test_all_appends_of_a_loop_turn_share_one_sync(
    open_store: Opener, tmp_path: Path, sync: CountedSync
) -> None:
    async def scenario() -> None:
        log = open_store(tmp_path).claim(ref_of(), EVERY_ONE)
        waiting = [append(log, make_batch(offset)) for offset in range(500)]
        assert all(future is not None and not future.done() for future in waiting)
        await asyncio.gather(*[future for future in waiting if future is not None])
        assert sync.count == 1
        assert log.durability.synced_offset == 500

    asyncio.run(scenario())


def test_appends_during_a_sync_share_the_next_one(
    open_store: Opener, tmp_path: Path, sync: CountedSync
) -> None:
    async def scenario() -> None:
        log = open_store(tmp_path).claim(ref_of(), EVERY_ONE)
        sync.gate.clear()
        first = append(log, make_batch(0))
        await asyncio.sleep(0.01)
        later = []
        for offset in range(1, 50):
            later.append(append(log, make_batch(offset)))
            await asyncio.sleep(0)
        assert first is not None
        assert not first.done()
        sync.gate.set()
        await first
        assert log.durability.synced_offset == 1, "the first sync says nothing of later appends"
        await asyncio.gather(*[future for future in later if future is not None])
        assert sync.count == 2
        assert log.durability.synced_offset == 50

    asyncio.run(scenario())


def test_logs_do_not_wait_for_each_other(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    slow = store.claim(ref_of(partition=0), EVERY_ONE)
    fast = store.claim(ref_of(partition=1), EVERY_ONE)
    fill(slow, 1)
    slow_inode = (tmp_path / "orders-0" / "00000000000000000000.log").stat().st_ino
    gate = threading.Event()

    def sync_data(fd: int) -> None:
        if os.fstat(fd).st_ino == slow_inode:
            assert gate.wait(10)

    patch_in(tmp_path, monkeypatch, group_commit, "_sync_data", sync_data)

    async def scenario() -> None:
        waiting = append(slow, make_batch(1))
        done = append(fast, make_batch(0))
        assert waiting is not None
        assert done is not None
        await asyncio.wait_for(done, 10)
        assert not waiting.done()
        gate.set()
        await asyncio.wait_for(waiting, 10)

    asyncio.run(scenario())


def test_one_waiter_that_gives_up_does_not_cancel_the_others(
    open_store: Opener, tmp_path: Path, sync: CountedSync
) -> None:
    async def scenario() -> None:
        log = open_store(tmp_path).claim(ref_of(), EVERY_ONE)
        sync.gate.clear()
        first = append(log, make_batch(0))
        second = append(log, make_batch(1))
        assert first is not None
        assert second is not None

        async def wait() -> None:
            await first

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        sync.gate.set()
        await asyncio.wait_for(second, 10)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())


def test_a_failed_sync_is_told_to_everybody_who_waits(
    open_store: Opener, tmp_path: Path, sync: CountedSync
) -> None:
    async def scenario() -> None:
        store = open_store(tmp_path)
        log = store.claim(ref_of(), EVERY_ONE)
        sync.gate.clear()
        sync.fails = True
        first = append(log, make_batch(0))
        await asyncio.sleep(0.01)
        second = append(log, make_batch(1))
        sync.gate.set()
        for future in (first, second):
            assert future is not None
            with pytest.raises(StorageError, match="Input/output error"):
                await asyncio.wait_for(future, 10)
        with pytest.raises(StorageError, match="Input/output error"):
            append(log, make_batch(2))
        sync.fails = False
        again = await claim_checked(store, ref_of(), EVERY_ONE)
        assert again.end_offset == 2
        waiting = append(again, make_batch(2))
        assert waiting is not None
        await asyncio.wait_for(waiting, 10)

    asyncio.run(scenario())


def test_a_sync_that_fails_after_the_claim_is_over_ends_the_next_claim_too(
    open_store: Opener, tmp_path: Path, sync: CountedSync
) -> None:
    async def scenario() -> None:
        store = open_store(tmp_path)
        old = store.claim(ref_of(), EVERY_ONE)
        sync.gate.clear()
        sync.fails = True
        waiting = append(old, make_batch(0))
        await asyncio.sleep(0.01)
        new = store.claim(ref_of(), TopicConfig())
        sync.gate.set()
        assert waiting is not None
        with pytest.raises(StorageError):
            await asyncio.wait_for(waiting, 10)
        with pytest.raises(StorageError, match="Input/output error"):
            append(new, make_batch(1))
        sync.fails = False
        assert (await claim_checked(store, ref_of(), TopicConfig())).end_offset == 1

    asyncio.run(scenario())


def test_those_who_wait_for_a_sync_that_has_not_begun_are_told_of_the_new_claim(
    open_store: Opener, tmp_path: Path
) -> None:
    async def scenario() -> None:
        store = open_store(tmp_path)
        old = store.claim(ref_of(), EVERY_ONE)
        waiting = append(old, make_batch(0))
        new = store.claim(ref_of(), EVERY_ONE)
        assert waiting is not None
        with pytest.raises(FencedError):
            await waiting
        assert new.end_offset == 1
        assert new.flush() is None
        assert new.durability.synced_offset == 1

    asyncio.run(scenario())


def test_flush_messages_counts_what_is_not_synced(
    open_store: Opener, tmp_path: Path, sync: CountedSync
) -> None:
    log = open_store(tmp_path).claim(ref_of(), TopicConfig(flush_messages=10))
    append(log, make_batch(0, 9))
    assert sync.count == 0
    append(log, make_batch(9, 1))
    assert sync.count == 1, "outside of a loop the sync is done at once"
    append(log, make_batch(10, 9))
    assert sync.count == 1
    append(log, make_batch(19, 1))
    assert sync.count == 2


def test_flush_ms_syncs_what_is_older(
    open_store: Opener, tmp_path: Path, clock: SteppingClock, sync: CountedSync
) -> None:
    store = open_store(tmp_path)
    log = store.claim(ref_of(), TopicConfig(flush_ms=1000))
    start_ms = clock.now_ms()
    append(log, make_batch(0))
    clock.value_ms = start_ms + 900
    append(log, make_batch(1))
    store.tick(start_ms + 999)
    assert sync.count == 0
    store.tick(start_ms + 1000)
    assert sync.count == 1
    assert log.durability.synced_offset == 2
    store.tick(start_ms + 5000)
    assert sync.count == 1, "nothing came since"
    append(log, make_batch(2))
    store.tick(start_ms + 1899)
    assert sync.count == 1
    store.tick(start_ms + 1900)
    assert sync.count == 2


def test_flush_ms_and_checkpoints_go_on_when_the_wall_clock_is_set_back(
    open_store: Opener, tmp_path: Path, clock: SteppingClock, sync: CountedSync
) -> None:
    store = open_store(tmp_path, LocalStoreOptions(checkpoint_interval_ms=5000))
    log = store.claim(ref_of(), TopicConfig(flush_ms=1000, file_delete_delay_ms=1000))
    fill(log, 3)
    log.roll()
    append(log, make_batch(3))
    log.trim(3)
    clock.skew_ms = -86_400_000
    clock.value_ms += 1000
    store.tick(monotonic_ms(clock))
    assert log.durability.synced_offset == 4
    append(log, make_batch(4))
    clock.value_ms += 1000
    store.tick(monotonic_ms(clock))
    assert log.durability.synced_offset == 5, "the flush after the clock was set, too"
    clock.value_ms += 3000
    store.tick(monotonic_ms(clock))
    assert "orders 0 5" in (tmp_path / "recovery-point-offset-checkpoint").read_text()
    for _ in range(1000):
        if not list(tmp_path.glob("orders-0/*.deleted")):
            break
        time.sleep(0.005)
    assert not list(tmp_path.glob("orders-0/*.deleted"))


def test_nothing_is_synced_without_being_asked(
    open_store: Opener, tmp_path: Path, clock: SteppingClock, sync: CountedSync
) -> None:
    store = open_store(tmp_path)
    log = store.claim(ref_of(), TopicConfig())
    assert append(log, make_batch(0)) is None
    store.tick(clock.now_ms() + 1000)
    assert sync.count == 0


def test_a_rolled_segment_is_synced_in_the_background(
    open_store: Opener, tmp_path: Path, sync: CountedSync
) -> None:
    async def scenario() -> None:
        log = open_store(tmp_path).claim(ref_of(), TopicConfig())
        fill(log, 10)
        log.roll()
        for _ in range(1000):
            if log.durability.synced_offset == 10:
                break
            await asyncio.sleep(0.005)
        assert log.durability.synced_offset == 10

    asyncio.run(scenario())


def test_a_flush_covers_all_segments(open_store: Opener, tmp_path: Path, sync: CountedSync) -> None:
    log = open_store(tmp_path).claim(ref_of(), TopicConfig())
    for _ in range(3):
        fill(log, 2)
        log.roll()
    fill(log, 2)
    assert log.flush() is None
    assert sync.count == 4
    assert log.durability.synced_offset == 8


def test_closing_waits_for_a_sync_that_runs(
    open_store: Opener, tmp_path: Path, sync: CountedSync
) -> None:
    async def scenario() -> None:
        store = open_store(tmp_path)
        log = store.claim(ref_of(), EVERY_ONE)
        sync.gate.clear()
        waiting = append(log, make_batch(0))
        await asyncio.sleep(0.01)
        threading.Timer(0.05, sync.gate.set).start()
        store.close()
        assert sync.count >= 1
        assert waiting is not None
        await asyncio.wait_for(waiting, 10)

    asyncio.run(scenario())
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_loop_that_ended_with_a_sync_under_way_does_no_harm(
    open_store: Opener, tmp_path: Path, sync: CountedSync
) -> None:
    store = open_store(tmp_path)
    log = store.claim(ref_of(), EVERY_ONE)

    async def scenario() -> None:
        sync.gate.clear()
        append(log, make_batch(0))
        await asyncio.sleep(0.01)
        append(log, make_batch(1))

    asyncio.run(scenario())
    sync.gate.set()
    log.close()
    assert read_all(store.claim(ref_of(), EVERY_ONE)) == joined([make_batch(0), make_batch(1)])


def test_a_log_goes_on_in_another_loop(
    open_store: Opener, tmp_path: Path, sync: CountedSync
) -> None:
    log = open_store(tmp_path).claim(ref_of(), EVERY_ONE)

    async def begin() -> None:
        sync.gate.clear()
        append(log, make_batch(0))
        await asyncio.sleep(0.01)
        append(log, make_batch(1))

    async def go_on() -> None:
        sync.gate.set()
        waiting = append(log, make_batch(2))
        assert waiting is not None
        await asyncio.wait_for(waiting, 10)
        assert log.durability.synced_offset == 3

    asyncio.run(begin())
    asyncio.run(go_on())


@pytest.fixture
def synced_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of files and folders of this test that were synced."""
    paths: set[str] = set()
    real_fsync = os.fsync

    def record(fd: int) -> None:
        real_fsync(fd)
        if is_about(tmp_path, fd):
            paths.add(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))

    monkeypatch.setattr(os, "fsync", record)
    monkeypatch.setattr(SYNC, record)
    return paths


NEW_PARTITION = {
    "data",
    "orders-0",
    "partition.metadata",
    "leader-epoch-checkpoint",
    "00000000000000000000.log",
}


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_the_first_flush_makes_everything_durable_that_makes_up_a_partition(
    open_store: Opener, tmp_path: Path, synced_paths: set[str]
) -> None:
    log = open_store(tmp_path / "data").claim(ref_of(), TopicConfig())
    fill(log, 1)
    synced_paths.clear()
    log.flush()
    assert synced_paths == NEW_PARTITION
    synced_paths.clear()
    fill(log, 1)
    log.flush()
    assert synced_paths == {"00000000000000000000.log"}
    synced_paths.clear()
    log.roll()
    fill(log, 1)
    log.save_snapshot(Snapshot(3, b""))
    log.flush()
    assert synced_paths == {
        "orders-0",
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "00000000000000000002.log",
        "00000000000000000003.snapshot",
    }


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_a_new_claim_syncs_what_the_old_one_did_not(
    open_store: Opener, tmp_path: Path, synced_paths: set[str]
) -> None:
    store = open_store(tmp_path / "data")
    fill(store.claim(ref_of(), TopicConfig()), 1)
    log = store.claim(ref_of(), TopicConfig())
    synced_paths.clear()
    log.flush()
    assert synced_paths == NEW_PARTITION


def test_what_a_kill_left_unsynced_is_on_disk_before_a_flushing_claim_is_given(
    open_store: Opener, tmp_path: Path
) -> None:
    fill(open_store(tmp_path / "killed").claim(ref_of(), TopicConfig()), 3)
    log = open_store(crash_copy(tmp_path / "killed", tmp_path / "data")).claim(ref_of(), EVERY_ONE)
    assert log.end_offset == 3
    assert log.durability.synced_offset == 3
    assert not log.durability.is_dirty()


def test_what_an_ended_claim_left_unsynced_is_on_disk_before_the_next_is_given(
    open_store: Opener, tmp_path: Path, sync: CountedSync
) -> None:
    async def scenario() -> None:
        store = open_store(tmp_path)
        sync.gate.clear()
        waiting = append(store.claim(ref_of(), EVERY_ONE), make_batch(0))
        assert waiting is not None
        threading.Timer(0.2, sync.gate.set).start()
        log = store.claim(ref_of(), EVERY_ONE)
        assert log.durability.synced_offset == log.end_offset == 1
        with pytest.raises(FencedError):
            await waiting

    asyncio.run(scenario())


def test_a_sync_that_fails_at_a_claim_is_remembered(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(open_store(tmp_path / "killed").claim(ref_of(), TopicConfig()), 5)
    store = open_store(crash_copy(tmp_path / "killed", tmp_path / "data"))

    def fail(job: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patch_in(tmp_path, patched, group_commit, "run_sync", fail)
        with pytest.raises(StorageError):
            store.claim(ref_of(), EVERY_ONE)
    written_again: list[str] = []
    monkeypatch.setattr(
        folder_recovery, "rewrite", lambda path, recovery_point: written_again.append(path)
    )
    store.claim(ref_of(), EVERY_ONE)
    assert written_again


def test_a_claim_syncs_what_the_one_before_it_could_not(
    open_store: Opener, tmp_path: Path, sync: CountedSync
) -> None:
    async def scenario() -> None:
        store = open_store(tmp_path)
        log = store.claim(ref_of(), EVERY_ONE)
        sync.fails = True
        waiting = append(log, make_batch(0))
        assert waiting is not None
        with pytest.raises(StorageError):
            await waiting
        sync.fails = False
        log = await claim_checked(store, ref_of(), EVERY_ONE)
        assert not log.durability.is_dirty()

    asyncio.run(scenario())
