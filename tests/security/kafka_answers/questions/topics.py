"""Topics: their metadata, their life, their partitions and replicas."""

from __future__ import annotations

from typing import Any

from tests.security.kafka_answers.question import Question
from tests.security.kafka_answers.situations import CLUSTER, PATTERNS, TOPIC
from tests.security.kafka_answers.world import BOTH, FOUR, GONE, World

from ottla.errors import ErrorCode

DOOMED = tuple(f"{name}-doomed" for name in BOTH)
AUTO = tuple(f"{name}-auto" for name in BOTH)
MADE = tuple(f"{name}-made" for name in BOTH)
PREFERRED = 0
INTERNAL = ("__consumer_offsets", "__transaction_state")
CONSUMER = "__consumer"


def _named(*names: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": name, **fields} for name in names]


def _on_partition(**fields: Any) -> list[dict[str, Any]]:
    """The first partition of all four topics."""
    return _named(*FOUR, partitions=[fields])


def _delete_auto(world: World, answer: Any) -> None:
    """Creating them takes longer than the answer."""
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    world.delete_made(topic.name for topic in answer.topics if topic.error_code != refused)


def _delete_made(world: World, answer: Any) -> None:
    world.delete_made(topic.name for topic in answer.topics if topic.error_code == ErrorCode.NONE)


def _create_doomed(world: World, answer: Any) -> None:
    world.recreate(topic.name for topic in answer.responses if topic.error_code == ErrorCode.NONE)


def _creation(*names: str, validate_only: bool) -> dict[str, Any]:
    wanted = _named(*names, num_partitions=1, replication_factor=1)
    return {"topics": wanted, "timeout_ms": 10_000, "validate_only": validate_only}


def _epochs(replica_id: int) -> dict[str, Any]:
    partition = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 99}
    return {
        "replica_id": replica_id,
        "topics": [{"topic": name, "partitions": [partition]} for name in FOUR],
    }


