"""A clean stop of a store: what it syncs, how often, and what it says meanwhile."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import Counter
from pathlib import Path

import pytest
from tests.storage.batches import append, fill, make_batch, ref_of
from tests.storage.conftest import Opener, is_about, patch_in

from ottla.config.topic import TopicConfig
from ottla.ports import SaveTime, Snapshot, StorageError
from ottla.storage.local.sync import closing_sync as closing
from ottla.storage.local.sync.group_commit import SyncJob, run_sync

SYNC = "ottla.storage.local.sync.group_commit._sync_data"
LOGS = 12


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_what_many_logs_have_in_common_is_synced_once(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: Counter[str] = Counter()
    threads: Counter[str] = Counter()
    real_fsync = os.fsync

    def record(fd: int) -> None:
        if is_about(tmp_path, fd):
            path = os.readlink(f"/proc/self/fd/{fd}")
            synced[os.path.relpath(path, tmp_path)] += 1
            threads[threading.current_thread().name.rpartition("_")[0]] += 1
        real_fsync(fd)

    store = open_store(tmp_path / "data")
    logs = [store.claim(ref_of(partition=number), TopicConfig()) for number in range(LOGS)]
    for log in logs:
        fill(log, 2)
        log.save_snapshot(Snapshot(2, b"state"), SaveTime.AT_CLOSE)
    monkeypatch.setattr(os, "fsync", record)
    monkeypatch.setattr(SYNC, record)
    store.close()
    for number in range(LOGS):
        for name in ("", "/partition.metadata", "/leader-epoch-checkpoint", f"/{0:020d}.log"):
            assert synced[f"data/orders-{number}{name}"] == 1
        assert synced[f"data/orders-{number}/{2:020d}.snapshot"] == 1
    # Once for the partitions, and with each file that the stop itself leaves.
    assert synced["data"] <= 4
    assert threads["ottla-storage"] == 5 * LOGS
    again = open_store(tmp_path / "data").claim(ref_of(), TopicConfig())
    assert list(again.snapshots()) == [Snapshot(2, b"state")]


def test_a_folder_that_cannot_be_synced_is_not_left_as_clean(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path / "data")
    fill(store.claim(ref_of(), TopicConfig()), 1)
    real_fsync = os.fsync

    def fail(fd: int) -> None:
        if os.path.realpath(f"/proc/self/fd/{fd}") == str(tmp_path / "data"):
            raise OSError(5, "Input/output error")
        real_fsync(fd)

    with monkeypatch.context() as patched:
        patch_in(tmp_path, patched, os, "fsync", fail)
        with pytest.raises(StorageError, match="Input/output error"):
            store.close()
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    assert open_store(tmp_path / "data").claim(ref_of(), TopicConfig()).end_offset == 1


def test_a_stop_says_that_it_waits_for_the_disk(
    open_store: Opener,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate = threading.Event()

    def run(job: SyncJob) -> float:
        assert gate.wait(10)
        return run_sync(job)

    store = open_store(tmp_path)
    for number in range(3):
        fill(store.claim(ref_of(partition=number), TopicConfig()), 1)
    patch_in(tmp_path, monkeypatch, closing, "run_sync", run)
    monkeypatch.setattr(closing, "_LOG_SECONDS", 0.02)
    threading.Timer(0.1, gate.set).start()
    with caplog.at_level(logging.DEBUG, "ottla"):
        store.close()
    assert "bringing 3 partition(s) to the disk" in caplog.text
    assert "3 of 3 partition(s) are left" in caplog.text


def test_a_store_that_closes_during_a_checkpoint_leaves_nothing_behind(
    open_store: Opener, tmp_path: Path
) -> None:
    troubles: list[dict[str, object]] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, context: troubles.append(context))
        store = open_store(tmp_path)
        for number in range(5):
            append(store.claim(ref_of(partition=number), TopicConfig()), make_batch(0))
        store.checkpoint()
        await asyncio.sleep(0)
        store.close()
        for _ in range(20):
            await asyncio.sleep(0.001)

    asyncio.run(scenario())
    assert troubles == []
    assert (tmp_path / ".kafka_cleanshutdown").exists()
