"""Heartbeat: a member is alive, and learns whether its group rebalances."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.access import Operation
from ottla.broker.coordination.groups import ask_group, ask_group_placed
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.delivered_response import PlacedRequest
from ottla.broker.requests.gather_responses import NowOrLater
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_group
from ottla.broker.security.caller import Caller
from ottla.core.group import requests
from ottla.core.group.machine import GroupMachine
from ottla.core.outcomes import Refused, error_of
from ottla.core.turn import Turn
from ottla.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.plain_groups import read_plain_heartbeat, write_heartbeat_response


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
    return HeartbeatResponse(error_code=_error(refused))


def _error(refused: Refused | None) -> ErrorCode:
    error = error_of(refused)
    # During a replay no session ends: there is nothing to tell a member.
    return ErrorCode.NONE if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error


class PlacedHeartbeat(PlacedRequest):
    """A plain Heartbeat."""

    __slots__ = ("heartbeat",)

    heartbeat: requests.HeartbeatRequest

    def frame(self) -> bytearray:
        error = _error(self.result)
        return write_heartbeat_response(self.version, self.correlation_id, error)

    def error_codes(self) -> Iterable[int]:
        return (_error(self.result),)


def handle_plain(
    node: Node, caller: Caller, received: memoryview, start: int, end: int
) -> PlacedRequest | None:
    """As `handle`, for a plain request."""
    found = read_plain_heartbeat(received, start, end)
    if found is None:
        return None
    end, version, correlation_id = found[:3]
    place = PlacedHeartbeat(end, version, correlation_id)
    place.heartbeat = heartbeat = requests.HeartbeatRequest(*found[4:])
    refused = refuse_group(node, caller, Operation.READ, heartbeat.group_id)
    if refused is not None:
        place.answer(refused)
    else:
        ask_group_placed(node.groups, heartbeat.group_id, _decide, place)
    return place


def _decide(groups: GroupMachine, turn: Turn, place: PlacedHeartbeat) -> Refused | None:
    return groups.heartbeat(turn, place.heartbeat)


API = serve(HeartbeatRequest, HeartbeatResponse, handle, handle_plain=handle_plain)
