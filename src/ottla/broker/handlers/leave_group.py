"""LeaveGroup: members leave, or an administrator removes them (KIP-345)."""

from __future__ import annotations

from ottla.access import Operation
from ottla.broker.coordination.groups import ask_group
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions
from ottla.broker.requests.gather_responses import NowOrLater
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_group
from ottla.core.group.requests import Leaver, LeaveResults
from ottla.core.outcomes import Refused, error_of
from ottla.errors import ErrorCode
from ottla.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)

DIVISIONS = Divisions((Division("members", "members"),))
FIRST_BATCHED_VERSION = 3


def handle(
    node: Node, request: LeaveGroupRequest, context: RequestContext
) -> NowOrLater[LeaveGroupResponse]:
    refused = refuse_group(node, context.caller, Operation.READ, request.group_id)
    if refused is not None:
        return LeaveGroupResponse(error_code=refused.error)
    is_batched = context.version >= FIRST_BATCHED_VERSION
    leavers = (
        tuple(
            Leaver(member.member_id, member.group_instance_id, member.reason)
            for member in request.members
        )
        if is_batched
        else (Leaver(request.member_id, None),)
    )
    return ask_group(
        node.groups,
        request.group_id,
        lambda groups, turn, _: groups.leave(turn, request.group_id, leavers),
        _respond if is_batched else _respond_for_one,
    )


def _respond(results: LeaveResults | Refused) -> LeaveGroupResponse:
    if isinstance(results, Refused):
        return LeaveGroupResponse(error_code=results.error)
    return LeaveGroupResponse(
        error_code=ErrorCode.NONE,
        members=[
            MemberResponse(
                member_id=leaver.member_id,
                group_instance_id=leaver.instance_id,
                error_code=error_of(refused),
            )
            for leaver, refused in results
        ],
    )


def _respond_for_one(results: LeaveResults | Refused) -> LeaveGroupResponse:
    refused = results if isinstance(results, Refused) else results[0][1]
    return LeaveGroupResponse(error_code=error_of(refused))


API = serve(LeaveGroupRequest, LeaveGroupResponse, handle, divisions=DIVISIONS)
