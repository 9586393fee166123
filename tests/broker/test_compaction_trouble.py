"""Compaction together with aborted transactions, damage, storage errors and retention."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.compacted import CompactedLog, Producer
from tests.storage.batches import SteppingClock
from tests.storage.conftest import Opener, crash_copy, is_about

from ottla.broker.shard import Shard
from ottla.ports import Buffer, StorageError
from ottla.records.batch import BatchFlag, crc_matches, read_batch, split_batches
from ottla.records.control import MarkerType
from ottla.storage.local import LocalStore, open_local_store

DAY_MS = 86_400_000
SMALL_SEGMENTS = {"segment.bytes": "4000"}


@pytest.fixture
def clock() -> SteppingClock:
    return SteppingClock()


@pytest.fixture
def open_store(clock: SteppingClock) -> Iterator[Opener]:
    opened: list[LocalStore] = []

    def open_one(folder: Path) -> LocalStore:
        opened.append(open_local_store(folder, clock=clock))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


def committed(shard: Shard) -> dict[bytes | None, bytes | None]:
    """The last value of every key as a read_committed reader sees it, who is told what was aborted."""
    values: dict[bytes | None, bytes | None] = {}
    offset = shard.log.start_offset
    while True:
        end_offset = shard.partition.last_stable_offset
        chunk = bytes(shard.read(offset, 300, end_offset))
        if not chunk:
            return values
        spans = list(shard.aborted_in(chunk, offset, end_offset))
        for position, header in split_batches(chunk):
            offset = header.last_offset + 1
            is_aborted = header.is_transactional and any(
                span.producer_id == header.producer_id
                and span.first_offset <= header.base_offset <= span.last_offset
                for span in spans
            )
            if not header.is_control and not is_aborted:
                values |= {found.key: found.value for found in read_batch(chunk, position)}


def test_aborted_records_stay_unseen_wherever_a_cleaning_was_killed(
    open_store: Opener, clock: SteppingClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = CompactedLog(open_store(tmp_path / "live"), clock, SMALL_SEGMENTS)
    for number in range(6):
        producer = Producer(7 + number % 2, number, 0, BatchFlag.TRANSACTIONAL)
        key = b"k%d" % (number % 3)
        log.append((key, b"good%d" % number))
        log.append((key, b"BAD"), (b"other%d" % number, b"BAD"), producer=producer)
        if number % 2:
            log.roll()
        log.append((b"k1", b"v%d" % number))
        log.shard.append_marker(
            MarkerType.ABORT, producer.producer_id, producer.epoch, 0, 1, clock.now_ms()
        )
        if number % 3 == 0:
            log.roll()
    log.roll()
    log.append((b"end", b"1"))
    expected = committed(log.shard)
    assert b"BAD" not in expected.values()
    copies: list[Path] = []
    copying_one = threading.Lock()  # what is flushed is flushed in a thread

    def copying(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            if is_about(tmp_path / "live", arguments[0]):
                with copying_one:
                    copies.append(crash_copy(tmp_path / "live", tmp_path / f"killed-{len(copies)}"))
            return real(*arguments, **keywords)

        return call

    with monkeypatch.context() as patched:
        for name in ("rename", "fsync", "unlink"):
            patched.setattr(os, name, copying(getattr(os, name)))
        assert log.clean()
    assert len(copies) > 20
    for folder in copies:
        found = CompactedLog(open_store(folder), clock, SMALL_SEGMENTS)
        assert committed(found.shard) == expected
        found.clean()
        assert committed(found.shard) == expected


def test_a_log_that_cannot_be_read_does_not_keep_others_from_being_cleaned(
    open_store: Opener, clock: SteppingClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = CompactedLog(open_store(tmp_path), clock)
    good = bad.beside("other")
    for _ in range(3):
        bad.append((b"a", b"x" * 1000))
    bad.roll()
    good.append((b"k", b"1"))
    good.append((b"k", b"2"))
    good.roll()
    real = Shard.read

    def read(self: Shard, offset: int, max_bytes: int, end_offset: int) -> Buffer:
        if self.log.ref.topic == bad.topic:
            raise StorageError("Input/output error")
        return real(self, offset, max_bytes, end_offset)

    monkeypatch.setattr(Shard, "read", read)
    for _ in range(3):
        bad.clean()
    assert good.shard.log.cleaned_offset == 2
    assert bad.shard.log.cleaned_offset is None


def test_damage_does_not_get_a_new_checksum(
    open_store: Opener, clock: SteppingClock, tmp_path: Path
) -> None:
    log = CompactedLog(open_store(tmp_path), clock)
    log.append((b"a", b"old"), (b"b", b"GOOD"))
    log.append((b"a", b"new"))
    log.roll()
    log.append((b"c", b"1"))
    path = min((tmp_path / f"{log.topic}-0").glob("*.log"))
    path.write_bytes(path.read_bytes().replace(b"GOOD", b"BAD!"))
    log.claim_anew()
    log.clean()
    for chunk in log.chunks():
        for position, header in split_batches(chunk):
            values = [record.value for record in read_batch(chunk, position)]
            assert crc_matches(chunk, position, header) == (b"BAD!" not in values)


def test_a_segment_that_compaction_emptied_does_not_keep_old_ones_behind_it(
    open_store: Opener, clock: SteppingClock, tmp_path: Path
) -> None:
    clock.value_ms = int(time.time() * 1000) - 10 * DAY_MS
    options = {"cleanup.policy": "compact,delete", "retention.ms": str(DAY_MS)}
    log = CompactedLog(open_store(tmp_path), clock, {**options, "segment.bytes": "2000"})
    for key in (b"a", b"b", b"a"):
        log.append((key, b"x" * 1500))
        log.roll()
    clock.value_ms += 10 * DAY_MS
    log.append((b"c", b"1"))
    log.clean()
    log.shard.apply_retention(clock.now_ms())
    assert log.shard.log.start_offset == 3
