"""ACLs: create, describe, delete (KIP-140)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from ottla.client.admin_model.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from ottla.client.aio.admin.answers import Answers
from ottla.client.aio.admin.nodes import AnyNode
from ottla.client.aio.admin.requests import AdminCalls, ApiCall, timeout_in_seconds
from ottla.errors import ErrorCode
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

A = TypeVar("A", AclBinding, AclFilter)


class AclCalls(AdminCalls):
    """The calls about ACLs."""

    @timeout_in_seconds
    async def create_acls(
        self, acls: Iterable[AclBinding], *, timeout: float | None = None
    ) -> None:
        """Add ACLs; one that exists already is no error."""

        def build(version: int, some: list[AclBinding], limit_ms: int) -> CreateAclsRequest:
            return CreateAclsRequest(creations=[_creation(acl) for acl in some])

        call = ApiCall(CreateAclsRequest, build, _read_created)
        nodes: AnyNode[AclBinding] = AnyNode("acl", "ACLs")
        await self._requests.ask(_several(acls), nodes, call, timeout)

    @timeout_in_seconds
    async def describe_acls(
        self, filter: AclFilter | None = None, *, timeout: float | None = None
    ) -> list[AclBinding]:
        """The ACLs that match a filter, sorted; without one all ACLs."""
        wanted = AclFilter() if filter is None else filter

        def build(version: int, keys: list[AclFilter], limit_ms: int) -> DescribeAclsRequest:
            return DescribeAclsRequest(
                resource_type_filter=wanted.resource_type,
                resource_name_filter=wanted.name,
                pattern_type_filter=wanted.pattern_type,
                principal_filter=wanted.principal,
                host_filter=wanted.host,
                operation=wanted.operation,
                permission_type=wanted.permission,
            )

        call = ApiCall(DescribeAclsRequest, build, _read_described)
        nodes: AnyNode[AclFilter] = AnyNode("filter", "filters")
        return (await self._requests.ask([wanted], nodes, call, timeout))[wanted]

    @timeout_in_seconds
    async def delete_acls(
        self, filters: Iterable[AclFilter], *, timeout: float | None = None
    ) -> dict[AclFilter, list[AclBinding]]:
        """Delete the ACLs that match filters; returns what was deleted, by filter.

        `AclBinding.to_filter` makes the filter for a single ACL. `AclFilter()` matches all ACLs.
        """

        def build(version: int, some: list[AclFilter], limit_ms: int) -> DeleteAclsRequest:
            return DeleteAclsRequest(filters=[_deletion(each) for each in some])

        call = ApiCall(DeleteAclsRequest, build, _read_deleted)
        nodes: AnyNode[AclFilter] = AnyNode("filter", "filters")
        return await self._requests.ask(_several(filters), nodes, call, timeout)


def _several(acls: Iterable[A]) -> list[A]:
    """A list; a single ACL or filter, which is a tuple, would be taken for its fields."""
    if isinstance(acls, AclBinding | AclFilter):
        raise TypeError(f"it takes several: write [{acls!r}]")
    return list(acls)


def _creation(acl: AclBinding) -> AclCreation:
    return AclCreation(
        resource_type=acl.resource_type,
        resource_name=acl.name,
        resource_pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _read_created(response: CreateAclsResponse, answers: Answers[AclBinding, None]) -> None:
    """The outcomes, in the order of the request."""
    for acl, result in zip(answers.asked, response.results, strict=False):
        answers.complete(acl, None, result.error_code, result.error_message)


def _read_described(
    response: DescribeAclsResponse, answers: Answers[AclFilter, list[AclBinding]]
) -> None:
    """The ACLs of all resources."""
    (filter,) = answers.asked
    found = [
        AclBinding(
            AclResourceType(resource.resource_type),
            resource.resource_name,
            PatternType(resource.pattern_type),
            acl.principal,
            acl.host,
            AclOperation(acl.operation),
            AclPermission(acl.permission_type),
        )
        for resource in response.resources
        for acl in resource.acls
    ]
    answers.complete(filter, sorted(found), response.error_code, response.error_message)


def _deletion(filter: AclFilter) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=filter.resource_type,
        resource_name_filter=filter.name,
        pattern_type_filter=filter.pattern_type,
        principal_filter=filter.principal,
        host_filter=filter.host,
        operation=filter.operation,
        permission_type=filter.permission,
    )


def _read_deleted(
    response: DeleteAclsResponse, answers: Answers[AclFilter, list[AclBinding]]
) -> None:
    """The deleted ACLs, by filter, in the order of the request."""
    for filter, result in zip(answers.asked, response.filter_results, strict=False):
        code, message = _first_error(result)
        deleted = sorted(_deleted(each) for each in result.matching_acls if not each.error_code)
        answers.complete(filter, deleted, code, message)


def _first_error(result: DeleteAclsFilterResult) -> tuple[int, str | None]:
    """The error of a filter, or of the first ACL that could not be deleted."""
    if result.error_code:
        return result.error_code, result.error_message
    for each in result.matching_acls:
        if each.error_code:
            return each.error_code, f"{each.error_message or 'Refused'}: {_deleted(each)}"
    return ErrorCode.NONE, None


def _deleted(acl: DeleteAclsMatchingAcl) -> AclBinding:
    return AclBinding(
        AclResourceType(acl.resource_type),
        acl.resource_name,
        PatternType(acl.pattern_type),
        acl.principal,
        acl.host,
        AclOperation(acl.operation),
        AclPermission(acl.permission_type),
    )
