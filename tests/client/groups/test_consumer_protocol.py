"""group.protocol=consumer (KIP-848) with a coordinator that does what the tests say."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Coroutine, Sequence
from typing import Any
from uuid import UUID

import pytest
from tests.client.consumer.scripted import TOPIC_ID, Log
from tests.client.groups.fake_coordinator import (
    HEARTBEAT_API,
    FakeGroup,
    Told,
    assigned,
    poll_until,
    read,
    until,
)

import ottla
from ottla.client.aio.consumer.consumer import Consumer
from ottla.client.aio.group.consumer.member import ConsumerMember
from ottla.client.state.group.consumer.membership import ConsumerState
from ottla.errors import (
    CommitFailedError,
    ConfigError,
    ErrorCode,
    FatalError,
    IllegalStateError,
    KafkaError,
)
from ottla.model import TopicPartition
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest

ALL = [0, 1, 2, 3]
NO_NEWS = {
    "instance_id": None,
    "rack_id": None,
    "rebalance_timeout_ms": -1,
    "subscribed_topic_names": None,
    "subscribed_topic_regex": None,
    "server_assignor": None,
    "topic_partitions": None,
}


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def news(request: ConsumerGroupHeartbeatRequest) -> dict[str, Any]:
    """The fields of a heartbeat that tell anything."""
    return {
        name: value for name, none in NO_NEWS.items() if (value := getattr(request, name)) != none
    }


def state_of(consumer: Consumer) -> ConsumerState:
    assert isinstance(consumer._group, ConsumerMember)
    return consumer._group.state


async def join(consumer: Consumer, group: FakeGroup, *numbers: int) -> Told:
    """Subscribe, and poll until the coordinator has heard that the member has all its partitions."""
    told = Told()
    group.target = {TOPIC_ID: list(numbers)}
    consumer.subscribe(["t"], told)
    await poll_until(consumer, lambda: group.reported)
    return told


# Joining


def test_a_member_joins_with_everything_and_then_tells_only_news() -> None:
    async def scenario() -> None:
        group = FakeGroup()
        options = {
            "group.protocol": "consumer",
            "group.remote.assignor": "uniform",
            "client.rack": "north",
            "max.poll.interval.ms": 70_000,
        }
        async with group.consumer(**options) as consumer:
            told = await join(consumer, group, *ALL)
            await poll_until(consumer, lambda: len(group.heartbeats) >= 5)
            first, second, *others = group.heartbeats
            assert len(first.member_id) == 22
            assert {each.member_id for each in group.heartbeats} == {first.member_id}
            assert news(first) == {
                "rack_id": "north",
                "rebalance_timeout_ms": 70_000,
                "subscribed_topic_names": ["t"],
                "server_assignor": "uniform",
                "topic_partitions": [],
            }
            assert news(second) == {
                "topic_partitions": [TopicPartitions(topic_id=TOPIC_ID, partitions=ALL)]
            }
            assert [news(each) for each in others] == [{}] * len(others)
            assert told.calls == [("assigned", ALL)]
            assert consumer.group_metadata() == ("g", 1, first.member_id, None)

    run(scenario())


def test_a_member_joins_only_when_the_program_polls() -> None:
    async def scenario() -> None:
        group = FakeGroup()
        async with group.consumer() as consumer:
            consumer.subscribe(["t"])
            await until(lambda: group.broker.asked_for(MetadataRequest))
            await asyncio.sleep(0.05)
            assert not group.heartbeats
            await poll_until(consumer, lambda: group.heartbeats)

    run(scenario())


def test_heartbeats_come_as_often_as_the_coordinator_says() -> None:
    async def scenario() -> None:
        group = FakeGroup()
        group.interval_ms = 600_000
        async with group.consumer() as consumer:
            await join(consumer, group, 0)
            await asyncio.sleep(0.1)
            assert len(group.heartbeats) == 2, "one to join, one to report the partitions"

    run(scenario())


def test_another_subscription_is_told_at_once() -> None:
    async def scenario() -> None:
        group = FakeGroup()
        group.interval_ms = 600_000
        group.cluster.ids["u"] = UUID(int=78)
        group.cluster.logs[TopicPartition("u", 0)] = Log()
        async with group.consumer() as consumer:
            await join(consumer, group, *ALL)
            group.target = {UUID(int=78): [0]}
            consumer.subscribe(["u"])
            await poll_until(consumer, lambda: consumer.assignment() == {("u", 0)})
            assert [
                each.subscribed_topic_names
                for each in group.heartbeats
                if each.subscribed_topic_names is not None
            ] == [["t"], ["u"]]
            assert len(group.joins) == 1

    run(scenario())


# Reconciliation


def test_partitions_are_committed_revoked_and_acknowledged_before_others_are_assigned() -> None:
    async def scenario() -> None:
        group = FakeGroup()
        async with group.consumer(auto_commit_interval_ms=600_000) as consumer:
            told = await join(consumer, group, 0, 1)
            for log in group.cluster.logs.values():
                log.append(b"a", b"b")
            await read(consumer, 4)
            group.interval_ms = 600_000
            group.give(1, 2)
            await poll_until(consumer, lambda: len(group.reported) == 2)
            assert told.calls == [("assigned", [0, 1]), ("revoked", [0]), ("assigned", [2])]
            assert group.offsets == {(TOPIC_ID, 0): 2, (TOPIC_ID, 1): 2}
            requests = group.order(ConsumerGroupHeartbeatRequest, OffsetCommitRequest)
            commit = next(i for i, r in enumerate(requests) if isinstance(r, OffsetCommitRequest))
            assert requests[commit].generation_id_or_member_epoch == group.epoch
            report = requests[commit + 1]
            assert news(report) == {
                "topic_partitions": [TopicPartitions(topic_id=TOPIC_ID, partitions=[1, 2])]
            }
            assert state_of(consumer) is ConsumerState.STABLE

    run(scenario())


def test_what_only_comes_on_top_waits_for_no_commit() -> None:
    async def scenario() -> None:
        group = FakeGroup()
        async with group.consumer(auto_commit_interval_ms=600_000) as consumer:
            await join(consumer, group, 0)
            await consumer.position(("t", 0))
            group.give(0, 1)
            await poll_until(consumer, lambda: assigned(consumer) == [0, 1])
            assert not group.commits

    run(scenario())


def test_no_records_of_a_partition_are_returned_while_its_last_commit_is_under_way() -> None:
    async def scenario() -> None:
        group = FakeGroup(2)
        async with group.consumer(auto_commit_interval_ms=600_000) as consumer:
            await join(consumer, group, 0, 1)
            for log in group.cluster.logs.values():
                log.append(b"a")
            await read(consumer, 2)
            # Retriable: the commit is repeated, and the partition stays the member's own.
            group.commit_refusals = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 5
            group.give(1)
            await poll_until(consumer, lambda: len(group.commits) >= 2)
            for log in group.cluster.logs.values():
                log.append(b"b")
            later = await poll_until(consumer, lambda: assigned(consumer) == [1])
            later = later or await read(consumer, 1)
            assert [each.partition for each in later] == [1]
            assert group.offsets[TOPIC_ID, 0] == 1

    run(scenario())


def test_a_newer_target_is_taken_over_after_the_one_that_is_under_way() -> None:
    class Slow(Told):
        async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            super().on_partitions_revoked(partitions)
            seen = len(group.heartbeats)
            if len(self.calls) == 2:
                group.give(0)
                await until(lambda: len(group.heartbeats) >= seen + 3)

    async def scenario() -> None:
        async with group.consumer() as consumer:
            consumer.subscribe(["t"], told)
            await poll_until(consumer, lambda: group.reported)
            group.give(0, 1)
            await poll_until(consumer, lambda: assigned(consumer) == [0])
            await poll_until(consumer, lambda: len(group.reported) == 3)
            assert group.reported == [ALL, [0, 1], [0]]
            assert told.calls == [
                ("assigned", ALL),
                ("revoked", [2, 3]),
                ("assigned", []),
                ("revoked", [1]),
                ("assigned", []),
            ]

    group, told = FakeGroup(), Slow()
    run(scenario())


def test_heartbeats_go_on_while_a_listener_works_and_report_only_what_is_given_up() -> None:
    class Slow(Told):
        async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            super().on_partitions_revoked(partitions)
            if len(self.calls) == 2:
                before = len(group.heartbeats)
                await until(lambda: len(group.heartbeats) >= before + 3)
                assert group.reported == [ALL], "they are the member's own until this returns"

    async def scenario() -> None:
        async with group.consumer() as consumer:
            consumer.subscribe(["t"], Slow())
            await poll_until(consumer, lambda: group.reported)
            group.give(0)
            await poll_until(consumer, lambda: len(group.reported) == 2)
            assert group.reported[1] == [0]

    group = FakeGroup()
    run(scenario())


def test_a_topic_that_the_client_does_not_know_yet_waits_for_metadata() -> None:
    async def scenario() -> None:
        group = FakeGroup()
        new_id = UUID(int=99)
        async with group.consumer() as consumer:
            told = await join(consumer, group, 0)
            # The topic was deleted and created again: the coordinator has heard of it first.
            group.give(0, 1, topic_id=new_id)
            await poll_until(consumer, lambda: told.calls[-1] == ("assigned", []))
            assert told.calls[1:] == [("revoked", [0]), ("assigned", [])]
            assert not consumer.assignment()
            group.cluster.ids["t"] = new_id
            await poll_until(consumer, lambda: assigned(consumer) == [0, 1])
            assert told.calls[3:] == [("assigned", [0, 1])]

    run(scenario())


def test_a_listener_that_fails_is_heard_of_and_harms_nothing() -> None:
    class Failing(Told):
        def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            super().on_partitions_revoked(partitions)
            raise ValueError("no")

    async def scenario() -> None:
        async with group.consumer() as consumer:
            consumer.subscribe(["t"], told)
            await poll_until(consumer, lambda: group.reported)
            group.give(0)
            with pytest.raises(ValueError, match="no"):
                await poll_until(consumer, lambda: False)
            await poll_until(consumer, lambda: len(group.reported) == 2)
            assert told.calls == [("assigned", ALL), ("revoked", [1, 2, 3]), ("assigned", [])]
            with pytest.raises(ValueError, match="no"):
                await consumer.close()

    group, told = FakeGroup(), Failing()
    run(scenario())


def test_a_poll_that_is_cancelled_in_the_listener_gives_the_partitions_up_once() -> None:
    class Hanging(Told):
        async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            super().on_partitions_revoked(partitions)
            if len(self.calls) == 2:
                await asyncio.sleep(60)

    async def scenario() -> None:
        async with group.consumer() as consumer:
            consumer.subscribe(["t"], told)
            await poll_until(consumer, lambda: group.reported)
            group.give(0)
            polling = asyncio.create_task(poll_until(consumer, lambda: False))
            await until(lambda: len(told.calls) == 2)
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)
            assert assigned(consumer) == [0]
            await poll_until(consumer, lambda: len(group.reported) == 2)
            assert told.calls == [("assigned", ALL), ("revoked", [1, 2, 3])]
            assert group.reported == [ALL, [0]]

    group, told = FakeGroup(), Hanging()
    run(scenario())


def test_a_listener_may_unsubscribe() -> None:
    class Leaving(Told):
        async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            super().on_partitions_revoked(partitions)
            if len(self.calls) == 2:
                await self.consumer.unsubscribe()

        consumer: Consumer

    async def scenario() -> None:
        async with group.consumer() as consumer:
            told.consumer = consumer
            consumer.subscribe(["t"], told)
            await poll_until(consumer, lambda: group.reported)
            group.give(0)
            with pytest.raises(IllegalStateError, match="reads nothing"):
                await poll_until(consumer, lambda: False)
            assert not consumer.assignment()
            assert group.heartbeats[-1].member_epoch == -1

    group, told = FakeGroup(), Leaving()
    run(scenario())


# Removal


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_member_that_was_removed_loses_its_partitions_and_joins_again(code: ErrorCode) -> None:
    async def scenario() -> None:
        group = FakeGroup()
        async with group.consumer() as consumer:
            told = await join(consumer, group, *ALL)
            group.refuse(code)
            await until(lambda: state_of(consumer) is ConsumerState.FENCED)
            assert told.calls == [("assigned", ALL)], "listeners are called in poll only"
            with pytest.raises(CommitFailedError):
                await consumer.commit({("t", 0): 1})
            await poll_until(consumer, lambda: len(group.reported) == 2)
            assert told.calls == [("assigned", ALL), ("lost", ALL), ("assigned", ALL)]
            first, again = group.joins
            assert (again.member_id, again.topic_partitions) == (first.member_id, [])
            assert news(again) == news(first)

    run(scenario())


def test_a_member_that_is_removed_while_its_listener_works_does_not_acknowledge() -> None:
    class Removed(Told):
        async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            super().on_partitions_revoked(partitions)
            if len(self.calls) == 2:
                group.refuse(ErrorCode.FENCED_MEMBER_EPOCH)
                await until(lambda: state_of(consumers[0]) is ConsumerState.FENCED)

    async def scenario() -> None:
        async with group.consumer() as consumer:
            consumers.append(consumer)
            consumer.subscribe(["t"], told)
            await poll_until(consumer, lambda: group.reported)
            group.give(0)
            await poll_until(consumer, lambda: len(group.reported) == 2)
            assert told.calls == [
                ("assigned", ALL),
                ("revoked", [1, 2, 3]),
                ("lost", ALL),
                ("assigned", [0]),
            ]
            assert len(group.joins) == 2
            assert group.reported == [ALL, [0]]

    group, told = FakeGroup(), Removed()
    consumers: list[Consumer] = []
    run(scenario())


def test_a_member_whose_program_does_not_poll_leaves_and_joins_again_with_the_next_poll() -> None:
    async def scenario() -> None:
        group = FakeGroup()
        async with group.consumer(max_poll_interval_ms=150) as consumer:
            told = await join(consumer, group, *ALL)
            await until(lambda: group.heartbeats[-1].member_epoch == -1)
            count = len(group.heartbeats)
            with pytest.raises(CommitFailedError, match=r"longer than max\.poll\.interval\.ms"):
                await consumer.commit({("t", 0): 1})
            await asyncio.sleep(0.05)
            assert len(group.heartbeats) == count, "a member that left sends no heartbeats"
            assert told.calls == [("assigned", ALL)]
            await poll_until(consumer, lambda: len(group.reported) == 2)
            assert told.calls == [("assigned", ALL), ("lost", ALL), ("assigned", ALL)]

    run(scenario())


def test_a_waiting_poll_counts_as_polling() -> None:
    async def scenario() -> None:
        group = FakeGroup()
        async with group.consumer(max_poll_interval_ms=100) as consumer:
            await join(consumer, group, 0)
            await consumer.poll(0.4)
            assert {each.member_epoch for each in group.heartbeats} == {0, 1}

    run(scenario())


def test_an_answer_that_comes_after_the_member_left_does_not_bring_it_back() -> None:
    async def scenario() -> None:
        group = FakeGroup()
        async with group.consumer() as consumer:
            told = await join(consumer, group, *ALL)
            group.open.clear()
            before = len(group.heartbeats)
            await poll_until(consumer, lambda: len(group.heartbeats) > before)
            group.give(1)
            await consumer.unsubscribe()
            group.open.set()
            await until(lambda: group.heartbeats[-1].member_epoch == -1)
            await asyncio.sleep(0.02)
            assert state_of(consumer) is ConsumerState.UNSUBSCRIBED
            assert told.calls == [("assigned", ALL), ("revoked", ALL)]

    run(scenario())


# Leaving


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("waiter-1", -2)])
def test_a_member_leaves_at_once_and_a_static_one_may_come_back(
    instance: str | None, epoch: int
) -> None:
    async def scenario() -> None:
        group = FakeGroup()
        options = {} if instance is None else {"group_instance_id": instance}
        async with group.consumer(**options) as consumer:
            told = await join(consumer, group, *ALL)
        assert {each.instance_id for each in group.heartbeats} == {instance}
        assert [each.member_epoch for each in group.heartbeats if each.member_epoch < 0] == [epoch]
        assert told.calls == [("assigned", ALL), ("revoked", ALL)]

    run(scenario())


def test_unsubscribing_leaves_and_subscribing_joins_again() -> None:
    async def scenario() -> None:
        group = FakeGroup()
        async with group.consumer() as consumer:
            told = await join(consumer, group, *ALL)
            await consumer.unsubscribe()
            assert consumer.group_metadata() == ("g", -1, "", None)
            await until(lambda: group.heartbeats[-1].member_epoch == -1)
            consumer.subscribe(["t"], told)
            await poll_until(consumer, lambda: len(group.reported) == 2)
            assert [each.member_epoch for each in group.heartbeats if each.member_epoch < 1] == [
                0,
                -1,
                0,
            ]

    run(scenario())


# Errors


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ],
)
def test_an_error_that_a_retry_does_not_cure_is_raised_by_every_poll(code: ErrorCode) -> None:
    async def scenario() -> None:
        group = FakeGroup()
        async with group.consumer() as consumer:
            told = await join(consumer, group, *ALL)
            group.refuse(code, "because of that")
            for _ in range(2):
                with pytest.raises(KafkaError, match="because of that") as refused:
                    await poll_until(consumer, lambda: False)
                assert refused.value.code is code
            assert told.calls == [("assigned", ALL), ("lost", ALL)]
            assert not consumer.health().ok
            count = len(group.heartbeats)
            await asyncio.sleep(0.05)
            assert len(group.heartbeats) == count
            await consumer.unsubscribe()
            consumer.subscribe(["t"], told)
            await poll_until(consumer, lambda: len(group.reported) == 2)

    run(scenario())


@pytest.mark.parametrize("is_switched_off", [True, False])
def test_a_broker_without_the_protocol_is_told_apart(is_switched_off: bool) -> None:
    async def scenario() -> None:
        group = FakeGroup()
        if is_switched_off:
            group.refuse(ErrorCode.UNSUPPORTED_VERSION)
        else:
            del group.broker.versions[HEARTBEAT_API]
        async with group.consumer() as consumer:
            consumer.subscribe(["t"])
            with pytest.raises(
                FatalError, match=r"KIP-848.*use group\.protocol=classic"
            ) as refused:
                await poll_until(consumer, lambda: False)
            assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION

    run(scenario())


def test_a_topic_that_may_not_be_read_is_told_and_the_member_stays() -> None:
    async def scenario() -> None:
        group = FakeGroup()
        async with group.consumer() as consumer:
            told = await join(consumer, group, 0)
            group.refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no right to read t")
            with pytest.raises(KafkaError, match="no right to read t"):
                await poll_until(consumer, lambda: False)
            await poll_until(consumer, lambda: len(group.reported) == 2)
            assert told.calls == [("assigned", [0])]
            assert len(group.joins) == 1

    run(scenario())


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ],
)
def test_after_an_error_that_passes_the_next_heartbeat_has_everything(code: ErrorCode) -> None:
    async def scenario() -> None:
        group = FakeGroup()
        async with group.consumer() as consumer:
            told = await join(consumer, group, 0)
            group.refuse(code)
            await poll_until(consumer, lambda: len(group.reported) == 2)
            full = [each for each in group.heartbeats if each.subscribed_topic_names is not None]
            assert [each.member_epoch for each in full] == [0, 1]
            lookups = len(group.broker.asked_for(FindCoordinatorRequest))
            assert lookups == (1 if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else 2)
            assert told.calls == [("assigned", [0])]

    run(scenario())


def test_a_lost_connection_costs_no_membership() -> None:
    async def scenario() -> None:
        group = FakeGroup()
        async with group.consumer() as consumer:
            told = await join(consumer, group, 0)
            group.broker.drop_connections()
            before = len(group.heartbeats)
            await poll_until(consumer, lambda: len(group.heartbeats) >= before + 3)
            assert told.calls == [("assigned", [0])]
            assert len(group.joins) == 1

    run(scenario())


def test_a_rebalance_cannot_be_enforced(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        group = FakeGroup()
        async with group.consumer() as consumer:
            await join(consumer, group, 0)
            with caplog.at_level(logging.WARNING, "ottla.client.group"):
                consumer.enforce_rebalance("a wish")
            assert "cannot be enforced with group.protocol=consumer (a wish)" in caplog.text

    run(scenario())


# Offsets


def test_a_commit_with_an_old_epoch_is_repeated_with_the_new_one() -> None:
    async def scenario() -> None:
        group = FakeGroup()
        async with group.consumer(enable_auto_commit=False) as consumer:
            await join(consumer, group, *ALL)
            group.commit_refusals = [ErrorCode.STALE_MEMBER_EPOCH] * 2
            group.epoch += 1
            await consumer.commit({("t", 0): 7})
            assert group.offsets == {(TOPIC_ID, 0): 7}
            assert [each.member_id for each in group.commits] == [group.joins[0].member_id] * 3
            assert group.commits[-1].generation_id_or_member_epoch <= group.epoch

    run(scenario())


def test_a_commit_of_a_member_that_was_removed_fails() -> None:
    async def scenario() -> None:
        group = FakeGroup()
        async with group.consumer(enable_auto_commit=False) as consumer:
            await join(consumer, group, *ALL)
            group.commit_refusals = [ErrorCode.UNKNOWN_MEMBER_ID]
            with pytest.raises(CommitFailedError):
                await consumer.commit({("t", 0): 7})

    run(scenario())


@pytest.mark.parametrize("code", [ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_committed_offsets_are_asked_for_with_the_epoch_until_it_fits(code: ErrorCode) -> None:
    async def scenario() -> None:
        group = FakeGroup()
        group.cluster.logs[TopicPartition("t", 0)].append(*[b"x"] * 5)
        group.offsets[TOPIC_ID, 0] = 5
        group.fetch_refusals = [code]
        async with group.consumer() as consumer:
            await join(consumer, group, 0)
            assert await consumer.position(("t", 0)) == 5
            asked = [each.request.groups[0] for each in group.broker.asked_for(OffsetFetchRequest)]
            assert len(asked) == 2
            assert {(each.member_id, each.member_epoch) for each in asked} == {
                (group.joins[0].member_id, 1)
            }

    run(scenario())


def test_a_consumer_without_a_subscription_asks_and_commits_without_an_epoch() -> None:
    async def scenario() -> None:
        group = FakeGroup()
        async with group.consumer(enable_auto_commit=False) as consumer:
            consumer.assign([("t", 0)])
            await consumer.commit({("t", 0): 3})
            assert (await consumer.committed())[TopicPartition("t", 0)] == ottla.OffsetAndMetadata(
                3
            )
            (commit,) = group.commits
            assert (commit.member_id, commit.generation_id_or_member_epoch) == ("", -1)
            (asked,) = (
                each.request.groups[0] for each in group.broker.asked_for(OffsetFetchRequest)
            )
            assert (asked.member_id, asked.member_epoch) == (None, -1)
            assert not group.heartbeats

    run(scenario())


# Patterns


def test_the_broker_resolves_a_subscription_pattern() -> None:
    async def scenario() -> None:
        group = FakeGroup()
        group.cluster.ids["u"] = UUID(int=78)
        group.cluster.logs[TopicPartition("u", 0)] = Log()
        async with group.consumer() as consumer:
            told = Told()
            consumer.subscribe(ottla.SubscriptionPattern("t|u"), told)
            await poll_until(consumer, lambda: assigned(consumer) == ALL)
            first = group.heartbeats[0]
            assert (first.subscribed_topic_regex, first.subscribed_topic_names) == ("t|u", [])
            assert consumer.subscription() == {"t"}
            group.target = {TOPIC_ID: [0], UUID(int=78): [0]}
            await poll_until(consumer, lambda: ("u", 0) in consumer.assignment())
            assert consumer.subscription() == {"t", "u"}
            asked = [each.request.topics for each in group.broker.asked_for(MetadataRequest)]
            assert all(topics is not None for topics in asked), "never all topics of the cluster"
            group.cluster.logs[TopicPartition("u", 0)].append(b"record")
            assert [each.topic for each in await read(consumer, 1)] == ["u"]
            consumer.subscribe(ottla.SubscriptionPattern("u"), told)
            await poll_until(consumer, lambda: group.heartbeats[-1].subscribed_topic_regex == "u")

    run(scenario())


def test_a_broker_that_resolves_no_patterns_is_told_apart() -> None:
    async def scenario() -> None:
        group = FakeGroup()
        group.broker.versions[HEARTBEAT_API] = (0, 0)
        async with group.consumer() as consumer:
            consumer.subscribe(ottla.SubscriptionPattern("t"))
            with pytest.raises(FatalError, match=r"subscribe with re\.compile"):
                await poll_until(consumer, lambda: False)

    run(scenario())


def test_the_client_resolves_other_patterns() -> None:
    async def scenario() -> None:
        group = FakeGroup()
        async with group.consumer() as consumer:
            consumer.subscribe(re.compile("t"))
            await poll_until(consumer, lambda: group.heartbeats)
            first = group.heartbeats[0]
            assert (first.subscribed_topic_regex, first.subscribed_topic_names) == (None, [])
            assert group.broker.asked_for(MetadataRequest)[-1].request.topics is None

    run(scenario())


def test_a_subscription_pattern_needs_the_protocol_and_a_group() -> None:
    async def scenario() -> None:
        group = FakeGroup()
        async with group.consumer(group_protocol="classic") as consumer:
            with pytest.raises(IllegalStateError, match=r"only with group\.protocol=consumer"):
                consumer.subscribe(ottla.SubscriptionPattern("t"))
        async with group.consumer(group_id=None) as consumer:
            with pytest.raises(ConfigError, match=r"set group\.id"):
                consumer.subscribe(ottla.SubscriptionPattern("t"))

    with pytest.raises(ValueError, match="is no pattern"):
        ottla.SubscriptionPattern("")
    run(scenario())
