"""Heartbeat: a member is alive, and learns whether its group rebalances."""

from __future__ import annotations

from ottla.broker.coordination.groups import find_group
from ottla.broker.node import Node
from ottla.broker.requests.request import Answer, RequestContext
from ottla.core.group import requests
from ottla.core.outcomes import Refused, error_of
from ottla.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

REQUEST = HeartbeatRequest


def handle(node: Node, request: HeartbeatRequest, context: RequestContext) -> Answer:
    coordinator = find_group(node, request.group_id)
    if isinstance(coordinator, Refused):
        return _respond(coordinator)
    heartbeat = requests.HeartbeatRequest(
        request.group_id, request.generation_id, request.member_id, request.group_instance_id
    )
    return coordinator.ask(lambda groups, turn: groups.heartbeat(turn, heartbeat), _respond)


def _respond(refused: Refused | None) -> HeartbeatResponse:
    error = error_of(refused)
    # During a replay no session ends: there is nothing to tell a member.
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        error = ErrorCode.NONE
    return HeartbeatResponse(error_code=error)
