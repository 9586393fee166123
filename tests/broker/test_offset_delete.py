"""OffsetDelete: forgets offsets that nobody reads by."""

from __future__ import annotations

from typing import Any

from tests.broker import group_requests as ask
from tests.broker.requests import create

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode


def errors(answer: Any) -> dict[tuple[str, int], ErrorCode]:
    assert answer.error_code == ErrorCode.NONE
    return {
        (topic.name, one.partition_index): ErrorCode(one.error_code)
        for topic in answer.topics
        for one in topic.partitions
    }


def subscription_to(topic: str) -> bytes:
    name = topic.encode()
    topics = bytes.fromhex("0000 00000001") + len(name).to_bytes(2, "big") + name
    return topics + bytes.fromhex("ffffffff")


def test_each_partition_has_an_answer(connection: RawConnection, group: str, topic: str) -> None:
    create(connection, topic, 3)
    ask.commit(connection, group, {(topic, 0): 1, (topic, 1): 2})
    answer = ask.delete_offsets(connection, group, {topic: [1, 2, 3], "no-such-topic": [0]})
    assert errors(answer) == {
        (topic, 1): ErrorCode.NONE,
        (topic, 2): ErrorCode.NONE,
        (topic, 3): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("no-such-topic", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert ask.committed(connection, group) == {(topic, 0): ask.Position(1)}
    assert errors(ask.delete_offsets(connection, group, {})) == {}


def test_an_error_of_the_group_goes_for_all(
    connection: RawConnection, group: str, topic: str
) -> None:
    create(connection, topic)
    for name, error in ((group, ErrorCode.GROUP_ID_NOT_FOUND), ("", ErrorCode.INVALID_GROUP_ID)):
        answer = ask.delete_offsets(connection, name, {topic: [0], "no-such-topic": [0]})
        assert (answer.error_code, answer.topics) == (error, [])


def test_what_members_read_stays(connection: RawConnection, group: str, topic: str) -> None:
    other = f"{topic}-other"
    for name in (topic, other):
        create(connection, name)
    member = ask.enter(connection, group, protocols={"range": subscription_to(topic)})
    ask.commit(connection, group, {(topic, 0): 1, (other, 0): 2}, member=member)
    answer = ask.delete_offsets(connection, group, {topic: [0], other: [0]})
    assert errors(answer) == {
        (topic, 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        (other, 0): ErrorCode.NONE,
    }
    assert ask.committed(connection, group) == {(topic, 0): ask.Position(1)}
    ask.leave(connection, group, (member.member_id, None))
    assert errors(ask.delete_offsets(connection, group, {topic: [0]})) == {
        (topic, 0): ErrorCode.NONE
    }
    assert ask.committed(connection, group) == {}
