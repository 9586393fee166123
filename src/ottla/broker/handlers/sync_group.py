"""SyncGroup: the leader brings the assignment of a generation, everybody else waits for it."""

from __future__ import annotations

from ottla.broker.coordination.groups import find_group
from ottla.broker.node import Node
from ottla.broker.requests.request import Answer, RequestContext
from ottla.core.group.requests import Synced, SyncRequest
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

REQUEST = SyncGroupRequest
FIRST_VERSION_WITH_PROTOCOL = 5


def handle(node: Node, request: SyncGroupRequest, context: RequestContext) -> Answer:
    # Since v5 a member says which protocol it was told (KIP-559).
    if context.version >= FIRST_VERSION_WITH_PROTOCOL and (
        request.protocol_type is None or request.protocol_name is None
    ):
        return _respond(Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    coordinator = find_group(node, request.group_id)
    if isinstance(coordinator, Refused):
        return _respond(coordinator)
    sync = SyncRequest(
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        request.protocol_type,
        request.protocol_name,
        {given.member_id: given.assignment for given in request.assignments},
    )
    return coordinator.park(lambda groups, turn, ticket: groups.sync(turn, sync, ticket), _respond)


def _respond(result: Synced | Refused) -> SyncGroupResponse:
    if isinstance(result, Refused):
        # A rebalance does not outlive a replay: the member has to join again. The Java client takes the true error for
        # a fatal one here.
        is_loading = result.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        error = ErrorCode.REBALANCE_IN_PROGRESS if is_loading else result.error
        return SyncGroupResponse(
            error_code=error, protocol_type=None, protocol_name=None, assignment=b""
        )
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol,
        assignment=result.assignment,
    )
