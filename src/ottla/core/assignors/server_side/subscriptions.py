"""Which members subscribe to which topics, with the topics of the same members together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from ottla.core.assignors.java_order import uuid_order
from ottla.core.assignors.server_side.model import Subscriber


class Audience(NamedTuple):
    """Topics that have the same subscribers, and these: positions in the list of members, ascending."""

    topic_ids: list[UUID]
    subscribers: list[int]


def audiences(member_ids: Iterable[str], members: Mapping[str, Subscriber]) -> list[Audience]:
    """All subscribed topics. Groups have few different subscriptions, also those with a thousand members."""
    sharing: dict[frozenset[UUID], list[int]] = {}
    for position, member_id in enumerate(member_ids):
        sharing.setdefault(members[member_id].topic_ids, []).append(position)
    subscriptions: dict[UUID, list[int]] = {}
    for number, topic_ids in enumerate(sharing):
        for topic_id in sorted(topic_ids, key=uuid_order):
            subscriptions.setdefault(topic_id, []).append(number)
    together: dict[tuple[int, ...], list[UUID]] = {}
    for topic_id, numbers in subscriptions.items():
        together.setdefault(tuple(numbers), []).append(topic_id)
    positions = list(sharing.values())
    return [
        Audience(topic_ids, sorted(each for number in numbers for each in positions[number]))
        for numbers, topic_ids in together.items()
    ]
