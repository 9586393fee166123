"""AddRaftVoter: the metadata log has one voter, and kraft.version is 0."""

from __future__ import annotations

from ottla.access import Operation
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_cluster
from ottla.errors import ErrorCode
from ottla.wire.messages.add_raft_voter import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
)
from ottla.wire.types import ZERO_UUID


def handle(
    node: Node, request: AddRaftVoterRequest, context: RequestContext
) -> AddRaftVoterResponse:
    refused = refuse_cluster(node, context.caller, Operation.ALTER)
    if refused is not None:
        return AddRaftVoterResponse(error_code=refused.error, error_message=refused.message)
    cluster_id = node.cluster.cluster_id
    if request.cluster_id is not None and request.cluster_id != cluster_id:
        return AddRaftVoterResponse(
            error_code=ErrorCode.INCONSISTENT_CLUSTER_ID,
            error_message=f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{cluster_id}"',
        )
    if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        return AddRaftVoterResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message="Add voter request didn't include a valid voter",
        )
    return AddRaftVoterResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        error_message="Cluster doesn't support adding voter because the kraft.version feature is 0",
    )


API = serve(AddRaftVoterRequest, AddRaftVoterResponse, handle)
