"""Which member a consumer gets by its options group.id and group.protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ottla.client.aio.group.classic.member import ClassicMember
from ottla.client.aio.group.consumer.member import ConsumerMember
from ottla.client.aio.group.group import GroupMember, MemberParts
from ottla.client.aio.group.ungrouped import Ungrouped

# By group.protocol.
MEMBERS: Final[Mapping[str, Callable[[MemberParts], GroupMember]]] = {
    "classic": ClassicMember,
    "consumer": ConsumerMember,
}


def create_member(parts: MemberParts) -> GroupMember:
    """The member for the options; one that refuses group calls if there is no group.id."""
    if parts.config.group_id is None:
        return Ungrouped()
    return MEMBERS[parts.config.group_protocol](parts)
