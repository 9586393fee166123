"""A coordinator whose log has something in it that is no record of its own: it is told once, and nobody flaps."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest
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
from ottla.ports import Buffer, StorageError
from ottla.records.batch import build_batch
from ottla.records.record import Record
from ottla.storage.memory import MemoryLog, MemoryStore

# A key of a kind that is known, with nothing behind its version; and one of a kind that is not.
OFFSET_KEY = b"\x00\x01"
TRANSACTION_KEY = b"\x00\x00"
UNKNOWN_KEY = b"\x00\x63"

KINDS: dict[str, tuple[Callable[[Node], Coordinators], bytes]] = {  # type: ignore[type-arg]
    "groups": (lambda node: node.groups, OFFSET_KEY),
    "transactions": (lambda node: node.transactions, TRANSACTION_KEY),
}

UNAVAILABLE = Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Scene:
    """A node with one internal partition, and a record in it that the coordinator did not write."""

    def __init__(self, kind: str, key: bytes | None = None) -> None:
        self.clock = SteppingClock()
        options = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
        cluster = Cluster(MemoryStore(clock=self.clock), self.clock, SystemIds())
        self.node = Node(cluster, BrokerConfig.read(options))
        cluster.join(self.node)
        find, known_key = KINDS[kind]
        self.coordinators = find(self.node)
        assert isinstance(self.coordinators.partition_of("any"), TopicPartition)
        record = Record(0, 0, known_key if key is None else key, b"\x00\x00")
        appended = self.shard.append_own(build_batch([record]), self.clock.now_ms())
        assert isinstance(appended, Appended)

    @property
    def shard(self) -> Shard:
        shard = self.node.partitions.shard(self.coordinators.topic_name, 0)
        assert isinstance(shard, Shard)
        return shard


def told(caplog: pytest.LogCaptureFixture, event: str) -> int:
    return sum(getattr(record, "event", "") == event for record in caplog.records)


@pytest.mark.parametrize("kind", KINDS)
def test_a_malformed_record_is_told_once_and_the_partition_is_not_claimed_anew(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        scene = Scene(kind)
        shard = scene.shard
        for _ in range(5):
            assert scene.coordinators.find("k") == UNAVAILABLE
            scene.node.tick()
            await asyncio.sleep(0.01)
            scene.clock.value_ms += 60_000
        assert scene.shard is shard, (
            "the log can be read by consumers, who may want to see the record"
        )
        assert scene.coordinators.failed == [0]
        # Another claim looks again: the log may have been mended.
        scene.node.partitions.discard(shard)
        assert scene.coordinators.find("k") == UNAVAILABLE
        assert scene.shard is not shard

    with caplog.at_level(logging.INFO):
        asyncio.run(scenario())
    assert told(caplog, "coordinator_failed") == 2


@pytest.mark.parametrize("kind", KINDS)
def test_records_of_an_unknown_kind_are_skipped(kind: str) -> None:
    async def scenario() -> None:
        scene = Scene(kind, UNKNOWN_KEY)
        assert not isinstance(scene.coordinators.find("k"), Refused)
        assert not scene.coordinators.failed

    asyncio.run(scenario())


def test_a_log_that_cannot_be_read_for_a_while_is_loaded_later_without_a_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        scene = Scene("groups", UNKNOWN_KEY)
        shard = scene.shard

        def read(self: MemoryLog, offset: int, max_bytes: int, end_offset: int) -> Buffer:
            raise StorageError("Input/output error")

        with monkeypatch.context() as patched:
            patched.setattr(MemoryLog, "read", read)
            assert scene.coordinators.find("k") == UNAVAILABLE
        assert scene.coordinators.find("k") == UNAVAILABLE
        scene.clock.value_ms += 60_000
        assert not isinstance(scene.coordinators.find("k"), Refused)
        assert scene.shard is shard

    asyncio.run(scenario())
