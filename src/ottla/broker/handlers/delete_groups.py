"""DeleteGroups: deletes groups that have no members, with their offsets (KIP-229)."""

from __future__ import annotations

from functools import partial

from ottla.access import Operation
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.divisions import Division, Divisions, Repeated
from ottla.broker.requests.gather_responses import NowOrLater, respond_to_all
from ottla.broker.requests.request import RequestContext
from ottla.broker.security.authorization import refuse_group
from ottla.core.outcomes import Refused, error_of
from ottla.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

DIVISIONS = Divisions((Division("groups_names", "results", repeated=Repeated()),))


def handle(
    node: Node, request: DeleteGroupsRequest, context: RequestContext
) -> NowOrLater[DeleteGroupsResponse]:
    return respond_to_all(
        [_delete(node, context, group_id) for group_id in dict.fromkeys(request.groups_names)],
        lambda results: DeleteGroupsResponse(results=results),
    )


def _delete(node: Node, context: RequestContext, group_id: str) -> NowOrLater[DeletableGroupResult]:
    respond = partial(_result, group_id)
    refused = refuse_group(node, context.caller, Operation.DELETE, group_id)
    if refused is not None:
        return respond(Refused(refused.error))  # without a sentence, as in Kafka
    # One without a name may have offsets, and so can be deleted.
    return node.groups.ask(group_id, lambda groups, turn, _: groups.delete(turn, group_id), respond)


def _result(group_id: str, refused: Refused | None) -> DeletableGroupResult:
    return DeletableGroupResult(
        group_id=group_id,
        error_code=error_of(refused),
        error_message=None if refused is None else refused.message,
    )


API = serve(DeleteGroupsRequest, DeleteGroupsResponse, handle, divisions=DIVISIONS)
