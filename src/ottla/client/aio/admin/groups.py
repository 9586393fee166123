"""Groups: list, describe, delete, and remove members."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence

from ottla.client.admin_model import (
    GroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    MemberDescription,
    MemberToRemove,
)
from ottla.client.aio.admin.cluster import ClusterCalls
from ottla.client.aio.admin.consumer_protocol_groups import CONSUMER_PROTOCOL, read_new_groups
from ottla.client.aio.admin.requests import Question, name_of, timeout_in_seconds
from ottla.client.aio.admin.results import Answers, results_or_raise, unsupported
from ottla.client.aio.admin.state_names import word_of
from ottla.client.aio.admin.targets import GivenNodes, group_coordinators
from ottla.client.aio.admin.topic_descriptions import operations
from ottla.client.aio.admin.topics import named
from ottla.client.model import Node
from ottla.core.assignors.protocol import decode_assignment
from ottla.errors import ErrorCode, KafkaError, PartialFailureError
from ottla.model import TopicPartition
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.types import MalformedMessageError

# What a broker accepts (KIP-800), and what Kafka's tool says where nobody gives a reason.
_REASON_CHARS = 255
_DEFAULT_REASON = "member was removed by an admin"
# Answers to the question for a new group that say no more than that there is none.
_NO_NEW = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)


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
        """The groups of all brokers; filters name what is wanted.

        If brokers cannot be asked, the PartialFailureError has the groups of the others, and errors by broker.
        """
        wanted_states = [GroupState(state).value for state in states]
        wanted_types = [GroupType(group_type).value for group_type in types]

        def build(version: int, nodes: list[int], limit_ms: int) -> ListGroupsRequest:
            return listing(version, wanted_states, wanted_types)

        question = Question(ListGroupsRequest, build, read_listed)
        nodes = await self.all_nodes(timeout)
        errors: dict[int, KafkaError] = {}
        try:
            found = await self.ask(nodes, GivenNodes(), question, timeout)
        except PartialFailureError as error:
            found, errors = error.results, error.errors
        chosen = None if protocol_types is None else frozenset(protocol_types)
        groups = {
            group.group_id: group
            for listed in found.values()
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
        """As `list_groups`, but only groups of consumers, those too that only keep offsets."""
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
        """The state and the members of classic groups, whatever protocol they use."""
        found = await self._describe_classic(
            named(group_ids), include_authorized_operations, timeout, _any
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
        """As `describe_groups`, for groups of consumers, the new ones too (KIP-848); another kind is an error."""
        wanted = named(group_ids)
        found = await self._describe_classic(
            wanted, include_authorized_operations, timeout, not_of_consumers
        )
        # A classic group costs one request; whether a group is new shows when it is none of those.
        others = [
            group
            for group, error in found.errors.items()
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND
        ]
        if others:
            new = await self._describe_new(others, include_authorized_operations, timeout)
            for group in new.results:
                del found.errors[group]
            found.results |= new.results
            found.errors |= {
                group: error for group, error in new.errors.items() if error.code not in _NO_NEW
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
            response = await self.call(
                node,
                DescribeGroupsRequest,
                lambda version: describing(version, some, include_authorized_operations),
                limit_ms,
            )
            read_described(response, self._node(node), answers, refuse)

        api = name_of(DescribeGroupsRequest)
        return await self.gather(group_ids, group_coordinators(), api, ask, timeout)

    async def _describe_new(
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
            response = await self.call_with(node, request, limit_ms)
            read_new_groups(response, self._node(node), answers)

        api = name_of(ConsumerGroupDescribeRequest)
        return await self.gather(group_ids, group_coordinators(), api, ask, timeout)

    def _node(self, node_id: int) -> Node:
        # It may have left the cluster while it answered.
        return self._network.cluster.nodes.get(node_id) or Node(node_id, "", -1)

    @timeout_in_seconds
    async def delete_consumer_groups(
        self, group_ids: Iterable[str], *, timeout: float | None = None
    ) -> None:
        """Deletes groups that have no members, and their offsets."""

        def build(version: int, some: list[str], limit_ms: int) -> DeleteGroupsRequest:
            return DeleteGroupsRequest(groups_names=some)

        question = Question(DeleteGroupsRequest, build, read_deleted)
        await self.ask(named(group_ids), group_coordinators(), question, timeout)

    @timeout_in_seconds
    async def remove_members_from_consumer_group(
        self,
        group_id: str,
        members: Iterable[MemberToRemove] | None = None,
        *,
        reason: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Removes members from a group: those that are named, or all; it rebalances without them."""
        if members is None:
            described = await self.describe_consumer_groups([group_id], timeout=timeout)
            chosen = [leaving_of(member) for member in described[group_id].members]
        else:
            chosen = list(members)
        if not chosen:
            return
        why = (reason or _DEFAULT_REASON)[:_REASON_CHARS]

        def build(version: int, keys: list[str], limit_ms: int) -> LeaveGroupRequest:
            return removing(version, group_id, chosen, why)

        question = Question(LeaveGroupRequest, build, read_left)
        found = await self.ask([group_id], group_coordinators(), question, timeout)
        done: dict[MemberToRemove, None] = {}
        errors: dict[MemberToRemove, KafkaError] = {}
        for member, error in found[group_id].items():
            if error is None:
                done[member] = None
            else:
                errors[member] = error
        results_or_raise(done, errors, "members")


