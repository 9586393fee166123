"""SyncGroup: the leader hands its assignment in, every member gets its share."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client.aio.group.classic.attempt_failure import AttemptFailedError, attempt_failure
from ottla.client.aio.group.coordinator import CoordinatorLink
from ottla.client.state.group.membership import (
    PROTOCOL_TYPE,
    AfterError,
    Membership,
    check_static_member,
)
from ottla.errors import ErrorCode
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment


async def sync_group(
    group_id: str,
    coordinator: CoordinatorLink,
    membership: Membership,
    assignments: Mapping[str, bytes],
) -> bytes:
    """The encoded assignment of this member; `assignments` is empty unless it leads the group."""
    sent = membership.generation

    def build(version: int) -> SyncGroupRequest:
        check_static_member("SyncGroup", membership.group_instance_id, version)
        return SyncGroupRequest(
            group_id=group_id,
            generation_id=sent.generation_id,
            member_id=sent.member_id,
            group_instance_id=membership.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=sent.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=assignment)
                for member, assignment in assignments.items()
            ],
        )

    def failed(code: int, step: AfterError) -> AttemptFailedError:
        return attempt_failure("SyncGroup", group_id, coordinator, code, step)

    response = await coordinator.send(SyncGroupRequest, build)
    if response.error_code:
        raise failed(response.error_code, membership.sync_failed(response.error_code, sent))
    if response.protocol_type not in (None, PROTOCOL_TYPE) or response.protocol_name not in (
        None,
        sent.protocol_name,
    ):
        raise failed(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, AfterError.TELL)
    if not membership.synced():
        raise failed(ErrorCode.ILLEGAL_GENERATION, AfterError.JOIN_AGAIN)
    return bytes(response.assignment)
