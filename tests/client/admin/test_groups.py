"""Groups: list, describe, delete, remove members."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker import group_requests as ask
from tests.client.admin.consumer_members import ConsumerMember
from tests.client.admin.stage import Stage, essential

import ottla
from ottla.admin import GroupState, GroupType, MemberToRemove, NewTopic
from ottla.client.blocking.admin import Admin
from ottla.client.model import OffsetAndMetadata
from ottla.core.assignors.model import Assignment
from ottla.core.assignors.protocol import encode_assignment
from ottla.errors import ErrorCode, KafkaError, PartialFailureError
from ottla.model import TopicPartition


def enter(stage: Stage, group: str, **details: Any) -> ask.Joined:
    """A group with one member that has both partitions of a topic."""
    ask.await_coordinator(stage.connection, group)
    given = Assignment((TopicPartition("of-tests", 0), TopicPartition("of-tests", 1)))
    return ask.enter(stage.connection, group, assignment=encode_assignment(given), **details)


def leave(stage: Stage, member: ask.Joined) -> None:
    ask.leave(stage.connection, member.group, (member.member_id, member.instance_id))


@essential
def test_groups_are_listed_with_state_type_and_protocol(stage: Stage) -> None:
    simple, stable, other = (stage.new_name() for _ in range(3))
    stage.admin.alter_consumer_group_offsets(simple, {(stage.topic(), 0): 0})
    member = enter(stage, stable)
    worker = enter(stage, other, protocol_type="connect")
    found = stage.admin.list_groups()
    assert found[simple].is_simple_consumer_group
    assert (found[simple].state, found[simple].type) == (GroupState.EMPTY, GroupType.CLASSIC)
    assert (found[stable].state, found[stable].protocol_type) == (GroupState.STABLE, "consumer")
    assert found[other].protocol_type == "connect"
    consumers = stage.admin.list_consumer_groups()
    assert {simple, stable} <= set(consumers)
    assert other not in consumers
    leave(stage, member)
    leave(stage, worker)


@essential
def test_groups_are_listed_by_state_and_type(stage: Stage) -> None:
    empty, stable = stage.new_name(), stage.new_name()
    stage.admin.alter_consumer_group_offsets(empty, {(stage.topic(), 0): 0})
    member = enter(stage, stable)
    assert {empty, stable} & set(stage.admin.list_groups(states=[GroupState.STABLE])) == {stable}
    both = stage.admin.list_groups(states=[GroupState.STABLE, GroupState.EMPTY])
    assert {empty, stable} <= set(both)
    assert {empty, stable} <= set(stage.admin.list_groups(types=[GroupType.CLASSIC]))
    assert not {empty, stable} & set(stage.admin.list_groups(types=[GroupType.CONSUMER]))
    leave(stage, member)


@essential
def test_members_are_described_with_their_partitions(stage: Stage) -> None:
    group = stage.new_name()
    member = enter(stage, group)
    found = stage.admin.describe_consumer_groups([group])[group]
    assert (found.state, found.type) == (GroupState.STABLE, GroupType.CLASSIC)
    assert found.protocol_type == "consumer"
    assert found.partition_assignor == ask.PROTOCOL
    assert found.coordinator == stage.admin.describe_cluster().nodes[0]
    (described,) = found.members
    assert described.member_id == member.member_id
    assert described.group_instance_id is None
    assert described.client_id == "ottla-raw"
    assert described.host == "/127.0.0.1"
    assert described.assignment == (("of-tests", 0), ("of-tests", 1))
    assert (described.type, described.member_epoch) == (GroupType.CLASSIC, None)
    assert (described.target_assignment, found.group_epoch) == (None, None)
    leave(stage, member)
    assert stage.admin.describe_consumer_groups(group)[group].members == ()


@essential
def test_groups_of_other_protocols_are_described_as_they_are(stage: Stage) -> None:
    group = stage.new_name()
    member = enter(stage, group, protocol_type="connect")
    found = stage.admin.describe_groups([group])[group]
    assert found.protocol_type == "connect"
    assert found.members[0].assignment == ()
    assert found.members[0].member_assignment != b""
    with pytest.raises(KafkaError, match="not a consumer group") as error:
        stage.admin.describe_consumer_groups([group])
    assert error.value.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    leave(stage, member)


def test_an_assignment_that_cannot_be_read_does_not_hide_the_group(stage: Stage) -> None:
    group = stage.new_name()
    ask.await_coordinator(stage.connection, group)
    member = ask.enter(stage.connection, group, assignment=b"\x00\x00garbage")
    found = stage.admin.describe_consumer_groups([group])[group]
    assert found.members[0].assignment == ()
    assert found.members[0].member_assignment == b"\x00\x00garbage"
    leave(stage, member)


@essential
def test_groups_that_do_not_exist_are_an_error(stage: Stage) -> None:
    missing = stage.new_name()
    with pytest.raises(KafkaError) as error:
        stage.admin.describe_consumer_groups([missing])
    assert error.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert error.value.context["group"] == missing
    with pytest.raises(KafkaError) as error:
        stage.admin.delete_consumer_groups([missing])
    assert error.value.code is ErrorCode.GROUP_ID_NOT_FOUND


@essential
def test_only_groups_without_members_are_deleted(stage: Stage) -> None:
    empty, stable = stage.new_name(), stage.new_name()
    stage.admin.alter_consumer_group_offsets(empty, {(stage.topic(), 0): 0})
    member = enter(stage, stable)
    with pytest.raises(PartialFailureError) as error:
        stage.admin.delete_consumer_groups([empty, stable])
    assert list(error.value.results) == [empty]
    assert error.value.errors[stable].code is ErrorCode.NON_EMPTY_GROUP
    assert empty not in stage.admin.list_groups()
    leave(stage, member)


@essential
def test_members_are_removed_by_name_or_all(stage: Stage) -> None:
    static, dynamic = stage.new_name(), stage.new_name()
    enter(stage, static, instance_id="one")
    stage.admin.remove_members_from_consumer_group(static, [MemberToRemove("one")], reason="test")
    assert stage.admin.describe_consumer_groups([static])[static].members == ()
    enter(stage, static, instance_id="two")
    enter(stage, dynamic)
    for group in (static, dynamic):
        stage.admin.remove_members_from_consumer_group(group)
        assert stage.admin.describe_consumer_groups([group])[group].state is GroupState.EMPTY
        stage.admin.remove_members_from_consumer_group(group)


@essential
def test_removing_members_that_are_not_there_removes_the_others(stage: Stage) -> None:
    group = stage.new_name()
    enter(stage, group, instance_id="here")
    with pytest.raises(PartialFailureError) as error:
        stage.admin.remove_members_from_consumer_group(
            group, [MemberToRemove("gone"), MemberToRemove("here")]
        )
    assert list(error.value.results) == [MemberToRemove("here")]
    assert error.value.errors[MemberToRemove("gone")].code is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.admin.describe_consumer_groups([group])[group].members == ()


# The consumer protocol (KIP-848)


@essential
def test_members_of_consumer_groups_are_described_with_epochs_and_targets(stage: Stage) -> None:
    topic, group = stage.topic(2), stage.new_name()
    both = (TopicPartition(topic, 0), TopicPartition(topic, 1))
    first = ConsumerMember(stage.connection, group, [topic])
    first.obey_until(lambda: first.owns(2))
    found = stage.admin.describe_groups([group])[group]
    assert (found.type, found.state) == (GroupType.CONSUMER, GroupState.STABLE)
    assert (found.protocol_type, found.partition_assignor) == ("consumer", "uniform")
    assert found.group_epoch == found.target_assignment_epoch == first.epoch
    assert found.coordinator == stage.admin.describe_cluster().nodes[0]
    (member,) = found.members
    assert (member.member_id, member.member_epoch) == (first.member_id, first.epoch)
    assert (member.type, member.client_id) == (GroupType.CONSUMER, "ottla-raw")
    assert (member.group_instance_id, member.rack_id) == (None, None)
    assert (member.subscribed_topics, member.subscribed_topic_regex) == ((topic,), None)
    assert set(member.assignment) == set(member.target_assignment or ()) == set(both)

    second = ConsumerMember(stage.connection, group, [topic], instance_id="two", rack_id="rack-2")

    def has_a_target() -> bool:
        members = stage.admin.describe_consumer_groups([group])[group].members
        return all(len(each.target_assignment or ()) == 1 for each in members)

    # The first keeps both partitions until it says that it has given one up.
    second.obey_until(has_a_target)
    found = stage.admin.describe_consumer_groups([group])[group]
    assert found.state is GroupState.RECONCILING
    assert stage.admin.list_groups(types=[GroupType.CONSUMER])[group].state is found.state
    members = {each.member_id: each for each in found.members}
    static = members[second.member_id]
    assert (static.group_instance_id, static.rack_id) == ("two", "rack-2")
    assert (static.assignment, static.member_epoch) == ((), found.target_assignment_epoch)
    targets = [each.target_assignment or () for each in members.values()]
    assert sorted(partition for target in targets for partition in target) == [*both]
    first.obey_until(lambda: first.owns(1) and first.epoch == found.group_epoch)
    second.obey_until(lambda: second.owns(1))
    assert stage.admin.list_groups()[group].state is GroupState.STABLE
    stage.admin.remove_members_from_consumer_group(group)


@essential
def test_a_pattern_is_described_as_it_was_given(stage: Stage) -> None:
    group = stage.new_name()
    member = ConsumerMember(stage.connection, group, [], regex=group + "-.*")
    (described,) = stage.admin.describe_groups([group])[group].members
    assert described.subscribed_topics == ()
    assert described.subscribed_topic_regex == group + "-.*"
    member.leave()
    found = stage.admin.describe_groups([group])[group]
    assert (found.state, found.type, found.members) == (GroupState.EMPTY, GroupType.CONSUMER, ())


@essential
def test_consumer_groups_are_changed_only_without_members(stage: Stage) -> None:
    topic, group = stage.topic(), stage.new_name()
    ConsumerMember(stage.connection, group, [topic])
    ConsumerMember(stage.connection, group, [topic], instance_id="static")
    with pytest.raises(KafkaError, match="stop its consumers first") as error:
        stage.admin.alter_consumer_group_offsets(group, {(topic, 0): 0})
    assert error.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    with pytest.raises(KafkaError, match="subscribed to the topic") as error:
        stage.admin.delete_consumer_group_offsets(group, [(topic, 0)])
    assert error.value.code is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    with pytest.raises(KafkaError) as error:
        stage.admin.delete_consumer_groups([group])
    assert error.value.code is ErrorCode.NON_EMPTY_GROUP

    stage.admin.remove_members_from_consumer_group(group, [MemberToRemove("static")])
    (left,) = stage.admin.describe_groups([group])[group].members
    assert left.group_instance_id is None
    stage.admin.remove_members_from_consumer_group(group)
    assert stage.admin.describe_groups([group])[group].state is GroupState.EMPTY
    stage.admin.alter_consumer_group_offsets(group, {(topic, 0): 0})
    committed = stage.admin.list_consumer_group_offsets([group])[group]
    assert committed[TopicPartition(topic, 0)] == OffsetAndMetadata(0)
    stage.admin.delete_consumer_group_offsets(group, [(topic, 0)])
    stage.admin.delete_consumer_groups([group])
    assert group not in stage.admin.list_groups()


def test_groups_of_all_coordinators_are_found(three: ottla.Broker, admin_of_three: Admin) -> None:
    admin_of_three.create_topics([NewTopic("of-groups", 1)])
    groups = [f"spread-{number}" for number in range(12)]
    for group in groups:
        admin_of_three.alter_consumer_group_offsets(group, {("of-groups", 0): 0})
    assert set(groups) <= set(admin_of_three.list_consumer_groups())
    found = admin_of_three.describe_consumer_groups(groups)
    assert list(found) == groups
    assert {one.coordinator.id for one in found.values()} == set(three.node_ids)
    admin_of_three.delete_consumer_groups(groups)
    assert not set(groups) & set(admin_of_three.list_groups())
