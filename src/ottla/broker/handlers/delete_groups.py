"""DeleteGroups: deletes groups that have no members, with their offsets (KIP-229)."""

from __future__ import annotations

from functools import partial

from ottla.broker.node import Node
from ottla.broker.requests.gather_responses import together
from ottla.broker.requests.request import Answer, RequestContext
from ottla.broker.requests.request_pieces import Division, Divisions, Repeated
from ottla.core.outcomes import Refused, error_of
from ottla.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

REQUEST = DeleteGroupsRequest
DIVISIONS = Divisions((Division("groups_names", "results", repeated=Repeated()),))


def handle(node: Node, request: DeleteGroupsRequest, context: RequestContext) -> Answer:
    return together(
        [_delete(node, group_id) for group_id in dict.fromkeys(request.groups_names)],
        lambda results: DeleteGroupsResponse(results=results),
    )


def _delete(node: Node, group_id: str) -> Answer:
    respond = partial(_result, group_id)
    # One without a name may have offsets, and so can be deleted.
    coordinator = node.groups.find(group_id)
    if isinstance(coordinator, Refused):
        return respond(coordinator)
    return coordinator.ask(lambda groups, turn: groups.delete(turn, group_id), respond)


def _result(group_id: str, refused: Refused | None) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=error_of(refused))
