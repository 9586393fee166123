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

from ottla.broker.partitions.shard import Shard
from ottla.ports import Buffer, StorageError
from ottla.records.batch import BatchFlag, crc_matches, read_batch, split_batches
from ottla.records.control import MarkerType, build_marker_batch
from ottla.storage.local import LocalStore, open_local_store
from ottla.storage.local.log.partition_log import LocalLog

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
    real = LocalLog.scan

    def scan(self: LocalLog, offset: int, max_bytes: int, end_offset: int) -> Buffer:
        if self.ref.topic == bad.topic:
            raise StorageError("Input/output error")
        return real(self, offset, max_bytes, end_offset)

    monkeypatch.setattr(LocalLog, "scan", scan)
    shard = bad.shard
    for _ in range(3):
        bad.clean()
    assert good.shard.log.cleaned_offset == 2
    assert bad.shard.log.cleaned_offset is None
    assert bad.shard is shard, "nobody but the cleaner was in trouble"


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


def damage(log: CompactedLog, folder: Path, number: int, good: bytes, bad: bytes) -> None:
    """Changes bytes of a segment file, beside whoever has it open."""
    path = sorted((folder / f"{log.topic}-0").glob("*.log"))[number]
    found = path.read_bytes()
    assert found.count(good) == 1
    assert len(good) == len(bad)
    with path.open("r+b") as file:
        file.seek(found.index(good))
        file.write(bad)


def uncleanable(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if getattr(record, "event", "") == "partition_uncleanable"
    ]


def test_a_damaged_log_is_not_cleaned_any_more_and_serves_on(
    open_store: Opener, clock: SteppingClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = CompactedLog(open_store(tmp_path), clock)
    other = log.beside("other")
    log.append((b"a", b"old"), (b"b", b"GOOD"))
    log.append((b"a", b"x" * 1000))
    log.roll()
    other.append((b"k", b"1"))
    other.append((b"k", b"2"))
    other.roll()
    damage(log, tmp_path, 0, b"GOOD", b"GOOE")
    shard, epoch = log.shard, log.shard.log.epoch
    for _ in range(5):
        log.clean()
        clock.value_ms += 60_000
        assert log.shard is shard
        assert shard.log.epoch == epoch
    assert other.shard.log.cleaned_offset == 2
    assert list(log.node.partitions.uncleanable) == [shard.log.ref]
    assert len(uncleanable(caplog)) == 1
    log.append((b"c", b"1"))
    assert len(log.records()) == 4
    # Whoever has it next looks once more: it may have been mended.
    damage(log, tmp_path, 0, b"GOOE", b"GOOD")
    log.claim_anew()
    assert log.clean()
    assert [record.value for record in log.records()] == [b"GOOD", b"x" * 1000, b"1"]


def test_a_broken_header_that_only_the_cleaner_meets_does_not_end_the_claim(
    open_store: Opener, clock: SteppingClock, tmp_path: Path
) -> None:
    log = CompactedLog(open_store(tmp_path), clock)
    log.append((b"a", b"old"))
    second = log.shard.log.size_bytes
    log.append((b"a", b"new"))
    log.append((b"b", b"1"))
    log.roll()
    path = min((tmp_path / f"{log.topic}-0").glob("*.log"))
    with path.open("r+b") as file:
        file.seek(second + 8)
        file.write(bytes(4))  # the length of a batch
    shard = log.shard
    for _ in range(2):
        log.clean()
    assert log.shard is shard
    assert shard.log.is_open
    assert list(log.node.partitions.uncleanable) == [shard.log.ref]


@pytest.mark.parametrize(
    ("good", "bad"), [(b"key-a", b"key-b"), (b"\x00\x00\x00\x01", b"\x00\x00\x00\x00")]
)
def test_damage_in_a_late_segment_takes_no_records_from_earlier_ones(
    open_store: Opener, clock: SteppingClock, tmp_path: Path, good: bytes, bad: bytes
) -> None:
    """A key that became another one, or a commit that became an abort, would say that they may go."""
    log = CompactedLog(open_store(tmp_path), clock, {"segment.bytes": "200"})
    producer = Producer(7, 0, 0, BatchFlag.TRANSACTIONAL)
    log.append((b"key-b", b"in a transaction"), producer=producer)
    log.roll()
    log.append((b"key-b" if good == b"key-a" else b"key-c", b"alone"))
    log.roll()
    marker = build_marker_batch(
        MarkerType.COMMIT,
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=0,
        base_offset=2,
    )
    log.append_batch(marker)
    log.roll()
    log.append((b"key-a", b"late"))
    log.roll()
    expected = log.records()
    if good == b"key-a":
        damage(log, tmp_path, 3, good, bad)
    else:
        path = sorted((tmp_path / f"{log.topic}-0").glob("*.log"))[2]
        data = path.read_bytes()
        at = data.index(good, 61)  # the marker's key: version and type
        path.write_bytes(data[:at] + bad + data[at + 4 :])
    log.claim_anew()
    for _ in range(3):
        log.clean()
    assert [record.offset for record in log.records()] == [record.offset for record in expected]


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
