"""Which operation an API needs, for errors of authorization: brokers do not say it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ottla.errors import ErrorCode, KafkaError

_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TRANSACTIONAL_ID = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

_WORDS: Final = {
    _TOPIC: "topic",
    _GROUP: "group",
    _TRANSACTIONAL_ID: "transactional id",
    _CLUSTER: "cluster",
}
# What usually is wanted behind the request that was denied.
_INCLUDE_DESCRIBE: Final = {
    _TOPIC: "Read and Write include",
    _GROUP: "Read includes",
    _TRANSACTIONAL_ID: "Write includes",
}
# By error and operation: the APIs, as Kafka checks them. DescribeTopics is the name of the call of `Admin`.
_APIS: Final[Mapping[ErrorCode, Mapping[str, str]]] = {
    _TOPIC: {
        "Describe": "Metadata DescribeTopics DescribeTopicPartitions ListOffsets OffsetForLeaderEpoch OffsetFetch "
        "ConsumerGroupHeartbeat ConsumerGroupDescribe",
        "Read": "Fetch OffsetCommit TxnOffsetCommit OffsetDelete DescribeProducers",
        "Write": "Produce AddPartitionsToTxn",
        "Create": "CreateTopics",
        "Delete": "DeleteTopics DeleteRecords",
        "Alter": "CreatePartitions",
        "DescribeConfigs": "DescribeConfigs",
        "AlterConfigs": "AlterConfigs IncrementalAlterConfigs",
    },
    _GROUP: {
        "Read": "JoinGroup SyncGroup Heartbeat LeaveGroup ConsumerGroupHeartbeat OffsetCommit "
        "TxnOffsetCommit AddOffsetsToTxn",
        "Describe": "FindCoordinator OffsetFetch DescribeGroups ConsumerGroupDescribe",
        "Delete": "DeleteGroups OffsetDelete",
        "DescribeConfigs": "DescribeConfigs",
        "AlterConfigs": "AlterConfigs IncrementalAlterConfigs",
    },
    _TRANSACTIONAL_ID: {
        "Describe": "FindCoordinator DescribeTransactions",
        "Write": "InitProducerId AddPartitionsToTxn AddOffsetsToTxn EndTxn TxnOffsetCommit Produce",
    },
    _CLUSTER: {
        "Describe": "DescribeLogDirs DescribeAcls DescribeUserScramCredentials DescribeQuorum "
        "ListPartitionReassignments DescribeCluster",
        "Alter": "CreateAcls DeleteAcls AlterUserScramCredentials ElectLeaders WriteTxnMarkers "
        "AlterPartitionReassignments UpdateFeatures UnregisterBroker AlterReplicaLogDirs",
        "Create": "CreateTopics",
        "DescribeConfigs": "DescribeConfigs DescribeClientQuotas ListConfigResources",
        "AlterConfigs": "AlterConfigs IncrementalAlterConfigs AlterClientQuotas",
        "IdempotentWrite": "InitProducerId",
    },
}


def _operations() -> Iterator[tuple[tuple[ErrorCode, str], str]]:
    for code, operations in _APIS.items():
        for operation, apis in operations.items():
            for api in apis.split():
                yield (code, api), operation


OPERATIONS: Final = dict(_operations())


def needed_right(error: KafkaError) -> str | None:
    """What the user would have to be allowed, as `Read on topic orders`; None where that is not known."""
    operation = OPERATIONS.get((error.code, str(error.context.get("api"))))
    if operation is None:
        return None
    if operation == "IdempotentWrite":
        return "Write on a topic, or IdempotentWrite on the cluster"
    word = _WORDS[error.code]
    name = None if error.code is _CLUSTER else _name_of(error, word.replace(" ", "_"))
    right = f"{operation} on {word} {name}" if name else f"{operation} on the {word}"
    more = _INCLUDE_DESCRIBE.get(error.code) if operation == "Describe" else None
    return right if more is None else f"{right} ({more} it)"


def _name_of(error: KafkaError, kind: str) -> str | None:
    """The name of the resource in the context of an error."""
    context = error.context
    found = context.get(kind, context.get("key", getattr(context.get("resource"), "name", None)))
    if found is None and kind == "topic" and "partition" in error.context:
        found = (
            getattr(error.context["partition"], "topic", None)
            or str(error.context["partition"]).rpartition("-")[0]
        )
    return None if found is None else str(found)
