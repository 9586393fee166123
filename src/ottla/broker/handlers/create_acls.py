"""CreateAcls: creates ACLs; one that exists already is no error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.access import AclBinding, Operation, PatternType, Permission, ResourceType
from ottla.broker.loop.loop_share import Steps
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import Reply, RequestContext
from ottla.broker.security.acl_store import create_acls
from ottla.broker.security.authorization import refuse_acl_changes
from ottla.core.outcomes import Refused
from ottla.core.security.acl_changes import MAX_CHANGES_PER_REQUEST, check_new_acl
from ottla.errors import ErrorCode
from ottla.wire.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

# Kafka sends this, and not null, where nothing failed.
NO_MESSAGE: Final = ""


def handle(
    node: Node, request: CreateAclsRequest, context: RequestContext
) -> Reply[CreateAclsResponse]:
    refused = refuse_acl_changes(node, context.caller)
    if refused is not None:
        return _response([refused] * len(request.creations))
    return node.cluster.share.answer(_respond(node, request, context))


def _respond(
    node: Node, request: CreateAclsRequest, context: RequestContext
) -> Steps[CreateAclsResponse]:
    acls: list[AclBinding] = []
    outcomes: list[Refused | None] = []
    for creation in request.creations:
        yield None
        acls.append(_acl_of(creation))
        outcomes.append(check_new_acl(acls[-1]))
    valid = [acl for acl, refused in zip(acls, outcomes, strict=True) if refused is None]
    failed = yield from create_acls(node.cluster, valid, context.caller)
    return _response([refused or failed for refused in outcomes])


def _acl_of(creation: AclCreation) -> AclBinding:
    return AclBinding(
        ResourceType(creation.resource_type),
        creation.resource_name,
        PatternType(creation.resource_pattern_type),
        creation.principal,
        creation.host,
        Operation(creation.operation),
        Permission(creation.permission_type),
    )


def _response(outcomes: Sequence[Refused | None]) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=ErrorCode.NONE, error_message=NO_MESSAGE)
            if refused is None
            else AclCreationResult(error_code=refused.error, error_message=refused.text)
            for refused in outcomes
        ]
    )


API = serve(CreateAclsRequest, CreateAclsResponse, handle, max_elements=MAX_CHANGES_PER_REQUEST + 1)
