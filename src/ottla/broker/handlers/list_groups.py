"""ListGroups: the groups that this broker coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ottla.broker.node import Node
from ottla.broker.request import Answer, RequestContext
from ottla.broker.together import together
from ottla.core.group import requests
from ottla.errors import ErrorCode
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

REQUEST = ListGroupsRequest


def handle(node: Node, request: ListGroupsRequest, context: RequestContext) -> Answer:
    # It waits for replays that are not over: a list in which some groups are missing would look complete.
    parts = node.groups.ask_all(lambda groups, turn: groups.list_groups())
    return together(parts, partial(_response, request))


def _response(
    request: ListGroupsRequest, parts: Sequence[list[requests.ListedGroup] | ErrorCode]
) -> ListGroupsResponse:
    states = {state.lower() for state in request.states_filter}
    types = {group_type.lower() for group_type in request.types_filter}
    error = ErrorCode.NONE
    listed = []
    for part in parts:
        if not isinstance(part, ErrorCode):
            listed += part
        elif part is not ErrorCode.NOT_COORDINATOR:  # who leads that partition now lists its groups
            error = part
    return ListGroupsResponse(
        error_code=error,
        groups=[
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.group_type,
            )
            for group in listed
            if (not states or group.state.lower() in states)
            and (not types or group.group_type in types)
        ],
    )
