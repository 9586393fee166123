"""Groups: list, describe, delete, and remove members."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.client.admin_model.groups import (
    GroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    MemberDescription,
    MemberToRemove,
)
from ottla.client.aio.admin.answers import Answers, results_or_raise, unsupported_error
from ottla.client.aio.admin.cluster import ClusterCalls
from ottla.client.aio.admin.group_descriptions import (
    CONSUMER_PROTOCOL,
    CONSUMER_TYPES,
    EVERY_TYPE,
    DescribeApi,
    describing,
)
from ottla.client.aio.admin.nodes import group_coordinators
from ottla.client.aio.admin.requests import ApiCall, name_of, timeout_in_seconds
from ottla.client.aio.admin.topics import as_list
from ottla.errors import ErrorCode, KafkaError, PartialFailureError
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

# The longest reason that a broker accepts (KIP-800), and the default reason of Kafka's tool.
_REASON_CHARS = 255
_DEFAULT_REASON = "member was removed by an admin"


class GroupCalls(ClusterCalls):
    """The calls about groups."""

    @timeout_in_seconds
    async def list_groups(
        self,
        *,
        states: Iterable[GroupState] = (),
        types: Iterable[GroupType] = (),
        protocol_types: Iterable[str] | None = None,
        timeout: float | None = None,
    ) -> dict[str, GroupListing]:
        """The groups of all brokers that match the filters.

        If brokers do not answer, the PartialFailureError has the groups of the others, and the errors by broker.
        """
        wanted_states = [GroupState(state).value for state in states]
        wanted_types = [GroupType(group_type).value for group_type in types]

        def build(version: int, nodes: list[int], limit_ms: int) -> ListGroupsRequest:
            return _list_request(version, wanted_states, wanted_types)

        call = ApiCall(ListGroupsRequest, build, _read_listed)
        listed, errors = await self._ask_all_brokers(call, timeout)
        chosen = None if protocol_types is None else frozenset(protocol_types)
        groups = {
            group.group_id: group
            for group in listed
            if chosen is None or group.protocol_type in chosen
        }
        if errors:
            raise PartialFailureError(groups, errors, "groups and brokers")
        return groups

    @timeout_in_seconds
    async def list_consumer_groups(
        self,
        *,
        states: Iterable[GroupState] = (),
        types: Iterable[GroupType] = (),
        timeout: float | None = None,
    ) -> dict[str, GroupListing]:
        """Like `list_groups`, but only consumer groups, including those that only have committed offsets."""
        return await self.list_groups(
            states=states,
            types=types,
            protocol_types=(CONSUMER_PROTOCOL, ""),
            timeout=timeout,
        )

    @timeout_in_seconds
    async def describe_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> dict[str, GroupDescription]:
        """The state, the members and the assignments of groups of every type."""
        return await self._describe(EVERY_TYPE, group_ids, include_authorized_operations, timeout)

    @timeout_in_seconds
    async def describe_consumer_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> dict[str, GroupDescription]:
        """Like `describe_groups`, for consumer groups of both protocols (KIP-848); other groups are errors."""
        return await self._describe(
            CONSUMER_TYPES, group_ids, include_authorized_operations, timeout
        )

    async def _describe(
        self,
        apis: Iterable[DescribeApi],
        group_ids: Iterable[str],
        include_authorized_operations: bool,
        timeout: float | None,
    ) -> dict[str, GroupDescription]:
        ask = describing(self._requests, apis, include_authorized_operations)
        api = name_of(DescribeGroupsRequest)
        return await self._requests.ask_by(
            as_list(group_ids), group_coordinators(), api, ask, timeout
        )

    @timeout_in_seconds
    async def delete_consumer_groups(
        self, group_ids: Iterable[str], *, timeout: float | None = None
    ) -> None:
        """Delete groups without members, and their offsets."""

        def build(version: int, some: list[str], limit_ms: int) -> DeleteGroupsRequest:
            return DeleteGroupsRequest(groups_names=some)

        call = ApiCall(DeleteGroupsRequest, build, _read_deleted)
        await self._requests.ask(as_list(group_ids), group_coordinators(), call, timeout)

    @timeout_in_seconds
    async def remove_members_from_consumer_group(
        self,
        group_id: str,
        members: Iterable[MemberToRemove] | None = None,
        *,
        reason: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Remove these members, or all, from a group, which then rebalances."""
        if members is None:
            described = await self.describe_consumer_groups([group_id], timeout=timeout)
            chosen = [_member_to_remove(member) for member in described[group_id].members]
        else:
            chosen = list(members)
        if not chosen:
            return
        why = (reason or _DEFAULT_REASON)[:_REASON_CHARS]

        def build(version: int, keys: list[str], limit_ms: int) -> LeaveGroupRequest:
            return _remove_request(version, group_id, chosen, why)

        call = ApiCall(LeaveGroupRequest, build, _read_removed)
        found = await self._requests.ask([group_id], group_coordinators(), call, timeout)
        done: dict[MemberToRemove, None] = {}
        errors: dict[MemberToRemove, KafkaError] = {}
        for member, error in found[group_id].items():
            if error is None:
                done[member] = None
            else:
                errors[member] = error
        results_or_raise(done, errors, "members")


