"""Groups: their members, offsets, descriptions, and how they end."""

from __future__ import annotations

from typing import Any

from tests.broker.group_requests import SUBSCRIPTION
from tests.broker.requests import eventually
from tests.security.kafka_answers.question import Question
from tests.security.kafka_answers.situations import (
    CLUSTER,
    GROUP,
    TOPIC,
    TRANSACTIONAL_ID,
    Acl,
    Situation,
)
from tests.security.kafka_answers.world import BOTH, FOUR, GONE, World

from ottla.access import Operation
from ottla.errors import ErrorCode

IDLE = tuple(f"{name}-idle" for name in BOTH)
NEW = tuple(f"{name}-new" for name in BOTH)
FRESH, NEWCOMER = "mine-fresh", "newcomer"
STRANGER = {"group_id": "mine", "member_id": "stranger"}
GROUP_KEY, TRANSACTION_KEY, SHARE_KEY = 0, 1, 2
SEEN = "theirs-log"


def _committed(topics: Any, group: str = IDLE[0]) -> dict[str, Any]:
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "topics": [
            {**topic, "partitions": [{"partition_index": 0, "committed_offset": 1}]}
            for topic in topics
        ],
    }


def _fetched(*groups: str, topics: Any) -> dict[str, Any]:
    wanted = None if topics is None else [{**one, "partition_indexes": [0]} for one in topics]
    return {
        "groups": [{"group_id": group, "member_epoch": -1, "topics": wanted} for group in groups]
    }


def _by_id(world: World) -> list[dict[str, Any]]:
    return [{"topic_id": one} for one in world.by_id(FOUR)]


def _commit_idle(world: World, _: Any) -> None:
    world.commit_idle()


def _leave_fresh(world: World, _: Any) -> None:
    world.leave(FRESH, NEWCOMER)


def _matched(world: World, situation: Situation) -> dict[str, Any]:
    """A heartbeat of a member whose pattern has been searched for: it has got the topic that all may see."""
    fields = {
        "group_id": FRESH,
        "member_id": NEWCOMER,
        "rebalance_timeout_ms": 10_000,
        "subscribed_topic_regex": f"mine|theirs|{SEEN}",
        "topic_partitions": [],
    }
    epoch = 0

    def is_over() -> bool:
        nonlocal epoch
        answer = world.stage.answer(
            "ConsumerGroupHeartbeat", 1, {**fields, "member_epoch": epoch}, situation
        )
        epoch = answer.member_epoch
        return answer.error_code != ErrorCode.NONE or (
            answer.assignment is not None and bool(answer.assignment.topic_partitions)
        )

    assert eventually(is_over), situation
    return {**fields, "member_epoch": epoch}


