"""DescribeQuorum: one node decides about the metadata; it is the leader and the only voter, the other nodes observe."""

from __future__ import annotations

from ottla.access import Operation
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_cluster
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    PartitionDataResult,
    ReplicaState,
    TopicDataResult,
)
from ottla.wire.messages.describe_quorum import Node as QuorumNode

METADATA_TOPIC = "__cluster_metadata"
METADATA_PARTITION = 0
# Nobody votes: the node with the lowest id decides.
LEADER_EPOCH = 1
LISTENER_NAME = "PLAINTEXT"


def handle(
    node: Node, request: DescribeQuorumRequest, context: RequestContext
) -> DescribeQuorumResponse:
    refused = refuse_cluster(node, context.caller, Operation.DESCRIBE)
    if refused is not None:
        return DescribeQuorumResponse(
            error_code=refused.error, error_message=refused.message, topics=[]
        )
    asked = [
        (topic.topic_name, [one.partition_index for one in topic.partitions])
        for topic in request.topics
    ]
    if not asked:
        return DescribeQuorumResponse(error_code=ErrorCode.NONE, topics=[])
    if asked != [(METADATA_TOPIC, [METADATA_PARTITION])]:
        return DescribeQuorumResponse(
            error_code=ErrorCode.NONE,
            topics=[
                TopicDataResult(
                    topic_name=name, partitions=[_unknown(number) for number in partitions]
                )
                for name, partitions in asked
            ],
        )
    return DescribeQuorumResponse(
        error_code=ErrorCode.NONE,
        topics=[TopicDataResult(topic_name=METADATA_TOPIC, partitions=[_quorum(node)])],
        nodes=[
            QuorumNode(
                node_id=node_id,
                listeners=[
                    Listener(name=LISTENER_NAME, host=endpoint.host, port=endpoint.port),
                ],
            )
            for node_id, endpoint in node.cluster.addresses_for(context.caller)
            if node_id == node.cluster.controller_id
        ],
    )


def _quorum(node: Node) -> PartitionDataResult:
    cluster = node.cluster
    # The number of changes of the catalog is the offset of the next one; all nodes use the same catalog.
    end_offset = cluster.store.catalog.revision
    now_ms = cluster.clock.now_ms()

    def state(node_id: int) -> ReplicaState:
        return ReplicaState(
            replica_id=node_id,
            log_end_offset=end_offset,
            last_fetch_timestamp=now_ms,
            last_caught_up_timestamp=now_ms,
        )

    return PartitionDataResult(
        partition_index=METADATA_PARTITION,
        error_code=ErrorCode.NONE,
        leader_id=cluster.controller_id,
        leader_epoch=LEADER_EPOCH,
        high_watermark=end_offset,
        current_voters=[state(cluster.controller_id)],
        observers=[
            state(node_id)
            for node_id in cluster.members.present
            if node_id != cluster.controller_id
        ],
    )


def _unknown(partition: int) -> PartitionDataResult:
    return PartitionDataResult(
        partition_index=partition,
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        error_message="This server does not host this topic-partition.",
        leader_id=0,
        leader_epoch=0,
        high_watermark=0,
        current_voters=[],
        observers=[],
    )


API = serve(DescribeQuorumRequest, DescribeQuorumResponse, handle)
