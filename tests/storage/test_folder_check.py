"""A partition whose files have to be checked is checked on a thread, where a loop is running."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.storage.batches import Batch, append, fill, joined, make_batch, read_all, ref_of
from tests.storage.conftest import Opener, claim_checked, patch_in

from ottla.config.topic import TopicConfig
from ottla.ports import ClaimPendingError, DamagedError, PartitionRef, StorageError
from ottla.storage.local.log import partition_log
from ottla.storage.local.log.partition_log import LocalLog
from ottla.storage.local.recovery import folder_check, folder_recovery, scan
from ottla.storage.local.store import LocalStore

CONFIG = TopicConfig(index_interval_bytes=250)


def segment(folder: Path, suffix: str = ".log") -> Path:
    return folder / "orders-0" / f"{0:020d}{suffix}"


def hold(folder: Path, patch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets checks wait until what is returned is called."""
    may_go_on = threading.Event()
    real = folder_recovery.recover

    def recover(*arguments: Any) -> int:
        assert may_go_on.wait(30)
        return real(*arguments)

    patch_in(folder, patch, folder_recovery, "recover", recover)
    return may_go_on.set


def test_damage_is_found_on_a_thread_and_not_looked_for_again_in_the_same_files(
    open_store: Opener, tmp_path: Path
) -> None:
    store = open_store(tmp_path)
    fill(store.claim(ref_of(), CONFIG), 100)
    store.close()
    good = segment(tmp_path).read_bytes()
    os.truncate(segment(tmp_path), 9_950)
    store = open_store(tmp_path)

    async def scenario() -> None:
        with pytest.raises(DamagedError, match="everything below offset 100 was on disk"):
            await claim_checked(store, ref_of(), CONFIG)
        with pytest.raises(DamagedError, match="everything below offset 100 was on disk"):
            store.claim(ref_of(), CONFIG)  # without a check: the files are the same
        segment(tmp_path).write_bytes(good)
        log = await claim_checked(store, ref_of(), CONFIG)
        assert read_all(log) == good

    asyncio.run(scenario())


def test_a_condemned_partition_is_claimed_when_its_files_are_others(
    open_store: Opener, tmp_path: Path
) -> None:
    store = open_store(tmp_path)
    log = store.claim(ref_of(), CONFIG)
    batches = fill(log, 3)
    store.condemn(ref_of(), DamagedError("the caller found nonsense"))
    with pytest.raises(DamagedError, match="the caller found nonsense"):
        store.claim(ref_of(), CONFIG)
    fill(log, 1)
    os.utime(segment(tmp_path), ns=(1, 1))
    assert read_all(store.claim(ref_of(), CONFIG))[: len(joined(batches))] == joined(batches)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_the_index_of_a_large_segment_is_rebuilt_on_a_thread(
    open_store: Opener, tmp_path: Path, suffix: str
) -> None:
    store = open_store(tmp_path)
    batches = fill(store.claim(ref_of(), CONFIG), 3000)
    store.close()
    segment(tmp_path, suffix).write_bytes(b"\xff" * 24)
    store = open_store(tmp_path)

    async def scenario() -> None:
        log = await claim_checked(store, ref_of(), CONFIG)
        assert read_all(log) == joined(batches)
        assert log.batch_at_timestamp(batches[-1].extent.max_timestamp_ms, 0) is not None

    asyncio.run(scenario())


