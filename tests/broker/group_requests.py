"""Requests of consumer groups in a line each: what members, administrators and the simplest consumers send."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.broker.requests import eventually

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

GROUP_KEY, TRANSACTION_KEY, SHARE_KEY = 0, 1, 2
CONSUMER = "consumer"
PROTOCOL = "range"
SESSION_TIMEOUT_MS = 30_000
REBALANCE_TIMEOUT_MS = 60_000
# What a subscription to no topic looks like: version 0, no topics, no user data.
SUBSCRIPTION = bytes.fromhex("0000 00000000 ffffffff")

JOIN_HANDSHAKE_SINCE = 4
JOIN_INSTANCE_SINCE = 5
LEAVE_BATCHED_SINCE = 3
FETCH_BATCHED_SINCE = 8
TOPIC_IDS_SINCE = 10
FIND_BATCHED_SINCE = 4


class Joined(NamedTuple):
    """A member of a generation."""

    group: str
    member_id: str
    generation: int
    instance_id: str | None = None


# Finding the coordinator.


def find_coordinator(
    connection: RawConnection, *keys: str, key_type: int = GROUP_KEY, version: int = 6
) -> Any:
    request = (
        FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
        if version >= FIND_BATCHED_SINCE
        else FindCoordinatorRequest(key_type=key_type, key=keys[0])
    )
    return connection.call(request, FindCoordinatorResponse, version)


def await_coordinator(connection: RawConnection, group: str = "any") -> None:
    """Waits until groups can be used, as clients do; a broker that just began may need a while."""

    def is_there() -> bool:
        (found,) = find_coordinator(connection, group).coordinators
        if found.error_code != ErrorCode.NONE:
            return False
        answer = delete_groups(connection, group)
        return answer == {group: ErrorCode.GROUP_ID_NOT_FOUND}

    assert eventually(is_there, 60), "there is no coordinator"


# Members.


def join_request(
    group: str,
    member_id: str = "",
    *,
    instance_id: str | None = None,
    session_timeout_ms: int = SESSION_TIMEOUT_MS,
    rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS,
    protocol_type: str = CONSUMER,
    protocols: Mapping[str, bytes] | Sequence[tuple[str, bytes]] = ((PROTOCOL, SUBSCRIPTION),),
) -> JoinGroupRequest:
    given = protocols.items() if isinstance(protocols, Mapping) else protocols
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=protocol_type,
        protocols=[
            JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in given
        ],
    )


def join(
    connection: RawConnection, group: str, member_id: str = "", *, version: int = 9, **details: Any
) -> Any:
    """One JoinGroup; waits as long as the broker does."""
    return connection.call(join_request(group, member_id, **details), JoinGroupResponse, version)


def new_member_id(
    connection: RawConnection, group: str, *, version: int = 9, **details: Any
) -> str:
    """The id that a new dynamic member is told to come back with; older versions do not tell."""
    if version < JOIN_HANDSHAKE_SINCE or details.get("instance_id") is not None:
        return ""
    answer = join(connection, group, version=version, **details)
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED, answer
    member_id: str = answer.member_id
    return member_id


def join_fully(connection: RawConnection, group: str, *, version: int = 9, **details: Any) -> Any:
    """As a client joins: the second time with the id that it was given."""
    member_id = new_member_id(connection, group, version=version, **details)
    return join(connection, group, member_id, version=version, **details)


def sync_request(
    member: Joined,
    assignments: Mapping[str, bytes] | Sequence[tuple[str, bytes]] = (),
    *,
    protocol_type: str | None = CONSUMER,
    protocol: str | None = PROTOCOL,
) -> SyncGroupRequest:
    given = assignments.items() if isinstance(assignments, Mapping) else assignments
    return SyncGroupRequest(
        group_id=member.group,
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        protocol_type=protocol_type,
        protocol_name=protocol,
        assignments=[
            SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
            for member_id, assignment in given
        ],
    )


def sync(
    connection: RawConnection,
    member: Joined,
    assignments: Mapping[str, bytes] | Sequence[tuple[str, bytes]] = (),
    *,
    version: int = 5,
    **details: Any,
) -> Any:
    request = sync_request(member, assignments, **details)
    return connection.call(request, SyncGroupResponse, version)


def enter(
    connection: RawConnection,
    group: str,
    *,
    assignment: bytes = b"mine",
    version: int = 9,
    **details: Any,
) -> Joined:
    """The only member of a stable group."""
    answer = join_fully(connection, group, version=version, **details)
    assert answer.error_code == ErrorCode.NONE, answer
    member = Joined(group, answer.member_id, answer.generation_id, details.get("instance_id"))
    synced = sync(
        connection,
        member,
        {member.member_id: assignment},
        protocol_type=details.get("protocol_type", CONSUMER),
        protocol=answer.protocol_name,
    )
    assert synced.error_code == ErrorCode.NONE, synced
    return member


def heartbeat(connection: RawConnection, member: Joined, *, version: int = 4) -> ErrorCode:
    request = HeartbeatRequest(
        group_id=member.group,
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
    )
    return ErrorCode(connection.call(request, HeartbeatResponse, version).error_code)


def leave(
    connection: RawConnection, group: str, *members: tuple[str, str | None], version: int = 5
) -> Any:
    """Members as pairs of member id and instance id."""
    request = (
        LeaveGroupRequest(
            group_id=group,
            members=[
                MemberIdentity(member_id=member_id, group_instance_id=instance_id)
                for member_id, instance_id in members
            ],
        )
        if version >= LEAVE_BATCHED_SINCE
        else LeaveGroupRequest(group_id=group, member_id=members[0][0])
    )
    return connection.call(request, LeaveGroupResponse, version)


def leave_errors(
    connection: RawConnection, group: str, *members: tuple[str, str | None], version: int = 5
) -> list[ErrorCode]:
    """The error of each member, in whatever way the version tells it."""
    answer = leave(connection, group, *members, version=version)
    if version < LEAVE_BATCHED_SINCE or answer.error_code != ErrorCode.NONE:
        return [ErrorCode(answer.error_code)]
    return [ErrorCode(member.error_code) for member in answer.members]


# Offsets.


class Position(NamedTuple):
    """What a partition's committed offset consists of."""

    offset: int
    metadata: str | None = ""
    leader_epoch: int = -1


