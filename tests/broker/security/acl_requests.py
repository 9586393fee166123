"""Requests about ACLs in a line each."""

from __future__ import annotations

from ottla.access import AclBinding, AclFilter, Operation, PatternType, Permission, ResourceType
from ottla.client.raw import RawConnection
from ottla.config.authorization import STANDARD_AUTHORIZER
from ottla.errors import ErrorCode
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

WITH_AUTHORIZER = {"authorizer.class.name": STANDARD_AUTHORIZER}
# Everybody who does not log in may do everything.
OPEN_TO_ANONYMOUS = {**WITH_AUTHORIZER, "super.users": "User:ANONYMOUS"}
VERSION = 3


def topic_acl(name: str, principal: str = "User:alice") -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        name,
        PatternType.LITERAL,
        principal,
        "*",
        Operation.READ,
        Permission.ALLOW,
    )


def create_acls(
    connection: RawConnection, *acls: AclBinding, version: int = VERSION
) -> list[tuple[ErrorCode, str | None]]:
    """The error and its sentence for each ACL."""
    answer = connection.call(creation_request(*acls), CreateAclsResponse, version)
    return [(ErrorCode(one.error_code), one.error_message) for one in answer.results]


def creation_request(*acls: AclBinding) -> CreateAclsRequest:
    return CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=acl.resource_type,
                resource_name=acl.name,
                resource_pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in acls
        ]
    )


def describe_acls(
    connection: RawConnection, wanted: AclFilter | None = None, version: int = VERSION
) -> list[AclBinding]:
    """The ACLs that a filter means; there must be no error."""
    answer = connection.call(describe_request(wanted or AclFilter()), DescribeAclsResponse, version)
    assert answer.error_code == ErrorCode.NONE, answer.error_message
    return [
        AclBinding(
            ResourceType(resource.resource_type),
            resource.resource_name,
            PatternType(resource.pattern_type),
            acl.principal,
            acl.host,
            Operation(acl.operation),
            Permission(acl.permission_type),
        )
        for resource in answer.resources
        for acl in resource.acls
    ]


def describe_request(wanted: AclFilter) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )


def delete_acls(
    connection: RawConnection, *filters: AclFilter, version: int = VERSION
) -> list[DeleteAclsFilterResult]:
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=wanted.resource_type,
                resource_name_filter=wanted.name,
                pattern_type_filter=wanted.pattern_type,
                principal_filter=wanted.principal,
                host_filter=wanted.host,
                operation=wanted.operation,
                permission_type=wanted.permission,
            )
            for wanted in filters
        ]
    )
    results: list[DeleteAclsFilterResult] = connection.call(
        request, DeleteAclsResponse, version
    ).filter_results
    return results
