"""The memory engine is bounded, and says so."""

from __future__ import annotations

import pytest
from tests.storage.batches import SteppingClock, append, fill, joined, make_batch, read_all, ref_of

from ottla.config.topic import TopicConfig
from ottla.ports import Snapshot, StorageError
from ottla.storage.memory import MemoryStore

CONFIG = TopicConfig()


def test_an_append_that_does_not_fit_is_refused_and_loses_nothing() -> None:
    store = MemoryStore(clock=SteppingClock(), max_bytes=10_000)
    log = store.claim(ref_of(), CONFIG)
    batches = fill(log, 20)
    with pytest.raises(StorageError, match=r"raise ottla\.ephemeral\.max\.bytes"):
        append(log, make_batch(20, body=b"x" * 9000))
    assert read_all(log) == joined(batches)
    fill(log, 5)


def test_trimming_and_deleting_make_room() -> None:
    store = MemoryStore(clock=SteppingClock(), max_bytes=10_000)
    first = store.claim(ref_of(partition=0), CONFIG)
    second = store.claim(ref_of(partition=1), CONFIG)
    for _ in range(20):
        append(first, make_batch(first.end_offset, body=b"x" * 5000))
        first.roll()
        first.trim(first.end_offset)
        second.save_snapshot(Snapshot(0, b"x" * 4000))
    append(first, make_batch(first.end_offset, body=b"x" * 5000))
    with pytest.raises(StorageError):
        append(second, make_batch(0, body=b"x" * 5000))
    store.delete(ref_of(partition=0))
    append(second, make_batch(0, body=b"x" * 5000))
    store.delete(ref_of(partition=1))
    (folder,) = store.log_dirs()
    assert folder.usable_bytes == folder.total_bytes == 10_000


def test_a_closed_store_refuses_everything() -> None:
    store = MemoryStore(clock=SteppingClock())
    log = store.claim(ref_of(), CONFIG)
    store.close()
    with pytest.raises(StorageError, match="closed"):
        store.claim(ref_of(), CONFIG)
    with pytest.raises(StorageError, match="closed"):
        append(log, make_batch(0))
