"""The way from the partitions that a member has to the target that its coordinator gave it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID

from ottla.client.state.group.consumer.membership import (
    ConsumerMembership,
    ConsumerState,
    TopicIdPartition,
)
from ottla.model import TopicPartition


class Reconciliation(NamedTuple):
    """The partitions to give up and to take over, for one target; a newer target is for the next one."""

    incarnation: int
    number: int
    assigned: Mapping[TopicPartition, UUID]
    revoked: tuple[TopicPartition, ...]
    added: tuple[TopicPartition, ...]

    @property
    def kept(self) -> dict[TopicPartition, UUID]:
        """The partitions that the member has throughout."""
        return {each: i for each, i in self.assigned.items() if each not in self.added}

    @property
    def partitions(self) -> frozenset[TopicIdPartition]:
        """All assigned partitions, by id."""
        return frozenset(
            TopicIdPartition(topic_id, each.partition) for each, topic_id in self.assigned.items()
        )

    def is_valid(self, membership: ConsumerMembership) -> bool:
        """Whether the member has not been removed and has not left since it began."""
        return membership.incarnation == self.incarnation and membership.is_in_group


def unnamed_topics(
    membership: ConsumerMembership, name_of: Callable[[UUID], str | None]
) -> tuple[UUID, ...]:
    """The topics of the target whose names are not known."""
    if membership.target is None:
        return ()
    ids = dict.fromkeys(each.topic_id for each in sorted(membership.target.partitions))
    return tuple(topic_id for topic_id in ids if name_of(topic_id) is None)


def next_reconciliation(
    membership: ConsumerMembership,
    owned: Mapping[TopicPartition, UUID],
    name_of: Callable[[UUID], str | None],
    is_subscribed: Callable[[str], bool],
) -> Reconciliation | None:
    """What to do about the target now; None if nothing.

    Topics whose names are not known yet are left out until they are, as in Kafka's client. So are topics to which the
    program does not subscribe any more: the coordinator will hear of it.
    """
    target = membership.target
    if membership.state is not ConsumerState.RECONCILING or target is None:
        return None
    assigned: dict[TopicPartition, UUID] = {}
    for topic_id, partition in sorted(target.partitions):
        name = name_of(topic_id)
        if name is not None and is_subscribed(name):
            assigned[TopicPartition(name, partition)] = topic_id
    # By id: a topic that was deleted and created again has other records under the same name.
    plan = Reconciliation(
        incarnation=membership.incarnation,
        number=target.number,
        assigned=assigned,
        revoked=tuple(each for each, i in sorted(owned.items()) if assigned.get(each) != i),
        added=tuple(each for each, i in sorted(assigned.items()) if owned.get(each) != i),
    )
    reached = membership.reached
    if (
        reached is not None
        and reached.number == target.number
        and not plan.revoked
        and not plan.added
    ):
        return None
    return plan
