"""Compaction of a partition: what stays, what goes, and when."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.compacted import RETENTION_MS, CompactedLog, Producer, pairs
from tests.storage.batches import SteppingClock

from ottla.ports import LogStore
from ottla.records import batch as batches
from ottla.records import compression, kernel
from ottla.records.batch import (
    RECORDS_AT_ONCE,
    BatchFlag,
    TimestampType,
    build_batch,
    read_batch,
    split_batches,
)
from ottla.records.compression import Codec
from ottla.records.control import MarkerType
from ottla.records.record import Record
from ottla.storage.local import open_local_store
from ottla.storage.memory import MemoryStore

A, B, C = b"a", b"b", b"c"


@pytest.fixture
def clock() -> SteppingClock:
    return SteppingClock()


@pytest.fixture(params=["memory", "local"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: SteppingClock
) -> Iterator[LogStore]:
    opened: LogStore = (
        MemoryStore(clock=clock)
        if request.param == "memory"
        else open_local_store(tmp_path / "data", clock=clock)
    )
    yield opened
    opened.close()


@pytest.fixture
def log(store: LogStore, clock: SteppingClock) -> CompactedLog:
    return CompactedLog(store, clock)


def test_the_last_record_of_each_key_stays_where_it_was(log: CompactedLog) -> None:
    log.append((A, b"1"), (B, b"1"), (A, b"2"))
    log.append((B, b"2"))
    log.append((C, b"1"), (A, b"3"))
    log.roll()
    assert log.clean()
    assert pairs(log.records()) == [(3, B, b"2"), (4, C, b"1"), (5, A, b"3")]
    assert (log.shard.log.start_offset, log.shard.log.end_offset) == (0, 6)
    assert log.shard.log.cleaned_offset == 6
    assert not log.clean(), "nothing is dirty now"


def test_the_active_segment_is_left_alone(log: CompactedLog) -> None:
    log.append((A, b"1"))
    log.append((A, b"2"))
    assert not log.clean()
    log.roll()
    log.append((A, b"3"))
    log.append((A, b"4"))
    assert log.clean()
    assert pairs(log.records()) == [(1, A, b"2"), (2, A, b"3"), (3, A, b"4")]


def test_what_is_cleaned_again_loses_to_what_came_later(log: CompactedLog) -> None:
    log.append((A, b"1"), (B, b"1"))
    log.clean_all()
    log.append((A, b"2"))
    log.clean_all()
    assert pairs(log.records()) == [(1, B, b"1"), (2, A, b"2")]
    assert len(log.shard.log.segments()) == 2, "small segments are joined"


def test_a_tombstone_stays_for_delete_retention_ms_after_it_was_first_clean(
    log: CompactedLog, clock: SteppingClock
) -> None:
    log.append((A, b"1"), (B, b"1"))
    log.append((A, None))
    clock.value_ms += 10 * RETENTION_MS  # its age alone does not matter
    log.clean_all()
    assert pairs(log.records()) == [(1, B, b"1"), (2, A, None)]
    (marked,) = [header for header in log.headers() if header.has_delete_horizon]
    assert marked.base_timestamp == clock.value_ms + RETENTION_MS
    clock.value_ms += RETENTION_MS - 1
    log.append((C, b"1"))
    log.clean_all()
    assert (2, A, None) in pairs(log.records())
    clock.value_ms += 1
    log.append((C, b"2"))
    log.clean_all()
    assert pairs(log.records()) == [(1, B, b"1"), (4, C, b"2")]


def test_a_horizon_keeps_timestamps_and_headers(log: CompactedLog, clock: SteppingClock) -> None:
    made = log.append((A, None), (B, b"1"), codec=Codec.ZSTD)
    log.clean_all()
    assert log.records() == made
    (header,) = log.headers()
    assert header.has_delete_horizon
    assert header.codec is Codec.ZSTD
    assert header.max_timestamp == made[-1].timestamp


@pytest.mark.parametrize("codec", list(Codec))
def test_compressed_batches_stay_compressed(log: CompactedLog, codec: Codec) -> None:
    made = log.append(*((b"%d" % (n % 7), b"v" * 50) for n in range(50)), codec=codec)
    log.append((b"0", b"new"))
    log.clean_all()
    assert log.records()[:-1] == [record for record in made[43:] if record.key != b"0"]
    assert log.headers()[0].codec is codec
    assert (log.headers()[0].base_offset, log.headers()[0].last_offset) == (0, 49)


def test_append_time_stays_append_time(log: CompactedLog) -> None:
    records = [Record(0, 5, A, b"1"), Record(1, 5, A, b"2"), Record(2, 5, B, None)]
    log.append_batch(
        build_batch(records, timestamp_type=TimestampType.LOG_APPEND_TIME, append_time_ms=777)
    )
    log.clean_all()
    (chunk,) = log.chunks()
    ((_, header),) = split_batches(chunk)
    assert (header.timestamp_type, header.max_timestamp) == (TimestampType.LOG_APPEND_TIME, 777)
    assert [record.timestamp for record in read_batch(chunk, 0)] == [777, 777]


def test_records_without_a_key_go(log: CompactedLog) -> None:
    """They can only be from before the topic was compacted; Kafka drops them as well."""
    log.append((None, b"x"), (A, b"1"))
    log.append((None, b"y"))
    log.append((B, b"1"))
    log.clean_all()
    assert pairs(log.records()) == [(1, A, b"1"), (3, B, b"1")]


def test_recent_records_are_left_alone(store: LogStore, clock: SteppingClock) -> None:
    log = CompactedLog(store, clock, {"min.compaction.lag.ms": "5000"})
    log.append((A, b"1"), (A, b"2"))
    log.roll()
    clock.value_ms += 4000
    log.append((B, b"1"), (B, b"2"))
    log.roll()
    assert not log.clean()
    clock.value_ms += 1001
    assert log.clean()
    assert pairs(log.records()) == [(1, A, b"2"), (2, B, b"1"), (3, B, b"2")]


def test_a_log_is_cleaned_when_it_is_dirty_enough_or_dirty_for_too_long(
    store: LogStore, clock: SteppingClock
) -> None:
    options = {"min.cleanable.dirty.ratio": "0.9", "max.compaction.lag.ms": "5000"}
    log = CompactedLog(store, clock, options)
    log.append(*((b"%d" % number, b"v") for number in range(50)))
    log.roll()
    assert log.clean()
    log.append((A, b"1"), (A, b"2"))
    log.roll()
    clock.value_ms += 5000
    assert not log.clean()
    clock.value_ms += 2
    assert log.clean()
    assert (50, A, b"1") not in pairs(log.records())


def test_the_dirtiest_log_comes_first(log: CompactedLog) -> None:
    log.append((A, b"1"), (A, b"2"))
    log.clean_all()
    log.append((A, b"3"))
    log.roll()
    zebra = log.beside("zebra")
    zebra.append((A, b"1"), (A, b"2"))
    zebra.roll()
    assert log.clean()
    assert zebra.shard.log.cleaned_offset == 2
    assert log.shard.log.cleaned_offset == 2
    assert log.clean()
    assert log.shard.log.cleaned_offset == 3


def test_when_the_keys_do_not_fit_a_log_is_cleaned_in_turns(
    store: LogStore, clock: SteppingClock
) -> None:
    log = CompactedLog(store, clock, log_cleaner_dedupe_buffer_size=800)
    for turn in range(3):
        log.append(*((b"%d" % key, b"%d" % turn) for key in range(20)))
        log.roll()
    turns = 0
    while log.clean():
        turns += 1
        assert {key: value for _, key, value in pairs(log.records())} == {
            b"%d" % key: b"2" for key in range(20)
        }
    assert turns > 5
    assert [offset for offset, _, _ in pairs(log.records())] == list(range(40, 60))


def test_nothing_of_an_open_transaction_or_behind_it_is_cleaned(log: CompactedLog) -> None:
    producer = Producer(7, 0, 0, BatchFlag.TRANSACTIONAL)
    log.append((A, b"1"), (A, b"2"))
    log.roll()
    log.append((A, b"3"), producer=producer)
    log.append((B, b"1"), (B, b"2"))
    log.roll()
    assert log.clean()
    assert pairs(log.records()) == [(1, A, b"2"), (2, A, b"3"), (3, B, b"1"), (4, B, b"2")]
    assert not log.clean()
    log.end_transaction(producer, MarkerType.COMMIT)
    log.clean_all()
    assert pairs(log.records()) == [(2, A, b"3"), (4, B, b"2")]


def test_aborted_records_go_and_hide_nothing(log: CompactedLog) -> None:
    producer = Producer(7, 0, 0, BatchFlag.TRANSACTIONAL)
    log.append((A, b"1"))
    log.append((A, b"wrong"), (B, b"wrong"), producer=producer)
    log.roll()
    log.append((C, b"1"))
    log.roll()
    marker = log.end_transaction(producer, MarkerType.ABORT)
    log.clean_all()
    assert pairs(log.records()) == [(0, A, b"1"), (3, C, b"1")]
    # The producer's last batch stays, emptied, and with it the marker that ends it.
    emptied = next(header for header in log.headers() if header.base_offset == 1)
    assert (emptied.last_offset, emptied.record_count, emptied.base_sequence) == (2, 0, 0)
    assert any(header.base_offset == marker for header in log.headers())
    assert log.replayed().producers.first_open_offset is None


def test_a_marker_stays_until_its_data_is_gone_and_the_horizon_has_passed(
    log: CompactedLog, clock: SteppingClock
) -> None:
    first = Producer(7, 0, 0, BatchFlag.TRANSACTIONAL)
    log.append((A, b"1"), producer=first)
    marker = log.end_transaction(first, MarkerType.COMMIT)
    # A later transaction of the same producer, so that its last batch is another one.
    second = first._replace(sequence=1)
    log.append((B, b"1"), producer=second)
    log.end_transaction(second, MarkerType.COMMIT)

    def marker_of_first() -> bool:
        return any(header.base_offset == marker for header in log.headers())

    def clean_more() -> None:
        log.append((C, b"%d" % clock.value_ms))
        log.clean_all()

    clean_more()
    assert marker_of_first()
    log.append((A, b"2"))
    clean_more()  # takes the data
    assert (0, A, b"1") not in pairs(log.records())
    assert marker_of_first()
    clock.value_ms += 5 * RETENTION_MS
    clean_more()  # finds the transaction empty: its time begins
    assert marker_of_first()
    clock.value_ms += RETENTION_MS - 1
    clean_more()
    assert marker_of_first()
    clock.value_ms += 1
    clean_more()
    assert not marker_of_first()


def test_the_last_batch_of_a_producer_keeps_its_sequence(log: CompactedLog) -> None:
    producer = Producer(9, 3, 0)
    log.append((A, b"1"), (A, b"2"), producer=producer)
    log.append((A, b"3"), producer=producer._replace(sequence=2))
    log.append((A, b"4"))
    log.clean_all()
    assert pairs(log.records()) == [(3, A, b"4")]
    state = log.replayed().producers.get(9)
    assert state is not None
    assert (state.epoch, state.last_sequence) == (3, 2)
    log.node.options.config = log.node.options.config.__class__.read(
        {"producer.id.expiration.ms": "1"}
    )
    log.clock.value_ms += 10
    log.node.partitions.expire_producers()
    log.append((B, b"1"))
    log.clean_all()
    assert [header.producer_id for header in log.headers()] == [-1, -1]


def test_compact_and_delete_does_both(store: LogStore, clock: SteppingClock) -> None:
    log = CompactedLog(store, clock, {"cleanup.policy": "compact,delete", "retention.ms": "10000"})
    log.append((A, b"1"), (A, b"2"))
    log.roll()
    clock.value_ms += 9000
    log.append((B, b"1"), (B, b"2"))
    log.roll()
    assert log.clean()
    assert pairs(log.records()) == [(1, A, b"2"), (3, B, b"2")]
    clock.value_ms += 10_002
    log.shard.apply_retention(clock.value_ms)
    assert log.records() == []
    assert log.shard.log.start_offset == 4


def test_what_was_deleted_meanwhile_does_not_come_back(log: CompactedLog) -> None:
    log.append((A, b"1"))
    log.roll()
    log.append((B, b"1"))
    log.roll()
    replacement = log.shard.log.begin_replacement([0, 1])
    log.shard.trim(1)
    replacement.flush()
    assert not replacement.commit()
    assert pairs(log.records()) == [(1, B, b"1")]


def test_it_goes_on_after_a_new_claim(log: CompactedLog) -> None:
    log.append((A, b"1"), (B, b"1"))
    log.clean_all()
    log.claim_anew()
    assert log.shard.log.cleaned_offset == 2
    log.append((A, b"2"))
    log.clean_all()
    log.claim_anew()
    assert pairs(log.records()) == [(1, B, b"1"), (2, A, b"2")]
    assert log.shard.log.end_offset == 3


def test_a_log_that_cannot_be_cleaned_does_not_keep_others_from_it(log: CompactedLog) -> None:
    good = build_batch([Record(0, 1, A, b"1"), Record(1, 1, A, b"2")], codec=Codec.ZSTD)
    log.append_batch(good[:-4] + b"oops")
    log.roll()
    log.clean()
    other = log.beside("zebra")
    other.append((A, b"1"), (A, b"2"))
    other.roll()
    assert log.clean()
    assert not log.clean()
    assert pairs(other.records()) == [(1, A, b"2")]
    assert log.shard.log.cleaned_offset is None


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_batch_of_very_many_records_is_cleaned_as_any_other(
    log: CompactedLog, codec: Codec
) -> None:
    """More than are in memory as objects at a time, and more than are cleaned on the loop."""
    count, key_count = 5 * RECORDS_AT_ONCE // 2, 3 * RECORDS_AT_ONCE // 2
    keys = [b"%d" % (number % key_count) for number in range(count)]
    log.append(*((key, b"%d" % number) for number, key in enumerate(keys)), codec=codec)
    log.append((b"%d" % (key_count - 1), None))
    log.roll()
    assert log.clean()
    last: dict[bytes, tuple[int, bytes, bytes | None]] = {
        key: (number, key, b"%d" % number) for number, key in enumerate(keys)
    }
    last[b"%d" % (key_count - 1)] = (count, b"%d" % (key_count - 1), None)
    assert pairs(log.records()) == sorted(last.values())
    first = log.headers()[0]
    assert (first.record_count, first.last_offset) == (key_count - 1, count - 1)
    assert first.max_timestamp == max(r.timestamp for r in log.records() if r.offset < count)


def test_tombstones_of_a_batch_of_very_many_records_get_a_horizon(
    log: CompactedLog, clock: SteppingClock
) -> None:
    count = 5 * RECORDS_AT_ONCE // 2
    log.append(*((b"%d" % number, b"v" if number % 2 else None) for number in range(count)))
    log.roll()
    assert log.clean()
    (header,) = log.headers()
    assert (header.has_delete_horizon, header.record_count) == (True, count)
    clock.value_ms += RETENTION_MS + 1
    log.append((A, b"1"))
    log.roll()
    assert log.clean()
    assert [record.offset for record in log.records()] == [*range(1, count, 2), count]


def test_what_takes_long_to_clean_is_read_on_a_thread(
    log: CompactedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[bool, int]] = []
    decompress, decode = compression.decompress, kernel.decode_records

    def note(size: int) -> None:
        seen.append((threading.current_thread() is threading.main_thread(), size))

    def noting_decompress(codec: Codec, data: Any, limit_bytes: int) -> Any:
        found = decompress(codec, data, limit_bytes)
        note(len(found))
        return found

    def noting_decode(section: Any, count: int, *rest: Any) -> Any:
        note(100 * count)
        return decode(section, count, *rest)

    log.append((A, bytes(4 << 20)), (B, b"1"), codec=Codec.ZSTD)
    log.append(*((b"%d" % number, b"") for number in range(5 * RECORDS_AT_ONCE)))
    log.append((A, b"2"))
    log.roll()
    monkeypatch.setattr(batches, "decompress", noting_decompress)
    monkeypatch.setattr(batches, "decode_records", noting_decode)
    assert log.clean()
    assert max(size for is_main, size in seen if is_main) <= 1 << 20
    assert max(size for is_main, size in seen if not is_main) > 4 << 20
    assert max(size for _, size in seen if size % 100 == 0) <= 100 * RECORDS_AT_ONCE
    monkeypatch.undo()
    assert [record.offset for record in log.records()][:2] == [1, 2]
