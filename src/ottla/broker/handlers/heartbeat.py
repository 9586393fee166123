"""Heartbeat: a member is alive, and learns whether its group rebalances."""

from __future__ import annotations

from ottla.access import Operation
from ottla.broker.coordination.groups import ask_group
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.gather_responses import NowOrLater
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_group
from ottla.core.group import requests
from ottla.core.outcomes import Refused, error_of
from ottla.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(
    node: Node, request: HeartbeatRequest, context: RequestContext
) -> NowOrLater[HeartbeatResponse]:
    refused = refuse_group(node, context.caller, Operation.READ, request.group_id)
    if refused is not None:
        return _respond(refused)
    heartbeat = requests.HeartbeatRequest(
        request.group_id, request.generation_id, request.member_id, request.group_instance_id
    )
    return ask_group(
        node.groups,
        request.group_id,
        lambda groups, turn, _: groups.heartbeat(turn, heartbeat),
        _respond,
    )


def _respond(refused: Refused | None) -> HeartbeatResponse:
    error = error_of(refused)
    # During a replay no session ends: there is nothing to tell a member.
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        error = ErrorCode.NONE
    return HeartbeatResponse(error_code=error)


API = serve(HeartbeatRequest, HeartbeatResponse, handle)