def test_a_topic_that_takes_the_name_of_one_that_is_being_checked_is_not_touched_by_that(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    fill(store.claim(ref_of(), CONFIG), 100)
    store.close()
    os.truncate(segment(tmp_path), 9_950)
    store = open_store(tmp_path)
    other = ref_of(number=2)

    async def scenario() -> None:
        go_on = hold(tmp_path, monkeypatch)
        with pytest.raises(ClaimPendingError) as checked:
            store.claim(ref_of(), CONFIG)
        store.delete(ref_of())
        with pytest.raises(ClaimPendingError):
            store.claim(other, CONFIG)
        go_on()
        await asyncio.wait_for(checked.value.done, 30)
        log = store.claim(other, CONFIG)
        assert (log.start_offset, log.end_offset) == (0, 0)
        batches = fill(log, 3)
        assert read_all(log) == joined(batches)

    asyncio.run(scenario())


def test_a_store_closes_although_a_check_goes_on(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    batches = fill(store.claim(ref_of(), CONFIG), 100)
    store.close()
    segment(tmp_path, ".index").unlink()
    os.truncate(segment(tmp_path), 9_950)
    store = open_store(tmp_path)

    async def scenario() -> None:
        go_on = hold(tmp_path, monkeypatch)
        with pytest.raises(ClaimPendingError):
            store.claim(ref_of(), CONFIG)
        asyncio.get_running_loop().run_in_executor(None, go_on)
        store.close()

    asyncio.run(scenario())
    monkeypatch.undo()
    # The next start looks again, because nobody knows what the check would have found.
    store = open_store(tmp_path)
    with pytest.raises(DamagedError):
        store.claim(ref_of(), CONFIG)
    segment(tmp_path).write_bytes(joined(batches))
    assert read_all(store.claim(ref_of(), CONFIG)) == joined(batches)


async def claim_patiently(store: LocalStore, ref: PartitionRef, config: TopicConfig) -> LocalLog:
    """Claims a partition, however often that has to wait for a thread."""
    while True:
        try:
            return store.claim(ref, config)
        except ClaimPendingError as error:
            await asyncio.wait_for(error.done, 30)


def fill_sealed(open_store: Opener, folder: Path, timestamp_ms: int | None = None) -> list[Batch]:
    """A large sealed segment and a small active one, after a clean stop."""
    store = open_store(folder)
    log = store.claim(ref_of(), CONFIG)
    made: list[Batch] = []
    for part_count in (3000, 3):
        if timestamp_ms is None:
            made += fill(log, part_count)
        else:
            for _ in range(part_count):
                batch = make_batch(log.end_offset, timestamp_ms=timestamp_ms, epoch=log.epoch)
                append(log, batch)
                made.append(batch)
        log.roll()
    store.close()
    return made


def build_on_threads_only(folder: Path, patch: pytest.MonkeyPatch) -> list[str]:
    """Lets nobody build an index on the loop; answers what is built."""
    built: list[str] = []

    def build(path: str, *arguments: Any) -> Any:
        assert threading.current_thread() is not threading.main_thread()
        built.append(path)
        return scan.build_index(path, *arguments)

    patch_in(folder, patch, partition_log, "build_index", build)
    patch_in(folder, patch, folder_check, "build_index", build)
    return built


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_missing_indexes_of_sealed_segments_are_built_on_a_thread(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    batches = fill_sealed(open_store, tmp_path)
    good = segment(tmp_path, suffix).read_bytes()
    segment(tmp_path, suffix).unlink()
    store = open_store(tmp_path)
    built = build_on_threads_only(tmp_path, monkeypatch)

    async def scenario() -> None:
        with pytest.raises(ClaimPendingError):
            store.claim(ref_of(), CONFIG)
        log = await claim_patiently(store, ref_of(), CONFIG)
        assert built == [str(segment(tmp_path))]
        assert segment(tmp_path, suffix).read_bytes() == good
        assert read_all(log) == joined(batches)
        found = log.batch_at_timestamp(batches[2000].extent.max_timestamp_ms, 0)
        assert found is not None
        assert bytes(found) == batches[2000].data

    asyncio.run(scenario())


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_that_turns_out_to_be_wrong_ends_the_claim_and_is_built_by_the_next(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    batches = fill_sealed(open_store, tmp_path)
    good = segment(tmp_path, suffix).read_bytes()
    segment(tmp_path, suffix).write_bytes(b"\xff" * 24)
    store = open_store(tmp_path)
    built = build_on_threads_only(tmp_path, monkeypatch)

    async def scenario() -> None:
        log = store.claim(ref_of(), CONFIG)
        with pytest.raises(StorageError, match="of no use"):
            log.read(0, 1000, log.end_offset)
        assert not log.is_open
        log = await claim_patiently(store, ref_of(), CONFIG)
        assert built == [str(segment(tmp_path))]
        assert segment(tmp_path, suffix).read_bytes() == good
        assert read_all(log) == joined(batches)

    asyncio.run(scenario())


def test_a_segment_without_any_timestamp_has_a_good_index(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = fill_sealed(open_store, tmp_path, timestamp_ms=-1)
    assert segment(tmp_path, ".timeindex").read_bytes() == b""
    store = open_store(tmp_path)
    built = build_on_threads_only(tmp_path, monkeypatch)

    async def scenario() -> None:
        log = await claim_patiently(store, ref_of(), CONFIG)
        assert read_all(log) == joined(batches)
        assert log.batch_at_timestamp(5, 0) is None
        assert not built

    asyncio.run(scenario())


def test_an_empty_time_index_of_a_segment_with_timestamps_is_no_good(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = fill_sealed(open_store, tmp_path)
    segment(tmp_path, ".timeindex").write_bytes(b"")
    store = open_store(tmp_path)
    build_on_threads_only(tmp_path, monkeypatch)

    async def scenario() -> None:
        log = store.claim(ref_of(), CONFIG)
        with pytest.raises(StorageError, match="the time index is empty"):
            log.batch_at_timestamp(batches[2000].extent.max_timestamp_ms, 0)
        log = await claim_patiently(store, ref_of(), CONFIG)
        found = log.batch_at_timestamp(batches[2000].extent.max_timestamp_ms, 0)
        assert found is not None
        assert bytes(found) == batches[2000].data

    asyncio.run(scenario())
