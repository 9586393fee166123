"""Subscriptions by pattern: when the topics that match are looked for again, and what follows from the result."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.core.group.consumer.events import PatternResolved
from ottla.core.group.consumer.group import ConsumerGroup, TopicsView

# The least time between two searches for matching topics, unless there is a pattern that was never resolved.
# Kafka waits for 10 s; a search costs us less than a client that waits.
MIN_REFRESH_MS = 1000


def needs_refresh(
    group: ConsumerGroup, view: TopicsView, now_ms: int, refresh_interval_ms: int
) -> bool:
    """Whether the patterns of a group have to be resolved, again or for the first time."""
    if not group.pattern_counts or group.is_resolving:
        return False
    if any(pattern not in group.patterns for pattern in group.pattern_counts):
        return True
    resolved_at_ms = min(pattern.resolved_at_ms for pattern in group.patterns.values())
    if resolved_at_ms <= now_ms <= resolved_at_ms + MIN_REFRESH_MS:
        return False
    version = group.patterns_version
    has_new_topics = version is None or version < view.created_version
    return has_new_topics or now_ms > resolved_at_ms + refresh_interval_ms


def resolved_events(
    group: ConsumerGroup, resolved: Mapping[str, frozenset[str]], version: int, now_ms: int
) -> list[PatternResolved]:
    """The events of a search, without patterns to which no member subscribes any more."""
    return [
        PatternResolved(group.group_id, pattern, topics, version, now_ms)
        for pattern, topics in resolved.items()
        if pattern in group.pattern_counts
    ]


def are_changed(group: ConsumerGroup, events: list[PatternResolved]) -> bool:
    """Whether a pattern matches other topics than before; one that was never resolved matched none."""
    for event in events:
        before = group.patterns.get(event.pattern)
        if event.topics != (frozenset() if before is None else before.topics):
            return True
    return False


def are_left_over(group: ConsumerGroup, events: list[PatternResolved]) -> bool:
    """Whether members have changed to one of these patterns, and still have a target of their last subscription.

    A pattern that matches nothing changes no topics, but what the member has given up is to be assigned to others. (In
    Kafka it is not if other members subscribe to it as well.)
    """
    new = {event.pattern for event in events if event.pattern not in group.patterns}
    return any(
        member.subscription.pattern in new and group.target(member.member_id)
        for member in group.members.values()
    )
