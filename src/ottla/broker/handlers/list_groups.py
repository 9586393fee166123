"""ListGroups: the groups that this broker coordinates."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from ottla.access import CLUSTER, Operation
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.gather_responses import all_parts
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import may_see_group
from ottla.core.group import requests
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

GROUPS_PER_STEP = 64


async def handle(
    node: Node, request: ListGroupsRequest, context: RequestContext
) -> ListGroupsResponse:
    # It waits for replays that are not over: an incomplete list would look complete.
    parts = await all_parts(node.groups.ask_all(lambda groups, turn: groups.list_groups()))
    response = await node.cluster.share.run(_respond(request, parts))
    if not node.authorizer.allows(context.caller, Operation.DESCRIBE, CLUSTER, logs_denied=False):
        response.groups = await node.cluster.share.run(_visible(node, context, response.groups))
    return response


def _respond(
    request: ListGroupsRequest, parts: Sequence[list[requests.ListedGroup] | Refused]
) -> Generator[None, None, ListGroupsResponse]:
    states = {state.lower().strip() for state in request.states_filter}
    types = {group_type.lower() for group_type in request.types_filter}
    response = ListGroupsResponse(error_code=ErrorCode.NONE, groups=[])
    for part in parts:
        if isinstance(part, Refused):
            # The leader of that partition lists its groups
            if part.error is not ErrorCode.NOT_COORDINATOR:
                response.error_code = part.error
            continue
        for number, group in enumerate(part):
            if not number % GROUPS_PER_STEP:
                yield
            if states and group.state.lower() not in states:
                continue
            if types and group.group_type not in types:
                continue
            response.groups.append(
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type,
                    group_state=group.state,
                    group_type=group.group_type,
                )
            )
    return response


def _visible(
    node: Node, context: RequestContext, groups: list[ListedGroup]
) -> Generator[None, None, list[ListedGroup]]:
    visible = []
    for number, group in enumerate(groups):
        if not number % GROUPS_PER_STEP:
            yield
        if may_see_group(node, context.caller, group.group_id):
            visible.append(group)
    return visible


API = serve(ListGroupsRequest, ListGroupsResponse, handle)
