"""Syncs that nobody waits for: they go in slices, and awaited ones go first."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.storage.batches import SteppingClock, append, fill, make_batch, ref_of
from tests.storage.conftest import Opener, patch_in

from ottla.config.topic import TopicConfig
from ottla.ports import DamagedError, StorageError, monotonic_ms
from ottla.storage.local import LocalStore, LocalStoreOptions
from ottla.storage.local.folder.checkpoint_files import read_offsets
from ottla.storage.local.folder.offsets_file import OffsetsFile
from ottla.storage.local.log.partition_log import EndCause, LocalLog
from ottla.storage.local.sync import group_commit
from ottla.storage.local.sync.group_commit import SyncJob, run_sync

EVERY_ONE = TopicConfig(flush_messages=1)
LOGS = 40


class Disk:
    """Says which partitions are synced in which order; those of the topic `slow` wait at a gate."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.begun: list[str] = []

    def run(self, job: SyncJob) -> float:
        segment, _ = job.segments[0] if job.segments else (None, 0)
        name = "" if segment is None else os.path.basename(os.path.dirname(segment.path))
        self.begun.append(name)
        if name.startswith("slow"):
            assert self.gate.wait(10)
        return run_sync(job)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    made = Disk()
    patch_in(tmp_path, monkeypatch, group_commit, "run_sync", made.run)
    yield made
    made.gate.set()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.002)


def slow_logs(store: LocalStore, count: int = LOGS) -> list[LocalLog]:
    logs = [store.claim(ref_of("slow", partition), TopicConfig()) for partition in range(count)]
    for log in logs:
        fill(log, 1)
    return logs


def test_an_awaited_sync_does_not_wait_for_a_checkpoint(
    open_store: Opener, tmp_path: Path, disk: Disk, clock: SteppingClock
) -> None:
    async def scenario() -> None:
        store = open_store(tmp_path, LocalStoreOptions(checkpoint_interval_ms=1000))
        logs = slow_logs(store)
        awaited = store.claim(ref_of("awaited"), EVERY_ONE)
        clock.value_ms += 1000
        store.tick(monotonic_ms(clock))
        await until(lambda: bool(disk.begun))
        for offset in range(3):
            waiting = append(awaited, make_batch(offset))
            assert waiting is not None
            await asyncio.wait_for(waiting, 10)
        assert [name for name in disk.begun if name.startswith("slow")] == ["slow-0"]
        disk.gate.set()
        path = tmp_path / "recovery-point-offset-checkpoint"
        await until(path.exists)
        assert all(log.durability.synced_offset == 1 for log in logs)
        assert read_offsets(str(path)) == {("slow", n): 1 for n in range(LOGS)} | {
            ("awaited", 0): 3
        }

    asyncio.run(scenario())


def test_a_checkpoint_prepares_one_log_in_a_turn_of_the_loop(
    open_store: Opener, tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.gate.set()

    async def scenario() -> None:
        store = open_store(tmp_path)
        logs = slow_logs(store)
        for log in logs[::2]:
            log.durability.flush_now()  # only its index is left to be written
        turn = 0
        written_in: list[int] = []
        loop = asyncio.get_running_loop()
        write_index = LocalLog.write_index

        def count_turns() -> None:
            nonlocal turn
            turn += 1
            loop.call_soon(count_turns)

        def written(log: LocalLog) -> None:
            if log in logs:  # other stores of this process have checkpoints, too
                written_in.append(turn)
            write_index(log)

        count_turns()
        monkeypatch.setattr(LocalLog, "write_index", written)
        store.checkpoint()
        path = tmp_path / "recovery-point-offset-checkpoint"
        await until(path.exists)
        assert len(set(written_in)) == len(written_in) == LOGS

    asyncio.run(scenario())


def test_timed_flushes_come_before_the_rest_of_a_checkpoint(
    open_store: Opener, tmp_path: Path, disk: Disk, clock: SteppingClock
) -> None:
    async def scenario() -> None:
        store = open_store(tmp_path)
        slow_logs(store)
        timed = store.claim(ref_of("timed"), TopicConfig(flush_ms=500))
        disk.begun.clear()  # what the claim synced
        store.checkpoint()
        append(timed, make_batch(0))
        clock.value_ms += 500
        store.tick(monotonic_ms(clock))
        disk.gate.set()
        await until(lambda: timed.durability.synced_offset == 1)
        await until(lambda: disk.begun[-1] == f"slow-{LOGS - 1}")
        assert disk.begun[:3] == ["slow-0", "timed-0", "slow-1"]

    asyncio.run(scenario())


def test_what_came_during_an_awaited_sync_is_covered_by_a_timed_flush(
    open_store: Opener, tmp_path: Path, disk: Disk, clock: SteppingClock
) -> None:
    async def scenario() -> None:
        store = open_store(tmp_path)
        log = store.claim(ref_of("slow"), TopicConfig(flush_ms=500))
        append(log, make_batch(0))
        first = log.flush()
        await until(lambda: bool(disk.begun))
        append(log, make_batch(1))
        clock.value_ms += 500
        store.tick(monotonic_ms(clock))
        disk.gate.set()
        assert first is not None
        await first
        await until(lambda: log.durability.synced_offset == 2)

    asyncio.run(scenario())


def test_a_store_that_closes_before_a_sync_begins_answers_its_waiters(
    open_store: Opener, tmp_path: Path, disk: Disk
) -> None:
    troubles: list[dict[str, object]] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: troubles.append(context))
        store = open_store(tmp_path)
        good = store.claim(ref_of("good"), EVERY_ONE)
        broken = store.claim(ref_of("broken"), EVERY_ONE)
        durable = append(good, make_batch(0))
        lost = append(broken, make_batch(0))
        assert durable is not None
        assert lost is not None
        broken._end(EndCause.DAMAGED, DamagedError("somebody wrote into it"))
        store.close()
        await asyncio.wait_for(durable, 10)
        with pytest.raises(StorageError, match="somebody wrote into it"):
            await asyncio.wait_for(lost, 10)
        await asyncio.sleep(0)

    asyncio.run(scenario())
    assert troubles == []


def test_a_loop_that_ends_during_a_checkpoint_does_not_stop_the_next(
    open_store: Opener, tmp_path: Path, disk: Disk
) -> None:
    store = open_store(tmp_path)
    logs = slow_logs(store, 3)

    async def begin() -> None:
        store.checkpoint()
        await until(lambda: bool(disk.begun))

    async def again() -> None:
        disk.gate.set()
        store.checkpoint()
        await until(lambda: all(log.durability.synced_offset == 1 for log in logs))

    asyncio.run(begin())
    asyncio.run(again())


def test_the_newest_offsets_stay_in_whatever_order_they_are_written(tmp_path: Path) -> None:
    file = OffsetsFile(str(tmp_path / "offsets"))
    older, newer = file.take({("orders", 0): 1}), file.take({("orders", 0): 2})
    newer()
    older()
    assert read_offsets(str(tmp_path / "offsets")) == {("orders", 0): 2}


def test_offsets_that_are_written_already_cost_no_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = OffsetsFile(str(tmp_path / "offsets"))
    file.take({("orders", 0): 1})()
    os.unlink(tmp_path / "offsets")
    file.take({("orders", 0): 1})()
    assert not (tmp_path / "offsets").exists()
    file.take({})()
    assert read_offsets(str(tmp_path / "offsets")) == {}
