"""DescribeAcls: the ACLs that a filter means, by the resources that they are about."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from ottla.access import AclFilter, Operation, PatternType, Permission, ResourceType
from ottla.broker.node import Node
from ottla.broker.requests.api import serve
from ottla.broker.requests.request import Reply, RequestContext
from ottla.broker.security.acl_store import matching_acls
from ottla.broker.security.authorization import refuse_cluster
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

# Kafka sends this, and not null, where nothing failed.
NO_MESSAGE: Final = ""
_NO_AUTHORIZER: Final = Refused(
    ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker"
)


def handle(
    node: Node, request: DescribeAclsRequest, context: RequestContext
) -> Reply[DescribeAclsResponse]:
    refused = refuse_cluster(node, context.caller, Operation.DESCRIBE)
    if refused is None and node.authorizer.is_open:
        refused = _NO_AUTHORIZER
    if refused is not None:
        return DescribeAclsResponse(
            error_code=refused.error, error_message=refused.text, resources=[]
        )
    return node.cluster.share.answer(_respond(node, _filter_of(request)))


def _respond(node: Node, wanted: AclFilter) -> Generator[None, None, DescribeAclsResponse]:
    matching = yield from matching_acls(node.cluster.catalog.acls, wanted)
    resources: dict[tuple[ResourceType, str, PatternType], DescribeAclsResource] = {}
    for _, acl in matching:
        yield
        key = (acl.resource_type, acl.name, acl.pattern_type)
        resource = resources.get(key)
        if resource is None:
            resource = resources[key] = DescribeAclsResource(
                resource_type=acl.resource_type,
                resource_name=acl.name,
                pattern_type=acl.pattern_type,
                acls=[],
            )
        resource.acls.append(
            AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
        )
    return DescribeAclsResponse(
        error_code=ErrorCode.NONE,
        error_message=NO_MESSAGE,
        resources=[resources[key] for key in sorted(resources)],
    )


def _filter_of(request: DescribeAclsRequest) -> AclFilter:
    return AclFilter(
        ResourceType(request.resource_type_filter),
        request.resource_name_filter,
        PatternType(request.pattern_type_filter),
        request.principal_filter,
        request.host_filter,
        Operation(request.operation),
        Permission(request.permission_type),
    )


API = serve(DescribeAclsRequest, DescribeAclsResponse, handle)
