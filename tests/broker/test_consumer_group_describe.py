"""Groups of the consumer protocol, as administrators see them: described, listed, deleted (KIP-848)."""

from __future__ import annotations

import pytest
from tests.broker import group_requests as classic
from tests.broker.consumer_group_requests import ConsumerMember, describe, settle, topic_id
from tests.broker.requests import create, every_version_of

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest


@pytest.mark.parametrize("version", every_version_of(ConsumerGroupDescribeRequest))
def test_a_group_with_its_epochs_and_both_assignments_of_each_member(
    connection: RawConnection, topic: str, group: str, version: int
) -> None:
    create(connection, topic, 2)
    first = ConsumerMember(connection, group, topic, instance_id="i", rack_id="r")
    first.join()
    second = ConsumerMember(connection, group, topic)
    second.join()
    found = describe(connection, group, version=version)
    assert (found.error_code, found.error_message) == (ErrorCode.NONE, None)
    assert (found.group_id, found.assignor_name) == (group, "uniform")
    assert (found.group_state, found.group_epoch, found.assignment_epoch) == ("Reconciling", 3, 3)
    members = {member.member_id: member for member in found.members}
    one, other = members[first.member_id], members[second.member_id]
    assert (one.instance_id, one.rack_id, one.member_epoch) == ("i", "r", 2)
    assert (one.client_id, one.client_host) == ("ottla-raw", "/127.0.0.1")
    assert (one.subscribed_topic_names, one.subscribed_topic_regex) == ([topic], "")
    assert one.member_type == (1 if version >= 1 else -1)
    (assigned,) = one.assignment.topic_partitions
    assert (assigned.topic_name, assigned.topic_id) == (topic, topic_id(connection, topic))
    assert assigned.partitions == [0, 1]
    targets = [
        number
        for member in (one, other)
        for each in member.target_assignment.topic_partitions
        for number in each.partitions
    ]
    assert sorted(targets) == [0, 1]
    assert other.assignment.topic_partitions == []


def test_groups_that_are_not_of_the_consumer_protocol(
    connection: RawConnection, group: str
) -> None:
    missing = describe(connection, group)
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert missing.error_message == f"Group {group} not found."
    classic.enter(connection, group)
    other = describe(connection, group)
    assert other.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert other.error_message == f"Group {group} is not a consumer group."
    assert describe(connection, "").error_code == ErrorCode.INVALID_GROUP_ID


def test_the_older_request_does_not_describe_it(
    connection: RawConnection, topic: str, group: str
) -> None:
    create(connection, topic, 1)
    ConsumerMember(connection, group, topic).join()
    newest = classic.describe(connection, group, version=6)
    assert (newest.error_code, newest.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert newest.error_message == f"Group {group} is not a classic group."
    older = classic.describe(connection, group, version=5)
    assert (older.error_code, older.group_state) == (ErrorCode.NONE, "Dead")


def test_groups_are_listed_by_their_type_and_state(
    connection: RawConnection, topic: str, group: str
) -> None:
    create(connection, topic, 1)
    older = f"{group}-classic"
    classic.enter(connection, older)
    member = ConsumerMember(connection, group, topic)
    member.join()
    settle(member)
    assert classic.list_groups(connection, types=["Consumer"])[group] == (
        "consumer",
        "Stable",
        "consumer",
    )
    assert older not in classic.list_groups(connection, types=["consumer"])
    assert group not in classic.list_groups(connection, types=["classic"])
    assert group in classic.list_groups(connection, states=[" stable "])
    assert group not in classic.list_groups(connection, states=["Empty", "Assigning"])
    assert {group, older} <= set(classic.list_groups(connection, version=4))
    assert classic.list_groups(connection, types=["share"]) == {}


def test_only_a_group_without_members_is_deleted(
    connection: RawConnection, topic: str, group: str
) -> None:
    create(connection, topic, 1)
    member = ConsumerMember(connection, group, topic)
    member.join()
    assert classic.delete_groups(connection, group) == {group: ErrorCode.NON_EMPTY_GROUP}
    member.leave()
    assert classic.delete_groups(connection, group) == {group: ErrorCode.NONE}
    assert describe(connection, group).error_code == ErrorCode.GROUP_ID_NOT_FOUND
