"""DescribeGroups: the state and the members of groups."""

from __future__ import annotations

from ottla.access import Operation
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions, Repeated
from ottla.broker.requests.gather_responses import NowOrLater, respond_to_all
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import group_operations, refuse_group
from ottla.core.group import requests
from ottla.core.group.classic.group import ClassicState
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

DIVISIONS = Divisions((Division("groups", "groups", repeated=Repeated()),))
FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND = 6


def handle(
    node: Node, request: DescribeGroupsRequest, context: RequestContext
) -> NowOrLater[DescribeGroupsResponse]:
    return respond_to_all(
        [
            _describe(node, context, group_id, request.include_authorized_operations)
            for group_id in request.groups
        ],
        lambda groups: DescribeGroupsResponse(groups=groups),
    )


def _describe(
    node: Node, context: RequestContext, group_id: str, with_operations: bool
) -> NowOrLater[DescribedGroup]:
    def respond(found: requests.DescribedGroup | Refused) -> DescribedGroup:
        answer = _answer(group_id, found, context.version)
        if with_operations and answer.error_code == ErrorCode.NONE:
            answer.authorized_operations = group_operations(node, context.caller, group_id)
        return answer

    refused = refuse_group(node, context.caller, Operation.DESCRIBE, group_id)
    if refused is not None:
        return respond(refused)

    return node.groups.ask(group_id, lambda groups, turn, _: groups.describe(group_id), respond)


def _answer(
    group_id: str, found: requests.DescribedGroup | Refused, version: int
) -> DescribedGroup:
    if not isinstance(found, Refused):
        return _described(group_id, found)
    if found.error is ErrorCode.GROUP_ID_NOT_FOUND:
        return _missing(group_id, version, found.text)
    return _failed(group_id, found.error, "", None)


def _missing(group_id: str, version: int, message: str) -> DescribedGroup:
    """A group that does not exist is a dead one; newer clients get an error (KIP-1043)."""
    if version < FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND:
        return _failed(group_id, ErrorCode.NONE, ClassicState.DEAD.value, None)
    return _failed(group_id, ErrorCode.GROUP_ID_NOT_FOUND, ClassicState.DEAD.value, message)


def _failed(group_id: str, error: ErrorCode, state: str, message: str | None) -> DescribedGroup:
    return DescribedGroup(
        error_code=error,
        error_message=message,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=[],
    )


def _described(group_id: str, found: requests.DescribedGroup) -> DescribedGroup:
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=found.state,
        protocol_type=found.protocol_type,
        protocol_data=found.protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in found.members
        ],
    )


API = serve(DescribeGroupsRequest, DescribeGroupsResponse, handle, divisions=DIVISIONS)
