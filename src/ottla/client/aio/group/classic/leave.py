"""LeaveGroup: a member leaves at once, so that the group need not wait for the end of its session."""

from __future__ import annotations

import logging
from functools import partial

from ottla.client.aio.group.coordinator import CoordinatorLink
from ottla.client.state.group.membership import Membership, leave_request
from ottla.wire.messages.leave_group import LeaveGroupRequest

log = logging.getLogger("ottla.client.group")


def leave_group(
    group_id: str, coordinator: CoordinatorLink, membership: Membership, reason: str
) -> None:
    """Send LeaveGroup without waiting for the answer; a static member only resets its state (KIP-345)."""
    if membership.sends_leave and coordinator.is_known:
        log.info("group %s: leaving because %s", group_id, reason)
        build = partial(leave_request, group_id, membership.generation.member_id, reason)
        coordinator.send(LeaveGroupRequest, build)
    membership.left("consumer pro-actively leaving the group")