QUESTIONS = [
    Question("Metadata", [0], "all topics", {"topics": []}, [TOPIC]),
    Question("Metadata", [1], "two topics by name", {"topics": _named(*BOTH)}, [TOPIC]),
    Question(
        "Metadata",
        [8, 10],
        "four topics by name, with all authorized operations",
        {
            "topics": _named(*FOUR),
            "allow_auto_topic_creation": False,
            "include_cluster_authorized_operations": True,
            "include_topic_authorized_operations": True,
        },
        [TOPIC, CLUSTER],
    ),
    Question(
        "Metadata",
        [13],
        "four topics by name",
        {"topics": _named(*FOUR), "allow_auto_topic_creation": False},
        [TOPIC],
        besides=PATTERNS,
    ),
    Question(
        "Metadata",
        [13],
        "four topics by id, with authorized operations",
        lambda world: {
            "topics": [{"topic_id": one, "name": None} for one in world.by_id(FOUR)],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": True,
        },
        [TOPIC],
    ),
    Question(
        "Metadata",
        [13],
        "all topics",
        {"topics": None},
        [TOPIC],
    ),
    Question(
        "Metadata",
        [13],
        "two topics that may be created",
        {"topics": _named(*AUTO), "allow_auto_topic_creation": True},
        [TOPIC, CLUSTER],
        restore=_delete_auto,
    ),
    Question(
        "DescribeTopicPartitions",
        [0],
        "four topics",
        {"topics": _named(*FOUR)},
        [TOPIC],
        besides=PATTERNS,
    ),
    Question("DescribeTopicPartitions", [0], "all topics", {"topics": []}, [TOPIC]),
    Question(
        "DescribeTopicPartitions",
        [0],
        "all topics, one partition of them",
        {"topics": [], "response_partition_limit": 1},
        [TOPIC],
    ),
    Question(
        "CreateTopics",
        [2, 5, 7],
        "two topics, and two that exist, only validated",
        _creation(*BOTH, *MADE, validate_only=True),
        [TOPIC, CLUSTER],
    ),
    Question(
        "CreateTopics",
        [7],
        "two topics",
        _creation(*MADE, validate_only=False),
        [TOPIC, CLUSTER],
        restore=_delete_made,
    ),
    Question(
        "DeleteTopics",
        [1, 5],
        "two topics, and two that do not exist",
        {"topic_names": [*DOOMED, *GONE], "timeout_ms": 10_000},
        [TOPIC],
        restore=_create_doomed,
    ),
    Question(
        "DeleteTopics",
        [6],
        "two topics, and two that do not exist, by name",
        {"topics": _named(*DOOMED, *GONE), "timeout_ms": 10_000},
        [TOPIC],
        restore=_create_doomed,
    ),
    Question(
        "DeleteTopics",
        [6],
        "two topics, and two that do not exist, by id",
        lambda world: {
            "topics": [{"topic_id": one, "name": None} for one in world.by_id([*DOOMED, *GONE])],
            "timeout_ms": 10_000,
        },
        [TOPIC],
        restore=_create_doomed,
    ),
    Question(
        "CreatePartitions",
        [0, 3],
        "two of four topics, only validated",
        {
            "topics": _named(*FOUR, count=2, assignments=None),
            "timeout_ms": 10_000,
            "validate_only": True,
        },
        [TOPIC],
    ),
    Question(
        "DeleteRecords",
        [0, 2],
        "none of four topics",
        {"topics": _on_partition(partition_index=0, offset=0), "timeout_ms": 10_000},
        [TOPIC],
    ),
    Question(
        "ListOffsets",
        [1, 7, 11],
        "the end of four topics",
        {
            "replica_id": -1,
            "topics": _on_partition(partition_index=0, current_leader_epoch=-1, timestamp=-1),
        },
        [TOPIC],
    ),
    Question("OffsetForLeaderEpoch", [2, 4], "four topics", _epochs(-1), [TOPIC, CLUSTER]),
    Question("OffsetForLeaderEpoch", [4], "four topics, a replica", _epochs(5), [TOPIC, CLUSTER]),
    Question(
        "DescribeProducers",
        [0],
        "four topics",
        {"topics": _named(*FOUR, partition_indexes=[0])},
        [TOPIC],
    ),
    Question(
        "ElectLeaders",
        [0, 2],
        "four topics",
        {
            "election_type": PREFERRED,
            "topic_partitions": [{"topic": name, "partitions": [0]} for name in FOUR],
            "timeout_ms": 10_000,
        },
        [CLUSTER],
    ),
    Question(
        "ElectLeaders",
        [2],
        "all topics",
        {"election_type": PREFERRED, "topic_partitions": None, "timeout_ms": 10_000},
        [CLUSTER],
    ),
    Question(
        "AlterPartitionReassignments",
        [0, 1],
        "none of four topics is moved",
        {
            "topics": _on_partition(partition_index=0, replicas=None),
            "timeout_ms": 10_000,
            "allow_replication_factor_change": True,
        },
        [CLUSTER],
    ),
    Question(
        "ListPartitionReassignments",
        [0],
        "four topics",
        {"topics": _named(*FOUR, partition_indexes=[0]), "timeout_ms": 10_000},
        [CLUSTER],
    ),
    Question(
        "ListPartitionReassignments",
        [0],
        "all topics",
        {"topics": None, "timeout_ms": 10_000},
        [CLUSTER],
    ),
    Question(
        "AlterReplicaLogDirs",
        [1, 2],
        "four topics to a folder that does not exist",
        {"dirs": [{"path": "/nowhere", "topics": _named(*FOUR, partitions=[0])}]},
        [CLUSTER],
    ),
    Question(
        "DescribeLogDirs",
        [1, 3, 5],
        "four topics",
        {"topics": [{"topic": name, "partitions": [0]} for name in FOUR]},
        [CLUSTER],
    ),
    Question(
        "Metadata",
        [13],
        "internal topics by name",
        {"topics": _named(*INTERNAL), "allow_auto_topic_creation": True},
        [TOPIC, CLUSTER],
        prefix=CONSUMER,
    ),
    Question(
        "Metadata",
        [13],
        "a name that no topic can have",
        {"topics": _named("mine bad", "theirs bad"), "allow_auto_topic_creation": True},
        [TOPIC, CLUSTER],
    ),
    Question(
        "DescribeTopicPartitions",
        [0],
        "all topics from theirs",
        {"topics": [], "cursor": {"topic_name": "theirs", "partition_index": 0}},
        [TOPIC],
    ),
    Question(
        "CreateTopics",
        [7],
        "names that no topic can have, and one twice, only validated",
        _creation("mine bad", "theirs bad", "mine-made", "mine-made", validate_only=True),
        [TOPIC, CLUSTER],
    ),
    Question(
        "CreateTopics",
        [7],
        "internal topics, only validated",
        _creation(*INTERNAL, "__cluster_metadata", validate_only=True),
        [TOPIC, CLUSTER],
        prefix=CONSUMER,
    ),
    Question(
        "CreateTopics",
        [7],
        "wrong counts, and an option that does not exist, only validated",
        {
            "topics": [
                *_named("mine-made", "theirs-made", num_partitions=0, replication_factor=1),
                *_named(
                    "mine-other",
                    "theirs-other",
                    num_partitions=1,
                    replication_factor=1,
                    configs=[{"name": "nonsense", "value": "1"}],
                ),
            ],
            "timeout_ms": 10_000,
            "validate_only": True,
        },
        [TOPIC, CLUSTER],
    ),
    Question(
        "DeleteRecords",
        [2],
        "of internal topics",
        {
            "topics": _named(*INTERNAL, partitions=[{"partition_index": 0, "offset": 0}]),
            "timeout_ms": 10_000,
        },
        [TOPIC],
        prefix=CONSUMER,
    ),
]
