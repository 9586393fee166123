"""Topics as Metadata and DescribeTopicPartitions describe them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from ottla.client.admin_model.acls import AclOperation
from ottla.client.admin_model.topics import TopicDescription, TopicPartitionInfo
from ottla.client.aio.admin.answers import Answers, K
from ottla.client.model import Node
from ottla.errors import ErrorCode
from ottla.model import NO_TOPIC_ID
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from ottla.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.types import OPERATIONS_OMITTED

Nodes = Mapping[int, Node]


def topic_id_of(topic_id: UUID) -> UUID | None:
    """The id; None if the broker did not send one."""
    return None if topic_id == NO_TOPIC_ID else topic_id


def operations(bits: int) -> frozenset[AclOperation] | None:
    """The operations of a bit field; None if they were not requested."""
    if bits == OPERATIONS_OMITTED:
        return None
    return frozenset(
        operation
        for operation in AclOperation
        if operation > AclOperation.ALL and bits >> operation & 1
    )


def nodes_of(brokers: Iterable[Any]) -> dict[int, Node]:
    """The brokers of a Metadata response, by id."""
    return {b.node_id: Node(b.node_id, b.host, b.port, b.rack or None) for b in brokers}


def _resolved(ids: Iterable[int], nodes: Nodes) -> tuple[Node, ...]:
    return tuple(_node(each, nodes) for each in ids)


def _node(node_id: int, nodes: Nodes) -> Node:
    # A replica on a broker that left the cluster has an id, and no address.
    return nodes.get(node_id) or Node(node_id, "", -1)


def partition_info(
    partition: MetadataResponsePartition | DescribeTopicPartitionsResponsePartition, nodes: Nodes
) -> TopicPartitionInfo:
    """A partition of either response."""
    eligible: Sequence[int] | None = getattr(partition, "eligible_leader_replicas", None)
    last_known: Sequence[int] | None = getattr(partition, "last_known_elr", None)
    return TopicPartitionInfo(
        partition.partition_index,
        None if partition.leader_id < 0 else _node(partition.leader_id, nodes),
        _resolved(partition.replica_nodes, nodes),
        _resolved(partition.isr_nodes, nodes),
        _resolved(partition.offline_replicas, nodes),
        None if partition.leader_epoch < 0 else partition.leader_epoch,
        None if eligible is None else _resolved(eligible, nodes),
        None if last_known is None else _resolved(last_known, nodes),
    )


def _description(
    topic: MetadataResponseTopic | DescribeTopicPartitionsResponseTopic,
    partitions: Iterable[MetadataResponsePartition | DescribeTopicPartitionsResponsePartition],
    nodes: Nodes,
) -> TopicDescription:
    infos = [partition_info(partition, nodes) for partition in partitions]
    return TopicDescription(
        topic.name or "",
        topic_id_of(topic.topic_id),
        topic.is_internal,
        tuple(sorted(infos, key=lambda info: info.partition)),
        operations(topic.topic_authorized_operations),
    )


def described_by_metadata(
    response: MetadataResponse, keys: Iterable[K], answers: Answers[K, TopicDescription]
) -> None:
    """Topics by name or id, from a Metadata response."""
    nodes = nodes_of(response.brokers)
    found: dict[object, MetadataResponseTopic] = {}
    for topic in response.topics:
        found[topic.topic_id] = topic
        found[topic.name] = topic
    for key in keys:
        topic_found = found.get(key)
        if topic_found is None:
            unknown_id = isinstance(key, UUID)
            answers.fail(
                key,
                ErrorCode.UNKNOWN_TOPIC_ID if unknown_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
        elif topic_found.error_code:
            answers.fail(key, topic_found.error_code)
        else:
            answers.succeed(key, _description(topic_found, topic_found.partitions, nodes))


class TopicPages:
    """Describes topics by pages of partitions (KIP-966): those with these names, or all if `names` is None."""

    def __init__(self, names: Sequence[str] | None, partitions_per_response: int) -> None:
        # The broker responds in the order of the names, whatever the order of the request.
        self._left = sorted(names or ())
        self._is_all = names is None
        self._is_done = names is not None and not names
        self._limit = partitions_per_response
        self._cursor: Cursor | None = None
        self._topics: dict[str, DescribeTopicPartitionsResponseTopic] = {}
        self._partitions: dict[str, dict[int, DescribeTopicPartitionsResponsePartition]] = {}

    def next_request(self) -> DescribeTopicPartitionsRequest | None:
        """The request for the next page; None after the last one."""
        if self._is_done:
            return None
        # Without names the broker responds with all topics.
        return DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in self._left],
            response_partition_limit=self._limit,
            cursor=self._cursor,
        )

    def add(self, response: DescribeTopicPartitionsResponse) -> None:
        """Add a page; a page without anything new is taken for the last one, so that the loop ends."""
        before = self._progress()
        for topic in response.topics:
            if topic.name is None:
                continue
            # The newest page counts: the topic may be deleted between two pages.
            self._topics[topic.name] = topic
            partitions = self._partitions.setdefault(topic.name, {})
            partitions.update((each.partition_index, each) for each in topic.partitions)
        cursor = self._cursor = response.next_cursor
        if cursor is None:
            self._is_done = True
            return
        self._left = [name for name in self._left if name >= cursor.topic_name]
        if self._progress() == before:
            # An incomplete topic is left out, which the caller of `finish` reports as an error.
            for name in [name for name in self._topics if name >= cursor.topic_name]:
                del self._topics[name]
            self._is_done = True
        elif not self._left and not self._is_all:
            self._is_done = True

    def _progress(self) -> tuple[int, int, int]:
        counts = self._partitions.values()
        return len(self._left), len(counts), sum(map(len, counts))

    def finish(
        self,
        answers: Answers[Any, TopicDescription],
        nodes: Nodes,
        include_authorized_operations: bool,
    ) -> None:
        """Add the descriptions of all topics; topics that the pages lack get no outcome."""
        for name, topic in self._topics.items():
            if topic.error_code:
                answers.fail(name, topic.error_code)
                continue
            if not include_authorized_operations:
                # This API always returns them.
                topic.topic_authorized_operations = OPERATIONS_OMITTED
            answers.succeed(name, _description(topic, self._partitions[name].values(), nodes))
