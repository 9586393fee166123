"""SyncGroup: the leader sends the assignment of a generation, the other members wait for it."""

from __future__ import annotations

from ottla.access import Operation
from ottla.broker.coordination.coordinator import PARKED, Parked
from ottla.broker.coordination.groups import ask_group
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.gather_responses import NowOrLater
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_group
from ottla.core.group.machine import GroupMachine
from ottla.core.group.requests import Synced, SyncRequest
from ottla.core.outcomes import Refused
from ottla.core.turn import Ticket, Turn
from ottla.errors import ErrorCode
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

FIRST_VERSION_WITH_PROTOCOL = 5


def handle(
    node: Node, request: SyncGroupRequest, context: RequestContext
) -> NowOrLater[SyncGroupResponse]:
    # Since v5 a member repeats the protocol that it got from JoinGroup (KIP-559).
    if context.version >= FIRST_VERSION_WITH_PROTOCOL and (
        request.protocol_type is None or request.protocol_name is None
    ):
        return _respond(Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    refused = refuse_group(node, context.caller, Operation.READ, request.group_id)
    if refused is not None:
        return _respond(refused)
    sync = SyncRequest(
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        request.protocol_type,
        request.protocol_name,
        {given.member_id: given.assignment for given in request.assignments},
    )

    def decide(groups: GroupMachine, turn: Turn, ticket: Ticket) -> Parked:
        groups.sync(turn, sync, ticket)
        return PARKED

    return ask_group(node.groups, request.group_id, decide, _respond)


def _respond(result: Synced | Refused) -> SyncGroupResponse:
    if isinstance(result, Refused):
        # A rebalance does not outlive a replay, and the member has to join again. COORDINATOR_LOAD_IN_PROGRESS would be
        # a fatal error for the Java client here.
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


API = serve(SyncGroupRequest, SyncGroupResponse, handle)
