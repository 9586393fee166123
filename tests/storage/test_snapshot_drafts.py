"""Snapshots that nobody waits for: written on a thread, and taken only by the claim that they belong to."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.storage.batches import fill, ref_of
from tests.storage.conftest import Opener, is_about

from ottla.config.topic import TopicConfig
from ottla.core.aborted import AbortedSpan
from ottla.ports import FencedError, SaveTime, Snapshot
from ottla.storage.local.folder import checkpoint_files
from ottla.storage.local.log.partition_log import LocalLog

CONFIG = TopicConfig()


async def drafted(log: LocalLog) -> None:
    for _ in range(1000):
        if not log._snapshot_is_drafted:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the draft is never taken")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.snapshot*"))


def test_what_a_snapshot_relies_on_is_on_disk_before_it(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_store(tmp_path).claim(ref_of(), CONFIG)
    fill(log, 5)
    log.note_aborted(AbortedSpan(7, 0, 3, 4))
    calls: list[tuple[str, str, str]] = []

    def noting(name: str, module: Any) -> Callable[..., Any]:
        real = getattr(module, name)

        def call(path: Any, *others: Any, **named: Any) -> Any:
            if is_about(tmp_path, path) and isinstance(path, str):
                calls.append((name, Path(path).name, threading.current_thread().name))
            return real(path, *others, **named)

        return call

    async def scenario() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(checkpoint_files, "sync_path", noting("sync_path", checkpoint_files))
            patched.setattr(os, "replace", noting("replace", os))
            log.save_snapshot(Snapshot(5, b"five"), SaveTime.SOON)
            await drafted(log)
        assert [name for name, _, _ in calls] == ["sync_path", "sync_path", "replace", "replace"]
        assert calls[2][1] == "transaction-index-checkpoint.tmp"
        assert {path for _, path, _ in calls[:2]} == {f"{0:020d}.txnindex", "orders-0"}
        assert all(thread.startswith("ottla-background") for _, _, thread in calls[:2])
        assert list(log.snapshots()) == [(5, b"five")]
        assert names(tmp_path / "orders-0") == [f"{5:020d}.snapshot"]
        # What was synced once is not synced again.
        calls.clear()
        log.save_snapshot(Snapshot(5, b"again"))
        assert not calls

    asyncio.run(scenario())


def test_of_the_snapshots_that_wait_only_the_newest_is_written(
    open_store: Opener, tmp_path: Path
) -> None:
    log = open_store(tmp_path).claim(ref_of(), CONFIG)
    fill(log, 6)

    async def scenario() -> None:
        saved = [
            log.save_snapshot(Snapshot(offset, b"%d" % offset), SaveTime.SOON)
            for offset in (3, 4, 5)
        ]
        await asyncio.gather(*(one for one in saved if one is not None))
        assert list(log.snapshots()) == [(5, b"5"), (3, b"3")]
        waiting = [log.save_snapshot(Snapshot(6, b"6"), SaveTime.SOON) for _ in range(2)][1]
        assert waiting is not None
        log.fence()
        with pytest.raises(FencedError):
            await waiting

    asyncio.run(scenario())


def test_a_claim_that_is_over_leaves_no_snapshot_to_the_next(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    log = store.claim(ref_of(), CONFIG)
    fill(log, 5)
    log.note_aborted(AbortedSpan(7, 0, 3, 4))
    may_go_on = threading.Event()
    real = checkpoint_files.sync_path

    def sync_path(path: str) -> None:
        assert may_go_on.wait(30)
        real(path)

    async def scenario() -> None:
        monkeypatch.setattr(
            "ottla.storage.local.log.snapshots.checkpoint_files.sync_path", sync_path
        )
        log.save_snapshot(Snapshot(5, b"five"), SaveTime.SOON)
        again = store.claim(ref_of(), CONFIG)
        may_go_on.set()
        await drafted(log)
        assert list(again.snapshots()) == []
        assert names(tmp_path / "orders-0") == []

    asyncio.run(scenario())


def test_a_snapshot_is_not_saved_if_what_it_relies_on_may_be_lost(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_store(tmp_path).claim(ref_of(), CONFIG)
    fill(log, 5)
    log.note_aborted(AbortedSpan(7, 0, 3, 4))

    def sync_path(path: str) -> None:
        raise OSError(5, "Input/output error")

    async def scenario() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(checkpoint_files, "sync_path", sync_path)
            log.save_snapshot(Snapshot(5, b"five"), SaveTime.SOON)
            await drafted(log)
        assert names(tmp_path / "orders-0") == []
        assert not log.is_open, "as after every sync that failed"

    asyncio.run(scenario())


def test_no_room_for_a_snapshot_costs_nothing_else(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_store(tmp_path).claim(ref_of(), CONFIG)
    fill(log, 5)

    def write_all(fd: int, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    async def scenario() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(checkpoint_files, "write_all", write_all)
            log.save_snapshot(Snapshot(5, b"five"), SaveTime.SOON)
            await drafted(log)
        assert log.is_open
        log.save_snapshot(Snapshot(5, b"five"), SaveTime.SOON)
        await drafted(log)
        assert names(tmp_path / "orders-0") == [f"{5:020d}.snapshot"]

    asyncio.run(scenario())
