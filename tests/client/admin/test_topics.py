"""Topics and partitions: create, delete, list, describe, add partitions, elect leaders."""

from __future__ import annotations

import uuid

import pytest
from tests.client.admin.stage import Stage, essential

import ottla
from ottla.admin import ConfigSource, ElectionType, NewPartitions, NewTopic
from ottla.client.blocking.admin import Admin
from ottla.errors import ErrorCode, KafkaError, PartialFailureError
from ottla.model import TopicPartition


def code_of(error: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return error.value.code


@essential
def test_topics_are_created_with_what_was_asked_for(stage: Stage) -> None:
    first, second = stage.new_name(), stage.new_name()
    created = stage.admin.create_topics(
        [
            NewTopic(first, 3, 1, {"retention.ms": "12345"}),
            NewTopic(second, replicas_assignments={0: [1], 1: [1]}),
        ]
    )
    assert list(created) == [first, second]
    assert (created[first].num_partitions, created[first].replication_factor) == (3, 1)
    configs = created[first].configs
    assert configs is not None
    assert configs["retention.ms"].value == "12345"
    assert configs["retention.ms"].source is ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert stage.comes_true(lambda: {first, second} <= set(stage.admin.list_topics()))
    described = stage.admin.describe_topics([first, second])
    assert [len(topic.partitions) for topic in described.values()] == [3, 2]
    assert described[first].topic_id == created[first].topic_id


@essential
def test_counts_that_are_left_out_are_the_brokers_defaults(stage: Stage) -> None:
    name = stage.new_name()
    created = stage.admin.create_topics([NewTopic(name)])
    assert (created[name].num_partitions, created[name].replication_factor) == (1, 1)


@essential
def test_validate_only_creates_nothing(stage: Stage) -> None:
    name = stage.new_name()
    assert name in stage.admin.create_topics([NewTopic(name, 1, 1)], validate_only=True)
    assert name not in stage.admin.list_topics()


@essential
def test_one_topic_that_fails_raises_its_own_error(stage: Stage) -> None:
    name = stage.topic()
    with pytest.raises(KafkaError) as error:
        stage.admin.create_topics([NewTopic(name, 1, 1)])
    assert code_of(error) is ErrorCode.TOPIC_ALREADY_EXISTS
    assert not isinstance(error.value, PartialFailureError)
    assert error.value.context["api"] == "CreateTopics"
    assert error.value.context["topic"] == name
    assert "127.0.0.1" in str(error.value.context["broker"])


@essential
def test_of_several_topics_those_that_work_are_created_and_the_errors_say_the_rest(
    stage: Stage,
) -> None:
    old, new = stage.topic(), stage.new_name()
    with pytest.raises(PartialFailureError) as error:
        stage.admin.create_topics([NewTopic(old, 1, 1), NewTopic(new, 2, 1)])
    assert list(error.value.results) == [new]
    assert error.value.results[new].num_partitions == 2
    assert {name: one.code for name, one in error.value.errors.items()} == {
        old: ErrorCode.TOPIC_ALREADY_EXISTS
    }
    assert stage.comes_true(lambda: new in stage.admin.list_topics())


def test_a_topic_given_twice_or_with_two_plans_is_refused() -> None:
    with pytest.raises(ValueError, match="leave out num_partitions"):
        NewTopic("a", 1, replicas_assignments={0: [1]})


def test_the_same_topic_twice_in_one_call_is_refused(stage: Stage) -> None:
    with pytest.raises(ValueError, match="given twice"):
        stage.admin.create_topics([NewTopic("a", 1), NewTopic("a", 2)])


@essential
def test_topics_are_deleted_by_name_and_by_id(stage: Stage) -> None:
    by_name, by_id = stage.topic(), stage.topic()
    topic_id = stage.admin.describe_topics([by_id])[by_id].topic_id
    assert topic_id is not None
    stage.admin.delete_topics([by_name, topic_id])
    assert stage.comes_true(lambda: not {by_name, by_id} & set(stage.admin.list_topics()))


@essential
def test_deleting_what_is_not_there_is_an_error_and_deletes_the_rest(stage: Stage) -> None:
    name, missing, missing_id = stage.topic(), stage.new_name(), uuid.uuid4()
    with pytest.raises(PartialFailureError) as error:
        stage.admin.delete_topics([missing, name, missing_id])
    assert {key: one.code for key, one in error.value.errors.items()} == {
        missing: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        missing_id: ErrorCode.UNKNOWN_TOPIC_ID,
    }
    assert list(error.value.results) == [name]
    assert stage.comes_true(lambda: name not in stage.admin.list_topics())


@essential
def test_internal_topics_are_listed_only_if_asked_for(stage: Stage) -> None:
    stage.admin.alter_consumer_group_offsets(stage.new_name(), {(stage.topic(), 0): 0})
    assert "__consumer_offsets" not in stage.admin.list_topics()
    assert stage.admin.list_topics(list_internal=True)["__consumer_offsets"].is_internal


@essential
def test_topics_are_described_by_name_and_by_id(stage: Stage) -> None:
    name = stage.topic(2)
    found = stage.admin.describe_topics([name])[name]
    assert found.topic_id is not None
    again = stage.admin.describe_topics([found.topic_id])[found.topic_id]
    assert (again.name, again.topic_id) == (name, found.topic_id)
    assert [one.partition for one in again.partitions] == [0, 1]
    leader = again.partitions[0].leader
    assert leader is not None
    assert leader.port > 0
    assert again.partitions[0].replicas == (leader,)
    assert again.partitions[0].in_sync_replicas == (leader,)
    assert found.partitions[0].leader_epoch == again.partitions[0].leader_epoch
    assert found.authorized_operations is None


@essential
def test_pages_are_put_together(stage: Stage) -> None:
    names = [stage.topic(5) for _ in range(3)]
    for limit in (1, 2, 4, 5, 7, 15):
        found = stage.admin.describe_topics(names, partition_size_limit_per_response=limit)
        assert list(found) == names
        for topic in found.values():
            assert [one.partition for one in topic.partitions] == [0, 1, 2, 3, 4]


@essential
def test_all_topics_are_described_in_pages_of_any_size(stage: Stage) -> None:
    names = [stage.topic(5) for _ in range(3)]
    wanted = stage.admin.describe_topics(names)
    for limit in (1, 4, 5, 2000):
        found = stage.admin.describe_all_topics(partition_size_limit_per_response=limit)
        assert {name: found[name] for name in names} == wanted
        assert not any(topic.is_internal for topic in found.values())


@essential
def test_internal_topics_are_described_only_if_asked_for(stage: Stage) -> None:
    stage.admin.alter_consumer_group_offsets(stage.new_name(), {(stage.topic(), 0): 0})
    assert "__consumer_offsets" not in stage.admin.describe_all_topics()
    assert stage.admin.describe_all_topics(list_internal=True)["__consumer_offsets"].is_internal


@essential
def test_describing_what_is_not_there_is_an_error(stage: Stage) -> None:
    missing, missing_id, name = stage.new_name(), uuid.uuid4(), stage.topic()
    with pytest.raises(KafkaError) as error:
        stage.admin.describe_topics(missing)
    assert code_of(error) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(KafkaError) as error:
        stage.admin.describe_topics([missing_id])
    assert code_of(error) is ErrorCode.UNKNOWN_TOPIC_ID
    with pytest.raises(PartialFailureError) as failure:
        stage.admin.describe_topics([missing, name])
    assert list(failure.value.results) == [name]


@essential
def test_partitions_are_added(stage: Stage) -> None:
    first, second = stage.topic(), stage.topic()
    stage.admin.create_partitions({first: 3, second: NewPartitions(2, [[1]])})

    def counts() -> list[int]:
        found = stage.admin.describe_topics([first, second])
        return [len(topic.partitions) for topic in found.values()]

    assert stage.comes_true(lambda: counts() == [3, 2])
    stage.admin.create_partitions({first: 9}, validate_only=True)
    assert len(stage.admin.describe_topics([first])[first].partitions) == 3


@essential
def test_fewer_partitions_are_refused(stage: Stage) -> None:
    name = stage.topic(2)
    with pytest.raises(KafkaError) as error:
        stage.admin.create_partitions({name: 1})
    assert code_of(error) is ErrorCode.INVALID_PARTITIONS


@essential
def test_an_election_that_is_not_needed_is_no_error(stage: Stage) -> None:
    name = stage.topic(2)
    found = stage.admin.elect_leaders(ElectionType.PREFERRED, [(name, 0), (name, 1)])
    assert found == {TopicPartition(name, 0): False, TopicPartition(name, 1): False}
    with pytest.raises(KafkaError) as error:
        stage.admin.elect_leaders(ElectionType.PREFERRED, [(stage.new_name(), 0)])
    assert code_of(error) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@essential
def test_no_replicas_move(stage: Stage) -> None:
    name = stage.topic()
    assert stage.admin.list_partition_reassignments() == {}
    assert stage.admin.list_partition_reassignments([(name, 0)]) == {}


@essential
def test_replicas_that_hold_already_are_accepted_and_others_refused(stage: Stage) -> None:
    name = stage.topic(2)
    node_id = stage.admin.describe_cluster().nodes[0].id
    stage.admin.alter_partition_reassignments({(name, 0): [node_id], (name, 1): [node_id]})
    with pytest.raises(PartialFailureError) as error:
        stage.admin.alter_partition_reassignments(
            {(name, 0): [node_id], (name, 1): [99], (name, 7): [node_id]}
        )
    assert list(error.value.results) == [(name, 0)]
    assert {each.partition: one.code for each, one in error.value.errors.items()} == {
        1: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    with pytest.raises(KafkaError) as single:
        stage.admin.alter_partition_reassignments({(name, 0): None})
    assert single.value.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_elections_bring_leaders_back(three: ottla.Broker, admin_of_three: Admin) -> None:
    admin_of_three.create_topics([NewTopic("elected", 3)])
    partitions = [TopicPartition("elected", number) for number in range(3)]
    preferred = {one: three.leader_of(*one) for one in partitions}
    for partition, leader in preferred.items():
        three.move_leader(*partition, leader % 3 + 1)
    one = partitions[0]
    assert admin_of_three.elect_leaders(ElectionType.PREFERRED, [one]) == {one: True}
    assert three.leader_of(*one) == preferred[one]
    rest = admin_of_three.elect_leaders(ElectionType.PREFERRED)
    assert rest == dict.fromkeys(partitions[1:], True)
    assert {one: three.leader_of(*one) for one in partitions} == preferred


def test_topics_are_described_with_all_nodes(three: ottla.Broker, admin_of_three: Admin) -> None:
    admin_of_three.create_topics([NewTopic("spread", 3)])
    found = admin_of_three.describe_topics(["spread"])["spread"]
    leaders = [one.leader.id for one in found.partitions if one.leader is not None]
    assert sorted(leaders) == [1, 2, 3]
    addresses = {f"{one.leader.host}:{one.leader.port}" for one in found.partitions if one.leader}
    assert addresses == {three.address_of(node_id) for node_id in three.node_ids}
