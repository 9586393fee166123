"""Subscriptions by pattern: the coordinator finds the topics that match, and tells the members."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

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

from ottla.broker.coordination.subscription_patterns import SubscriptionPatterns
from ottla.broker.loop.loop_share import at_once
from ottla.broker.requests import patterns
from ottla.client.raw import RawConnection
from ottla.core.group.requests import ResolvedPatterns, ResolvePatterns
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


class Told:
    """In place of a coordinator, its groups and its turns: remembers what it is told, and in which order."""

    is_gone = False

    def __init__(self) -> None:
        self.found: dict[str, ResolvedPatterns | None] = {}

    def ask(self, decide: Callable[[Any, Any, Any], Any], *_: object) -> None:
        decide(self, None, None)

    def patterns_resolved(self, _: object, group_id: str, found: ResolvedPatterns | None) -> None:
        self.found[group_id] = found


class Elsewhere:
    async def elsewhere(self, work: Callable[[str], Any], text: str) -> Any:
        return work(text)

    async def run(self, steps: Generator[None, None, Any]) -> Any:
        return at_once(steps)


@pytest.mark.parametrize("work", [1, 1000, patterns.WORK_AT_A_TIME])
def test_a_group_does_not_wait_for_all_the_patterns_of_another(
    monkeypatch: pytest.MonkeyPatch, work: int
) -> None:
    monkeypatch.setattr(patterns, "WORK_AT_A_TIME", work)
    catalog: Any = SimpleNamespace(topics_version=7, topics=[f"topic-{n}" for n in range(12)])
    share: Any = Elsewhere()
    told: Any = Told()

    async def search() -> None:
        searching = SubscriptionPatterns(catalog, share)
        greedy = frozenset({f"topic-{number}.*" for number in range(10)})
        searching.search(told, ResolvePatterns("greedy", greedy))
        searching.search(told, ResolvePatterns("wrong", frozenset({"("})))
        searching.search(told, ResolvePatterns("modest", frozenset({"topic-.*1"})))
        running = asyncio.create_task(searching.run())
        while len(told.found) < 3:
            await asyncio.sleep(0.001)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    asyncio.run(asyncio.wait_for(search(), 30))
    assert list(told.found) == ["wrong", "modest", "greedy"]
    assert told.found["wrong"] == ResolvedPatterns({"(": frozenset()}, 7)
    assert told.found["modest"] == ResolvedPatterns(
        {"topic-.*1": frozenset({"topic-1", "topic-11"})}, 7
    )
    expected = {f"topic-{n}.*": frozenset({f"topic-{n}"}) for n in range(10)}
    expected["topic-1.*"] = frozenset({"topic-1", "topic-10", "topic-11"})
    assert told.found["greedy"] == ResolvedPatterns(expected, 7)
