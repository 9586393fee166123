"""Commits: that wait, that do not, automatic ones, and what is found afterwards."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.client.groups.driving import Driver, create_topic, new_group, run, until

from ottla import Broker
from ottla.client.model import OffsetAndMetadata
from ottla.errors import AbortableError, CommitFailedError, KafkaError, TimedOutError
from ottla.model import TopicPartition


def test_committed_offsets_come_back_with_metadata_and_epoch(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    async def test() -> None:
        async with Driver(ottla_broker.bootstrap_servers, new_group()) as member:
            await member.join_new(ottla_topic, 3)
            zero, one, two = member.assigned
            offsets = {
                zero: OffsetAndMetadata(5, "a note", 0),
                one: OffsetAndMetadata(7),
            }
            await member.member.commit(offsets)
            found = await member.member.committed([zero, one, two])
            assert found == {**offsets, two: None}
            assert member.told.committed == [offsets]

    run(test)


@pytest.mark.parametrize("knows_topic", [True, False])
def test_offsets_are_committed_by_a_consumer_that_assigns_itself(
    ottla_broker: Broker, ottla_topic: str, knows_topic: bool
) -> None:
    async def test() -> None:
        async with Driver(ottla_broker.bootstrap_servers, new_group()) as member:
            await create_topic(member.network, ottla_topic, 1)
            if knows_topic:
                # Then topics go by id, where the broker can.
                await member.network.topic(ottla_topic, 5000)
            partition = TopicPartition(ottla_topic, 0)
            member.subscriptions.assign_from_user([partition])
            await member.member.commit({partition: OffsetAndMetadata(3)})
            assert await member.member.committed([partition]) == {partition: OffsetAndMetadata(3)}

    run(test)


def test_callbacks_come_in_the_order_of_the_commits_and_in_a_poll(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    async def test() -> None:
        async with Driver(ottla_broker.bootstrap_servers, new_group()) as member:
            partition = await member.assign_new(ottla_topic)
            seen: list[tuple[int, Exception | None]] = []

            async def on_commit(offsets: Any, error: Exception | None) -> None:
                seen.append((offsets[partition].offset, error))

            # The coordinator is not known yet: all of them wait for it, in order.
            for offset in range(10):
                member.member.commit_async({partition: OffsetAndMetadata(offset)}, on_commit)
            await until(lambda: not member.member._commits._in_flight)
            assert seen == [], "callbacks are for polls, commits and close"
            await member.step()
            assert seen == [(offset, None) for offset in range(10)]
            assert await member.member.committed([partition]) == {partition: OffsetAndMetadata(9)}

    run(test)


def test_a_commit_that_waits_brings_the_callbacks_of_those_before_it(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    async def test() -> None:
        async with Driver(ottla_broker.bootstrap_servers, new_group()) as member:
            partition = await member.assign_new(ottla_topic)
            seen: list[str] = []
            offsets = {partition: OffsetAndMetadata(1)}
            member.member.commit_async(offsets, lambda *_: seen.append("first"))
            await member.member.commit({partition: OffsetAndMetadata(2)})
            assert seen == ["first"]
            member.member.commit_async(offsets, lambda *_: seen.append("second"))
            await member.member.commit({})
            assert seen == ["first", "second"], "even if it has nothing to commit itself"

    run(test)


def test_what_a_commit_callback_raises_reaches_the_poll(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    async def test() -> None:
        async with Driver(ottla_broker.bootstrap_servers, new_group()) as member:
            partition = await member.assign_new(ottla_topic)

            def fail(offsets: object, error: Exception | None) -> None:
                raise ZeroDivisionError

            member.member.commit_async({partition: OffsetAndMetadata(1)}, fail)
            with pytest.raises(ZeroDivisionError):
                await member.poll_until(lambda: False)

    run(test)


def test_automatic_commits_take_what_earlier_polls_returned(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    async def test() -> None:
        group = new_group()
        servers = ottla_broker.bootstrap_servers
        async with Driver(servers, group, auto_commit_interval_ms=50) as member:
            await member.join_new(ottla_topic, 1)
            member.consume_to(4)
            await member.poll_until(lambda: bool(member.told.committed))
            (partition,) = member.assigned
            assert (await member.member.committed([partition]))[partition] == OffsetAndMetadata(4)
            member.consume_to(9)
        # Closing commits the rest.
        async with Driver(servers, group) as later:
            assert (await later.member.committed([partition]))[partition] == OffsetAndMetadata(9)

    run(test)


def test_without_automatic_commits_nothing_is_committed(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    async def test() -> None:
        servers, group = ottla_broker.bootstrap_servers, new_group()
        options: dict[str, Any] = {"enable_auto_commit": False, "auto_commit_interval_ms": 1}
        async with Driver(servers, group, **options) as member:
            await member.join_new(ottla_topic, 1)
            member.consume_to(4)
            for _ in range(3):
                await member.step()
            (partition,) = member.assigned
        async with Driver(servers, group) as later:
            assert await later.member.committed([partition]) == {partition: None}

    run(test)


def test_a_rebalance_commits_first(ottla_broker: Broker, ottla_topic: str) -> None:
    async def test() -> None:
        servers, group = ottla_broker.bootstrap_servers, new_group()
        async with Driver(servers, group) as first, Driver(servers, group) as second:
            await first.join_new(ottla_topic, 2)
            first.consume_to(6)
            first.start_polling()
            second.subscribe(ottla_topic)
            await second.poll_until(lambda: second.has(1))
            (partition,) = second.assigned
            found = await second.member.committed([partition])
            assert found == {partition: OffsetAndMetadata(6)}

    run(test)


def test_a_commit_of_all_that_was_consumed(ottla_broker: Broker, ottla_topic: str) -> None:
    async def test() -> None:
        async with Driver(ottla_broker.bootstrap_servers, new_group()) as member:
            await member.join_new(ottla_topic, 2)
            member.consume_to(8)
            await member.member.commit()
            found = await member.member.committed(member.assigned)
            assert set(found.values()) == {OffsetAndMetadata(8)}

    run(test)


def test_a_commit_during_a_rebalance_says_poll_first(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    async def test() -> None:
        servers, group = ottla_broker.bootstrap_servers, new_group()
        async with Driver(servers, group) as first, Driver(servers, group) as second:
            await first.join_new(ottla_topic, 2)
            first.start_polling()
            second.subscribe(ottla_topic)
            second.start_polling()
            await until(lambda: second.member._membership.is_rebalancing)
            await second.stop_polling()
            offsets = {TopicPartition(ottla_topic, 0): OffsetAndMetadata(1)}
            with pytest.raises(AbortableError, match=r"call poll\(\)"):
                await second.member.commit(offsets)

    run(test)


def test_a_commit_by_nobody_in_a_subscribed_group_fails(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    async def test() -> None:
        async with Driver(ottla_broker.bootstrap_servers, new_group()) as member:
            member.subscribe(ottla_topic)
            offsets = {TopicPartition(ottla_topic, 0): OffsetAndMetadata(1)}
            with pytest.raises(CommitFailedError, match="no member"):
                await member.member.commit(offsets)

    run(test)


def test_errors_of_commits_name_the_partition(ottla_broker: Broker, ottla_topic: str) -> None:
    async def test() -> None:
        async with Driver(ottla_broker.bootstrap_servers, new_group()) as member:
            await create_topic(member.network, ottla_topic, 1)
            partition = TopicPartition(ottla_topic, 0)
            with pytest.raises(KafkaError) as raised:
                await member.member.commit({partition: OffsetAndMetadata(1, "x" * 10_000)})
            assert raised.value.name == "OFFSET_METADATA_TOO_LARGE"
            assert raised.value.context["partition"] == str(partition)
            assert raised.value.context["api"] == "OffsetCommit"

    run(test)


def test_calls_end_in_time_when_nobody_answers() -> None:
    async def test() -> None:
        async with Driver("127.0.0.1:1", new_group(), enable_auto_commit=False) as member:
            partition = TopicPartition("t", 0)
            with pytest.raises(TimedOutError, match="coordinator"):
                await member.member.commit({partition: OffsetAndMetadata(1)}, 200)
            with pytest.raises(TimedOutError):
                await member.member.committed([partition], 200)
            async with asyncio.timeout(5):
                await member.member.close(100)

    run(test)
