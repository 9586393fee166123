"""The subscription and the assignment of a consumer, with the state of each assigned partition."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final

from ottla.client.model import OffsetAndMetadata, SubscriptionPattern
from ottla.client.state.consumer.iteration_queue import IterationQueue
from ottla.client.state.consumer.positions import (
    NO_EPOCH,
    AssignedPartition,
    FetchPosition,
    FetchState,
)
from ottla.config.offset_reset import OffsetReset
from ottla.errors import IllegalStateError
from ottla.model import TopicPartition


class SubscriptionKind(Enum):
    """How a consumer gets its partitions; the kinds exclude each other."""

    NONE = "nothing"
    TOPICS = "subscribe(topics)"
    PATTERN = "subscribe(pattern)"
    BROKER_PATTERN = "subscribe(SubscriptionPattern)"
    USER_ASSIGNED = "assign(partitions)"


_SHARED: Final = (
    SubscriptionKind.TOPICS,
    SubscriptionKind.PATTERN,
    SubscriptionKind.BROKER_PATTERN,
)


class SubscriptionState:
    """The subscription, the assignment, and the state of each assigned partition.

    Used on the loop of the client only.
    """

    def __init__(self, default_reset: OffsetReset) -> None:
        self.default_reset = default_reset
        self.kind = SubscriptionKind.NONE
        self.pattern: re.Pattern[str] | None = None
        self.broker_pattern: SubscriptionPattern | None = None
        # The rebalance listener, which the group member calls.
        self.listener: Any = None
        # Rises with every change of the assignment, so that a poll notices it.
        self.assignment_id = 0
        # Rises with every change of the topics, so that a poll need not compare them.
        self.topics_id = 0
        # Records that iteration returns one by one; positions are behind all of them.
        self.iteration = IterationQueue()
        self._topics: dict[str, None] = {}
        self._group_topics: dict[str, None] = {}
        # In the order of fetches.
        self._assigned: dict[TopicPartition, AssignedPartition] = {}

    # The subscription

    def subscribe_topics(self, topics: Iterable[str], listener: Any = None) -> bool:
        """Have the group assign partitions of these topics; True if they differ from before."""
        self._set_kind(SubscriptionKind.TOPICS)
        self.listener = listener
        return self._change_topics(topics)

    def subscribe_pattern(self, pattern: re.Pattern[str], listener: Any = None) -> None:
        """Have the group assign partitions of the topics whose whole name matches."""
        self._set_kind(SubscriptionKind.PATTERN)
        self.listener = listener
        self.pattern = pattern
        self.topics_id += 1

    def subscribe_from_pattern(self, topics: Iterable[str]) -> bool:
        """Set the topics that match the pattern; True if they differ from before."""
        if self.kind is not SubscriptionKind.PATTERN:
            raise IllegalStateError("there is no subscription by pattern")
        return self._change_topics(topics)

    def subscribe_broker_pattern(self, pattern: SubscriptionPattern, listener: Any = None) -> None:
        """Have the group assign partitions of the topics that match by the broker."""
        self._set_kind(SubscriptionKind.BROKER_PATTERN)
        self.listener = listener
        self.broker_pattern = pattern
        self.topics_id += 1

    def subscribe_from_broker(self, topics: Iterable[str]) -> bool:
        """Set the topics that the broker has assigned for its pattern; True if they differ from before."""
        if self.kind is not SubscriptionKind.BROKER_PATTERN:
            raise IllegalStateError("there is no subscription by a pattern of the broker")
        return self._change_topics(topics)

    def is_subscribed(self, topic: str) -> bool:
        """Whether the subscription has this topic; the broker alone knows for its own patterns."""
        match self.kind:
            case SubscriptionKind.BROKER_PATTERN:
                return True
            case SubscriptionKind.PATTERN:
                return self.matches_pattern(topic)
        return self.uses_group and topic in self._topics

    def matches_pattern(self, topic: str) -> bool:
        return self.pattern is not None and self.pattern.fullmatch(topic) is not None

    def unsubscribe(self) -> None:
        """Forget subscription and assignment."""
        self.kind = SubscriptionKind.NONE
        self.pattern = None
        self.broker_pattern = None
        self._topics = {}
        self._group_topics = {}
        self._assigned = {}
        self.iteration.clear()
        self.assignment_id += 1
        self.topics_id += 1

    @property
    def uses_group(self) -> bool:
        """Whether the group assigns the partitions."""
        return self.kind in _SHARED

    @property
    def has_pattern(self) -> bool:
        """Whether the topics follow from a pattern that the client resolves."""
        return self.kind is SubscriptionKind.PATTERN

    def subscription(self) -> tuple[str, ...]:
        """The subscribed topics; none if the program assigns partitions."""
        return tuple(self._topics) if self.uses_group else ()

    def group_subscribe(self, topics: Iterable[str]) -> bool:
        """Set the topics of all members, as the group's leader; True if some are not our own."""
        if not self.uses_group:
            raise IllegalStateError("only a subscribed consumer leads a group")
        self._group_topics = dict.fromkeys(topics)
        self.topics_id += 1
        return any(topic not in self._topics for topic in self._group_topics)

    def reset_group_subscription(self) -> None:
        self._group_topics = {}
        self.topics_id += 1

    def metadata_topics(self) -> tuple[str, ...]:
        """The topics of which metadata is needed."""
        return tuple(self._topics | self._group_topics)

    def _set_kind(self, kind: SubscriptionKind) -> None:
        if self.kind not in (SubscriptionKind.NONE, kind):
            raise IllegalStateError(
                f"the consumer uses {self.kind.value} and cannot use {kind.value} as well: "
                "subscriptions to topics, to a pattern and assignments exclude each other; "
                "call unsubscribe() first"
            )
        self.kind = kind

    def _change_topics(self, topics: Iterable[str]) -> bool:
        changed = dict.fromkeys(topics)
        if changed.keys() == self._topics.keys():
            return False
        self._topics = changed
        self.topics_id += 1
        return True

    # The assignment

    def assign_from_user(self, partitions: Iterable[TopicPartition]) -> bool:
        """Assign exactly these partitions; those that stay keep their state. True if changed."""
        self._set_kind(SubscriptionKind.USER_ASSIGNED)
        wanted = dict.fromkeys(partitions)
        if wanted.keys() == self._assigned.keys():
            return False
        self._assign(wanted)
        self._change_topics(partition.topic for partition in wanted)
        return True

    def assign_from_group(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign exactly these partitions, as the group decided; those that stay keep their state."""
        if not self.uses_group:
            raise IllegalStateError("the group cannot assign partitions without a subscription")
        self._assign(dict.fromkeys(partitions))

    def matches_subscription(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether all partitions belong to the subscription, which may have changed since the member joined."""
        return all(self.is_subscribed(partition.topic) for partition in partitions)

    def _assign(self, partitions: Mapping[TopicPartition, None]) -> None:
        # Partitions of a topic together make smaller fetch requests.
        by_topic: dict[str, list[TopicPartition]] = {}
        for partition in partitions:
            by_topic.setdefault(partition.topic, []).append(partition)
        self._assigned = {
            partition: self._assigned.get(partition) or AssignedPartition()
            for same_topic in by_topic.values()
            for partition in same_topic
        }
        for partition in self.iteration.undelivered():
            if partition not in self._assigned:
                self.iteration.drop(partition)
        self.assignment_id += 1

    def assigned(self) -> tuple[TopicPartition, ...]:
        """The assigned partitions."""
        return tuple(self._assigned)

    def is_assigned(self, partition: TopicPartition) -> bool:
        return partition in self._assigned

    def states(self) -> Mapping[TopicPartition, AssignedPartition]:
        """The assigned partitions with their states."""
        return self._assigned

    def find(self, partition: TopicPartition) -> AssignedPartition | None:
        """The state of a partition, if it is assigned."""
        return self._assigned.get(partition)

    def state(self, partition: TopicPartition) -> AssignedPartition:
        """The state of an assigned partition; IllegalStateError for any other."""
        state = self._assigned.get(partition)
        if state is None:
            raise IllegalStateError(f"partition {partition} is not assigned to this consumer")
        return state

    def move_to_end(self, partition: TopicPartition) -> None:
        """Fetch this partition last next time, so that all partitions get their turn."""
        state = self._assigned.pop(partition, None)
        if state is not None:
            self._assigned[partition] = state

    def mark_pending_revocation(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no more records of partitions that are about to be revoked."""
        for partition in partitions:
            self.state(partition).pending_revocation = True

    # Positions

    def position(self, partition: TopicPartition) -> int | None:
        """The offset of the next record for the program, if it is known."""
        position = self.state(partition).position
        if position is None:
            return None
        return self.iteration.undelivered().get(partition, position.offset)

    def lag(self, partition: TopicPartition, *, committed_only: bool) -> int | None:
        """The number of offsets up to the end that the program has not seen, by the last fetch."""
        state = self.state(partition)
        behind = state.lag(committed_only=committed_only)
        if behind is None or state.position is None:
            return None
        taken = state.position.offset
        return behind + taken - self.iteration.undelivered().get(partition, taken)

    def give_back(self, partitions: Iterable[TopicPartition]) -> None:
        """Set positions back to records that iteration has taken from a poll and not returned."""
        undelivered = self.iteration.undelivered()
        if not undelivered:
            return
        for partition in partitions:
            offset = undelivered.get(partition)
            if offset is None:
                continue
            self.iteration.drop(partition)
            state = self._assigned.get(partition)
            if state is not None and state.position is not None:
                state.seek(FetchPosition(offset, NO_EPOCH, state.position.leader))

    def has_position(self, partition: TopicPartition) -> bool:
        """Whether the partition has a valid position."""
        state = self._assigned.get(partition)
        return state is not None and state.has_valid_position

    def has_all_positions(self) -> bool:
        return all(state.has_valid_position for state in self._assigned.values())

    def needs_position(self) -> list[TopicPartition]:
        """Partitions that have had no position: they need the committed offset, or else a reset."""
        return self._where(lambda state: state.fetch_state is FetchState.INITIALIZING)

    def needs_reset(self, now_ms: float) -> list[TopicPartition]:
        """Partitions whose reset is due."""
        return self._due(FetchState.AWAIT_RESET, now_ms)

    def needs_validation(self, now_ms: float) -> list[TopicPartition]:
        """Partitions whose validation is due."""
        return self._due(FetchState.AWAIT_VALIDATION, now_ms)

    def retry_after(self, partitions: Iterable[TopicPartition], at_ms: float) -> None:
        """Set when resets and validations of these partitions may be tried again."""
        for partition in partitions:
            state = self._assigned.get(partition)
            if state is not None:
                state.retry_at_ms = at_ms

    def paused(self) -> tuple[TopicPartition, ...]:
        return tuple(self._where(lambda state: state.paused))

    def all_consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets to commit: the positions of all partitions that have a valid one."""
        consumed = {}
        undelivered = self.iteration.undelivered()
        for partition, state in self._assigned.items():
            if not state.has_valid_position or state.position is None:
                continue
            offset, epoch, _ = state.position
            if partition in undelivered:
                offset, epoch = undelivered[partition], NO_EPOCH
            consumed[partition] = OffsetAndMetadata(
                offset, "", None if epoch == NO_EPOCH else epoch
            )
        return consumed

    def _where(self, holds: Callable[[AssignedPartition], bool]) -> list[TopicPartition]:
        return [partition for partition, state in self._assigned.items() if holds(state)]

    def _due(self, wanted: FetchState, now_ms: float) -> list[TopicPartition]:
        return self._where(
            lambda state: state.fetch_state is wanted and state.retry_at_ms <= now_ms
        )