Positions = Mapping[tuple[str, int], int | Position]


def commit_request(
    group: str,
    positions: Positions,
    *,
    member: Joined | None = None,
    retention_time_ms: int = -1,
    topic_ids: Mapping[str, uuid.UUID] | None = None,
) -> OffsetCommitRequest:
    """For the newest version `topic_ids` has to say which topic is meant."""
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), given in positions.items():
        position = Position(given) if isinstance(given, int) else given
        by_topic.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=position.offset,
                committed_leader_epoch=position.leader_epoch,
                committed_metadata=position.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1 if member is None else member.generation,
        member_id="" if member is None else member.member_id,
        group_instance_id=None if member is None else member.instance_id,
        retention_time_ms=retention_time_ms,
        topics=[
            OffsetCommitRequestTopic(name=topic, partitions=partitions)
            if topic_ids is None
            else OffsetCommitRequestTopic(topic_id=topic_ids[topic], partitions=partitions)
            for topic, partitions in by_topic.items()
        ],
    )


def commit(
    connection: RawConnection, group: str, positions: Positions, *, version: int = 9, **details: Any
) -> list[ErrorCode]:
    """Commits; the error of each partition in the order of the answer."""
    request = commit_request(group, positions, **details)
    answer = connection.call(request, OffsetCommitResponse, version)
    return [
        ErrorCode(partition.error_code) for topic in answer.topics for partition in topic.partitions
    ]


def fetch_offsets(
    connection: RawConnection,
    group: str,
    wanted: Mapping[str, Sequence[int]] | None = None,
    *,
    version: int = 9,
    require_stable: bool = False,
) -> Any:
    """Fetches the offsets of one group by topic names, or of all topics."""
    if version < FETCH_BATCHED_SINCE:
        topics = (
            None
            if wanted is None
            else [
                OffsetFetchRequestTopic(name=name, partition_indexes=list(partitions))
                for name, partitions in wanted.items()
            ]
        )
        request = OffsetFetchRequest(group_id=group, topics=topics, require_stable=require_stable)
    else:
        request = fetch_groups_request({group: wanted}, require_stable=require_stable)
    return connection.call(request, OffsetFetchResponse, version)


def fetch_groups_request(
    groups: Mapping[str, Mapping[str, Sequence[int]] | None], *, require_stable: bool = False
) -> OffsetFetchRequest:
    return OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=group,
                topics=None
                if wanted is None
                else [
                    OffsetFetchRequestTopics(name=name, partition_indexes=list(partitions))
                    for name, partitions in wanted.items()
                ],
            )
            for group, wanted in groups.items()
        ],
        require_stable=require_stable,
    )


def committed(
    connection: RawConnection,
    group: str,
    wanted: Mapping[str, Sequence[int]] | None = None,
    *,
    version: int = 9,
) -> dict[tuple[str, int], Position]:
    """The committed offsets of a group, each of which must be free of errors."""
    answer = fetch_offsets(connection, group, wanted, version=version)
    found = answer if version < FETCH_BATCHED_SINCE else answer.groups[0]
    assert found.error_code == ErrorCode.NONE, found
    positions = {}
    for topic in found.topics:
        for partition in topic.partitions:
            assert partition.error_code == ErrorCode.NONE, partition
            positions[topic.name, partition.partition_index] = Position(
                partition.committed_offset, partition.metadata, partition.committed_leader_epoch
            )
    return positions


def delete_offsets(
    connection: RawConnection, group: str, partitions: Mapping[str, Sequence[int]]
) -> Any:
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[
                    OffsetDeleteRequestPartition(partition_index=partition) for partition in indexes
                ],
            )
            for name, indexes in partitions.items()
        ],
    )
    return connection.call(request, OffsetDeleteResponse, 0)


# Administrators.


def describe(connection: RawConnection, group: str, *, version: int = 5) -> DescribedGroup:
    request = DescribeGroupsRequest(groups=[group])
    (found,) = connection.call(request, DescribeGroupsResponse, version).groups
    assert isinstance(found, DescribedGroup)
    return found


def await_state(connection: RawConnection, group: str, state: str) -> None:
    def is_so() -> bool:
        return describe(connection, group).group_state == state

    assert eventually(is_so), describe(connection, group)


def list_groups(
    connection: RawConnection,
    *,
    version: int = 5,
    states: Sequence[str] = (),
    types: Sequence[str] = (),
) -> dict[str, tuple[str, str, str]]:
    """Protocol type, state and type of each group, by its id."""
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    answer = connection.call(request, ListGroupsResponse, version)
    assert answer.error_code == ErrorCode.NONE, answer
    return {
        group.group_id: (group.protocol_type, group.group_state, group.group_type)
        for group in answer.groups
    }


def delete_groups(
    connection: RawConnection, *groups: str, version: int = 2
) -> dict[str, ErrorCode]:
    request = DeleteGroupsRequest(groups_names=list(groups))
    answer = connection.call(request, DeleteGroupsResponse, version)
    return {result.group_id: ErrorCode(result.error_code) for result in answer.results}
