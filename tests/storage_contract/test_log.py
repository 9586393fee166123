"""What every engine's log guarantees."""

from __future__ import annotations

import asyncio

import pytest
from tests.storage.batches import (
    Batch,
    SteppingClock,
    append,
    begins_segment,
    fill,
    joined,
    make_batch,
    offsets_of,
    read_all,
    ref_of,
)
from tests.storage_contract.settled_store import is_shared, snapshots_kept

from ottla.config.topic import TopicConfig
from ottla.ports import (
    DamagedError,
    Extent,
    LogStore,
    PartitionLog,
    SaveTime,
    Snapshot,
    StorageError,
)
from ottla.ports.log import CHECKED_BYTES_PER_BATCH
from ottla.records.control import MarkerType, build_marker_batch

CONFIG = TopicConfig()
END = 2**62


def test_a_new_log_is_empty(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    assert (log.start_offset, log.end_offset, log.size_bytes) == (0, 0, 0)
    assert log.read(0, 1000, END) == b""
    assert log.epochs == ()
    assert list(log.snapshots()) == []
    assert log.batch_of_max_timestamp() is None
    assert log.batch_at_timestamp(0, 0) is None
    assert [(info.base_offset, info.end_offset, info.size_bytes) for info in log.segments()] == [
        (0, 0, 0)
    ]


def test_what_is_appended_is_read_back_byte_for_byte(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    batches = fill(log, 20, records=3)
    assert log.end_offset == 60
    assert bytes(log.read(0, 1 << 20, END)) == joined(batches)
    assert log.size_bytes == len(joined(batches))


def test_several_batches_in_one_append_are_kept_apart(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    batches = [make_batch(0, 2), make_batch(2, 3), make_batch(5, 1)]
    append(log, *batches)
    assert log.end_offset == 6
    assert log.read(3, 0, END) == batches[1].data


def test_the_callers_buffer_may_be_reused_after_append(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    batch = make_batch(0)
    buffer = bytearray(batch.data)
    log.append(memoryview(buffer), [batch.extent], 0)
    buffer[:] = bytes(len(buffer))
    assert log.read(0, 1000, END) == batch.data


def test_an_append_at_another_offset_than_the_end_is_a_bug(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    fill(log, 2)
    batch = make_batch(2)
    with pytest.raises(ValueError, match="ends at 2"):
        log.append(batch.data, [batch.extent], 1)
    with pytest.raises(ValueError, match="ends at 2"):
        log.append(make_batch(1).data, [make_batch(1).extent], 2)
    assert log.end_offset == 2


def test_a_read_inside_a_batch_gives_the_whole_batch(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    batches = fill(log, 10, records=5)
    for offset in range(50):
        assert offsets_of(log.read(offset, 0, END)) == [batches[offset // 5].extent.base_offset]


def test_a_read_in_a_gap_gives_the_next_batch(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    append(log, make_batch(0, 2))
    append(log, make_batch(10, 2))
    append(log, make_batch(20, 2))
    assert log.end_offset == 22
    assert offsets_of(log.read(2, 0, END)) == [10]
    assert offsets_of(log.read(9, 0, END)) == [10]
    assert offsets_of(log.read(12, 1000, END)) == [20]


def test_a_read_gives_as_many_batches_as_fit_and_at_least_one(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    fill(log, 100)  # of 100 bytes
    assert len(log.read(0, 0, END)) == 100
    assert len(log.read(0, 99, END)) == 100
    assert len(log.read(0, 199, END)) == 100
    assert len(log.read(0, 200, END)) == 200
    assert len(log.read(50, 3050, END)) == 3000
    assert len(log.read(98, 10_000, END)) == 200


def test_a_read_stays_below_its_end_offset(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    fill(log, 10, records=5)
    assert offsets_of(log.read(0, 1 << 20, 15)) == [0, 5, 10]
    assert offsets_of(log.read(0, 1 << 20, 14)) == [0, 5]
    assert log.read(3, 1 << 20, 4) == b""
    assert log.read(10, 1 << 20, 10) == b""
    assert log.read(50, 1 << 20, END) == b""
    assert log.read(60, 1 << 20, END) == b""


def test_reads_agree_with_the_limits_in_a_log_with_many_index_entries(store: LogStore) -> None:
    log = store.claim(ref_of(), TopicConfig(index_interval_bytes=250))
    fill(log, 200, records=2)  # of 100 bytes
    for offset in (0, 7, 100, 333, 399):
        first = offset // 2
        for max_bytes in (0, 100, 990, 1000, 5050, 1 << 20):
            for end_offset in (offset + 1, offset + 30, 200, 399, 400):
                fitting = range(first, min(first + max(1, max_bytes // 100), end_offset // 2, 200))
                found = offsets_of(log.read(offset, max_bytes, end_offset))
                assert found == [2 * number for number in fitting]


def test_a_read_crosses_into_the_next_segment_when_one_has_nothing_left(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    append(log, make_batch(0, 2))
    log.roll()
    append(log, make_batch(10, 2))
    log.roll()
    append(log, make_batch(20, 2))
    assert offsets_of(log.read(2, 1000, END))[0] == 10
    assert offsets_of(log.read(15, 1000, END))[0] == 20
    assert log.read(12, 1000, 20) == b""
    assert offsets_of(read_all(log)) == [0, 10, 20]


def test_headers_are_those_of_the_batches_that_a_read_gives(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    fill(log, 5, records=2)
    log.roll()
    fill(log, 5, records=2)
    found: list[int] = []
    offset = 3
    while entries := log.headers(offset, 17, 2):
        assert len(entries) <= 2
        assert all(entry.control == b"" for entry in entries)
        found += [entry.header.base_offset for entry in entries]
        offset = entries[-1].header.last_offset + 1
    assert found == offsets_of(joined(fill_of(log, 3, 17)))
    assert log.headers(20, END, 100) == []


def fill_of(log: PartitionLog, offset: int, end_offset: int) -> list[Batch]:
    """The batches that reads give between two offsets."""
    made = []
    while data := bytes(log.read(offset, 0, end_offset)):
        (base_offset,) = offsets_of(data)
        made.append(Batch(data, Extent(base_offset, base_offset + 1, 0, len(data))))
        offset = base_offset + 2
    return made


def test_control_batches_come_whole_with_their_headers(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    marker = build_marker_batch(
        MarkerType.ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=1000
    )
    append(log, Batch(bytes(marker), Extent(0, 0, 1000, len(marker))), make_batch(1))
    entries = log.headers(0, END, 100)
    assert [bytes(entry.control) for entry in entries] == [bytes(marker), b""]


def test_headers_of_a_producers_damaged_batch_are_not_given(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    marker = bytearray(
        build_marker_batch(
            MarkerType.ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=1
        )
    )
    marker[-1] ^= 1
    append(log, Batch(bytes(marker), Extent(0, 0, 1, len(marker))))
    with pytest.raises(DamagedError, match="the checksum is wrong"):
        log.headers(0, END, 100)
    assert log.is_open


def test_headers_cost_what_their_checksums_take(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    fill(log, 10, body_bytes=2 * CHECKED_BYTES_PER_BATCH)
    assert [entry.cost for entry in log.headers(0, END, 3)] == [1, 1, 1], "no producer's batches"


def test_what_was_read_stays_valid_when_its_segment_is_gone(store: LogStore) -> None:
    log = store.claim(ref_of(), TopicConfig(file_delete_delay_ms=0))
    batches = fill(log, 10)
    log.roll()
    data = log.read(0, 1 << 20, END)
    fill(log, 1)
    log.trim(11)
    store.tick(2**60)
    store.delete(ref_of())
    assert bytes(data) == joined(batches)


def test_segments_tell_their_extent_and_largest_timestamp(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    append(log, make_batch(0, 2, timestamp_ms=50))
    append(log, make_batch(2, 2, timestamp_ms=30))
    log.roll()
    append(log, make_batch(4, 2, timestamp_ms=40))
    assert log.segments() == [(0, 4, 200, 50), (4, 6, 100, 40)]


def test_rolling_an_empty_segment_changes_nothing(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    log.roll()
    fill(log, 1)
    log.roll()
    log.roll()
    assert [info.base_offset for info in log.segments()] == [0, 1]


@pytest.mark.parametrize(
    ("last_fitting", "first_beyond"),
    [
        (make_batch(1, body=b"x" * 839), make_batch(1, body=b"x" * 840)),
        (make_batch(1, timestamp_ms=6000), make_batch(1, timestamp_ms=6001)),
        (make_batch(2**31 - 1), make_batch(2**31)),
    ],
    ids=["size", "age", "offset"],
)
def test_a_batch_begins_a_segment_by_size_age_and_offset(
    store: LogStore, last_fitting: Batch, first_beyond: Batch
) -> None:
    config = TopicConfig(segment_bytes=1000, segment_ms=5000)
    for partition, batch in enumerate((last_fitting, first_beyond)):
        log = store.claim(ref_of(partition=partition), config)
        append(log, make_batch(0, timestamp_ms=1000))  # of 100 bytes
        assert begins_segment(log, batch) == (batch is first_beyond)
        assert offsets_of(read_all(log)) == [0, batch.extent.base_offset]


def test_the_first_batch_of_a_segment_may_be_larger_than_it(store: LogStore) -> None:
    log = store.claim(ref_of(), TopicConfig(segment_bytes=1000))
    append(log, make_batch(0, body=b"x" * 2000))
    assert [info.base_offset for info in log.segments()] == [0]


def test_segment_options_count_from_the_next_append_on(store: LogStore) -> None:
    log = store.claim(ref_of(), TopicConfig(segment_bytes=1000))
    append(log, make_batch(0))
    log.configure(TopicConfig(segment_bytes=2000))
    assert not begins_segment(log, make_batch(1, body=b"x" * 840))
    log.configure(TopicConfig(segment_bytes=1000))
    assert begins_segment(log, make_batch(2))


def test_a_segment_without_timestamps_ages_by_the_clock(
    store: LogStore, clock: SteppingClock
) -> None:
    log = store.claim(ref_of(), TopicConfig(segment_ms=5000))
    append(log, make_batch(0, timestamp_ms=-1))
    clock.skew_ms = -86_400_000  # somebody sets the wall clock back
    clock.value_ms += 5000
    assert not begins_segment(log, make_batch(1, timestamp_ms=-1))
    clock.value_ms += 1
    assert begins_segment(log, make_batch(2, timestamp_ms=-1))


def test_trim_moves_the_start_and_drops_whole_segments(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    for _ in range(4):
        fill(log, 5, records=2)
        log.roll()
    assert [info.base_offset for info in log.segments()] == [0, 10, 20, 30, 40]
    log.trim(25)
    assert log.start_offset == 25
    # What is left of the first segment: all of it, or the append that has the start and those behind it.
    first, size_bytes = (24, 800) if is_shared(store) else (20, 1000)
    assert [info.base_offset for info in log.segments()] == [first, 30, 40]
    assert log.size_bytes == size_bytes
    assert offsets_of(log.read(0, 0, END)) == [24], "the batch that contains the start"
    log.trim(30)
    assert [info.base_offset for info in log.segments()] == [30, 40]
    log.trim(10)
    assert log.start_offset == 30
    log.trim(40)
    assert (log.start_offset, log.end_offset, log.size_bytes) == (40, 40, 0)
    assert log.read(0, 1000, END) == b""
    fill(log, 1)
    assert offsets_of(log.read(0, 1000, END)) == [40]


def test_the_last_segment_is_never_dropped(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    fill(log, 5)
    log.trim(5)
    assert (log.start_offset, log.end_offset) == (5, 5)
    assert log.read(0, 1000, END) == b""
    fill(log, 1)
    assert offsets_of(log.read(0, 1000, END)) == [5]


def test_a_log_cannot_be_trimmed_beyond_its_end(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    fill(log, 5)
    with pytest.raises(ValueError, match="ends at 5"):
        log.trim(6)


def test_batches_are_found_by_timestamp(store: LogStore) -> None:
    log = store.claim(ref_of(), TopicConfig(index_interval_bytes=150))
    times_ms = [10, 30, 20, 30, 50, 40, 60, 60, 55, 70]
    batches = []
    for number, timestamp_ms in enumerate(times_ms):
        if number in (4, 8):
            log.roll()
        batches.append(make_batch(number * 2, 2, timestamp_ms=timestamp_ms))
        append(log, batches[-1])
    for timestamp_ms in range(5, 75, 5):
        for offset in range(0, 21):
            matching = [
                batch
                for batch in batches
                if batch.extent.last_offset >= offset
                and batch.extent.max_timestamp_ms >= timestamp_ms
            ]
            found = log.batch_at_timestamp(timestamp_ms, offset)
            assert (None if found is None else bytes(found)) == (
                matching[0].data if matching else None
            )


def test_the_largest_timestamp_is_found_among_what_is_not_trimmed(store: LogStore) -> None:
    log = store.claim(ref_of(), TopicConfig(index_interval_bytes=150))
    times_ms = [10, 90, 20, 90, 50, 40, 60, 60, 55, 30]
    batches = []
    for number, timestamp_ms in enumerate(times_ms):
        if number in (4, 8):
            log.roll()
        batches.append(make_batch(number * 2, 2, timestamp_ms=timestamp_ms))
        append(log, batches[-1])
    for start_offset, expected in (
        (0, 1),
        (3, 1),
        (4, 3),
        (8, 6),
        (13, 6),
        (14, 7),
        (16, 8),
        (18, 9),
    ):
        log.trim(start_offset)
        found = log.batch_of_max_timestamp()
        assert found is not None
        assert bytes(found) == batches[expected].data
    log.trim(20)
    assert log.batch_of_max_timestamp() is None


def test_batches_without_timestamps_have_a_first_one_too(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    batches = [make_batch(0, timestamp_ms=-1), make_batch(1, timestamp_ms=-1)]
    append(log, *batches)
    found = log.batch_of_max_timestamp()
    assert found is not None
    assert bytes(found) == batches[0].data
    assert log.batch_at_timestamp(0, 0) is None


def test_snapshots_come_newest_first_and_few_are_kept(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    fill(log, 10)
    log.roll()
    fill(log, 10)
    for offset in (3, 5, 10, 12, 14, 16, 18):
        log.save_snapshot(Snapshot(offset, b"state at %d" % offset))
    log.save_snapshot(Snapshot(18, b"again"))
    kept = [(18, b"again"), (16, b"state at 16"), (14, b"state at 14"), (10, b"state at 10")]
    assert list(log.snapshots()) == kept[: snapshots_kept(store, 4)]


def test_a_snapshot_that_nobody_waits_for_is_there_soon(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    fill(log, 5)
    log.save_snapshot(Snapshot(3, b"three"), SaveTime.SOON)
    assert list(log.snapshots()) == [(3, b"three")], "at once where no loop is running"

    async def scenario() -> None:
        log.save_snapshot(Snapshot(5, b"five"), SaveTime.SOON)
        for _ in range(1000):
            if next(log.snapshots()).offset == 5:
                break
            await asyncio.sleep(0.01)

    asyncio.run(scenario())
    assert list(log.snapshots()) == [(5, b"five"), (3, b"three")]


def test_a_snapshot_above_the_end_is_not_shown(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    fill(log, 5)
    log.save_snapshot(Snapshot(5, b"five"))
    log.save_snapshot(Snapshot(6, b"six"))
    assert list(log.snapshots()) == [(5, b"five")]


def test_snapshots_of_dropped_segments_go_with_them(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    for _ in range(6):
        fill(log, 2)
        log.roll()
        log.save_snapshot(Snapshot(log.end_offset, b""))
    kept = [12, 10, 8, 6, 4, 2]
    assert [snapshot.offset for snapshot in log.snapshots()] == kept[: snapshots_kept(store, 6)]
    log.trim(6)
    assert [snapshot.offset for snapshot in log.snapshots()] == kept[: snapshots_kept(store, 4)]
    log.trim(12)
    assert [snapshot.offset for snapshot in log.snapshots()] == kept[: snapshots_kept(store, 3)]


def test_the_newest_snapshot_below_each_segment_is_kept(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    for number in range(5):
        fill(log, 4)
        for offset in range(4 * number + 1, 4 * number + 4):
            log.save_snapshot(Snapshot(offset, b""))
        log.roll()
        assert log.last_base_offset == log.end_offset
    fill(log, 4)
    for offset in range(21, 25):
        log.save_snapshot(Snapshot(offset, b""))
    kept = [snapshot.offset for snapshot in log.snapshots()]
    assert kept == [24, 23, 22, 19, 15, 11, 7, 3][: snapshots_kept(store, 8)]


def test_everything_is_durable_after_flush(store: LogStore) -> None:
    async def scenario() -> None:
        log = store.claim(ref_of(), CONFIG)
        fill(log, 3)
        waiting = log.flush()
        if waiting is not None:
            await asyncio.wait_for(waiting, 10)
        assert log.flush() is None

    asyncio.run(scenario())


def test_appends_wait_for_the_flush_that_flush_messages_asks_for(store: LogStore) -> None:
    async def scenario() -> None:
        log = store.claim(ref_of(), TopicConfig(flush_messages=4))
        assert append(log, make_batch(0, 3)) is None
        waiting = append(log, make_batch(3, 1))
        if waiting is not None:
            await asyncio.wait_for(waiting, 10)
        assert append(log, make_batch(4, 3)) is None

    asyncio.run(scenario())


def test_a_closed_log_takes_nothing_more_and_keeps_what_it_had(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    batches = fill(log, 3)
    log.close()
    log.close()
    with pytest.raises(StorageError, match="closed"):
        append(log, make_batch(3))
    again = store.claim(ref_of(), CONFIG)
    assert read_all(again) == joined(batches)


def test_a_segment_without_timestamps_is_as_old_as_its_last_append(
    store: LogStore, clock: SteppingClock
) -> None:
    log = store.claim(ref_of(), CONFIG)
    append(log, make_batch(0, timestamp_ms=-1))
    (info,) = log.segments()
    assert info.max_timestamp_ms >= clock.now_ms()
    append(log, make_batch(1, timestamp_ms=77))
    (info,) = log.segments()
    assert info.max_timestamp_ms == 77
