"""ListGroups: the groups that this broker coordinates."""

from __future__ import annotations

import asyncio

from ottla.broker.node import Node
from ottla.broker.request import RequestContext
from ottla.core.group.requests import ListedGroup
from ottla.errors import ErrorCode
from ottla.wire.messages import list_groups as messages
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

REQUEST = ListGroupsRequest


async def handle(
    node: Node, request: ListGroupsRequest, context: RequestContext
) -> ListGroupsResponse:
    coordinators = list(node.groups.all())
    # A list in which some groups are missing would look complete.
    await asyncio.gather(*(coordinator.loaded for coordinator in coordinators))
    states = {state.lower() for state in request.states_filter}
    types = {group_type.lower() for group_type in request.types_filter}
    listed: list[ListedGroup] = []
    for coordinator in coordinators:
        part = coordinator.ask(lambda groups, turn: groups.list_groups(), lambda result: result)
        found = await part if isinstance(part, asyncio.Future) else part
        if isinstance(found, ErrorCode):
            continue  # its partition has moved: whoever leads it now lists its groups
        listed += found
    return ListGroupsResponse(
        error_code=ErrorCode.NONE,
        groups=[
            messages.ListedGroup(
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