def listing(version: int, states: Sequence[str], types: Sequence[str]) -> ListGroupsRequest:
    """The request for the groups of a broker."""
    if states and version < 4:
        raise unsupported(name_of(ListGroupsRequest), "Listing groups by state", "2.6")
    if types and version < 5:
        raise unsupported(name_of(ListGroupsRequest), "Listing groups by type", "3.8")
    return ListGroupsRequest(states_filter=list(states), types_filter=list(types))


def read_listed(response: ListGroupsResponse, answers: Answers[int, list[GroupListing]]) -> None:
    """The groups of one broker."""
    (node,) = answers.asked
    listed = [
        GroupListing(
            group.group_id,
            group.protocol_type,
            word_of(GroupState, group.group_state, GroupState.UNKNOWN)
            if group.group_state
            else None,
            word_of(GroupType, group.group_type, GroupType.UNKNOWN) if group.group_type else None,
        )
        for group in response.groups
    ]
    answers.take(node, listed, response.error_code)


def describing(
    version: int, group_ids: list[str], include_authorized_operations: bool
) -> DescribeGroupsRequest:
    """The request that describes groups."""
    if include_authorized_operations and version < 3:
        raise unsupported(name_of(DescribeGroupsRequest), "Asking for authorized operations", "2.3")
    return DescribeGroupsRequest(
        groups=group_ids, include_authorized_operations=include_authorized_operations
    )


def _any(group: DescribedGroup) -> str | None:
    return None


def not_of_consumers(group: DescribedGroup) -> str | None:
    """Why a group is not one of consumers."""
    if group.protocol_type in (CONSUMER_PROTOCOL, ""):
        return None
    return f"Its protocol type is {group.protocol_type}: it is not a consumer group."


def read_described(
    response: DescribeGroupsResponse,
    coordinator: Node,
    answers: Answers[str, GroupDescription],
    refuse: Callable[[DescribedGroup], str | None],
) -> None:
    """Groups and their members."""
    for group in response.groups:
        if group.error_code:
            answers.refuse(group.group_id, group.error_code, group.error_message)
        elif group.group_state == GroupState.DEAD.value:
            # Before version 6 this is how a broker says that there is no such group (KIP-1043).
            answers.refuse(group.group_id, ErrorCode.GROUP_ID_NOT_FOUND)
        elif (reason := refuse(group)) is not None:
            answers.refuse(group.group_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, reason)
        else:
            answers.give(group.group_id, description_of(group, coordinator))


def description_of(group: DescribedGroup, coordinator: Node) -> GroupDescription:
    """A group as DescribeGroups has it."""
    return GroupDescription(
        group.group_id,
        group.protocol_type,
        word_of(GroupState, group.group_state, GroupState.UNKNOWN),
        tuple(member_of(member, group.protocol_type) for member in group.members),
        group.protocol_data,
        coordinator,
        GroupType.CLASSIC,
        operations(group.authorized_operations),
    )


def member_of(member: DescribedGroupMember, protocol_type: str) -> MemberDescription:
    """A member, with its assignment if that is in the consumer protocol and can be read."""
    assignment = bytes(member.member_assignment)
    partitions: tuple[TopicPartition, ...] = ()
    if assignment and protocol_type == CONSUMER_PROTOCOL:
        # What a client writes is its own affair; the bytes stand in the description.
        with contextlib.suppress(MalformedMessageError):
            partitions = decode_assignment(assignment).partitions
    return MemberDescription(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        partitions,
        bytes(member.member_metadata),
        assignment,
    )


def read_deleted(response: DeleteGroupsResponse, answers: Answers[str, None]) -> None:
    """Which groups are gone."""
    for result in response.results:
        answers.take(result.group_id, None, result.error_code)


def leaving_of(member: MemberDescription) -> MemberToRemove:
    """How a member is named in LeaveGroup: by its instance id if it has one."""
    if member.group_instance_id is not None:
        return MemberToRemove(member.group_instance_id)
    return MemberToRemove(None, member.member_id)


def removing(
    version: int, group_id: str, members: Sequence[MemberToRemove], reason: str
) -> LeaveGroupRequest:
    """The request that removes members."""
    if version < 3:
        if len(members) == 1 and members[0].group_instance_id is None:
            return LeaveGroupRequest(group_id=group_id, member_id=members[0].member_id)
        raise unsupported(name_of(LeaveGroupRequest), "Removing several or static members", "2.4")
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


def read_left(response: LeaveGroupResponse, answers: Answers[str, Removals]) -> None:
    """Who left; before version 3 the one member has no entry of its own."""
    (group_id,) = answers.asked
    found: Removals = {}
    about: Answers[MemberToRemove, None] = Answers(answers.api, "member", answers.broker)
    for result in response.members:
        static = result.group_instance_id is not None
        member = MemberToRemove(result.group_instance_id, "" if static else result.member_id)
        error = about.error(member, result.error_code)
        found[member] = None if error.code is ErrorCode.NONE else error
    answers.take(group_id, found, response.error_code)