def _list_request(version: int, states: Sequence[str], types: Sequence[str]) -> ListGroupsRequest:
    """A ListGroups request."""
    if states and version < 4:
        raise unsupported_error(name_of(ListGroupsRequest), "Listing groups by state", "2.6")
    if types and version < 5:
        raise unsupported_error(name_of(ListGroupsRequest), "Listing groups by type", "3.8")
    return ListGroupsRequest(states_filter=list(states), types_filter=list(types))


def _read_listed(response: ListGroupsResponse, answers: Answers[int, list[GroupListing]]) -> None:
    """The groups of one broker."""
    (node,) = answers.asked
    listed = [
        GroupListing(
            group.group_id,
            group.protocol_type,
            GroupState.of(group.group_state) if group.group_state else None,
            GroupType.of(group.group_type) if group.group_type else None,
        )
        for group in response.groups
    ]
    answers.complete(node, listed, response.error_code)


def _read_deleted(response: DeleteGroupsResponse, answers: Answers[str, None]) -> None:
    """The groups that were deleted."""
    for result in response.results:
        answers.complete(result.group_id, None, result.error_code, result.error_message)


def _member_to_remove(member: MemberDescription) -> MemberToRemove:
    """A member by its instance id, or by its member id if it has none."""
    if member.group_instance_id is not None:
        return MemberToRemove(member.group_instance_id)
    return MemberToRemove(None, member.member_id)


def _remove_request(
    version: int, group_id: str, members: Sequence[MemberToRemove], reason: str
) -> LeaveGroupRequest:
    """A LeaveGroup request for these members."""
    if version < 3:
        if len(members) == 1 and members[0].group_instance_id is None:
            return LeaveGroupRequest(group_id=group_id, member_id=members[0].member_id)
        raise unsupported_error(
            name_of(LeaveGroupRequest), "Removing several or static members", "2.4"
        )
    return LeaveGroupRequest(
        group_id=group_id,
        members=[
            MemberIdentity(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                reason=reason,
            )
            for member in members
        ],
    )


Removals = dict[MemberToRemove, KafkaError | None]


def _read_removed(response: LeaveGroupResponse, answers: Answers[str, Removals]) -> None:
    """The members that were removed; before version 3 the response has no entry for the member."""
    (group_id,) = answers.asked
    found: Removals = {}
    about: Answers[MemberToRemove, None] = Answers(answers.api, "member", answers.broker)
    for result in response.members:
        static = result.group_instance_id is not None
        member = MemberToRemove(result.group_instance_id, "" if static else result.member_id)
        error = about.error(member, result.error_code)
        found[member] = None if error.code is ErrorCode.NONE else error
    answers.complete(group_id, found, response.error_code)
