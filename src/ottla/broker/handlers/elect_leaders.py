"""ElectLeaders: makes preferred leaders lead, or finds a leader for partitions without one (KIP-460)."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.broker.node import Node
from ottla.broker.requests.request import RequestContext
from ottla.broker.requests.request_pieces import Division, Divisions
from ottla.core.catalog import Topic
from ottla.errors import ErrorCode
from ottla.model import NO_LEADER, TopicPartition
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

REQUEST = ElectLeadersRequest
DIVISIONS = Divisions(
    (
        Division(
            "topic_partitions",
            "replica_election_results",
            inner=Division("partitions", "partition_result"),
            named=("topic",),
        ),
    )
)
PREFERRED, UNCLEAN = 0, 1


def handle(
    node: Node, request: ElectLeadersRequest, context: RequestContext
) -> ElectLeadersResponse:
    if request.election_type not in (PREFERRED, UNCLEAN):
        return ElectLeadersResponse(
            error_code=ErrorCode.INVALID_REQUEST, replica_election_results=[]
        )
    if request.topic_partitions is None:
        wanted = [
            (topic.name, list(range(topic.partition_count)))
            for topic in node.cluster.catalog.topics.values()
        ]
    else:
        wanted = [(asked.topic, asked.partitions) for asked in request.topic_partitions]
    errors = _elect(
        node,
        [
            TopicPartition(name, partition)
            for name, partitions in wanted
            for partition in partitions
        ],
        request.election_type,
    )
    results = []
    at = 0
    for name, partitions in wanted:
        held = [
            _result(partition, error)
            for partition, error in zip(partitions, errors[at : at + len(partitions)], strict=True)
            # Asked for all, only elections that were needed are told.
            if request.topic_partitions is not None or error is not ErrorCode.ELECTION_NOT_NEEDED
        ]
        at += len(partitions)
        if held or request.topic_partitions is not None:
            results.append(ReplicaElectionResult(topic=name, partition_result=held))
    return ElectLeadersResponse(replica_election_results=results)


def _elect(node: Node, wanted: Sequence[TopicPartition], election_type: int) -> Sequence[ErrorCode]:
    """Holds elections, all of them in one step."""
    topics = [_find(node, place) for place in wanted]
    if election_type == PREFERRED:
        known = [
            (topic, place.partition)
            for topic, place in zip(topics, wanted, strict=True)
            if topic is not None
        ]
        elected = iter(node.cluster.elect_preferred(known))
        return [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else next(elected)
            for topic in topics
        ]
    return [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is None
        else _elect_unclean(node, topic, place.partition)
        for topic, place in zip(topics, wanted, strict=True)
    ]


def _find(node: Node, place: TopicPartition) -> Topic | None:
    topic = node.cluster.catalog.topics.get(place.topic)
    if topic is None or not 0 <= place.partition < topic.partition_count:
        return None
    return topic


def _elect_unclean(node: Node, topic: Topic, partition: int) -> ErrorCode:
    if node.cluster.place(topic, partition).leader_id == NO_LEADER:
        # All nodes read the same storage: where one cannot, no other can.
        return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    return ErrorCode.ELECTION_NOT_NEEDED


def _result(partition: int, error: ErrorCode) -> PartitionResult:
    message = None if error is ErrorCode.NONE else error.text
    return PartitionResult(partition_id=partition, error_code=error, error_message=message)
