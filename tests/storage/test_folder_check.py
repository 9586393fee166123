"""A partition whose files have to be checked is checked on a thread, where a loop is running."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.storage.batches import fill, joined, read_all, ref_of
from tests.storage.conftest import Opener, claim_checked

from ottla.config.topic import TopicConfig
from ottla.ports import BeingCheckedError, DamagedError
from ottla.storage.local import recovery

CONFIG = TopicConfig(index_interval_bytes=250)


def segment(folder: Path, suffix: str = ".log") -> Path:
    return folder / "orders-0" / f"{0:020d}{suffix}"


def hold(patch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets checks wait until what is returned is called."""
    may_go_on = threading.Event()
    real = recovery.recover

    def recover(*arguments: Any) -> int:
        assert may_go_on.wait(30)
        return real(*arguments)

    patch.setattr(recovery, "recover", recover)
    return may_go_on.set


def test_damage_is_found_on_a_thread_and_says_of_which_files_it_was(
    open_store: Opener, tmp_path: Path
) -> None:
    store = open_store(tmp_path)
    fill(store.claim(ref_of(), CONFIG), 100)
    store.close()
    good = segment(tmp_path).read_bytes()
    os.truncate(segment(tmp_path), 9_950)
    store = open_store(tmp_path)

    async def scenario() -> None:
        with pytest.raises(DamagedError, match="everything below offset 100 was on disk") as damage:
            await claim_checked(store, ref_of(), CONFIG)
        assert damage.value.fingerprint == store.fingerprint(ref_of())
        segment(tmp_path).write_bytes(good)
        assert damage.value.fingerprint != store.fingerprint(ref_of())
        log = await claim_checked(store, ref_of(), CONFIG)
        assert read_all(log) == good

    asyncio.run(scenario())


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
        go_on = hold(monkeypatch)
        with pytest.raises(BeingCheckedError) as checked:
            store.claim(ref_of(), CONFIG)
        store.delete(ref_of())
        with pytest.raises(BeingCheckedError):
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
        go_on = hold(monkeypatch)
        with pytest.raises(BeingCheckedError):
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
