"""SyncGroup: the leader sends the assignment of a generation, the other members wait for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.access import Operation
from ottla.broker.coordination.coordinator import PARKED, Parked
from ottla.broker.coordination.groups import ask_group, ask_group_placed
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.delivered_response import PlacedRequest
from ottla.broker.requests.gather_responses import NowOrLater
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_group
from ottla.broker.security.caller import Caller
from ottla.core.group.machine import GroupMachine
from ottla.core.group.requests import Synced, SyncRequest
from ottla.core.outcomes import Refused
from ottla.core.turn import Ticket, Turn
from ottla.errors import ErrorCode
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.plain_groups import read_plain_sync, write_sync_response

FIRST_VERSION_WITH_PROTOCOL = 5


def handle(
    node: Node, request: SyncGroupRequest, context: RequestContext
) -> NowOrLater[SyncGroupResponse]:
    sync = SyncRequest(
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        request.protocol_type,
        request.protocol_name,
        {given.member_id: given.assignment for given in request.assignments},
    )
    refused = _refuse(node, context.caller, sync, context.version)
    if refused is not None:
        return _respond(refused)

    def decide(groups: GroupMachine, turn: Turn, ticket: Ticket) -> Parked:
        groups.sync(turn, sync, ticket)
        return PARKED

    return ask_group(node.groups, request.group_id, decide, _respond)


def _refuse(node: Node, caller: Caller, sync: SyncRequest, version: int) -> Refused | None:
    """The refusal of a request for which no coordinator is asked."""
    # Since v5 a member repeats the protocol that it got from JoinGroup (KIP-559).
    if version >= FIRST_VERSION_WITH_PROTOCOL and (
        sync.protocol_type is None or sync.protocol is None
    ):
        return Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return refuse_group(node, caller, Operation.READ, sync.group_id)


class _Answer(NamedTuple):
    """The fields of a response."""

    error: ErrorCode
    protocol_type: str | None
    protocol: str | None
    assignment: bytes


def _answer(result: Synced | Refused) -> _Answer:
    if isinstance(result, Synced):
        return _Answer(ErrorCode.NONE, *result)
    # A rebalance does not outlive a replay, and the member has to join again. COORDINATOR_LOAD_IN_PROGRESS would be
    # a fatal error for the Java client here.
    is_loading = result.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    error = ErrorCode.REBALANCE_IN_PROGRESS if is_loading else result.error
    return _Answer(error, None, None, b"")


def _respond(result: Synced | Refused) -> SyncGroupResponse:
    answer = _answer(result)
    return SyncGroupResponse(
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol,
        assignment=answer.assignment,
    )


class PlacedSync(PlacedRequest):
    """A plain SyncGroup."""

    __slots__ = ("sync",)

    sync: SyncRequest

    def frame(self) -> bytearray:
        return write_sync_response(self.version, self.correlation_id, *_answer(self.result))

    def error_codes(self) -> Iterable[int]:
        return (_answer(self.result).error,)


def handle_plain(
    node: Node, caller: Caller, received: memoryview, start: int, end: int
) -> PlacedRequest | None:
    """As `handle`, for a plain request."""
    found = read_plain_sync(received, start, end)
    if found is None:
        return None
    end, version, correlation_id = found[:3]
    place = PlacedSync(end, version, correlation_id)
    place.sync = sync = SyncRequest(*found[4:10], dict(found[10]))
    refused = _refuse(node, caller, sync, version)
    if refused is not None:
        place.answer(refused)
    else:
        ask_group_placed(node.groups, sync.group_id, _decide, place)
    return place


def _decide(groups: GroupMachine, turn: Turn, place: PlacedSync) -> Parked:
    groups.sync(turn, place.sync, place)
    return PARKED


API = serve(SyncGroupRequest, SyncGroupResponse, handle, handle_plain=handle_plain)
