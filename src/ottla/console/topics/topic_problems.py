"""What is wrong with a topic, as lists and its own view say it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ottla.console.cluster.snapshot import TopicSnapshot
from ottla.console.transactions.held import StandingOffset
from ottla.model import TopicPartition

# Long for most transactions, short for a person who waits.
LONG_HELD_MS: Final = 60_000


class TopicProblemKind(StrEnum):
    """A kind of problem, the worst first."""

    OFFLINE = "offline"
    BELOW_MIN_IN_SYNC = "below min in-sync"
    UNDER_REPLICATED = "under-replicated"
    HANGING_TRANSACTION = "hanging transaction"
    HELD_UP = "held up"


SEVERE: Final = frozenset(
    {
        TopicProblemKind.OFFLINE,
        TopicProblemKind.BELOW_MIN_IN_SYNC,
        TopicProblemKind.HANGING_TRANSACTION,
    }
)


@dataclass(frozen=True)
class TopicProblem:
    """A problem with a sentence that says what it means."""

    kind: TopicProblemKind
    is_severe: bool
    text: str


@dataclass(frozen=True)
class HeldTopic:
    """How a topic is held up by open transactions."""

    partition_count: int
    since_ms: int
    """Since when the oldest of its last stable offsets has not moved, as the console has seen it."""
    hanging_count: int = 0
    """How many partitions have a transaction that no coordinator will end."""


def held_topics(
    standing: Mapping[TopicPartition, StandingOffset], hanging: Iterable[TopicPartition]
) -> dict[str, HeldTopic]:
    """The topics with a partition whose last stable offset stands."""
    found: dict[str, HeldTopic] = {}
    lost = {key for key in hanging if key in standing}
    for key, each in standing.items():
        before = found.get(key.topic, HeldTopic(0, each.since_ms))
        found[key.topic] = HeldTopic(
            before.partition_count + 1,
            min(before.since_ms, each.since_ms),
            before.hanging_count + (key in lost),
        )
    return found


def topic_problems(topic: TopicSnapshot, held: HeldTopic | None, now_ms: int) -> list[TopicProblem]:
    """The problems, the worst first."""
    found = []
    if topic.offline_count:
        found.append(
            _problem(
                TopicProblemKind.OFFLINE,
                f"{_partitions(topic.offline_count)} without a leader: nothing can be written or read there",
            )
        )
    if topic.below_min_in_sync_count:
        found.append(
            _problem(
                TopicProblemKind.BELOW_MIN_IN_SYNC,
                f"{_partitions(topic.below_min_in_sync_count)} with fewer in-sync replicas than "
                "min.insync.replicas: writes with acks=all are refused",
            )
        )
    if held is not None and held.hanging_count:
        found.append(
            _problem(
                TopicProblemKind.HANGING_TRANSACTION,
                f"{_partitions(held.hanging_count)} with a transaction that no coordinator will end: readers of "
                "committed records wait until it is aborted",
            )
        )
    if topic.under_replicated_count:
        found.append(
            _problem(
                TopicProblemKind.UNDER_REPLICATED,
                f"{_partitions(topic.under_replicated_count)} with a replica that is not in sync",
            )
        )
    if held is not None and not held.hanging_count and now_ms - held.since_ms >= LONG_HELD_MS:
        found.append(
            _problem(
                TopicProblemKind.HELD_UP,
                f"{_partitions(held.partition_count)} held up by an open transaction for more than a minute",
            )
        )
    return found


def _problem(kind: TopicProblemKind, text: str) -> TopicProblem:
    return TopicProblem(kind, kind in SEVERE, text)


def _partitions(number: int) -> str:
    return f"{number} partition{'' if number == 1 else 's'}"
