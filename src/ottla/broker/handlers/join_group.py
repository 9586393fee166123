"""JoinGroup: a member enters a group, or the next generation of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.access import Operation
from ottla.broker.coordination.coordinator import PARKED, Parked
from ottla.broker.coordination.groups import find_group
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.delivered_response import PlacedRequest
from ottla.broker.requests.gather_responses import NowOrLater
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_group
from ottla.broker.security.caller import Caller
from ottla.core.group.machine import GroupMachine
from ottla.core.group.requests import (
    NO_GENERATION,
    NO_MEMBER_ID,
    Joined,
    JoinedMember,
    JoinRefused,
    JoinRequest,
)
from ottla.core.outcomes import Refused
from ottla.core.turn import Ticket, Turn
from ottla.errors import ErrorCode
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from ottla.wire.plain_groups import read_plain_join, write_join_response

FIRST_VERSION_WITH_HANDSHAKE = 4
FIRST_VERSION_WITH_NULL_PROTOCOL = 7
FIRST_VERSION_WITH_SKIPPING = 9
# The longest client id, with the rest of a member id behind it, would not fit into a string.
ID_PREFIX_CHARS = 255


class _Fields(NamedTuple):
    """The fields of a request."""

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    instance_id: str | None
    protocol_type: str
    protocols: list[tuple[str, bytes]]
    reason: str | None


class _Answer(NamedTuple):
    """The fields of a response."""

    error: ErrorCode
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    skip_assignment: bool
    member_id: str
    members: tuple[JoinedMember, ...]


def handle(
    node: Node, request: JoinGroupRequest, context: RequestContext
) -> NowOrLater[JoinGroupResponse]:
    def respond(result: Joined | JoinRefused | Refused) -> JoinGroupResponse:
        return _response(_answer(result, request.member_id, context.version))

    refused = refuse_group(node, context.caller, Operation.READ, request.group_id)
    if refused is not None:
        return respond(JoinRefused(refused.error, NO_MEMBER_ID))
    coordinator = find_group(node.groups, request.group_id)
    if isinstance(coordinator, Refused):
        return respond(coordinator)
    fields = _Fields(
        request.group_id,
        request.session_timeout_ms,
        request.rebalance_timeout_ms,
        request.member_id,
        request.group_instance_id,
        request.protocol_type,
        [(protocol.name, protocol.metadata) for protocol in request.protocols],
        request.reason,
    )
    join = _join(node, context, fields)

    def decide(groups: GroupMachine, turn: Turn, ticket: Ticket) -> Parked:
        groups.join(turn, join, ticket)
        return PARKED

    return coordinator.ask(decide, respond)


class PlacedJoin(PlacedRequest):
    """A plain JoinGroup."""

    __slots__ = ("join", "member_id")

    join: JoinRequest
    # As the client sent it.
    member_id: str

    def frame(self) -> bytearray:
        answer = _answer(self.result, self.member_id, self.version)
        return write_join_response(self.version, self.correlation_id, *answer)

    def error_codes(self) -> Iterable[int]:
        return (_answer(self.result, self.member_id, self.version).error,)


def handle_plain(
    node: Node, caller: Caller, received: memoryview, start: int, end: int
) -> PlacedRequest | None:
    """As `handle`, for a plain request."""
    found = read_plain_join(received, start, end)
    if found is None:
        return None
    end, version, correlation_id, client_id = found[:4]
    fields = _Fields(*found[4:])
    place = PlacedJoin(end, version, correlation_id)
    place.member_id = fields.member_id
    refused = refuse_group(node, caller, Operation.READ, fields.group_id)
    if refused is not None:
        place.answer(JoinRefused(refused.error, NO_MEMBER_ID))
        return place
    coordinator = find_group(node.groups, fields.group_id)
    if isinstance(coordinator, Refused):
        place.answer(coordinator)
    else:
        place.join = _join(node, RequestContext(version, client_id, caller), fields)
        coordinator.ask_placed(_decide, place)
    return place


def _decide(groups: GroupMachine, turn: Turn, place: PlacedJoin) -> Parked:
    groups.join(turn, place.join, place)
    return PARKED


def _join(node: Node, context: RequestContext, fields: _Fields) -> JoinRequest:
    client_id = context.client_id or ""
    # The first of two of the same name counts.
    protocols: dict[str, bytes] = {}
    for name, metadata in fields.protocols:
        protocols.setdefault(name, metadata)
    known_since_v1 = fields.rebalance_timeout_ms
    return JoinRequest(
        fields.group_id,
        fields.member_id,
        fields.instance_id,
        client_id,
        f"/{context.caller.peer.host}",
        fields.session_timeout_ms,
        fields.session_timeout_ms if known_since_v1 < 0 else known_since_v1,
        fields.protocol_type,
        protocols,
        NO_MEMBER_ID if fields.member_id else _new_member_id(node, fields, client_id),
        context.version >= FIRST_VERSION_WITH_HANDSHAKE,
        context.version >= FIRST_VERSION_WITH_SKIPPING,
        fields.reason,
    )


def _new_member_id(node: Node, fields: _Fields, client_id: str) -> str:
    name = fields.instance_id or client_id
    return f"{name[:ID_PREFIX_CHARS]}-{node.cluster.ids.member_id()}"


def _protocol_name(protocol: str | None, version: int) -> str | None:
    return "" if protocol is None and version < FIRST_VERSION_WITH_NULL_PROTOCOL else protocol


def _answer(result: Joined | JoinRefused | Refused, member_id: str, version: int) -> _Answer:
    """The answer to a client that has sent this member id."""
    if isinstance(result, Joined):
        return _Answer(
            ErrorCode.NONE,
            result.generation,
            result.protocol_type,
            _protocol_name(result.protocol, version),
            result.leader,
            result.skip_assignment,
            result.member_id,
            result.members,
        )
    if isinstance(result, JoinRefused):
        member_id = result.member_id
    name = _protocol_name(None, version)
    return _Answer(result.error, NO_GENERATION, None, name, "", False, member_id, ())


def _response(answer: _Answer) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=answer.error,
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in answer.members
        ],
    )


API = serve(JoinGroupRequest, JoinGroupResponse, handle, handle_plain=handle_plain)
