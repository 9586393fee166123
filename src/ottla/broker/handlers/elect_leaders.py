"""ElectLeaders: makes preferred leaders lead, or finds a leader for partitions without one (KIP-460)."""

from __future__ import annotations

from ottla.access import Operation
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_cluster
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

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
    refused = refuse_cluster(node, context.caller, Operation.ALTER)
    if refused is not None:
        return _all_refused(request, refused)
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
    elections = [
        TopicPartition(name, partition) for name, partitions in wanted for partition in partitions
    ]
    errors = (
        node.cluster.elect_preferred(elections)
        if request.election_type == PREFERRED
        else node.cluster.elect_unclean(elections)
    )
    results = []
    at = 0
    for name, partitions in wanted:
        held = [
            _result(partition, error)
            for partition, error in zip(partitions, errors[at : at + len(partitions)], strict=True)
            # A request for all partitions is answered only about elections that were needed.
            if request.topic_partitions is not None or error is not ErrorCode.ELECTION_NOT_NEEDED
        ]
        at += len(partitions)
        results.append(ReplicaElectionResult(topic=name, partition_result=held))
    return ElectLeadersResponse(replica_election_results=results)


def _all_refused(request: ElectLeadersRequest, refused: Refused) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=refused.error,
        replica_election_results=[
            ReplicaElectionResult(
                topic=asked.topic,
                partition_result=[
                    PartitionResult(
                        partition_id=partition,
                        error_code=refused.error,
                        error_message=refused.message,
                    )
                    for partition in asked.partitions
                ],
            )
            for asked in request.topic_partitions or ()
        ],
    )


def _result(partition: int, error: ErrorCode) -> PartitionResult:
    message = None if error is ErrorCode.NONE else error.text
    return PartitionResult(partition_id=partition, error_code=error, error_message=message)


API = serve(ElectLeadersRequest, ElectLeadersResponse, handle, divisions=DIVISIONS)
