"""Strangers' admin clients see groups and their offsets, change and delete them, and hear Kafka's errors."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import aiokafka
import aiokafka.admin
import kafka
import kafka.admin
import kafka.errors
import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaException,
)
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient
from kafka.structs import OffsetAndMetadata
from tests.groups.conftest import ADMIN_SECONDS, MakeGroup, Topics
from tests.groups.members import CLIENTS, Group

from ottla.model import TopicPartition

PARTITIONS = 2
COMMITTED = {0: 3, 1: 5}
NOTE = "where it was"


@dataclass
class Situation:
    """One group that is at work, and one that committed offsets and is empty."""

    bootstrap: str
    topic: str
    busy: Group
    idle_id: str

    @property
    def busy_id(self) -> str:
        return self.busy.group_id

    @property
    def instance_id(self) -> str:
        return "it"


@pytest.fixture
def situation(bootstrap: str, topics: Topics, make_group: MakeGroup, ottla_topic: str) -> Situation:
    partitions = topics.create(ottla_topic, PARTITIONS)
    group = make_group(bootstrap, CLIENTS["confluent-range"])
    member = group.start([ottla_topic], group_instance_id="it")
    idle_id = f"idle-{uuid.uuid4().hex[:12]}"
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": idle_id, "log_level": 0})
    positions = [
        Position(ottla_topic, partition, offset, NOTE) for partition, offset in COMMITTED.items()
    ]
    consumer.commit(offsets=positions, asynchronous=False)
    consumer.close()
    group.settle(partitions, member)
    return Situation(bootstrap, ottla_topic, group, idle_id)


def refusal(future: object) -> str:
    """The name of the error that a future of confluent-kafka ends in."""
    with pytest.raises(KafkaException) as caught:
        future.result(ADMIN_SECONDS)  # type: ignore[attr-defined]
    name: str = caught.value.args[0].name()
    return name


class TestConfluentKafka:
    @pytest.fixture
    def admin(self, situation: Situation) -> AdminClient:
        return AdminClient({"bootstrap.servers": situation.bootstrap, "log_level": 0})

    def test_groups_are_listed_by_state_and_type(
        self, situation: Situation, admin: AdminClient
    ) -> None:
        def listed(**filters: object) -> dict[str, str]:
            found = admin.list_consumer_groups(**filters).result(ADMIN_SECONDS)
            assert not found.errors
            assert all(group.type == ConsumerGroupType.CLASSIC for group in found.valid)
            return {group.group_id: group.state.name for group in found.valid}

        everything = listed()
        assert everything[situation.busy_id] == "STABLE"
        assert everything[situation.idle_id] == "EMPTY"
        stable = listed(states={ConsumerGroupState.STABLE})
        assert situation.busy_id in stable
        assert set(stable.values()) == {"STABLE"}
        assert situation.idle_id in listed(states={ConsumerGroupState.EMPTY})
        assert situation.idle_id in listed(types={ConsumerGroupType.CLASSIC})
        assert listed(types={ConsumerGroupType.CONSUMER}) == {}

    def test_groups_are_described(self, situation: Situation, admin: AdminClient) -> None:
        unknown = f"unknown-{uuid.uuid4().hex}"
        asked = admin.describe_consumer_groups(
            [situation.busy_id, situation.idle_id, unknown], include_authorized_operations=True
        )
        found = {name: future.result(ADMIN_SECONDS) for name, future in asked.items()}
        busy = found[situation.busy_id]
        assert (busy.state.name, busy.partition_assignor) == ("STABLE", "range")
        assert busy.is_simple_consumer_group is False
        coordinator = f"{busy.coordinator.host}:{busy.coordinator.port}"
        assert coordinator in situation.bootstrap.split(",")
        (member,) = busy.members
        assert (member.client_id, member.group_instance_id) == ("m0", situation.instance_id)
        assert member.host.lstrip("/") == "127.0.0.1"
        assert {(one.topic, one.partition) for one in member.assignment.topic_partitions} == {
            (situation.topic, number) for number in range(PARTITIONS)
        }
        idle = found[situation.idle_id]
        assert (idle.state.name, idle.members, idle.is_simple_consumer_group) == ("EMPTY", [], True)
        assert (found[unknown].state.name, found[unknown].members) == ("DEAD", [])

    def test_offsets_are_listed_and_altered(self, situation: Situation, admin: AdminClient) -> None:
        def offsets(*partitions: int) -> dict[int, tuple[int, str | None]]:
            asked = [Position(situation.topic, number) for number in partitions] or None
            request = ConsumerGroupTopicPartitions(situation.idle_id, asked)
            (future,) = admin.list_consumer_group_offsets([request]).values()
            found = future.result(ADMIN_SECONDS).topic_partitions
            assert all(one.error is None for one in found)
            return {one.partition: (one.offset, one.metadata) for one in found}

        assert offsets() == {0: (3, NOTE), 1: (5, NOTE)}
        assert offsets(1) == {1: (5, NOTE)}
        change = ConsumerGroupTopicPartitions(
            situation.idle_id, [Position(situation.topic, 0, 1, "back")]
        )
        (future,) = admin.alter_consumer_group_offsets([change]).values()
        assert [one.error for one in future.result(ADMIN_SECONDS).topic_partitions] == [None]
        assert offsets() == {0: (1, "back"), 1: (5, NOTE)}

    def test_offsets_of_a_group_at_work_are_not_altered(
        self, situation: Situation, admin: AdminClient
    ) -> None:
        change = ConsumerGroupTopicPartitions(situation.busy_id, [Position(situation.topic, 0, 0)])
        (future,) = admin.alter_consumer_group_offsets([change]).values()
        (partition,) = future.result(ADMIN_SECONDS).topic_partitions
        assert partition.error.name() == "UNKNOWN_MEMBER_ID"

    def test_only_empty_groups_are_deleted(self, situation: Situation, admin: AdminClient) -> None:
        unknown = f"unknown-{uuid.uuid4().hex}"
        asked = admin.delete_consumer_groups([situation.busy_id, situation.idle_id, unknown])
        assert asked[situation.idle_id].result(ADMIN_SECONDS) is None
        assert refusal(asked[situation.busy_id]) == "NON_EMPTY_GROUP"
        assert refusal(asked[unknown]) == "GROUP_ID_NOT_FOUND"
        listed = admin.list_consumer_groups().result(ADMIN_SECONDS).valid
        names = {group.group_id for group in listed}
        assert situation.busy_id in names
        assert situation.idle_id not in names
        request = ConsumerGroupTopicPartitions(situation.idle_id)
        (future,) = admin.list_consumer_group_offsets([request]).values()
        assert future.result(ADMIN_SECONDS).topic_partitions == []


class TestKafkaPython:
    @pytest.fixture
    def admin(self, situation: Situation) -> Iterator[kafka.admin.KafkaAdminClient]:
        client = kafka.admin.KafkaAdminClient(bootstrap_servers=situation.bootstrap.split(","))
        yield client
        client.close()

    def test_groups_are_listed_and_described(
        self, situation: Situation, admin: kafka.admin.KafkaAdminClient
    ) -> None:
        listed = {group["group_id"]: group for group in admin.list_groups()}
        assert listed[situation.busy_id]["protocol_type"] == "consumer"
        assert listed[situation.busy_id]["group_state"] == "Stable"
        assert listed[situation.busy_id]["group_type"] == "classic"
        assert listed[situation.idle_id]["group_state"] == "Empty"
        empty = admin.list_groups(states_filter=["Empty"])
        assert situation.idle_id in [group["group_id"] for group in empty]
        assert situation.busy_id not in [group["group_id"] for group in empty]
        described = admin.describe_groups([situation.busy_id])[situation.busy_id]
        assert (described["group_state"], described["protocol_data"]) == ("Stable", "range")
        (member,) = described["members"]
        assert member["group_instance_id"] == situation.instance_id

    def test_offsets_are_listed_altered_and_deleted(
        self, situation: Situation, admin: kafka.admin.KafkaAdminClient
    ) -> None:
        first, second = (kafka.TopicPartition(situation.topic, number) for number in (0, 1))

        def offsets() -> dict[kafka.TopicPartition, int]:
            found = admin.list_group_offsets(situation.idle_id)[situation.idle_id]
            return {partition: one.offset for partition, one in found.items()}

        assert offsets() == {first: 3, second: 5}
        done = admin.alter_group_offsets(situation.idle_id, {first: OffsetAndMetadata(1, "", -1)})
        assert done == {first: kafka.errors.NoError}
        assert offsets() == {first: 1, second: 5}
        done = admin.delete_group_offsets(situation.idle_id, [second])
        assert done == {second: kafka.errors.NoError}
        assert offsets() == {first: 1}
        done = admin.delete_group_offsets(situation.busy_id, [first])
        assert done == {first: kafka.errors.GroupSubscribedToTopicError}

    def test_members_are_removed_and_groups_deleted(
        self, situation: Situation, admin: kafka.admin.KafkaAdminClient
    ) -> None:
        busy, idle = situation.busy_id, situation.idle_id
        assert admin.delete_groups([busy, idle]) == {busy: "NonEmptyGroupError", idle: "OK"}
        (member,) = situation.busy.members
        member.pause()
        stranger = kafka.admin.MemberToRemove(group_instance_id="another")
        own = kafka.admin.MemberToRemove(group_instance_id=situation.instance_id)
        answer = admin.remove_group_members(busy, [own, stranger])
        assert answer["another"] == kafka.errors.UnknownMemberIdError
        assert sorted(error.__name__ for error in answer.values()) == [
            "NoError",
            "UnknownMemberIdError",
        ]
        assert admin.describe_groups([busy])[busy]["group_state"] == "Empty"
        assert admin.delete_groups([busy]) == {busy: "OK"}


def test_aiokafka_lists_and_describes_groups_and_their_offsets(situation: Situation) -> None:
    async def ask() -> None:
        admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=situation.bootstrap.split(","))
        await admin.start()
        try:
            listed = {group[0]: group[1] for group in await admin.list_consumer_groups()}
            assert listed[situation.busy_id] == "consumer"
            assert situation.idle_id in listed
            (answer,) = await admin.describe_consumer_groups([situation.busy_id])
            assert answer.groups[0][:3] == (0, situation.busy_id, "Stable")
            found = await admin.list_consumer_group_offsets(situation.idle_id)
            assert {
                partition.partition: one.offset for partition, one in found.items()
            } == COMMITTED
            # confluent-kafka commits the zero byte behind a string as well.
            assert {one.metadata.rstrip("\0") for one in found.values()} == {NOTE}
        finally:
            await admin.close()

    asyncio.run(ask())


def test_offsets_go_with_their_topic(situation: Situation, topics: Topics) -> None:
    assert topics.committed(situation.idle_id) == {
        TopicPartition(situation.topic, partition): offset
        for partition, offset in COMMITTED.items()
    }
    (member,) = situation.busy.members
    member.leave()
    (deleted,) = topics.admin.delete_topics([situation.topic]).values()
    deleted.result(ADMIN_SECONDS)
    situation.busy.history.wait(
        "without offsets", lambda: topics.committed(situation.idle_id) == {}, ADMIN_SECONDS
    )
