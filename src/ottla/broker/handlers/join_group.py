"""JoinGroup: a member enters a group, or the next generation of it."""

from __future__ import annotations

from ottla.access import Operation
from ottla.broker.coordination.coordinator import PARKED, Parked
from ottla.broker.coordination.groups import find_group
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.gather_responses import NowOrLater
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_group
from ottla.core.group.machine import GroupMachine
from ottla.core.group.requests import NO_GENERATION, NO_MEMBER_ID, Joined, JoinRefused, JoinRequest
from ottla.core.outcomes import Refused
from ottla.core.turn import Ticket, Turn
from ottla.errors import ErrorCode
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

FIRST_VERSION_WITH_HANDSHAKE = 4
FIRST_VERSION_WITH_NULL_PROTOCOL = 7
FIRST_VERSION_WITH_SKIPPING = 9
# The longest client id, with the rest of a member id behind it, would not fit into a string.
ID_PREFIX_CHARS = 255


def handle(
    node: Node, request: JoinGroupRequest, context: RequestContext
) -> NowOrLater[JoinGroupResponse]:
    def respond(result: Joined | JoinRefused | Refused) -> JoinGroupResponse:
        if isinstance(result, Refused):
            result = JoinRefused(result.error, request.member_id)
        if isinstance(result, JoinRefused):
            return _refusal(result, _protocol_name(None, context.version))
        return _response(result, _protocol_name(result.protocol, context.version))

    refused = refuse_group(node, context.caller, Operation.READ, request.group_id)
    if refused is not None:
        return respond(JoinRefused(refused.error, NO_MEMBER_ID))
    coordinator = find_group(node.groups, request.group_id)
    if isinstance(coordinator, Refused):
        return respond(coordinator)
    join = _join(node, request, context)

    def decide(groups: GroupMachine, turn: Turn, ticket: Ticket) -> Parked:
        groups.join(turn, join, ticket)
        return PARKED

    return coordinator.ask(decide, respond)


def _join(node: Node, request: JoinGroupRequest, context: RequestContext) -> JoinRequest:
    client_id = context.client_id or ""
    # The first of two of the same name counts.
    protocols: dict[str, bytes] = {}
    for protocol in request.protocols:
        protocols.setdefault(protocol.name, protocol.metadata)
    known_since_v1 = request.rebalance_timeout_ms
    return JoinRequest(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        client_id,
        f"/{context.caller.peer.host}",
        request.session_timeout_ms,
        request.session_timeout_ms if known_since_v1 < 0 else known_since_v1,
        request.protocol_type,
        protocols,
        NO_MEMBER_ID if request.member_id else _new_member_id(node, request, client_id),
        context.version >= FIRST_VERSION_WITH_HANDSHAKE,
        context.version >= FIRST_VERSION_WITH_SKIPPING,
        request.reason,
    )


def _new_member_id(node: Node, request: JoinGroupRequest, client_id: str) -> str:
    name = request.group_instance_id or client_id
    return f"{name[:ID_PREFIX_CHARS]}-{node.cluster.ids.member_id()}"


def _protocol_name(protocol: str | None, version: int) -> str | None:
    return "" if protocol is None and version < FIRST_VERSION_WITH_NULL_PROTOCOL else protocol


def _refusal(refused: JoinRefused, protocol_name: str | None) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=refused.error,
        generation_id=NO_GENERATION,
        protocol_type=None,
        protocol_name=protocol_name,
        leader="",
        skip_assignment=False,
        member_id=refused.member_id,
        members=[],
    )


def _response(joined: Joined, protocol_name: str | None) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=protocol_name,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in joined.members
        ],
    )


API = serve(JoinGroupRequest, JoinGroupResponse, handle)
