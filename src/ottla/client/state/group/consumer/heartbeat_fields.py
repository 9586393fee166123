"""What a ConsumerGroupHeartbeat request contains: everything to join and after errors, else only what has changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

from ottla.client.state.group.consumer.membership import (
    JOINING_EPOCH,
    ConsumerMembership,
    Target,
    TopicIdPartition,
)
from ottla.errors import ErrorCode, FatalError
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_FIRST_VERSION_WITH_PATTERNS: Final = 1


class MemberFields(NamedTuple):
    """What the coordinator has to know of a member, and what may change."""

    rebalance_timeout_ms: int
    topics: tuple[str, ...]
    pattern: str | None
    assignor: str | None
    reached: Target | None

    @property
    def topic_partitions(self) -> list[TopicPartitions]:
        """The partitions that the member has."""
        return grouped(() if self.reached is None else self.reached.partitions)


class NoBrokerPatternsError(FatalError):
    """The broker has the protocol, but resolves no patterns: it is older than Kafka 4.0."""


class HeartbeatFields:
    """Remembers what the coordinator was told, so that heartbeats repeat nothing."""

    def __init__(self, group_id: str, membership: ConsumerMembership, rack_id: str | None) -> None:
        self._group_id = group_id
        self._membership = membership
        self._rack_id = rack_id
        self._sent: MemberFields | None = None

    def reset(self) -> None:
        """Send everything with the next heartbeat: the coordinator may not have got the last one."""
        self._sent = None

    def has_news(self, fields: MemberFields) -> bool:
        """Whether a heartbeat would tell the coordinator anything new."""
        return self._sent != fields

    def request(self, fields: MemberFields, version: int) -> ConsumerGroupHeartbeatRequest:
        """The next heartbeat."""
        if fields.pattern is not None and version < _FIRST_VERSION_WITH_PATTERNS:
            raise NoBrokerPatternsError(
                ErrorCode.UNSUPPORTED_VERSION,
                "The broker does not resolve patterns: subscribe with re.compile(...), which the client resolves.",
                {"api": "ConsumerGroupHeartbeat", "group": self._group_id},
            )
        membership = self._membership
        is_joining = membership.member_epoch == JOINING_EPOCH
        sent = None if is_joining else self._sent
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=membership.member_id,
            member_epoch=membership.member_epoch,
            instance_id=membership.group_instance_id,
        )
        if is_joining:
            request.rack_id = self._rack_id
        if sent is None:
            request.rebalance_timeout_ms = fields.rebalance_timeout_ms
            request.server_assignor = fields.assignor
        if sent is None or sent.topics != fields.topics:
            request.subscribed_topic_names = list(fields.topics)
        if self._tells_pattern(sent, fields, version):
            request.subscribed_topic_regex = fields.pattern or ""
        if sent is None or sent.reached != fields.reached:
            request.topic_partitions = fields.topic_partitions
        self._sent = fields
        return request

    def _tells_pattern(self, sent: MemberFields | None, fields: MemberFields, version: int) -> bool:
        if sent is not None:
            return sent.pattern != fields.pattern
        # A static member gets the place of its predecessor, whose pattern only an empty one takes back.
        takes_over = self._membership.group_instance_id is not None
        return fields.pattern is not None or (
            takes_over and version >= _FIRST_VERSION_WITH_PATTERNS
        )

    def leave_request(self) -> ConsumerGroupHeartbeatRequest:
        """The last heartbeat."""
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._membership.member_id,
            member_epoch=self._membership.leaving_epoch,
            instance_id=self._membership.group_instance_id,
        )


def grouped(partitions: Iterable[TopicIdPartition]) -> list[TopicPartitions]:
    """Partitions as requests have them, in order."""
    topics: dict[UUID, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        topics.setdefault(topic_id, []).append(partition)
    return [TopicPartitions(topic_id=each, partitions=numbers) for each, numbers in topics.items()]


def assigned_partitions(
    response: ConsumerGroupHeartbeatResponse,
) -> frozenset[TopicIdPartition] | None:
    """The target in an answer; None if it has not changed."""
    if response.assignment is None:
        return None
    return frozenset(
        TopicIdPartition(topic.topic_id, partition)
        for topic in response.assignment.topic_partitions
        for partition in topic.partitions
    )
