"""A flipped bit in the log of a coordinator is not replayed as truth: the partition is offline until it is mended."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from tests.broker.test_unreadable_internal_records import KINDS, UNKNOWN_KEY, told
from tests.storage.batches import SteppingClock

from ottla.broker.clock import SystemIds
from ottla.broker.cluster import Cluster
from ottla.broker.coordination.coordinators import Coordinators
from ottla.broker.node import Node
from ottla.broker.partitions.shard import Appended, Shard
from ottla.config.broker import BrokerConfig
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.records.batch import build_batch
from ottla.records.control import MarkerType, build_marker_batch
from ottla.records.record import Record
from ottla.storage.local import open_local_store

OPTIONS = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
MARKER = build_marker_batch(
    MarkerType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0
)
BATCHES = {"events": build_batch([Record(0, 0, UNKNOWN_KEY, b"39")]), "marker": MARKER}


class Running:
    """A node over a data folder."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.clock = SteppingClock()
        self.store = open_local_store(folder, clock=self.clock)
        cluster = Cluster(self.store, self.clock, SystemIds())
        self.node = Node(cluster, BrokerConfig.read(OPTIONS))
        cluster.join(self.node)
        self.coordinators: Coordinators = KINDS[kind][0](self.node)  # type: ignore[type-arg]
        assert isinstance(self.coordinators.partition_of("any"), TopicPartition)

    @property
    def shard(self) -> Shard | ErrorCode:
        return self.node.partitions.shard(self.coordinators.topic_name, 0)

    def is_found(self) -> bool:
        found = self.coordinators.find("k")
        unavailable = Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert found == unavailable or not isinstance(found, Refused)
        return not isinstance(found, Refused)

    def stop(self) -> None:
        self.node.partitions.close()
        self.store.close()


async def written(folder: Path, kind: str, batch: bytes) -> Path:
    """Stops a node in order that has written a batch; answers the segment."""
    running = Running(folder, kind)
    assert isinstance(running.shard, Shard)
    for _ in range(3):
        assert isinstance(running.shard.append_own(batch, 0), Appended)
    topic = running.coordinators.topic_name
    running.stop()
    return folder / f"{topic}-0" / f"{0:020d}.log"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", BATCHES)
def test_a_flipped_bit_takes_the_partition_offline_until_the_file_is_put_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, batch: str
) -> None:
    async def scenario() -> None:
        segment = await written(tmp_path, kind, BATCHES[batch])
        good = segment.read_bytes()
        damaged = bytearray(good)
        damaged[len(BATCHES[batch]) * 2 - 2] ^= 1  # the value of the second record
        segment.write_bytes(damaged)
        running = Running(tmp_path, kind)
        for _ in range(5):
            assert not running.is_found()
            assert running.shard is ErrorCode.KAFKA_STORAGE_ERROR
            running.node.tick()
            await asyncio.sleep(0.01)
            running.clock.value_ms += 120_000
        topic = running.coordinators.topic_name
        assert running.node.partitions.offline_partitions() == [(topic, 0)]
        assert told(caplog, "partition_offline") == 1
        assert told(caplog, "storage_failed") == told(caplog, "replay_failed") == 0
        beside = segment.with_suffix(".copy")
        beside.write_bytes(good)
        beside.replace(segment)
        running.clock.value_ms += 120_000
        running.node.tick()
        await asyncio.sleep(0.01)
        assert running.is_found()
        assert not running.node.partitions.offline_partitions()
        running.stop()

    with caplog.at_level(logging.INFO):
        asyncio.run(scenario())
    (offline,) = (
        record.getMessage()
        for record in caplog.records
        if getattr(record, "event", "") == "partition_offline"
    )
    assert "the batch at offset 1 is damaged: the checksum is wrong" in offline
