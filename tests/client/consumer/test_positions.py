"""Where a consumer starts, goes on and is sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from tests.broker.requests import batch_of, delete, delete_records, produce, records_of
from tests.client.consumer.conftest import Stage, nothing_comes, read, run, values
from tests.groups.brokers import WHICH

from ottla.client.model import OffsetAndMetadata, OffsetAndTimestamp
from ottla.errors import (
    IllegalStateError,
    LogTruncationError,
    NoOffsetError,
    OffsetOutOfRangeError,
    TimedOutError,
)
from ottla.model import TopicPartition
from ottla.records.batch import build_batch
from ottla.records.compression import Codec


def test_without_a_committed_offset_reading_starts_where_auto_offset_reset_says(
    stage: Stage,
) -> None:
    async def test() -> None:
        partitions = stage.create()
        stage.fill(b"a", b"b")
        async with stage.consumer(auto_offset_reset="earliest") as consumer:
            consumer.assign(partitions)
            assert await values(consumer, 2) == [b"a", b"b"]
        async with stage.consumer(auto_offset_reset="latest") as consumer:
            consumer.assign(partitions)
            assert await consumer.position(partitions[0]) == 2
            stage.fill(b"c")
            assert await values(consumer, 1) == [b"c"]
        async with stage.consumer(auto_offset_reset="none") as consumer:
            consumer.assign(partitions)
            for _ in range(2):
                with pytest.raises(NoOffsetError) as caught:
                    await consumer.poll(5)
                assert caught.value.partitions == tuple(partitions)
            with pytest.raises(NoOffsetError):
                await consumer.position(partitions[0])
            consumer.seek(partitions[0], 1)
            assert await values(consumer, 2) == [b"b", b"c"]

    run(test)


def test_a_reset_by_duration_starts_so_long_ago(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create(2)
        now_ms = round(time.time() * 1000)
        for minutes_ago in (180, 90, 30):
            records = records_of(b"%d" % minutes_ago, timestamp_ms=now_ms - minutes_ago * 60_000)
            produce(stage.connection, stage.topic, build_batch(records))
        records = records_of(b"old", timestamp_ms=now_ms - 7_200_000)
        produce(stage.connection, stage.topic, build_batch(records), partition=1)
        async with stage.consumer(auto_offset_reset="by_duration:PT1H40M") as consumer:
            consumer.assign(partitions)
            assert await values(consumer, 2) == [b"90", b"30"]
            assert await consumer.position(partitions[1]) == 1, "nothing is so new: wait at the end"

    run(test)


def test_reading_goes_on_where_the_group_has_committed(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create(2)
        for n in range(2):
            stage.fill(b"a", b"b", b"c", partition=n)
        group = f"group-of-{stage.topic}"
        async with stage.consumer(group_id=group, enable_auto_commit=False) as consumer:
            consumer.assign(partitions)
            await consumer.commit({partitions[0]: OffsetAndMetadata(2, "note"), partitions[1]: 1})
        async with stage.consumer(group_id=group) as consumer:
            consumer.assign(partitions)
            assert await consumer.position(partitions[0]) == 2
            assert sorted(await values(consumer, 3)) == [b"b", b"c", b"c"]
            committed = await consumer.committed()
            assert committed[partitions[0]] == OffsetAndMetadata(2, "note", None)

    run(test)


def test_a_position_out_of_range_is_reset(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        stage.fill(b"a", b"b", b"c")
        delete_records(stage.connection, stage.topic, 2)
        async with stage.consumer() as consumer:
            consumer.assign(partitions)
            for wrong in (0, 50):
                consumer.seek(partitions[0], wrong)
                found = await read(consumer, 1)
                assert (found[0].offset, found[0].value) == (2, b"c")

    run(test)


def test_a_position_out_of_range_is_an_error_without_a_reset(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        stage.fill(b"a", b"b")
        async with stage.consumer(auto_offset_reset="none") as consumer:
            consumer.assign(partitions)
            consumer.seek(partitions[0], 50)
            for _ in range(2):
                with pytest.raises(OffsetOutOfRangeError, match=f"{stage.topic}-0 at 50") as caught:
                    await consumer.poll(5)
                assert caught.value.offsets == {partitions[0]: 50}
            consumer.seek(partitions[0], 1)
            assert await values(consumer, 1) == [b"b"]

    run(test)


def test_seeks_go_to_offsets_beginnings_and_ends(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        stage.fill(b"a", b"b", b"c")
        (partition,) = partitions
        async with stage.consumer() as consumer:
            consumer.assign(partitions)
            consumer.seek((stage.topic, 0), 2)
            assert await consumer.position(partition) == 2
            (last,) = await read(consumer, 1)
            assert last.value == b"c"
            consumer.seek(partition, OffsetAndMetadata(1, "why", last.leader_epoch))
            assert await values(consumer, 2) == [b"b", b"c"]
            consumer.seek_to_beginning()
            assert await consumer.position(partition) == 0
            assert await values(consumer, 3) == [b"a", b"b", b"c"]
            consumer.seek_to_beginning([partition])
            consumer.seek_to_end([(stage.topic, 0)])
            assert await consumer.position(partition) == 3

    run(test)


def test_a_committed_epoch_that_the_log_does_not_have_is_noticed(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        stage.fill(b"a", b"b", b"c")
        if WHICH != "ottla":
            pytest.skip("there is no epoch before the first one of a topic of Kafka's")
        # As if somebody had read up to 2 under a leader of epoch 0, whose log this leader has not got.
        lost = OffsetAndMetadata(2, "", 0)
        async with stage.consumer() as consumer:
            consumer.assign(partitions)
            consumer.seek(partitions[0], lost)
            assert await values(consumer, 3) == [b"a", b"b", b"c"]
        async with stage.consumer(auto_offset_reset="none") as consumer:
            consumer.assign(partitions)
            await consumer.partitions_for(stage.topic)
            consumer.seek(partitions[0], lost)
            with pytest.raises(LogTruncationError) as caught:
                await consumer.poll(5)
            assert caught.value.offsets == {partitions[0]: 2}
            assert caught.value.diverging_offsets == {partitions[0]: 0}
            consumer.seek(partitions[0], 1)
            assert await values(consumer, 2) == [b"b", b"c"]

    run(test)


def test_seeks_of_partitions_that_are_not_assigned_are_refused(stage: Stage) -> None:
    async def test() -> None:
        stage.create()
        async with stage.consumer() as consumer:
            consumer.assign([(stage.topic, 0)])
            other = (stage.topic, 5)
            refused: list[Callable[[], object]] = [
                lambda: consumer.seek(other, 0),
                lambda: consumer.seek_to_end([other]),
                lambda: consumer.pause([other]),
                lambda: consumer.resume([other]),
                lambda: consumer.current_lag(other),
            ]
            for wrong in refused:
                with pytest.raises(IllegalStateError, match="not assigned"):
                    wrong()
            with pytest.raises(IllegalStateError, match="not assigned"):
                await consumer.position(other)
            with pytest.raises(ValueError, match="negative"):
                consumer.seek((stage.topic, 0), -1)
            with pytest.raises(TypeError, match="no partition"):
                consumer.pause(["t"])  # type: ignore[list-item]

    run(test)


def test_a_seek_to_the_end_is_looked_up_when_it_is_needed(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        async with stage.consumer() as consumer:
            consumer.assign(partitions)
            await consumer.position(partitions[0])
            consumer.seek_to_end()
            stage.fill(b"a", b"b")
            assert await consumer.position(partitions[0]) == 2

    run(test)


def test_paused_partitions_bring_nothing_and_lose_nothing(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create(2)
        for n in range(2):
            stage.fill(*(b"%d" % i for i in range(5)), partition=n)
        async with stage.consumer(max_poll_records=1) as consumer:
            consumer.assign(partitions)
            first = (await read(consumer, 1))[0].partition
            consumer.pause([(stage.topic, first)])
            assert consumer.paused() == {TopicPartition(stage.topic, first)}
            assert {r.partition for r in await read(consumer, 5)} == {1 - first}
            await nothing_comes(consumer)
            fetches = consumer.metrics()["fetch-total"]
            consumer.resume()
            assert consumer.paused() == set()
            found = await read(consumer, 4)
            assert [r.value for r in found] == [b"1", b"2", b"3", b"4"]
            assert consumer.metrics()["fetch-total"] <= fetches + 2, "they were kept"
            consumer.pause()
            assert consumer.paused() == set(partitions)

    run(test)


def test_beginnings_and_ends_are_told(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create(2)
        stage.fill(b"a", b"b", b"c")
        delete_records(stage.connection, stage.topic, 2)
        async with stage.consumer() as consumer:
            plain = [(stage.topic, 0), (stage.topic, 1)]
            assert await consumer.beginning_offsets(plain) == dict(
                zip(partitions, (2, 0), strict=True)
            )
            assert await consumer.end_offsets(plain) == dict(zip(partitions, (3, 0), strict=True))
            consumer.assign(partitions)
            assert await consumer.end_offsets() == dict(zip(partitions, (3, 0), strict=True))

    run(test)


def test_offsets_are_found_by_time(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        for at in (1000, 2000, 3000):
            produce(stage.connection, stage.topic, build_batch(records_of(b"x", timestamp_ms=at)))
        async with stage.consumer() as consumer:
            found = {
                at: (await consumer.offsets_for_times({(stage.topic, 0): at}))[partitions[0]]
                for at in (0, 1000, 1001, 3000, 3001)
            }
            assert {at: None if f is None else f.offset for at, f in found.items()} == {
                0: 0,
                1000: 0,
                1001: 1,
                3000: 2,
                3001: None,
            }
            assert isinstance(found[1001], OffsetAndTimestamp)
            assert found[1001].timestamp_ms == 2000
            with pytest.raises(ValueError, match="negative"):
                await consumer.offsets_for_times({(stage.topic, 0): -1})

    run(test)


def test_what_cannot_be_had_in_time_is_named(stage: Stage) -> None:
    async def test() -> None:
        stage.create()
        async with stage.consumer(allow_auto_create_topics=False) as consumer:
            started = time.monotonic()
            with pytest.raises(TimedOutError, match="no-such-topic"):
                await consumer.end_offsets([("no-such-topic", 0)], timeout=0.3)
            assert time.monotonic() - started < 5
            with pytest.raises(TimedOutError, match=f"{stage.topic}-7"):
                await consumer.end_offsets([(stage.topic, 7)], timeout=0.3)
            consumer.assign([(stage.topic, 7)])
            with pytest.raises(TimedOutError, match=f"{stage.topic}-7 got no position"):
                await consumer.position((stage.topic, 7), timeout=0.2)

    run(test)


def test_default_api_timeout_limits_calls_without_a_timeout(stage: Stage) -> None:
    async def test() -> None:
        async with stage.consumer(
            allow_auto_create_topics=False, default_api_timeout_ms=200
        ) as consumer:
            started = time.monotonic()
            with pytest.raises(TimedOutError):
                await consumer.partitions_for("no-such-topic")
            assert time.monotonic() - started < 5

    run(test)


def test_the_lag_is_known_after_a_fetch(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        stage.fill_batch(*(b"%d" % i for i in range(10)))
        async with stage.consumer(max_poll_records=4) as consumer:
            consumer.assign(partitions)
            assert consumer.current_lag(partitions[0]) is None
            await read(consumer, 4)
            assert consumer.current_lag((stage.topic, 0)) == 6

    run(test)


def test_topics_and_partitions_are_told(stage: Stage) -> None:
    async def test() -> None:
        stage.create(3)
        async with stage.consumer() as consumer:
            partitions = await consumer.partitions_for(stage.topic)
            assert [p.partition for p in partitions] == [0, 1, 2]
            assert all(p.leader is not None for p in partitions)
            topics = await consumer.list_topics()
            assert len(topics[stage.topic]) == 3

    run(test)


def test_a_topic_that_comes_later_is_read_from_then_on(stage: Stage) -> None:
    async def test() -> None:
        async with stage.consumer(
            allow_auto_create_topics=False, metadata_max_age_ms=50
        ) as consumer:
            consumer.assign([(stage.topic, 0)])
            await nothing_comes(consumer, 0.2)
            stage.create()
            stage.fill(b"a")
            assert await values(consumer, 1) == [b"a"]

    run(test)


def test_an_assignment_of_a_topic_creates_it_only_if_that_is_allowed(stage: Stage) -> None:
    async def test() -> None:
        for allowed in (False, True):
            async with stage.consumer(allow_auto_create_topics=allowed) as consumer:
                consumer.assign([(stage.topic, 0)])
                await nothing_comes(consumer, 0.2)
                assert (stage.topic in await consumer.list_topics()) is allowed

    run(test)


def test_new_assignments_keep_the_positions_of_partitions_that_stay(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create(2)
        for n in range(2):
            stage.fill(b"a", b"b", partition=n)
        async with stage.consumer() as consumer:
            consumer.assign(partitions[:1])
            await read(consumer, 2)
            consumer.assign(partitions)
            assert {r.partition for r in await read(consumer, 2)} == {1}
            assert consumer.assignment() == set(partitions)
            consumer.assign(partitions[1:])
            stage.fill(b"c", partition=0)
            await nothing_comes(consumer)

    run(test)


def test_a_topic_that_was_deleted_and_made_anew_is_read_on(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        stage.fill(b"a", b"b", b"c")
        async with stage.consumer(metadata_max_age_ms=100) as consumer:
            consumer.assign(partitions)
            await read(consumer, 3)
            delete(stage.connection, stage.topic)
            stage.create()
            stage.fill(b"new")
            async with asyncio.timeout(20):
                while not (records := await consumer.poll(1)):
                    pass
            assert [r.value for r in records] == [b"new"]

    run(test)


def test_batches_of_every_codec_are_read(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create()
        for codec in Codec:
            produce(stage.connection, stage.topic, batch_of(codec.name.encode(), codec=codec))
        async with stage.consumer() as consumer:
            consumer.assign(partitions)
            assert await values(consumer, 5) == [codec.name.encode() for codec in Codec]

    run(test)
