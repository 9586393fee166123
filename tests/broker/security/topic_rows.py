"""The requests of topics, configs and the cluster, and the rights that each needs: one row for each API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tests.broker.requests import batch_of, records_of
from tests.broker.security.coordination_rows import (
    CLUSTER_ACTION,
    DESCRIBE_OTHER,
    DESCRIBE_TOPIC,
    NO_CLUSTER,
    NO_GROUP,
    NO_TOPIC,
    NO_TRANSACTION,
    NONE,
    OTHER_TOPIC,
    READ_OTHER,
    READ_TOPIC,
    TOPIC,
    TRANSACTION,
    WRITE_OTHER,
    WRITE_TOPIC,
    WRITE_TRANSACTION,
    Ids,
    Row,
)
from tests.broker.security.rights import Right
from tests.security.kafka_answers.message_builder import classes_of, request_of

from ottla.access import CLUSTER, Operation, group, topic
from ottla.config.options import ResourceType
from ottla.errors import ErrorCode
from ottla.records.batch import BatchFlag, build_batch

NEW, OTHER_NEW = "rights-new", "rights-new2"
GROUP = "rights-g"
BOTH: Final = (TOPIC, OTHER_TOPIC)
BROKER_ID = "1"

Fields = Mapping[str, Any]


def transactional_batch() -> bytes:
    return build_batch(
        records_of(b"v"),
        flags=BatchFlag.TRANSACTIONAL,
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
    )


def _row(
    api: str,
    title: str,
    fields: Fields | Callable[[int, Ids], Fields],
    versions: tuple[int, ...],
    without: Mapping[Right, list[ErrorCode]],
) -> Row:
    def request(version: int, ids: Ids) -> Any:
        return request_of(api, fields(version, ids) if callable(fields) else fields)

    return Row(f"{api} {title}".strip(), request, classes_of(api)[1], versions, without)


def _of_topics(operation: Operation, names: Sequence[str] = BOTH) -> dict[Right, list[ErrorCode]]:
    """Each right is about one of the two topics."""
    one, other = (Right(operation, topic(name)) for name in names)
    return {one: [NO_TOPIC, NONE], other: [NONE, NO_TOPIC]}


def _of_cluster(operation: Operation, count: int = 1) -> dict[Right, list[ErrorCode]]:
    return {Right(operation, CLUSTER): [NO_CLUSTER] * count}


def _named(names: Sequence[str] = BOTH, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": name, **fields} for name in names]


def _identified(
    version: int, ids: Ids, since: int, key: str, **fields: Any
) -> list[dict[str, Any]]:
    """Both topics by their names, or by their ids in newer versions."""
    if version >= since:
        return [{"topic_id": each, key: None if key == "name" else "", **fields} for each in ids]
    return [{key: name, **fields} for name in BOTH]


def _produce(records: Callable[[], bytes], **fields: Any) -> Callable[[int, Ids], Fields]:
    def make(version: int, ids: Ids) -> Fields:
        topics: list[dict[str, Any]] = [{"name": name} for name in BOTH]
        if version >= 13:
            topics = [{"topic_id": each, "name": ""} for each in ids]
        data = [{"index": 0, "records": records()}]
        return {
            "acks": -1,
            "timeout_ms": 5000,
            "topic_data": [{**each, "partition_data": data} for each in topics],
            **fields,
        }

    return make


def _fetch(replica_id: int = -1) -> Callable[[int, Ids], Fields]:
    def make(version: int, ids: Ids) -> Fields:
        partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
        fields = {
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "session_epoch": -1,
            "topics": _identified(version, ids, 13, "topic", partitions=partitions),
        }
        if version >= 15:
            return {**fields, "replica_state": {"replica_id": replica_id, "replica_epoch": 1}}
        return {**fields, "replica_id": replica_id}

    return make


def _metadata(version: int, ids: Ids) -> Fields:
    return {
        "topics": _identified(version, ids, 12, "name"),
        "allow_auto_topic_creation": False,
    }


def _creation(version: int, ids: Ids) -> Fields:
    return {
        "topics": _named((NEW, OTHER_NEW), num_partitions=1, replication_factor=1),
        "timeout_ms": 5000,
        "validate_only": True,
    }


def _deletion(version: int, ids: Ids) -> Fields:
    names = (NEW, OTHER_NEW)
    named = {"topics": _named(names)} if version >= 6 else {"topic_names": list(names)}
    return {**named, "timeout_ms": 5000}


_EPOCHS: Final = {
    "topics": [
        {
            "topic": name,
            "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}],
        }
        for name in BOTH
    ]
}


def _resources(*named: tuple[ResourceType, str], **fields: Any) -> Fields:
    return {
        "resources": [
            {"resource_type": kind, "resource_name": name, **fields} for kind, name in named
        ]
    }


def _config_rows() -> list[Row]:
    topics = [(ResourceType.TOPIC, name) for name in BOTH]
    groups = [(ResourceType.GROUP, GROUP)]
    brokers = [(ResourceType.BROKER, BROKER_ID), (ResourceType.CLIENT_METRICS, "rights-m")]
    loggers = [(ResourceType.BROKER_LOGGER, BROKER_ID)]
    describe, alter = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
    nothing = {"configuration_keys": ["none"]}
    group_right = Right(describe, group(GROUP))
    rows = [
        _row("DescribeConfigs", title, _resources(*named, **nothing), versions, without)
        for title, named, versions, without in (
            ("of topics", topics, (1, 4), _of_topics(describe)),
            ("of groups", groups, (4,), {group_right: [NO_GROUP]}),
            ("of brokers", [*brokers, *loggers], (4,), _of_cluster(describe, 3)),
        )
    ]
    for api, kinds in (
        ("AlterConfigs", brokers),
        ("IncrementalAlterConfigs", [*brokers, *loggers]),
    ):
        for title, named, without in (
            ("of topics", topics, _of_topics(alter)),
            ("of groups", groups, {Right(alter, group(GROUP)): [NO_GROUP]}),
            ("of brokers", kinds, _of_cluster(alter, len(kinds))),
        ):
            fields = {**_resources(*named, configs=[]), "validate_only": True}
            rows.append(_row(api, title, fields, (0, 2 if api == "AlterConfigs" else 1), without))
    return rows


def _cluster_rows() -> list[Row]:
    describe, alter = Operation.DESCRIBE, Operation.ALTER
    partitions = [{"topic": name, "partitions": [0]} for name in BOTH]
    moved = _named(partitions=[{"partition_index": 0, "replicas": None}])
    voter = {"cluster_id": None, "voter_id": 1}
    return [
        _row("ListConfigResources", "", {}, (0, 1), _of_cluster(Operation.DESCRIBE_CONFIGS)),
        _row("DescribeLogDirs", "", {"topics": partitions}, (3, 5), _of_cluster(describe)),
        _row(
            "AlterReplicaLogDirs",
            "",
            {"dirs": [{"path": "/nowhere", "topics": _named(partitions=[0])}]},
            (1, 2),
            _of_cluster(alter, 2),
        ),
        _row(
            "ElectLeaders",
            "",
            {"election_type": 0, "topic_partitions": partitions, "timeout_ms": 5000},
            (1, 2),
            _of_cluster(alter, 3),
        ),
        _row(
            "AlterPartitionReassignments",
            "",
            {"topics": moved, "timeout_ms": 5000},
            (0, 1),
            _of_cluster(alter, 3),
        ),
        _row(
            "ListPartitionReassignments",
            "",
            {"topics": _named(partition_indexes=[0]), "timeout_ms": 5000},
            (0,),
            {Right(describe, CLUSTER): [NO_CLUSTER, NONE, NONE]},
        ),
        _row("DescribeQuorum", "", {"topics": []}, (0, 2), _of_cluster(describe)),
        _row("UpdateFeatures", "", {"feature_updates": []}, (0, 2), _of_cluster(alter)),
        _row("UnregisterBroker", "", {"broker_id": 99}, (0,), _of_cluster(alter)),
        _row("AddRaftVoter", "", voter, (0, 1), _of_cluster(alter)),
        _row("RemoveRaftVoter", "", voter, (0,), _of_cluster(alter)),
    ]


ROWS: Final = (
    _row(
        "Produce",
        "",
        _produce(lambda: batch_of(b"v")),
        (3, 12, 13),
        {WRITE_TOPIC: [NO_TOPIC, NONE], WRITE_OTHER: [NONE, NO_TOPIC]},
    ),
    _row(
        "Produce",
        "of a transaction",
        _produce(transactional_batch, transactional_id=TRANSACTION),
        (3, 12, 13),
        {
            WRITE_TRANSACTION: [NO_TRANSACTION, NO_TRANSACTION],
            WRITE_TOPIC: [NO_TOPIC, NONE],
            WRITE_OTHER: [NONE, NO_TOPIC],
        },
    ),
    _row(
        "Fetch",
        "",
        _fetch(),
        (4, 12, 13, 18),
        {READ_TOPIC: [NO_TOPIC, NONE], READ_OTHER: [NONE, NO_TOPIC]},
    ),
    _row("Fetch", "of a follower", _fetch(2), (12, 18), {CLUSTER_ACTION: [NO_TOPIC, NO_TOPIC]}),
    _row(
        "ListOffsets",
        "",
        {
            "replica_id": -1,
            "topics": _named(partitions=[{"partition_index": 0, "timestamp": -1}]),
        },
        (1, 11),
        _of_topics(Operation.DESCRIBE),
    ),
    _row("OffsetForLeaderEpoch", "", _EPOCHS, (2, 4), _of_topics(Operation.DESCRIBE)),
    _row(
        "OffsetForLeaderEpoch",
        "of a node",
        _EPOCHS,
        (4,),
        {CLUSTER_ACTION: [NO_TOPIC, NO_TOPIC]},
    ),
    _row(
        "DeleteRecords",
        "",
        {
            "topics": _named(partitions=[{"partition_index": 0, "offset": 0}]),
            "timeout_ms": 5000,
        },
        (0, 2),
        _of_topics(Operation.DELETE),
    ),
    _row(
        "Metadata",
        "",
        _metadata,
        (4, 9, 12, 13),
        # The broker comes first.
        {DESCRIBE_TOPIC: [NONE, NO_TOPIC, NONE], DESCRIBE_OTHER: [NONE, NONE, NO_TOPIC]},
    ),
    _row(
        "DescribeTopicPartitions",
        "",
        {"topics": _named(), "response_partition_limit": 10},
        (0,),
        # Refused topics come last.
        {DESCRIBE_TOPIC: [NONE, NO_TOPIC], DESCRIBE_OTHER: [NONE, NO_TOPIC]},
    ),
    # Newer versions have the configs: test_topic_rights.py.
    _row("CreateTopics", "", _creation, (2, 4), _of_topics(Operation.CREATE, (NEW, OTHER_NEW))),
    _row("DeleteTopics", "", _deletion, (1, 6), _of_topics(Operation.DELETE, (NEW, OTHER_NEW))),
    _row(
        "CreatePartitions",
        "",
        {
            "topics": _named(count=2, assignments=None),
            "timeout_ms": 5000,
            "validate_only": True,
        },
        (0, 3),
        _of_topics(Operation.ALTER),
    ),
    *_config_rows(),
    *_cluster_rows(),
)
