"""Subscriptions by pattern: the coordinator finds the topics that match, and tells the members."""

from __future__ import annotations

import pytest
from tests.broker import group_requests as classic
from tests.broker.consumer_group_requests import (
    JOIN,
    ConsumerMember,
    describe,
    heartbeat,
    topic_id,
)
from tests.broker.requests import create, delete, eventually, session_with

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.testing import Broker


def owns(member: ConsumerMember, *topics: str) -> bool:
    """Whether a member owns all of these topics after one more heartbeat, and no other."""
    member.beat()
    return set(member.owned) == {topic_id(member.connection, topic) for topic in topics}


def test_a_member_gets_the_topics_that_match_its_pattern_as_a_whole(
    connection: RawConnection, topic: str, group: str
) -> None:
    orders, payments, other = f"{topic}-orders", f"{topic}-payments", f"x-{topic}-orders"
    for name in (orders, payments, other):
        create(connection, name, 1)
    member = ConsumerMember(connection, group, subscribed_topic_regex=f"{topic}-.*s")
    member.join()
    assert eventually(lambda: owns(member, orders, payments))
    (described,) = describe(connection, group).members
    assert described.subscribed_topic_regex == f"{topic}-.*s"
    assert described.subscribed_topic_names == []
    # Another pattern replaces the first.
    member.beat(subscribed_topic_regex=f"{topic}-o.*")
    assert eventually(lambda: owns(member, orders))


def test_a_pattern_and_names_add_up(connection: RawConnection, topic: str, group: str) -> None:
    matching, named = f"{topic}-1", f"x-{topic}"
    create(connection, matching, 1)
    create(connection, named, 1)
    member = ConsumerMember(connection, group, named, subscribed_topic_regex=f"{topic}-[0-9]")
    member.join()
    assert eventually(lambda: owns(member, matching, named))


def test_topics_that_come_and_go_change_what_a_pattern_matches(topic: str) -> None:
    with Broker() as broker, session_with(broker) as connection:
        broker.clock.freeze()
        classic.await_coordinator(connection)

        def owns_in_the_end(*topics: str) -> bool:
            def look() -> bool:
                broker.clock.advance("11s")  # they are not searched for more often
                return owns(member, *topics)

            return eventually(look)

        member = ConsumerMember(connection, "g", subscribed_topic_regex=f"{topic}-.*")
        member.join()
        assert member.owned == {}
        create(connection, f"{topic}-1", 1)
        assert owns_in_the_end(f"{topic}-1")
        create(connection, f"{topic}-2", 1)
        assert owns_in_the_end(f"{topic}-1", f"{topic}-2")
        delete(connection, f"{topic}-1")
        assert owns_in_the_end(f"{topic}-2")


def test_internal_topics_match_as_in_kafka(
    connection: RawConnection, topic: str, group: str
) -> None:
    member = ConsumerMember(connection, group, subscribed_topic_regex="__consumer_offset.")
    member.join()
    assert eventually(lambda: owns(member, "__consumer_offsets"))


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", "missing closing )"),
        ("[a", "missing closing ]"),
        ("a)", "regexp/syntax: internal error"),
        ("a(?=b)", "invalid or unsupported Perl syntax"),
        ("a**", "invalid nested repetition operator"),
        ("[z-a]", "invalid character class range"),
        ("\\1", "invalid escape sequence"),
        ("(?P<>a)", "invalid named capture"),
        ("*", "missing argument to repetition operator"),
        ("a{1001}", "invalid repeat count"),
        ("\\", "trailing backslash at end of expression"),
    ],
)
def test_a_pattern_that_is_not_valid_is_refused_in_kafkas_words(
    connection: RawConnection, group: str, pattern: str, reason: str
) -> None:
    for _ in range(2):  # the second time it is known
        answer = heartbeat(
            connection,
            group,
            "m",
            JOIN,
            owned={},
            rebalance_timeout_ms=1000,
            subscribed_topic_regex=pattern,
        )
        assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
        assert answer.error_message == (
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason}."
        )
    assert describe(connection, group).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_pattern_has_a_limit(connection: RawConnection, group: str) -> None:
    answer = heartbeat(
        connection,
        group,
        "m",
        JOIN,
        owned={},
        rebalance_timeout_ms=1000,
        subscribed_topic_regex="a" * 1001,
    )
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert (answer.error_message or "").endswith("a pattern has at most 1000 characters.")
