"""Every method of a consumer, on both faces."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from tests.client.methods.conftest import Play, Stage, joined, poll_until, read

import ottla
from ottla.errors import IllegalStateError, WakeupError
from ottla.model import TopicPartition


def test_subscribe_and_unsubscribe(play: Play) -> None:
    async def test(stage: Stage) -> None:
        told: list[str] = []

        class Listener:
            def on_partitions_assigned(self, partitions: Any) -> None:
                told.append(f"assigned {len(partitions)}")

            def on_partitions_revoked(self, partitions: Any) -> None:
                told.append(f"revoked {len(partitions)}")

        await stage.fill(b"a")
        consumer = stage.member()
        await consumer.subscribe([stage.topic], Listener())
        assert await consumer.subscription() == {stage.topic}
        assert await read(consumer, 1) == [b"a"]
        assert await consumer.assignment() == {
            TopicPartition(stage.topic, 0),
            TopicPartition(stage.topic, 1),
        }
        await consumer.unsubscribe()
        assert await consumer.subscription() == set()
        assert await consumer.assignment() == set()
        assert told == ["assigned 2", "revoked 2"]
        for pattern in (f"^{stage.topic}$", re.compile(stage.topic)):
            await consumer.subscribe(pattern)
            await joined(consumer)
            assert await consumer.subscription() == {stage.topic}

    play(test)


def test_assign(play: Play) -> None:
    async def test(stage: Stage) -> None:
        await stage.fill(b"a", partition=1)
        consumer = stage.consumer()
        await consumer.assign([(stage.topic, 1)])
        assert await consumer.assignment() == {TopicPartition(stage.topic, 1)}
        assert await consumer.subscription() == set()
        assert await read(consumer, 1) == [b"a"]
        await consumer.assign([])
        assert await consumer.assignment() == set()

    play(test)


def test_poll(play: Play) -> None:
    async def test(stage: Stage) -> None:
        await stage.fill(b"a", b"bb")
        consumer = stage.consumer()
        with pytest.raises(IllegalStateError, match=r"subscribe\(\) or assign\(\)"):
            await consumer.poll(0)
        await consumer.assign([(stage.topic, 0)])
        records = await consumer.poll(10)
        assert [(r.offset, r.value, r.timestamp_ms) for r in records] == [
            (0, b"a", 1),
            (1, b"bb", 2),
        ]
        assert not await consumer.poll(0)

    play(test)


def test_iteration(play: Play) -> None:
    async def test(stage: Stage) -> None:
        await stage.fill(b"a", b"b", b"c")
        consumer = stage.consumer()
        await consumer.assign([(stage.topic, 0)])
        values: list[bytes] = []
        if stage.face == "aio":
            async for record in consumer.client:
                values.append(record.value)
                if len(values) == 3:
                    break
        else:
            iterator = iter(consumer.client)
            for _ in range(3):
                values.append((await asyncio.to_thread(next, iterator)).value)
        assert values == [b"a", b"b", b"c"]

    play(test)


def test_poll_arrow(play: Play) -> None:
    pa = pytest.importorskip("pyarrow")

    async def test(stage: Stage) -> None:
        await stage.fill(b"a", b"b", b"c")
        await stage.fill(b"d", partition=1)
        consumer = stage.consumer()
        partitions = [TopicPartition(stage.topic, number) for number in (0, 1)]
        await consumer.assign(partitions)
        schema = pa.schema([("offset", pa.int64()), ("value", pa.binary())])
        found: list[tuple[int, bytes]] = []
        ends = {partitions[0]: 2}
        while len(found) < 3:
            records = await consumer.poll_arrow(5.0, schema=schema, end_offsets=ends)
            assert len(records) == sum(batch.num_rows for batch in records.batches)
            for batch in records.batches:
                found += [(row["offset"], row["value"]) for row in batch.to_pylist()]
        assert sorted(found) == [(0, b"a"), (0, b"d"), (1, b"b")]
        assert await consumer.position(partitions[0]) == 2
        assert len(await consumer.poll_arrow(0.1, end_offsets=ends)) == 0
        # What was left out is the next to come, to those too who want records.
        records = await consumer.poll_arrow(5.0)
        assert records.batches[0].to_pylist()[0] | {"timestamp": None} == {
            **{"key": None, "value": b"c", "topic": stage.topic, "partition": 0, "offset": 2},
            **{"timestamp": None, "timestampType": 0, "headers": None},
        }
        assert records.next_offsets[partitions[0]].offset == 3
        await consumer.seek(partitions[0], 1)
        assert await read(consumer, 2) == [b"b", b"c"]
        # Nobody fetches what is behind the end.
        frugal = stage.consumer()
        await frugal.assign(partitions[:1])
        assert len(await frugal.poll_arrow(5.0, end_offsets={partitions[0]: 3})) == 3
        assert len(await frugal.poll_arrow(0.2, end_offsets={partitions[0]: 3})) == 0
        assert (await frugal.metrics())["fetch-total"] == 1
        texts = stage.consumer(value_deserializer="str")
        await texts.assign(partitions)
        with pytest.raises(IllegalStateError, match="without deserializers"):
            await texts.poll_arrow(0)

    play(test)


def test_what_was_fetched_behind_an_end_keeps_no_other_partition_waiting(play: Play) -> None:
    pytest.importorskip("pyarrow")

    async def test(stage: Stage) -> None:
        partitions = [TopicPartition(stage.topic, number) for number in (0, 1)]
        for partition in partitions:
            await stage.fill(bytes(3000), bytes(3000), partition=partition.partition)
        # One answer is more than may be buffered.
        consumer = stage.consumer(fetch_max_bytes=1000)
        await consumer.assign(partitions)
        ends = dict.fromkeys(partitions, 1)
        reached: dict[TopicPartition, int] = {}
        for _ in range(4):
            records = await consumer.poll_arrow(2.0, end_offsets=ends)
            reached |= {each: found.offset for each, found in records.next_offsets.items()}
            if len(reached) == 2:
                break
        assert reached == ends
        # Some of it may have been dropped, and comes again.
        assert [len(value) for value in await read(consumer, 2)] == [3000, 3000]

    play(test)


def test_commit_and_committed(play: Play) -> None:
    async def test(stage: Stage) -> None:
        zero, one = TopicPartition(stage.topic, 0), TopicPartition(stage.topic, 1)
        await stage.fill(b"a", b"b")
        consumer = stage.member(enable_auto_commit=False)
        await consumer.assign([zero, one])
        assert await consumer.committed() == {zero: None, one: None}
        await read(consumer, 2)
        await consumer.commit()
        await consumer.commit({(stage.topic, 1): 7})
        committed = await consumer.committed([zero, one])
        assert {p: each.offset for p, each in committed.items()} == {zero: 2, one: 7}
        await consumer.commit({one: ottla.OffsetAndMetadata(8, "a note")}, timeout=10)
        assert (await consumer.committed([one], timeout=10))[one].metadata == "a note"

    play(test)


def test_commit_async(play: Play) -> None:
    async def test(stage: Stage) -> None:
        partition = TopicPartition(stage.topic, 0)
        told: list[Any] = []
        await stage.fill(b"a")
        consumer = stage.member(enable_auto_commit=False)
        await consumer.assign([partition])
        await read(consumer, 1)
        await consumer.commit_async(callback=lambda *outcome: told.append(outcome))
        await consumer.commit_async({partition: 5}, callback=lambda *outcome: told.append(outcome))

        async def both() -> bool:
            return len(told) == 2

        await poll_until(consumer, both)
        assert [(offsets[partition].offset, error) for offsets, error in told] == [
            (1, None),
            (5, None),
        ]

    play(test)


def test_positions_and_seeks(play: Play) -> None:
    async def test(stage: Stage) -> None:
        partition = TopicPartition(stage.topic, 0)
        await stage.fill(b"a", b"b", b"c")
        consumer = stage.consumer()
        await consumer.assign([partition])
        assert await consumer.position(partition) == 0
        await consumer.seek(partition, 2)
        assert await consumer.position(partition, timeout=10) == 2
        assert await read(consumer, 1) == [b"c"]
        await consumer.seek_to_beginning([partition])
        assert await read(consumer, 3) == [b"a", b"b", b"c"]
        await consumer.seek(partition, 1)
        await consumer.seek_to_end()
        assert await consumer.position(partition) == 3
        await consumer.seek_to_beginning()
        assert await consumer.position(partition) == 0
        await consumer.seek((stage.topic, 0), ottla.OffsetAndMetadata(1))
        assert await consumer.position((stage.topic, 0)) == 1

    play(test)


def test_current_lag(play: Play) -> None:
    async def test(stage: Stage) -> None:
        await stage.fill(b"a", b"b", b"c")
        consumer = stage.consumer(max_poll_records=1)
        await consumer.assign([(stage.topic, 0)])
        assert await consumer.current_lag((stage.topic, 0)) is None
        await read(consumer, 1)
        assert await consumer.current_lag((stage.topic, 0)) == 2

    play(test)


def test_offsets_of_partitions(play: Play) -> None:
    async def test(stage: Stage) -> None:
        zero, one = TopicPartition(stage.topic, 0), TopicPartition(stage.topic, 1)
        await stage.fill(b"a", b"bb", b"ccc")
        consumer = stage.consumer()
        assert await consumer.beginning_offsets([zero, one]) == {zero: 0, one: 0}
        assert await consumer.end_offsets([zero, one], timeout=10) == {zero: 3, one: 0}
        found = await consumer.offsets_for_times({zero: 2, one: 2})
        assert (found[zero].offset, found[zero].timestamp_ms, found[one]) == (1, 2, None)
        await consumer.assign([zero])
        assert await consumer.end_offsets() == {zero: 3}
        assert await consumer.beginning_offsets() == {zero: 0}

    play(test)


def test_pause_and_resume(play: Play) -> None:
    async def test(stage: Stage) -> None:
        zero, one = TopicPartition(stage.topic, 0), TopicPartition(stage.topic, 1)
        await stage.fill(b"a")
        await stage.fill(b"b", partition=1)
        consumer = stage.consumer()
        await consumer.assign([zero, one])
        await consumer.pause([zero])
        assert await consumer.paused() == {zero}
        assert await read(consumer, 1) == [b"b"]
        assert not await consumer.poll(0.1)
        await consumer.resume([zero])
        assert await consumer.paused() == set()
        assert await read(consumer, 1) == [b"a"]
        await consumer.pause()
        assert await consumer.paused() == {zero, one}
        await consumer.resume()
        assert await consumer.paused() == set()

    play(test)


def test_topics_and_partitions(play: Play) -> None:
    async def test(stage: Stage) -> None:
        await stage.fill(b"a")
        consumer = stage.consumer()
        listed = await consumer.list_topics()
        partitions = await consumer.partitions_for(stage.topic)
        assert [(each.topic, each.partition) for each in partitions] == [
            (stage.topic, 0),
            (stage.topic, 1),
        ]
        assert listed[stage.topic] == partitions
        assert partitions[0].leader is not None

    play(test)


def test_wakeup(play: Play) -> None:
    async def test(stage: Stage) -> None:
        await stage.fill(b"a")
        consumer = stage.consumer()
        await consumer.assign([(stage.topic, 1)])
        waiting = asyncio.create_task(consumer.poll(20))
        await asyncio.sleep(0.1)
        consumer.client.wakeup()
        with pytest.raises(WakeupError):
            await waiting
        assert not await consumer.poll(0)

    play(test)


def test_group_metadata_and_enforce_rebalance(play: Play) -> None:
    async def test(stage: Stage) -> None:
        await stage.fill(b"a")
        consumer = stage.member()
        assert (await consumer.group_metadata()).group_id == stage.group
        await consumer.subscribe([stage.topic])
        await joined(consumer)
        before = await consumer.group_metadata()
        assert before.member_id
        await consumer.enforce_rebalance("somebody wants to see it")

        async def has_joined_again() -> bool:
            now = await consumer.group_metadata()
            return bool(now.generation_id > before.generation_id)

        await poll_until(consumer, has_joined_again)
        assert (await consumer.group_metadata()).member_id == before.member_id
        assert len(await consumer.assignment()) == 2

    play(test)


def test_metrics_and_health(play: Play) -> None:
    async def test(stage: Stage) -> None:
        await stage.fill(b"a")
        consumer = stage.consumer()
        await consumer.assign([(stage.topic, 0)])
        await read(consumer, 1)
        assert (await consumer.metrics())["records-consumed-total"] == 1
        health = await consumer.health()
        assert health.ok, health

    play(test)


def test_close(play: Play) -> None:
    async def test(stage: Stage) -> None:
        await stage.fill(b"a")
        consumer = stage.member()
        await consumer.subscribe([stage.topic])
        assert await read(consumer, 1) == [b"a"]
        await consumer.close(timeout=10)
        await consumer.close()
        with pytest.raises(IllegalStateError, match="closed"):
            await consumer.poll(0)
        with ottla.Admin(bootstrap_servers=stage.servers) as admin:
            assert not admin.describe_consumer_groups([stage.group])[stage.group].members
        other = stage.member()
        found = await other.committed([(stage.topic, 0)])
        assert found[TopicPartition(stage.topic, 0)].offset == 1

    play(test)
