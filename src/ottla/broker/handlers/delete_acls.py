"""DeleteAcls: deletes the ACLs that filters mean, and says which these were."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.access import AclBinding, AclFilter, Operation, PatternType, Permission, ResourceType
from ottla.broker.loop.loop_share import Steps, awaited
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import Reply, RequestContext
from ottla.broker.security.acl_store import delete_acls, matching_acls
from ottla.broker.security.authorization import refuse_acl_changes
from ottla.core.outcomes import Refused
from ottla.core.security.acl_changes import MAX_CHANGES_PER_REQUEST, check_deletion, check_filter
from ottla.errors import ErrorCode
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


def handle(
    node: Node, request: DeleteAclsRequest, context: RequestContext
) -> Reply[DeleteAclsResponse]:
    refused = refuse_acl_changes(node, context.caller)
    if refused is not None:
        return _response([refused] * len(request.filters))
    return node.cluster.share.answer(_respond(node, request, context))


def _respond(
    node: Node, request: DeleteAclsRequest, context: RequestContext
) -> Steps[DeleteAclsResponse]:
    acls = node.cluster.catalog.acls
    to_delete: dict[str, AclBinding] = {}
    outcomes: list[Sequence[AclBinding] | Refused] = []
    for each in request.filters:
        yield None
        wanted = _filter_of(each)
        refused = check_filter(wanted)
        if refused is not None:
            outcomes.append(refused)
            continue
        matching = yield from matching_acls(acls, wanted)
        added = {acl_id: acl for acl_id, acl in matching if acl_id not in to_delete}
        refused = check_deletion(len(to_delete) + len(added))
        if refused is not None:
            outcomes.append(refused)
            continue
        to_delete |= added
        outcomes.append([acl for _, acl in matching])
    failed = yield from awaited(delete_acls(node.cluster, to_delete, context.caller))
    if failed is not None:
        outcomes = [one if isinstance(one, Refused) else failed for one in outcomes]
    return _response(outcomes)


def _filter_of(wanted: DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        ResourceType(wanted.resource_type_filter),
        wanted.resource_name_filter,
        PatternType(wanted.pattern_type_filter),
        wanted.principal_filter,
        wanted.host_filter,
        Operation(wanted.operation),
        Permission(wanted.permission_type),
    )


def _response(outcomes: Sequence[Sequence[AclBinding] | Refused]) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=one.error, error_message=one.text, matching_acls=[])
            if isinstance(one, Refused)
            else DeleteAclsFilterResult(
                error_code=ErrorCode.NONE,
                error_message=None,
                matching_acls=[_matching(acl) for acl in one],
            )
            for one in outcomes
        ]
    )


def _matching(acl: AclBinding) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode.NONE,
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


API = serve(DeleteAclsRequest, DeleteAclsResponse, handle, max_elements=MAX_CHANGES_PER_REQUEST + 1)