BY_NAME = [{"name": name} for name in FOUR]
QUESTIONS = [
    Question("FindCoordinator", [0, 3], "of a group", {"key": "mine"}, [GROUP]),
    Question(
        "FindCoordinator",
        [3],
        "of a transactional id",
        {"key": "mine", "key_type": TRANSACTION_KEY},
        [TRANSACTIONAL_ID],
    ),
    *(
        Question(
            "FindCoordinator",
            [4, 6],
            f"of two {words}",
            {"coordinator_keys": list(BOTH), "key_type": key_type},
            about,
        )
        for words, key_type, about in (
            ("groups", GROUP_KEY, [GROUP]),
            ("transactional ids", TRANSACTION_KEY, [TRANSACTIONAL_ID]),
        )
    ),
    Question(
        "FindCoordinator",
        [6],
        "of two share partitions",
        {
            "coordinator_keys": [f"{name}:AAAAAAAAAAAAAAAAAAAAAQ:0" for name in BOTH],
            "key_type": SHARE_KEY,
        },
        [GROUP, TOPIC, CLUSTER],
    ),
    Question(
        "FindCoordinator",
        [3, 6],
        "of an unknown kind",
        {"key": "mine", "coordinator_keys": list(BOTH), "key_type": 7},
        [GROUP, TRANSACTIONAL_ID],
    ),
    Question(
        "JoinGroup",
        [0, 5, 9],
        "a member that the group does not know",
        {
            **STRANGER,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
        },
        [GROUP],
    ),
    Question(
        "SyncGroup",
        [0, 5],
        "a member that the group does not know",
        {**STRANGER, "generation_id": 1, "protocol_type": "consumer", "protocol_name": "range"},
        [GROUP],
    ),
    Question(
        "Heartbeat",
        [0, 4],
        "a member that the group does not know",
        {**STRANGER, "generation_id": 1},
        [GROUP],
    ),
    Question("LeaveGroup", [0], "a member that the group does not know", STRANGER, [GROUP]),
    Question(
        "LeaveGroup",
        [3, 5],
        "a member that the group does not know",
        {"group_id": "mine", "members": [{"member_id": "stranger"}]},
        [GROUP],
    ),
    Question(
        "DescribeGroups",
        [0, 3, 6],
        "four groups",
        {"groups": list(FOUR), "include_authorized_operations": True},
        [GROUP],
    ),
    Question("ListGroups", [0, 4, 5], "all groups", {}, [GROUP, CLUSTER]),
    Question(
        "DeleteGroups",
        [0, 2],
        "two groups, and two that do not exist",
        {"groups_names": [*IDLE, *GONE]},
        [GROUP],
        restore=_commit_idle,
    ),
    Question("OffsetCommit", [2, 9], "four topics by name", _committed(BY_NAME), [GROUP, TOPIC]),
    Question(
        "OffsetCommit",
        [10],
        "four topics by id",
        lambda world: _committed(_by_id(world)),
        [GROUP, TOPIC],
    ),
    Question(
        "OffsetFetch",
        [1, 7],
        "four topics",
        {
            "group_id": "mine",
            "topics": [{"name": name, "partition_indexes": [0]} for name in FOUR],
        },
        [GROUP, TOPIC],
    ),
    Question(
        "OffsetFetch", [2, 7], "all topics", {"group_id": "mine", "topics": None}, [GROUP, TOPIC]
    ),
    Question(
        "OffsetFetch",
        [8, 9],
        "four topics by name in two groups",
        _fetched(*BOTH, topics=BY_NAME),
        [GROUP, TOPIC],
    ),
    Question(
        "OffsetFetch",
        [10],
        "four topics by id in two groups",
        lambda world: _fetched(*BOTH, topics=_by_id(world)),
        [GROUP, TOPIC],
    ),
    Question(
        "OffsetFetch",
        [8, 10],
        "all topics in two groups",
        _fetched(*BOTH, topics=None),
        [GROUP, TOPIC],
    ),
    Question(
        "OffsetDelete",
        [0],
        "four topics",
        {
            "group_id": IDLE[0],
            "topics": [{"name": name, "partitions": [{"partition_index": 0}]} for name in FOUR],
        },
        [GROUP, TOPIC],
        restore=_commit_idle,
    ),
    Question(
        "ConsumerGroupHeartbeat",
        [0, 1],
        "a member that the group does not know",
        {"group_id": NEW[0], "member_id": "stranger", "member_epoch": 7},
        [GROUP],
    ),
    Question(
        "ConsumerGroupHeartbeat",
        [1],
        "a new member with two topics",
        {
            "group_id": FRESH,
            "member_id": NEWCOMER,
            "member_epoch": 0,
            "rebalance_timeout_ms": 10_000,
            "subscribed_topic_names": list(BOTH),
            "topic_partitions": [],
        },
        [GROUP, TOPIC],
        restore=_leave_fresh,
    ),
    Question(
        "ConsumerGroupHeartbeat",
        [1],
        "a new member with a pattern that matches mine, theirs, and a topic that all may describe",
        {},
        [GROUP, TOPIC],
        restore=_leave_fresh,
        before=_matched,
        always=frozenset([Acl(TOPIC, Operation.DESCRIBE, SEEN)]),
    ),
    Question(
        "ConsumerGroupDescribe",
        [0, 1],
        "four groups",
        {"group_ids": [*NEW, *GONE], "include_authorized_operations": True},
        [GROUP, TOPIC],
    ),
    Question(
        "JoinGroup",
        [9],
        "a group without a name, and a session that is too short",
        {
            "group_id": "",
            "session_timeout_ms": 1,
            "rebalance_timeout_ms": 10_000,
            "protocol_type": "consumer",
        },
        [GROUP],
    ),
    Question("DescribeGroups", [6], "a group without a name", {"groups": [""]}, [GROUP]),
    Question(
        "DeleteGroups",
        [2],
        "a group with members, and one twice",
        {"groups_names": ["mine", "theirs", "mine"]},
        [GROUP],
    ),
    Question(
        "OffsetCommit",
        [9],
        "a generation that the group does not have",
        {
            **_committed(BY_NAME, "mine"),
            "generation_id_or_member_epoch": 99,
            "member_id": "stranger",
        },
        [GROUP, TOPIC],
    ),
    Question(
        "OffsetDelete",
        [0],
        "four topics of a group that does not exist",
        {
            "group_id": "mine-gone",
            "topics": [{"name": name, "partitions": [{"partition_index": 0}]} for name in FOUR],
        },
        [GROUP, TOPIC],
    ),
    Question(
        "OffsetFetch",
        [9],
        "four topics of groups that do not exist",
        _fetched(*GONE, topics=BY_NAME),
        [GROUP, TOPIC],
    ),
    Question(
        "ConsumerGroupHeartbeat",
        [1],
        "a request that is wrong",
        {"group_id": FRESH, "member_id": "", "member_epoch": 0},
        [GROUP],
    ),
]
