"""Rows of the list of topics: filtered, sorted and cut before they are made, so that 10,000 topics take no time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ottla.console.cluster.snapshot import ClusterSnapshot, TopicSnapshot
from ottla.console.topics.topic_problems import HeldTopic, TopicProblem, topic_problems

Show = Literal["all", "problems", "held", "lagging", "unread", "empty", "compacted"]
Sort = Literal[
    "name",
    "partitions",
    "replication",
    "records",
    "size",
    "records_per_second",
    "bytes_per_second",
    "lag",
    "groups",
    "unstable",
    "cleanup_policy",
    "problems",
]
NOTHING_HELD: Final[Mapping[str, HeldTopic]] = {}


@dataclass(frozen=True)
class TopicRow:
    """A topic of the list. What is None is not known."""

    name: str
    is_internal: bool
    partition_count: int
    replication_factor: int
    record_count: int | None
    """Offsets between start and end: markers and compacted records count."""
    size_bytes: int | None
    """Of the leaders' replicas."""
    records_per_second: float | None
    bytes_per_second: float | None
    lag: int | None
    """The offsets that its groups have yet to read, in all groups; None if it has none."""
    group_count: int
    held_partition_count: int
    held_since_ms: int | None
    unstable_count: int
    """The offsets that readers of committed records do not see yet."""
    cleanup_policy: str | None
    retention_ms: int | None
    problems: list[TopicProblem]


@dataclass(frozen=True)
class TopicCounts:
    """How many topics each filter shows, of those that the search finds."""

    all: int
    problems: int
    held: int
    lagging: int
    unread: int
    empty: int
    compacted: int


class TopicTable:
    """The topics of a snapshot as a table."""

    def __init__(
        self, snapshot: ClusterSnapshot, held: Mapping[str, HeldTopic] = NOTHING_HELD
    ) -> None:
        self._snapshot = snapshot
        self._held = held

    def found(self, q: str, *, includes_internal: bool) -> list[TopicSnapshot]:
        """The topics whose name has the text in it, in the order of their names."""
        part = q.casefold()
        return [
            topic
            for topic in self._snapshot.topics.values()
            if (includes_internal or not topic.is_internal) and part in topic.name.casefold()
        ]

    def shows(self, topic: TopicSnapshot, show: Show) -> bool:
        """Whether a filter shows the topic."""
        match show:
            case "all":
                return True
            case "problems":
                return self._problem_count(topic) > 0
            case "held":
                return topic.unstable_count > 0
            case "lagging":
                return (self.lag(topic) or 0) > 0
            case "unread":
                return topic.name not in self._snapshot.groups_of_topic
            case "empty":
                return topic.record_count == 0
            case "compacted":
                return "compact" in _cleanup_policy(topic, "")

    def counts(self, topics: Sequence[TopicSnapshot]) -> TopicCounts:
        """How many of the topics each filter shows."""

        def count(show: Show) -> int:
            return sum(self.shows(topic, show) for topic in topics)

        return TopicCounts(
            all=len(topics),
            problems=count("problems"),
            held=count("held"),
            lagging=count("lagging"),
            unread=count("unread"),
            empty=count("empty"),
            compacted=count("compacted"),
        )

    def sort(self, topics: list[TopicSnapshot], by: Sort, *, is_descending: bool) -> None:
        """Sort in place; what is not known comes last in both orders, and names decide between equals."""
        if by == "name":
            topics.sort(key=lambda topic: topic.name, reverse=is_descending)
            return
        value = self._values()[by]
        known = [(value(topic), topic) for topic in topics]
        rest = [topic for found, topic in known if found is None]
        told = [each for each in known if each[0] is not None]
        # The topics came in the order of their names, and sorts are stable, reversed ones too.
        told.sort(key=lambda each: each[0], reverse=is_descending)
        topics[:] = [*(topic for _, topic in told), *rest]

    def _values(self) -> Mapping[str, Callable[[TopicSnapshot], Any]]:
        return {
            "partitions": lambda topic: len(topic.partitions),
            "replication": lambda topic: topic.replication_factor,
            "records": lambda topic: topic.record_count,
            "size": lambda topic: topic.size_bytes,
            "records_per_second": lambda topic: topic.records_per_second,
            "bytes_per_second": lambda topic: topic.bytes_per_second,
            "lag": self.lag,
            "groups": lambda topic: len(self._groups(topic)),
            "unstable": lambda topic: topic.unstable_count,
            "cleanup_policy": lambda topic: _cleanup_policy(topic, None),
            "problems": self._problem_rank,
        }

    def lag(self, topic: TopicSnapshot) -> int | None:
        """The sum of the groups' lags; None without groups."""
        names = self._groups(topic)
        if not names:
            return None
        groups = self._snapshot.groups
        return sum(groups[name].lags.get(topic.name, 0) for name in names if name in groups)

    def _groups(self, topic: TopicSnapshot) -> tuple[str, ...]:
        return self._snapshot.groups_of_topic.get(topic.name, ())

    def problems(self, topic: TopicSnapshot) -> list[TopicProblem]:
        """What is wrong with a topic."""
        return topic_problems(topic, self._held.get(topic.name), self._snapshot.at_ms)

    def _problem_count(self, topic: TopicSnapshot) -> int:
        # Most topics have none, and there may be 10,000.
        if not (
            topic.offline_count
            or topic.under_replicated_count
            or topic.below_min_in_sync_count
            or topic.name in self._held
        ):
            return 0
        return len(self.problems(topic))

    def _problem_rank(self, topic: TopicSnapshot) -> tuple[int, int]:
        if not self._problem_count(topic):
            return (0, 0)
        found = self.problems(topic)
        return (sum(each.is_severe for each in found), len(found))

    def row(self, topic: TopicSnapshot) -> TopicRow:
        """The row of a topic."""
        held = self._held.get(topic.name)
        settings = topic.settings
        return TopicRow(
            name=topic.name,
            is_internal=topic.is_internal,
            partition_count=len(topic.partitions),
            replication_factor=topic.replication_factor,
            record_count=topic.record_count,
            size_bytes=topic.size_bytes,
            records_per_second=topic.records_per_second,
            bytes_per_second=topic.bytes_per_second,
            lag=self.lag(topic),
            group_count=len(self._groups(topic)),
            held_partition_count=held_partition_count(topic),
            held_since_ms=None if held is None or not topic.unstable_count else held.since_ms,
            unstable_count=topic.unstable_count,
            cleanup_policy=None if settings is None else settings.cleanup_policy,
            retention_ms=None if settings is None else settings.retention_ms,
            problems=self.problems(topic),
        )


def held_partition_count(topic: TopicSnapshot) -> int:
    """How many partitions have a last stable offset that is behind the end."""
    return sum(each.unstable_count > 0 for each in topic.partitions) if topic.unstable_count else 0


def _cleanup_policy(topic: TopicSnapshot, unknown: Any) -> Any:
    settings = topic.settings
    return (
        unknown if settings is None or settings.cleanup_policy is None else settings.cleanup_policy
    )
