"""Groups: list, describe, delete, and remove members."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

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
    any_group,
    not_a_consumer_group,
    read_classic_groups,
    read_consumer_groups,
)
from ottla.client.aio.admin.nodes import group_coordinators
from ottla.client.aio.admin.requests import ApiCall, name_of, timeout_in_seconds
from ottla.client.aio.admin.topics import as_list
from ottla.client.model import Node
from ottla.errors import ErrorCode, KafkaError, PartialFailureError
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

# The longest reason that a broker accepts (KIP-800), and the default reason of Kafka's tool.
_REASON_CHARS = 255
_DEFAULT_REASON = "member was removed by an admin"
# The errors of ConsumerGroupDescribe if there is no such group of the consumer protocol.
_NO_CONSUMER_GROUP = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)


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
        """The state and the members of groups of the classic protocol, whatever their protocol type."""
        found = await self._describe_classic(
            as_list(group_ids), include_authorized_operations, timeout, any_group
        )
        return results_or_raise(found.results, found.errors, "groups")

    @timeout_in_seconds
    async def describe_consumer_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
    ) -> dict[str, GroupDescription]:
        """Like `describe_groups`, for consumer groups of both protocols (KIP-848); other groups are errors."""
        wanted = as_list(group_ids)
        found = await self._describe_classic(
            wanted, include_authorized_operations, timeout, not_a_consumer_group
        )
        # The classic protocol first: only groups that it does not know need a second request.
        others = [
            group
            for group, error in found.errors.items()
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND
        ]
        if others:
            others_found = await self._describe_consumer_protocol(
                others, include_authorized_operations, timeout
            )
            for group in others_found.results:
                del found.errors[group]
            found.results |= others_found.results
            found.errors |= {
                group: error
                for group, error in others_found.errors.items()
                if error.code not in _NO_CONSUMER_GROUP
            }
        ordered = {group: found.results[group] for group in wanted if group in found.results}
        return results_or_raise(ordered, found.errors, "groups")

    async def _describe_classic(
        self,
        group_ids: Iterable[str],
        include_authorized_operations: bool,
        timeout: float | None,
        refuse: Callable[[DescribedGroup], str | None],
    ) -> Answers[str, GroupDescription]:
        async def ask(
            node: int, some: list[str], limit_ms: float, answers: Answers[str, GroupDescription]
        ) -> None:
            response = await self._requests.call(
                node,
                DescribeGroupsRequest,
                lambda version: _describe_request(version, some, include_authorized_operations),
                limit_ms,
            )
            read_classic_groups(response, self._node(node), answers, refuse)

        api = name_of(DescribeGroupsRequest)
        return await self._requests.gather(group_ids, group_coordinators(), api, ask, timeout)

    async def _describe_consumer_protocol(
        self,
        group_ids: Iterable[str],
        include_authorized_operations: bool,
        timeout: float | None,
    ) -> Answers[str, GroupDescription]:
        async def ask(
            node: int, some: list[str], limit_ms: float, answers: Answers[str, GroupDescription]
        ) -> None:
            request = ConsumerGroupDescribeRequest(
                group_ids=some, include_authorized_operations=include_authorized_operations
            )
            response = await self._requests.call_with(node, request, limit_ms)
            read_consumer_groups(response, self._node(node), answers)

        api = name_of(ConsumerGroupDescribeRequest)
        return await self._requests.gather(group_ids, group_coordinators(), api, ask, timeout)

    def _node(self, node_id: int) -> Node:
        # It may have left the cluster in the meantime.
        return self._requests.network.cluster.nodes.get(node_id) or Node(node_id, "", -1)

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


def _describe_request(
    version: int, group_ids: list[str], include_authorized_operations: bool
) -> DescribeGroupsRequest:
    """A DescribeGroups request."""
    if include_authorized_operations and version < 3:
        raise unsupported_error(
            name_of(DescribeGroupsRequest), "Asking for authorized operations", "2.3"
        )
    return DescribeGroupsRequest(
        groups=group_ids, include_authorized_operations=include_authorized_operations
    )


def _read_deleted(response: DeleteGroupsResponse, answers: Answers[str, None]) -> None:
    """The groups that were deleted."""
    for result in response.results:
        answers.complete(result.group_id, None, result.error_code)


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
