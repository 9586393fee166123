"""A partition's state after a restart is what it was: from any snapshot, and from none."""

from __future__ import annotations

import random

import pytest
from tests.core.client_batches import NOW_MS, client_batch
from tests.storage.batches import SteppingClock, ref_of

from ottla.broker.partitions.replay import Replay, replay
from ottla.broker.partitions.shard import Appended, Shard
from ottla.broker.partitions.unsettled_bytes import UnsettledBytes
from ottla.config.topic import TopicConfig
from ottla.core.append import Prepared, prepare
from ottla.core.outcomes import Refused
from ottla.core.partition import Partition
from ottla.errors import ErrorCode
from ottla.ports import DamagedError, Snapshot
from ottla.ports.log import CHECKED_BYTES_PER_BATCH
from ottla.records.batch import split_batches
from ottla.records.control import MarkerType
from ottla.storage.memory import MemoryStore

CONFIG = TopicConfig()


class Restarting:
    """A shard that can be thrown away and made again from its log."""

    def __init__(self) -> None:
        self.store = MemoryStore(clock=SteppingClock(NOW_MS))
        self.shard = self._claim()

    def _claim(self) -> Shard:
        log = self.store.claim(ref_of(), CONFIG)
        return Shard(replay(log, NOW_MS), CONFIG, lambda shard: None, UnsettledBytes())

    def restart(self) -> None:
        self.shard = self._claim()

    def send(self, count: int, producer_id: int, first_sequence: int) -> int | Refused:
        """The base offset, or the error."""
        data = client_batch(
            count, producer_id=producer_id, producer_epoch=0, first_sequence=first_sequence
        )
        made = prepare(data, CONFIG, NOW_MS, 9)
        assert isinstance(made, Prepared)
        appended = self.shard.append(made, NOW_MS)
        return appended.base_offset if isinstance(appended, Appended) else appended


def state_of(partition: Partition) -> object:
    return (
        partition.start_offset,
        partition.end_offset,
        partition.high_watermark,
        {producer.producer_id: producer for producer in partition.producers},
    )


def test_retries_are_recognised_after_a_restart_without_a_snapshot() -> None:
    log = Restarting()
    offsets = [log.send(3, 1, number * 3) for number in range(6)]
    log.restart()
    for number in range(1, 6):
        assert log.send(3, 1, number * 3) == offsets[number]
    assert log.send(1, 1, 0) == Refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert log.send(1, 1, 18) == 18


def test_retries_of_batches_below_a_snapshot_are_recognised() -> None:
    """Kafka's own snapshots keep only the last batch; ours keep all five."""
    log = Restarting()
    offsets = [log.send(3, 1, number * 3) for number in range(5)]
    log.shard.roll()
    log.restart()
    for number in range(5):
        assert log.send(3, 1, number * 3) == offsets[number]


@pytest.mark.parametrize("seed", range(5))
def test_every_kept_snapshot_leads_to_the_same_state(seed: int) -> None:
    rng = random.Random(seed)
    log = Restarting()
    sequences = [0, 0, 0]
    for _ in range(60):
        producer_id = rng.randrange(3)
        count = rng.randint(1, 4)
        assert isinstance(log.send(count, producer_id, sequences[producer_id]), int)
        sequences[producer_id] += count
        if rng.random() < 0.1:
            log.shard.roll()
    expected = state_of(log.shard.partition)
    kept = list(log.shard.log.snapshots())
    assert kept
    assert state_of(replay(log.shard.log, NOW_MS).partition) == expected
    # From the newest on, each snapshot is made unreadable, which leaves an older one and at last none.
    for snapshot in kept:
        log.shard.log.save_snapshot(Snapshot(snapshot.offset, b"damaged"))
        assert state_of(replay(log.shard.log, NOW_MS).partition) == expected


def test_a_producer_is_remembered_when_the_log_starts_inside_its_batch() -> None:
    """DeleteRecords may cut a batch: its retry must still not be appended again."""
    log = Restarting()
    assert log.send(10, 1, 0) == 0
    log.shard.trim(5)
    log.restart()
    assert log.shard.partition.start_offset == 5
    assert log.send(10, 1, 0) == 0
    assert log.shard.partition.end_offset == 10
    assert log.send(1, 1, 11) == Refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


def test_a_read_inside_a_batch_gives_the_whole_batch() -> None:
    """Trap 9: the client skips; a broker that begins with the next batch loses records."""
    log = Restarting()
    for number in range(3):
        assert log.send(10, 1, number * 10) == number * 10
    for offset in range(30):
        data = log.shard.read(offset, 1, 30)
        assert [header.base_offset for _, header in split_batches(data)] == [offset // 10 * 10]


def test_retention_leaves_fresh_records_without_a_timestamp_alone() -> None:
    log = Restarting()
    made = prepare(client_batch(3, timestamps_ms=[-1, -1, -1]), CONFIG, NOW_MS, 9)
    assert isinstance(made, Prepared)
    log.shard.append(made, NOW_MS)
    log.shard.apply_retention(NOW_MS + 1000)
    log.shard.roll()
    log.shard.apply_retention(NOW_MS + 2000)
    assert log.shard.partition.start_offset == 0
    # Their age is counted from when they were written.
    log.shard.apply_retention(NOW_MS + CONFIG.retention_ms + 1)
    assert log.shard.partition.start_offset == 3


def test_a_damaged_marker_is_told_and_crashes_nothing() -> None:
    log = Restarting()
    assert log.send(1, 1, 0) == 0
    log.shard.append_marker(MarkerType.ABORT, 1, 0, 0, 1, NOW_MS)
    segment = log.store._partitions["orders", 0].segments[0]
    marker = segment.batches[1]
    for position in range(61, len(marker)):
        flipped = bytes([marker[position] ^ 1])
        segment.batches[1] = marker[:position] + flipped + marker[position + 1 :]
        with pytest.raises(DamagedError, match="the checksum is wrong"):
            log.restart()
    segment.batches[1] = marker[:16] + b"\x07" + marker[17:]
    with pytest.raises(DamagedError, match="magic 7"):
        log.restart()


@pytest.mark.parametrize("position", [21, 43, 51, 53, 70])
def test_a_damaged_batch_of_a_producer_is_told(position: int) -> None:
    """Attributes, producer id, epoch, sequence, records: a retry or an open transaction would be taken for another."""
    log = Restarting()
    assert log.send(3, 1, 0) == 0
    segment = log.store._partitions["orders", 0].segments[0]
    batch = segment.batches[0]
    flipped = bytes([batch[position] ^ 16])
    segment.batches[0] = batch[:position] + flipped + batch[position + 1 :]
    with pytest.raises(DamagedError, match="the checksum is wrong"):
        log.restart()


def test_large_batches_count_for_more_in_a_slice() -> None:
    """Their checksums take as long as many small batches."""
    log = Restarting()
    value = bytes(9 * CHECKED_BYTES_PER_BATCH)
    data = client_batch(1, producer_id=1, producer_epoch=0, first_sequence=0, value=value)
    made = prepare(data, CONFIG, NOW_MS, 9)
    assert isinstance(made, Prepared)
    assert isinstance(log.shard.append(made, NOW_MS), Appended)
    assert log.send(1, 1, 1) == 1
    half = Replay(log.store.claim(ref_of(), CONFIG), NOW_MS)
    assert half.advance(5) == 0
    assert not half.is_over
    assert half.advance(5) == 4
    assert half.is_over
