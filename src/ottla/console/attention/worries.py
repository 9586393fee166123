"""What a rule finds: what is wrong, why it matters, where to look."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from ottla.console.apps.letter_counts import LetterCounts
from ottla.console.cluster.snapshot import ClusterSnapshot
from ottla.console.groups.standing import StandingGroup
from ottla.console.transactions.held import StandingOffset
from ottla.console.transactions.watch import OpenOnPartitions
from ottla.model import TopicPartition

# Of one kind so many are told by their names; the rest is counted.
MAX_OF_KIND: Final = 5


class Severity(StrEnum):
    """How bad it is; the worst first."""

    BAD = "bad"
    """Something does not work, or records may get lost."""
    WARN = "warn"
    """It will not work, or work badly, if nobody looks."""
    INFO = "info"
    """Good to know."""


class Kind(StrEnum):
    """Which rule; what comes first is told first where the severity is the same."""

    OFFLINE = "offline_partitions"
    LOG_DIR_FAILED = "log_dir_failed"
    BELOW_MIN_IN_SYNC = "below_min_in_sync"
    BROKER_AWAY = "broker_away"
    HANGING = "hanging_transaction"
    LOG_DIR_FULL = "log_dir_full"
    HELD = "held_by_transaction"
    UNDER_REPLICATED = "under_replicated"
    TOO_FEW_REPLICAS = "too_few_replicas"
    STUCK_GROUP = "stuck_group"
    UNREAD = "group_without_members"
    GROWING_LAG = "growing_lag"
    REBALANCING = "repeated_rebalances"
    DEAD_LETTERS = "dead_letters"
    NOT_TOLD = "not_told"


class Place(StrEnum):
    """The view that shows more."""

    TOPIC = "topic"
    TOPICS = "topics"
    GROUP = "group"
    GROUPS = "groups"
    TRANSACTION = "transaction"
    TRANSACTIONS = "transactions"
    APPS = "apps"
    BROKERS = "brokers"
    NONE = "none"


@dataclass(frozen=True)
class Worry:
    """Something that needs attention."""

    kind: Kind
    severity: Severity
    title: str
    """What is wrong, in a few words."""
    why: str
    """Why it matters, and what helps."""
    place: Place
    name: str | None = None
    """Of the topic, group or transactional id that the place is about."""
    since_ms: int | None = None
    """Since when, as far as the console has seen it."""
    size: float = 0
    """Orders what is of the same kind and severity."""


@dataclass(frozen=True)
class AttentionFacts:
    """All that the rules look at, as far as the user may see it."""

    snapshot: ClusterSnapshot
    standing_offsets: Mapping[TopicPartition, StandingOffset] = field(default_factory=dict)
    opened: OpenOnPartitions = field(default_factory=OpenOnPartitions)
    standing_groups: Mapping[str, StandingGroup] = field(default_factory=dict)
    read_topics: Mapping[str, Collection[str]] = field(default_factory=dict)
    """What groups that may be stuck subscribe to, as far as their coordinators tell."""
    lag_of: Callable[[str], Sequence[float | None]] = lambda group_id: ()
    """The lag of a group over the last minutes, oldest first."""
    rebalanced_since: Callable[[str, int], Sequence[int]] = lambda group_id, since_ms: ()
    """When a group was rebalanced since a time."""
    letters: Mapping[str, LetterCounts] = field(default_factory=dict)
    """By dead-letter topic."""
    internals_problem: str | None = None


def ranked(worries: Iterable[Worry]) -> list[Worry]:
    """The worst first; of many of one kind and severity only the largest, and how many others there are."""
    severities, kinds = list(Severity), list(Kind)
    groups: dict[tuple[int, int], list[Worry]] = {}
    for each in worries:
        rank = severities.index(each.severity), kinds.index(each.kind)
        groups.setdefault(rank, []).append(each)
    found = []
    for rank in sorted(groups):
        some = sorted(groups[rank], key=lambda each: (-each.size, each.title))
        found += some[:MAX_OF_KIND]
        if len(some) > MAX_OF_KIND:
            found.append(_rest(some[MAX_OF_KIND:]))
    return found


_ALL_OF: Final = {
    Place.TOPIC: Place.TOPICS,
    Place.GROUP: Place.GROUPS,
    Place.TRANSACTION: Place.TRANSACTIONS,
}


def _rest(others: Sequence[Worry]) -> Worry:
    first = others[0]
    return Worry(
        first.kind,
        first.severity,
        f"{len(others):,} more like these",
        first.why,
        _ALL_OF.get(first.place, first.place),
        since_ms=min((each.since_ms for each in others if each.since_ms), default=None),
    )
