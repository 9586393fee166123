"""ConsumerGroupHeartbeat: members join, share the partitions, learn of new ones, are fenced, and leave (KIP-848)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.broker import group_requests as classic
from tests.broker.conftest import Starter
from tests.broker.consumer_group_requests import (
    JOIN,
    LEAVE,
    STATIC_LEAVE,
    ConsumerMember,
    assigned,
    describe,
    heartbeat,
    settle,
    topic_id,
)
from tests.broker.requests import create, delete, every_version_of, session_with, set_options

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.testing import Broker
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)

GROUP_RESOURCE = 32


@pytest.mark.parametrize("version", every_version_of(ConsumerGroupHeartbeatRequest))
def test_a_first_member_gets_all_partitions(
    connection: RawConnection, topic: str, group: str, version: int
) -> None:
    create(connection, topic, 3)
    member = ConsumerMember(connection, group, topic, version=version)
    answer = member.join()
    assert (answer.member_id, answer.member_epoch) == (member.member_id, 2)
    assert answer.heartbeat_interval_ms == 500
    assert assigned(answer) == {topic_id(connection, topic): [0, 1, 2]}
    # The member has what it was sent: it is not repeated.
    assert assigned(member.beat()) is None


def test_before_version_1_the_coordinator_names_a_member(
    connection: RawConnection, topic: str, group: str
) -> None:
    create(connection, topic, 1)
    member = ConsumerMember(connection, group, topic, member_id="", version=0)
    named = member.join().member_id
    assert named
    assert member.beat().member_id == named


def test_a_second_member_gets_what_the_first_gives_up(
    connection: RawConnection, topic: str, group: str
) -> None:
    create(connection, topic, 4)
    first = ConsumerMember(connection, group, topic)
    second = ConsumerMember(connection, group, topic)
    first.join()
    second.join()
    assert second.owned == {}
    # The first is told to give up half, and acknowledges it in the next heartbeat.
    first.beat()
    assert len(first.partitions) == 2
    second.beat()
    assert second.owned == {}
    first.beat()
    second.beat()
    assert sorted(first.partitions + second.partitions) == [0, 1, 2, 3]
    assert first.epoch == second.epoch == 3
    assert describe(connection, group).group_state == "Stable"


def test_the_partitions_of_a_member_that_leaves_go_to_the_others(
    connection: RawConnection, topic: str, group: str
) -> None:
    create(connection, topic, 4)
    first, second = (ConsumerMember(connection, group, topic) for _ in range(2))
    first.join()
    second.join()
    settle(first, second)
    answer = first.leave()
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, LEAVE)
    settle(second)
    assert second.partitions == [0, 1, 2, 3]
    assert first.error() is ErrorCode.UNKNOWN_MEMBER_ID
    second.leave()
    assert describe(connection, group).group_state == "Empty"


def test_new_topics_and_partitions_come_with_the_next_heartbeat(
    connection: RawConnection, topic: str, group: str
) -> None:
    create(connection, topic, 1)
    later = f"{topic}-later"
    member = ConsumerMember(connection, group, topic, later)
    member.join()
    assert member.partitions == [0]
    added = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=topic, count=3, assignments=None)],
        timeout_ms=5000,
        validate_only=False,
    )
    connection.call(added, CreatePartitionsResponse, 3)
    member.beat()
    assert member.partitions == [0, 1, 2]
    create(connection, later, 2)
    member.beat()
    assert member.owned[topic_id(connection, later)] == [0, 1]
    delete(connection, later)
    member.beat()
    assert list(member.owned) == [topic_id(connection, topic)]


def test_a_group_and_its_assignment_survive_a_restart(
    start: Starter, topic: str, tmp_path: Path
) -> None:
    broker = start()
    with session_with(broker) as connection:
        classic.await_coordinator(connection)
        create(connection, topic, 4)
        first, second = (ConsumerMember(connection, "g", topic) for _ in range(2))
        first.join()
        second.join()
        settle(first, second)
        before = describe(connection, "g")
    broker.stop()
    with session_with(start()) as connection:
        classic.await_coordinator(connection)
        assert describe(connection, "g") == before
        first.connection = second.connection = connection
        assert assigned(first.beat()) is assigned(second.beat()) is None
        assert first.epoch == before.group_epoch


def test_a_silent_member_is_removed_when_its_session_is_over(topic: str) -> None:
    with Broker() as broker, session_with(broker) as connection:
        broker.clock.freeze()
        classic.await_coordinator(connection)
        create(connection, topic, 2)
        quiet, alive = (ConsumerMember(connection, "g", topic) for _ in range(2))
        quiet.join()
        alive.join()
        settle(quiet, alive)
        for _ in range(5):
            broker.clock.advance("9s")
            alive.beat()
        settle(alive)
        assert alive.partitions == [0, 1]
        assert quiet.error() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_keeps_its_partitions_is_removed_after_its_rebalance_timeout(
    topic: str,
) -> None:
    with Broker() as broker, session_with(broker) as connection:
        broker.clock.freeze()
        classic.await_coordinator(connection)
        create(connection, topic, 2)
        slow = ConsumerMember(connection, "g", topic, rebalance_timeout_ms=20_000)
        slow.join()
        other = ConsumerMember(connection, "g", topic)
        other.join()
        heartbeat(connection, "g", slow.member_id, slow.epoch)  # is told to give one up
        for _ in range(3):
            broker.clock.advance("7s")
            other.beat()
            # Alive, but it does not say that it has given up anything.
            error = heartbeat(connection, "g", slow.member_id, slow.epoch).error_code
        assert error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
        other.beat()
        assert other.partitions == [0, 1]


def test_options_of_a_group_reach_its_members_with_their_next_heartbeat(
    connection: RawConnection, topic: str, group: str
) -> None:
    create(connection, topic, 1)
    member = ConsumerMember(connection, group, topic)
    assert member.join().heartbeat_interval_ms == 500
    changed = {"consumer.heartbeat.interval.ms": "700"}
    assert set_options(connection, group, changed, GROUP_RESOURCE) == ErrorCode.NONE
    assert member.beat().heartbeat_interval_ms == 700


def test_a_session_timeout_of_a_group_holds_for_its_members(topic: str) -> None:
    options = {"group.consumer.min.session.timeout.ms": 6000}
    with Broker(options) as broker, session_with(broker) as connection:
        broker.clock.freeze()
        classic.await_coordinator(connection)
        create(connection, topic, 1)
        short, long = (
            ConsumerMember(connection, "short", topic),
            ConsumerMember(connection, "l", topic),
        )
        short.join()
        long.join()
        changed = {"consumer.session.timeout.ms": "6000"}
        assert set_options(connection, "short", changed, GROUP_RESOURCE) == ErrorCode.NONE
        short.beat()
        broker.clock.advance("7s")
        assert short.error() is ErrorCode.UNKNOWN_MEMBER_ID
        assert long.error() is ErrorCode.NONE


def test_a_static_member_comes_back_to_its_partitions(
    connection: RawConnection, topic: str, group: str
) -> None:
    create(connection, topic, 4)
    static = ConsumerMember(connection, group, topic, instance_id="i")
    other = ConsumerMember(connection, group, topic)
    static.join()
    other.join()
    settle(static, other)
    had = static.partitions
    again = ConsumerMember(connection, group, topic, instance_id="i")
    joining = heartbeat(
        connection,
        group,
        again.member_id,
        JOIN,
        owned={},
        instance_id="i",
        rebalance_timeout_ms=1000,
        subscribed_topic_names=[topic],
    )
    assert joining.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    left = static.leave(STATIC_LEAVE, instance_id="i")
    assert (left.error_code, left.member_epoch) == (ErrorCode.NONE, STATIC_LEAVE)
    again.join()
    assert again.partitions == had
    assert static.error(instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    other.beat()
    assert len(other.partitions) == 2


def test_an_administrator_removes_a_member_by_its_instance_id(
    connection: RawConnection, topic: str, group: str
) -> None:
    create(connection, topic, 2)
    static = ConsumerMember(connection, group, topic, instance_id="i")
    static.join()
    assert classic.leave_errors(connection, group, ("", "other")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert classic.leave_errors(connection, group, ("", "i")) == [ErrorCode.NONE]
    assert describe(connection, group).members == []


def test_a_member_of_an_old_epoch_is_fenced(
    connection: RawConnection, topic: str, group: str
) -> None:
    create(connection, topic, 2)
    member = ConsumerMember(connection, group, topic)
    member.join()
    wrong = heartbeat(connection, group, member.member_id, member.epoch + 1)
    assert wrong.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert wrong.error_message
    unknown = heartbeat(connection, group, "somebody", member.epoch)
    assert unknown.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    missing = heartbeat(connection, f"{group}-2", "somebody", 1)
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND


JOINING: dict[str, Any] = {
    "owned": {},
    "rebalance_timeout_ms": 1000,
    "subscribed_topic_names": ["t"],
}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"group": ""}, "GroupId can't be empty."),
        ({"group": " ", "instance_id": ""}, "GroupId can't be empty."),
        ({"instance_id": "\t"}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"owned": None}, "TopicPartitions must be empty when (re-)joining."),
        ({"subscribed_topic_names": None},
         "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."),
        ({"epoch": -2}, "InstanceId can't be null."),
        ({"epoch": -3}, "MemberEpoch is invalid."),
    ],
)  # fmt: skip
def test_a_request_that_says_too_little_is_refused_in_kafkas_words(
    connection: RawConnection, group: str, fields: dict[str, Any], message: str
) -> None:
    given = {"group": group, "member_id": "m", "epoch": JOIN, **JOINING, **fields}
    answer = heartbeat(connection, **given)
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert (answer.member_id, answer.member_epoch, answer.assignment) == (None, 0, None)


@pytest.mark.parametrize("epoch", [1, LEAVE])
def test_only_a_member_that_joins_may_have_no_id(
    connection: RawConnection, group: str, epoch: int
) -> None:
    answer = heartbeat(connection, group, "", epoch, version=0)
    assert answer.error_message == "MemberId can't be empty."


def test_an_assignor_that_there_is_not(connection: RawConnection, group: str) -> None:
    answer = heartbeat(connection, group, "m", JOIN, server_assignor="sticky", **JOINING)
    assert answer.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert answer.error_message == (
        "ServerAssignor sticky is not supported. Supported assignors: uniform, range."
    )


def test_another_node_is_not_the_coordinator(topic: str) -> None:
    with ottla.Broker(nodes=2) as broker:
        with RawConnection(broker.address_of(1)) as connection:
            (found,) = classic.find_coordinator(connection, "g").coordinators
        (other,) = [node for node in broker.node_ids if node != found.node_id]
        with RawConnection(broker.address_of(other)) as wrong:
            answer = heartbeat(wrong, "g", "m", JOIN, **JOINING)
            assert answer.error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("letter", ["x", "é"])
def test_an_error_that_quotes_the_longest_names_can_be_read(
    connection: RawConnection, letter: str
) -> None:
    longest = letter * (32_767 // len(letter.encode()))
    joining: dict[str, Any] = {
        "subscribed_topic_names": [],
        "rebalance_timeout_ms": 1000,
        "owned": {},
    }
    first = ConsumerMember(connection, longest, instance_id=longest)
    first.join()
    assert first.error(server_assignor=longest) is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert first.error(subscribed_topic_regex=longest) is ErrorCode.INVALID_REGULAR_EXPRESSION
    unreleased = heartbeat(connection, longest, longest, JOIN, instance_id=longest, **joining)
    assert unreleased.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    unknown = heartbeat(connection, longest, longest, 1)
    assert unknown.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert unknown.error_message is not None
    assert unknown.error_message.startswith(f"Member {letter}")
    first.leave(instance_id=longest)


@pytest.mark.parametrize(
    "names", [[f"{number}" for number in range(40_000)], ["n" * 30_000 + str(n) for n in range(40)]]
)
def test_a_subscription_that_is_too_large_to_be_stored_is_refused(
    connection: RawConnection, topic: str, group: str, names: list[str]
) -> None:
    create(connection, topic, 1)
    member = ConsumerMember(connection, group, topic)
    member.join()
    assert member.error(subscribed_topic_names=names) is ErrorCode.INVALID_REQUEST
    assert member.error(subscribed_topic_names=names[:30]) is ErrorCode.NONE
