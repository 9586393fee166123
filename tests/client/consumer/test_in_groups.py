"""A consumer whose partitions its group assigns."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from tests.client.consumer.conftest import WAIT_SECONDS, Stage, read, run, values

from ottla.client.aio.consumer.consumer import Consumer
from ottla.client.model import OffsetAndMetadata
from ottla.errors import IllegalStateError
from ottla.model import TopicPartition


def group_of(stage: Stage) -> str:
    return f"group-of-{stage.topic}"


def member(stage: Stage, **options: Any) -> Consumer:
    given = {"group_id": group_of(stage), "heartbeat_interval_ms": 100, **options}
    return stage.consumer(**given)


async def poll_until(
    condition: Callable[[], bool], *consumers: Consumer, taken: list[Any] | None = None
) -> None:
    """Poll all of them by turns."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():
            for consumer in consumers:
                records = await consumer.poll(0.02)
                if taken is not None:
                    taken += records


def test_a_subscription_brings_all_partitions_to_a_lone_member(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create(3)
        for n in range(3):
            stage.fill(b"%d" % n, partition=n)
        async with member(stage) as consumer:
            consumer.subscribe([stage.topic])
            assert sorted(await values(consumer, 3)) == [b"0", b"1", b"2"]
            assert consumer.assignment() == set(partitions)
            assert consumer.subscription() == {stage.topic}
            metadata = consumer.group_metadata()
            assert metadata.group_id == group_of(stage)
            assert metadata.generation_id == 1
            await poll_until(
                lambda: consumer.health().seconds_since_heartbeat is not None, consumer
            )
            assert consumer.health().ok

    run(test)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_pattern_finds_topics_that_come_later(stage: Stage, compiled: bool) -> None:
    async def test() -> None:
        stage.create()
        stage.fill(b"first")
        pattern = f"^{re.escape(stage.topic)}.*"
        async with member(stage, metadata_max_age_ms=100) as consumer:
            consumer.subscribe(re.compile(pattern) if compiled else pattern)
            assert await values(consumer, 1) == [b"first"]
            later = Stage(stage.broker, stage.connection, f"{stage.topic}-later")
            later.create()
            later.fill(b"second")
            assert await values(consumer, 1) == [b"second"]
            assert consumer.subscription() == {stage.topic, later.topic}

    run(test)


def test_members_share_and_nothing_is_lost_or_doubled(stage: Stage) -> None:
    async def test() -> None:
        partitions = stage.create(4)
        for n in range(4):
            stage.fill(*(b"%d-%d" % (n, i) for i in range(10)), partition=n)
        options: dict[str, Any] = {"enable_auto_commit": False, "max_poll_records": 3}
        async with member(stage, **options) as first, member(stage, **options) as second:
            first.subscribe([stage.topic])
            taken: list[Any] = []
            await poll_until(lambda: len(taken) >= 10, first, taken=taken)
            await first.commit()
            second.subscribe([stage.topic])
            await poll_until(
                lambda: len(first.assignment()) == len(second.assignment()) == 2, first, second,
                taken=taken,
            )  # fmt: skip
            assert first.assignment() | second.assignment() == set(partitions)
            await poll_until(
                lambda: (
                    {(r.partition, r.offset) for r in taken}
                    == {(p, o) for p in range(4) for o in range(10)}
                ),
                *(first, second),
                taken=taken,
            )

    run(test)


def test_a_listener_may_seek_where_it_wants_to_start(stage: Stage) -> None:
    async def test() -> None:
        stage.create(2)
        for n in range(2):
            stage.fill(b"a", b"b", b"c", partition=n)
        calls: list[Any] = []

        async with member(stage) as consumer:

            class Elsewhere:
                def on_partitions_assigned(
                    self, partitions: Sequence[TopicPartition]
                ) -> Awaitable[None] | None:
                    for partition in partitions:
                        consumer.seek(partition, 2)
                    return self.look(partitions)

                async def look(self, partitions: Sequence[TopicPartition]) -> None:
                    calls.append([await consumer.position(p) for p in partitions])

                def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
                    calls.append(("revoked", len(partitions)))

            consumer.subscribe([stage.topic], Elsewhere())
            assert await values(consumer, 2) == [b"c", b"c"]
        assert calls == [[2, 2], ("revoked", 2)]

    run(test)


def test_close_commits_what_iteration_has_handed_out_and_no_more(stage: Stage) -> None:
    async def test() -> None:
        (partition,) = stage.create()
        stage.fill_batch(*(b"%d" % i for i in range(20)))
        async with member(stage) as consumer:
            consumer.subscribe([stage.topic])
            async for record in consumer:
                if record.offset == 6:
                    break
        async with member(stage) as consumer:
            assert (await consumer.committed([partition]))[partition] == OffsetAndMetadata(7)
            consumer.subscribe([stage.topic])
            found = await read(consumer, 13)
            assert found[0].offset == 7
            await consumer.commit()
            committed = (await consumer.committed([partition]))[partition]
            assert committed is not None
            assert (committed.offset, committed.leader_epoch) == (20, found[-1].leader_epoch)

    run(test)


def test_an_exception_commits_nothing_that_may_not_have_been_handled(stage: Stage) -> None:
    async def fail() -> None:
        async with member(stage) as consumer:
            consumer.subscribe([stage.topic])
            await read(consumer, 3)
            raise KeyError

    async def test() -> None:
        (partition,) = stage.create()
        stage.fill_batch(b"a", b"b", b"c")
        with pytest.raises(KeyError):
            await fail()
        async with member(stage) as consumer:
            assert (await consumer.committed([partition]))[partition] is None

    run(test)


def test_commits_inside_of_iteration_count_the_record_at_hand(stage: Stage) -> None:
    async def test() -> None:
        (partition,) = stage.create()
        stage.fill_batch(*(b"%d" % i for i in range(10)))
        async with member(stage, enable_auto_commit=False) as consumer:
            consumer.subscribe([stage.topic])
            async for record in consumer:
                await consumer.commit()
                found = (await consumer.committed())[partition]
                assert found is not None
                assert found.offset == record.offset + 1
                if record.offset == 4:
                    break

    run(test)


def test_commits_without_waiting_tell_their_outcome_in_a_later_poll(stage: Stage) -> None:
    async def test() -> None:
        (partition,) = stage.create()
        stage.fill(b"a", b"b")
        told: list[Any] = []
        async with member(stage, enable_auto_commit=False) as consumer:
            consumer.subscribe([stage.topic])
            await read(consumer, 2)
            consumer.commit_async(callback=lambda offsets, error: told.append((offsets, error)))
            consumer.commit_async({(stage.topic, 0): 1})
            await poll_until(lambda: bool(told), consumer)
            ((offsets, error),) = told
            assert error is None
            assert offsets[partition].offset == 2
            committed = await consumer.committed([(stage.topic, 0)])
            assert committed[partition] == OffsetAndMetadata(1)

    run(test)


def test_unsubscribe_leaves_and_another_subscription_joins_again(stage: Stage) -> None:
    async def test() -> None:
        stage.create()
        stage.fill(b"a")
        async with member(stage) as consumer:
            consumer.subscribe([stage.topic])
            await read(consumer, 1)
            await consumer.unsubscribe()
            assert consumer.assignment() == set()
            with pytest.raises(IllegalStateError):
                await consumer.poll(0)
            consumer.subscribe([stage.topic])
            await poll_until(lambda: bool(consumer.assignment()), consumer)

    run(test)


def test_records_of_topics_that_are_subscribed_no_more_are_not_returned(stage: Stage) -> None:
    async def test() -> None:
        stage.create()
        other = Stage(stage.broker, stage.connection, f"{stage.topic}-other")
        other.create()
        stage.fill_batch(*(b"%d" % i for i in range(10)))
        async with member(stage, max_poll_records=1) as consumer:
            consumer.subscribe([stage.topic])
            await read(consumer, 1)
            consumer.subscribe([other.topic])
            other.fill(b"x")
            found: list[Any] = []
            await poll_until(lambda: b"x" in [r.value for r in found], consumer, taken=found)
            assert consumer.assignment() == {TopicPartition(other.topic, 0)}

    run(test)


def test_a_group_that_is_not_polled_says_so(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        stage.create()
        stage.fill_batch(b"a", b"b")
        async with member(stage, max_poll_records=1, stall_timeout_ms=100) as consumer:
            consumer.subscribe([stage.topic])
            await read(consumer, 1)
            async with asyncio.timeout(10):
                while (health := consumer.health()).ok:
                    await asyncio.sleep(0.02)
            assert "poll() was last called" in health.reasons[0]

    run(test)


def test_methods_that_wait_for_nothing_are_plain_and_can_still_be_awaited(stage: Stage) -> None:
    async def test() -> None:
        (partition,) = stage.create()
        async with member(stage, enable_auto_commit=False) as consumer:
            consumer.subscribe([stage.topic])
            assert consumer.subscription() == {stage.topic}
            for name, arguments in (
                ("subscribe", ([],)),
                ("assign", ([partition],)),
                ("commit_async", ({partition: 1},)),
            ):
                result = getattr(consumer, name)(*arguments)
                with pytest.warns(DeprecationWarning, match=rf"{name}\(\) does not wait") as seen:
                    assert await result is None
                assert seen[0].filename == __file__
            assert await consumer.committed([partition]) == {partition: OffsetAndMetadata(1)}

    run(test)


def test_partitions_of_a_listener_are_given_up_by_unsubscribe_only(stage: Stage) -> None:
    async def test() -> None:
        stage.create()
        told: list[str] = []

        class Listener:
            async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
                told.append("revoked")

        async with member(stage) as consumer:
            consumer.subscribe([stage.topic], Listener())
            await poll_until(lambda: bool(consumer.assignment()), consumer)
            told.clear()
            with pytest.raises(IllegalStateError, match=r"await consumer.unsubscribe\(\)"):
                consumer.subscribe([])
            assert consumer.assignment()
            await consumer.unsubscribe()
            assert told == ["revoked"]
            assert consumer.subscription() == set()

    run(test)
