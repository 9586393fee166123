"""A storage that does not answer makes no partition broken: each is opened a second after the storage is back."""

from __future__ import annotations

import logging

import pytest
from tests.broker.test_replay_in_slices import TOPIC, forget, node_over
from tests.storage.batches import SteppingClock

from ottla.config.topic import TopicConfig
from ottla.ports import PartitionLog, PartitionRef, StorageUnavailableError
from ottla.storage.memory import MemoryStore

PARTITIONS = 5


def test_partitions_wait_a_second_at_a_time_and_are_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SteppingClock()
    store = MemoryStore(clock=clock)
    node = node_over(store, PARTITIONS)
    monkeypatch.setattr(node.cluster, "clock", clock)
    for number in range(PARTITIONS):
        node.partitions.shard(TOPIC, number)
    forget(node)
    tries: list[PartitionRef] = []

    def claim(ref: PartitionRef, config: TopicConfig) -> PartitionLog:
        tries.append(ref)
        raise StorageUnavailableError("no answer")

    with monkeypatch.context() as away, caplog.at_level(logging.INFO):
        away.setattr(store, "claim", claim)
        for number in range(PARTITIONS):
            node.partitions.shard(TOPIC, number)
        for _ in range(9):
            clock.value_ms += 1000
            node.partitions.retry_offline()
        assert len(tries) == 10 * PARTITIONS
    with caplog.at_level(logging.INFO):
        clock.value_ms += 1000
        node.partitions.retry_offline()
    assert len(node.partitions.open_shards()) == PARTITIONS
    assert node.partitions.offline_partitions() == []
    told = [
        (each.levelname, getattr(each, "event", ""))
        for each in caplog.records
        if getattr(each, "event", "").startswith("partition_")
    ]
    assert told == [("WARNING", "partition_unavailable"), ("INFO", "partition_online")]
