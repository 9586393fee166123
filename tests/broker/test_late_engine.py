"""Partitions on an engine that takes its time: what is shown, deleted and saved, and when."""

from __future__ import annotations

import asyncio
import random

import pytest
from tests.broker.test_replay_in_slices import (
    NOW_MS,
    TOPIC,
    batch,
    configure,
    node_over,
    shard_of,
    state_of,
)
from tests.storage.batches import SteppingClock
from tests.storage.late_engine import LateLog, LateStore

from ottla.broker.handlers import delete_records
from ottla.broker.node import Node
from ottla.broker.partitions import shard as shards
from ottla.broker.partitions.compactor import Compactor
from ottla.broker.partitions.replay import replay
from ottla.broker.partitions.retention import Retention
from ottla.broker.partitions.shard import Shard
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.caller import Caller
from ottla.errors import ErrorCode
from ottla.model import Endpoint
from ottla.storage.memory import MemoryStore
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

NOWHERE = Endpoint("localhost", 0)
CONTEXT = RequestContext(2, None, Caller(NOWHERE, NOWHERE))


def saved_offsets(shard: Shard) -> list[int]:
    return [snapshot.offset for snapshot in shard.log.snapshots()]


async def settle(store: LateStore) -> None:
    """Makes the oldest change, and lets the broker notice."""
    store.settle()
    for _ in range(5):
        await asyncio.sleep(0)


async def settle_all(store: LateStore) -> None:
    while store.changes:
        await settle(store)


@pytest.mark.parametrize("seed", range(20))
def test_a_snapshot_never_covers_what_is_not_durable(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "SNAPSHOT_BATCHES", 3)
    monkeypatch.setattr(shards, "SNAPSHOT_PRODUCERS", 4 if seed % 2 else 1000)
    rng = random.Random(seed)

    async def scenario() -> None:
        store = LateStore(SteppingClock())
        shard = shard_of(node_over(store))
        trims = []
        for step in range(100):
            drawn = rng.random()
            if drawn < 0.45:
                shard.append_own(batch(rng.randrange(8), step), NOW_MS)
            elif drawn < 0.9:
                await settle(store)
            elif drawn < 0.94:
                shard.save()
            elif drawn < 0.97:
                shard.roll()
            else:
                trims.append(shard.trim(rng.randint(0, shard.partition.high_watermark)))
            assert all(offset <= shard.partition.high_watermark for offset in saved_offsets(shard))
        # A deletion begins another change when its snapshot is encoded and saved.
        while store.changes or not all(trim is None or trim.done() for trim in trims):
            await settle(store)
        await asyncio.gather(*(trim for trim in trims if trim is not None))
        assert shard.partition.high_watermark == shard.partition.end_offset
        assert saved_offsets(shard), "once it is durable it is saved"
        assert state_of(replay(shard.log, NOW_MS).partition) == state_of(shard.partition)

    asyncio.run(scenario())


def test_nothing_is_shown_as_deleted_before_it_is() -> None:
    async def scenario() -> None:
        store = LateStore(SteppingClock())
        shard = shard_of(node_over(store))
        for number in range(4):
            shard.append_own(batch(7, number), NOW_MS)
        await settle_all(store)
        trimmed = shard.trim(3)
        assert trimmed is not None
        assert saved_offsets(shard) == [4], "the snapshot comes first"
        await settle(store)
        assert (shard.log.start_offset, shard.partition.start_offset) == (0, 0)
        await settle_all(store)
        await trimmed
        assert (shard.log.start_offset, shard.partition.start_offset) == (3, 3)

    asyncio.run(scenario())


def delete(node: Node, *offsets: int) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=TOPIC,
                partitions=[
                    DeleteRecordsPartition(partition_index=number, offset=offset)
                    for number, offset in enumerate(offsets)
                ],
            )
        ],
        timeout_ms=1000,
    )


def test_deleted_records_are_answered_when_that_is_durable() -> None:
    async def scenario() -> None:
        store = LateStore(SteppingClock(), by_itself=True)
        node = node_over(store, partitions=3)
        for number in range(3):
            for sequence in range(3):
                shard_of(node, number).append_own(batch(7, sequence), NOW_MS)
        while store.changes:
            await asyncio.sleep(0.001)
        request = delete(node, 2, -1, 4)
        response = await delete_records.handle(node, request, CONTEXT)
        (topic,) = response.topics
        assert [(one.error_code, one.low_watermark) for one in topic.partitions] == [
            (ErrorCode.NONE, 2),
            (ErrorCode.NONE, 3),
            (ErrorCode.OFFSET_OUT_OF_RANGE, -1),
        ]
        assert [shard_of(node, number).log.start_offset for number in range(3)] == [2, 3, 0]

    asyncio.run(scenario())


def test_records_are_deleted_where_there_is_no_room_for_a_snapshot() -> None:
    async def scenario() -> None:
        store = MemoryStore(clock=SteppingClock())
        node = node_over(store)
        shard = shard_of(node)
        for sequence in range(3):
            shard.append_own(batch(7, sequence), NOW_MS)
        store._budget.max_bytes = store._budget.used_bytes
        response = await delete_records.handle(node, delete(node, 3), CONTEXT)
        assert response.topics[0].partitions[0].error_code == ErrorCode.NONE
        assert (shard.log.start_offset, shard.partition.start_offset) == (3, 3)

    asyncio.run(scenario())


def test_a_log_that_is_claimed_meanwhile_fails_the_deletion() -> None:
    async def scenario() -> None:
        store = LateStore(SteppingClock(), by_itself=True)
        node = node_over(store)
        shard = shard_of(node)
        shard.append_own(batch(7, 0), NOW_MS)
        while store.changes:
            await asyncio.sleep(0.001)
        answer = asyncio.ensure_future(delete_records.handle(node, delete(node, 1), CONTEXT))
        await asyncio.sleep(0)
        store.claim(shard.log.ref, shard.config)
        (topic,) = (await answer).topics
        assert topic.partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert node.partitions.open_shards() == []

    asyncio.run(scenario())


def test_retention_and_compaction_go_on_when_the_engine_is_done() -> None:
    async def scenario() -> None:
        clock = SteppingClock()
        store = LateStore(clock, by_itself=True)
        node = node_over(store)
        topic = node.cluster.catalog.topics[TOPIC]
        options = {"cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": "0"}
        configure(node, topic, {**options, "retention.ms": "-1"})
        shard = shard_of(node)
        for sequence in range(3):
            shard.append_own(batch(7, sequence), NOW_MS)
        while store.changes:
            await asyncio.sleep(0.001)
        shard.roll()
        assert await Compactor(node).clean_dirtiest()
        assert isinstance(shard.log, LateLog)
        assert shard.log.cleaned_offset == 3
        assert len(shard.log.read(0, 1 << 20, 3)) < 3 * len(batch(7, 0))
        configure(node, topic, {**options, "retention.ms": "1000"})
        clock.value_ms += 10_000
        await Retention(node.cluster, node.options, node.partitions).apply()
        assert shard.log.start_offset == shard.partition.start_offset == 3

    asyncio.run(scenario())
