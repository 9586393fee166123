"""Kafka 2.1: what it can do is done another way, what it cannot do is said clearly."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from tests.broker import group_requests as ask
from tests.client.admin.old_broker import old_broker

from ottla.admin import (
    AbortTransactionSpec,
    AlterConfig,
    ConfigResource,
    ElectionType,
    GroupState,
    IsolationLevel,
    MemberToRemove,
    NewTopic,
    OffsetSpec,
)
from ottla.client.blocking.admin import Admin
from ottla.client.model import OffsetAndMetadata
from ottla.client.raw import RawConnection
from ottla.errors import AbortableError, ErrorCode, KafkaError, PartialFailureError
from ottla.model import TopicPartition

TOPIC, GROUPS = "old", ("first", "second", "third")
FIRST = TopicPartition(TOPIC, 0)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with old_broker() as address:
        yield address


@pytest.fixture(scope="module")
def admin(address: str) -> Iterator[Admin]:
    with Admin(bootstrap_servers=address) as admin:
        admin.create_topics([NewTopic(TOPIC, 2, 1)])
        for number, group in enumerate(GROUPS):
            admin.alter_consumer_group_offsets(group, {FIRST: number})
        yield admin


def test_topics_are_created_described_grown_and_deleted(admin: Admin) -> None:
    created = admin.create_topics([NewTopic("other", 1, 1)])["other"]
    assert (created.topic_id, created.num_partitions, created.configs) == (None, None, None)
    assert admin.list_topics()["other"].topic_id is None
    admin.create_partitions({"other": 3})
    found = admin.describe_topics(["other"])["other"]
    assert [one.partition for one in found.partitions] == [0, 1, 2]
    assert found.partitions[0].eligible_leader_replicas is None
    assert admin.describe_all_topics()["other"] == found
    admin.delete_topics(["other"])
    assert "other" not in admin.list_topics()


def test_groups_are_found_one_by_one(admin: Admin) -> None:
    found = admin.list_consumer_group_offsets(GROUPS)
    assert found == {
        group: {FIRST: OffsetAndMetadata(number)} for number, group in enumerate(GROUPS)
    }
    assert set(GROUPS) <= set(admin.list_consumer_groups())
    assert admin.list_groups()["first"].state is None
    assert list(admin.describe_consumer_groups(GROUPS)) == list(GROUPS)
    assert admin.describe_consumer_groups("first")["first"].state is GroupState.EMPTY


def test_a_group_that_is_not_there_is_an_error_though_the_broker_calls_it_dead(
    admin: Admin,
) -> None:
    with pytest.raises(KafkaError) as error:
        admin.describe_consumer_groups("missing")
    assert error.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_one_dynamic_member_is_removed(admin: Admin, address: str) -> None:
    with RawConnection(address) as connection:
        answer = ask.join(connection, "joined", version=3)
        admin.remove_members_from_consumer_group("joined", [MemberToRemove(None, answer.member_id)])
    assert admin.describe_consumer_groups("joined")["joined"].members == ()


def test_offsets_and_records(admin: Admin) -> None:
    found = admin.list_offsets(
        {FIRST: OffsetSpec.LATEST}, isolation_level=IsolationLevel.READ_COMMITTED
    )
    assert found[FIRST].offset == 0
    assert admin.delete_records({FIRST: -1}) == {FIRST: 0}
    assert FIRST in admin.offsets_for_leader_epochs({FIRST: 0})


def test_the_newest_offset_fails_alone(admin: Admin) -> None:
    second = TopicPartition(TOPIC, 1)
    with pytest.raises(PartialFailureError) as error:
        admin.list_offsets({FIRST: OffsetSpec.MAX_TIMESTAMP, second: OffsetSpec.EARLIEST})
    assert error.value.results[second].offset == 0
    assert error.value.errors[FIRST].code is ErrorCode.UNSUPPORTED_VERSION
    with pytest.raises(KafkaError, match=r"max_timestamp offsets needs Kafka 3\.0"):
        admin.list_offsets({FIRST: OffsetSpec.MAX_TIMESTAMP})


def test_the_cluster_its_configs_and_its_disks(admin: Admin) -> None:
    found = admin.describe_cluster()
    assert (len(found.nodes), found.controller) == (1, found.nodes[0])
    assert found.cluster_id
    resource = ConfigResource.topic(TOPIC)
    admin.alter_configs({resource: {"retention.ms": "5"}})
    entry = admin.describe_configs([resource], include_documentation=True)[resource]["retention.ms"]
    assert (entry.value, entry.documentation) == ("5", None)
    (folders,) = admin.describe_log_dirs().values()
    (folder,) = folders.values()
    assert FIRST in folder.replicas
    assert folder.total_bytes is None
    features = admin.describe_features()
    assert (features.finalized_features, features.finalized_features_epoch) == ({}, None)
    assert admin.describe_api_versions()[found.nodes[0].id]["Metadata"].max_version == 7


def test_producers_are_fenced(admin: Admin) -> None:
    first = admin.fence_producers(["t"])["t"]
    assert admin.fence_producers(["t"])["t"].producer_epoch == first.producer_epoch + 1


NEW_TOPIC, CONFIG = NewTopic("defaults"), ConfigResource.topic(TOPIC)
TOO_NEW: list[tuple[str, Callable[[Admin], object]]] = [
    ("defaults needs Kafka 2.4", lambda a: a.create_topics([NEW_TOPIC])),
    ("by id needs Kafka 2.8", lambda a: a.delete_topics([uuid.uuid4()])),
    ("by id needs Kafka 3.0", lambda a: a.describe_topics([uuid.uuid4()])),
    (
        "operations needs Kafka 2.3",
        lambda a: a.describe_topics([TOPIC], include_authorized_operations=True),
    ),
    (
        "operations needs Kafka 2.3",
        lambda a: a.describe_groups(["first"], include_authorized_operations=True),
    ),
    (
        "operations needs Kafka 2.3",
        lambda a: a.describe_cluster(include_authorized_operations=True),
    ),
    (
        "IncrementalAlterConfigs",
        lambda a: a.incremental_alter_configs({CONFIG: [AlterConfig("retention.ms", "1")]}),
    ),
    ("by state needs Kafka 2.6", lambda a: a.list_groups(states=[GroupState.STABLE])),
    (
        "static members needs Kafka 2.4",
        lambda a: a.remove_members_from_consumer_group("first", [MemberToRemove("static")]),
    ),
    (
        "stable offsets needs Kafka 2.5",
        lambda a: a.list_consumer_group_offsets("first", require_stable=True),
    ),
    ("OffsetDelete", lambda a: a.delete_consumer_group_offsets("first", [FIRST])),
    ("ElectLeaders", lambda a: a.elect_leaders(ElectionType.PREFERRED)),
    ("ListPartitionReassignments", lambda a: a.list_partition_reassignments()),
    ("DescribeProducers", lambda a: a.describe_producers([FIRST])),
    ("ListTransactions", lambda a: a.list_transactions()),
    ("DescribeTransactions", lambda a: a.describe_transactions(["t"])),
    ("WriteTxnMarkers", lambda a: a.abort_transaction(AbortTransactionSpec(FIRST, 1, 0, 0))),
]


@pytest.mark.parametrize(("says", "call"), TOO_NEW, ids=[says for says, _ in TOO_NEW])
def test_what_is_too_new_is_said_and_the_client_goes_on(
    admin: Admin, says: str, call: Callable[[Admin], object]
) -> None:
    with pytest.raises(AbortableError) as error:
        call(admin)
    assert error.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert says in str(error.value)
