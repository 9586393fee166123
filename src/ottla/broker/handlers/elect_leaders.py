"""ElectLeaders: every partition is led by its preferred replica already, so no election is needed."""

from __future__ import annotations

from ottla.broker.node import Node
from ottla.broker.request import RequestContext
from ottla.errors import ErrorCode
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
    # Asked for all partitions, Kafka names only those that had an election; there are none.
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic=asked.topic,
                partition_result=[
                    _result(node, asked.topic, partition) for partition in asked.partitions
                ],
            )
            for asked in request.topic_partitions or ()
        ]
    )


def _result(node: Node, name: str, partition: int) -> PartitionResult:
    topic = node.cluster.catalog.topics.get(name)
    exists = topic is not None and 0 <= partition < topic.partition_count
    error = ErrorCode.ELECTION_NOT_NEEDED if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return PartitionResult(partition_id=partition, error_code=error, error_message=error.text)
