"""ElectLeaders: makes preferred leaders lead, or finds a leader for partitions without one (KIP-460)."""

from __future__ import annotations

from ottla.broker.node import Node
from ottla.broker.request import RequestContext
from ottla.errors import ErrorCode
from ottla.model import NO_LEADER
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

REQUEST = ElectLeadersRequest
PREFERRED, UNCLEAN = 0, 1


def handle(
    node: Node, request: ElectLeadersRequest, context: RequestContext
) -> ElectLeadersResponse:
    if request.election_type not in (PREFERRED, UNCLEAN):
        return ElectLeadersResponse(
            error_code=ErrorCode.INVALID_REQUEST, replica_election_results=[]
        )
    if request.topic_partitions is None:
        results = _elect_everywhere(node, request.election_type)
    else:
        results = [
            ReplicaElectionResult(
                topic=asked.topic,
                partition_result=[
                    _elect(node, asked.topic, partition, request.election_type)
                    for partition in asked.partitions
                ],
            )
            for asked in request.topic_partitions
        ]
    return ElectLeadersResponse(replica_election_results=results)


def _elect_everywhere(node: Node, election_type: int) -> list[ReplicaElectionResult]:
    """Holds every election that is needed; only those are told."""
    results = []
    for topic in list(node.cluster.catalog.topics.values()):
        elected = [
            _elect(node, topic.name, partition, election_type)
            for partition in range(topic.partition_count)
        ]
        held = [one for one in elected if one.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        if held:
            results.append(ReplicaElectionResult(topic=topic.name, partition_result=held))
    return results


def _elect(node: Node, name: str, partition: int, election_type: int) -> PartitionResult:
    cluster = node.cluster
    topic = cluster.catalog.topics.get(name)
    if topic is None or not 0 <= partition < topic.partition_count:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif election_type == PREFERRED:
        error = cluster.elect_preferred(topic, partition)
    elif cluster.place(topic, partition).leader_id == NO_LEADER:
        # All nodes read the same storage: where one cannot, no other can.
        error = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    else:
        error = ErrorCode.ELECTION_NOT_NEEDED
    message = None if error is ErrorCode.NONE else error.text
    return PartitionResult(partition_id=partition, error_code=error, error_message=message)
