"""What the source asks of a cluster, on the driver."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Final, TypeVar

from ottla.client.admin_model.offsets import IsolationLevel, OffsetSpec
from ottla.client.blocking.admin import Admin
from ottla.client.existing_topics import existing
from ottla.errors import ConfigError, KafkaError, RetriableError, TimedOutError
from ottla.model import TopicPartition, topic_id_text
from ottla.spark.cluster_queries import (
    LOOKUP_ATTEMPTS,
    LOOKUP_PAUSE_SECONDS,
    retriable_as_a_whole,
)
from ottla.spark.sink.progress import Marker, fence_bare_name, marker_group, transactional_id
from ottla.spark.source.limits import (
    LATEST,
    Limit,
    Lookups,
    check_found,
    check_partitions,
    lookups,
    resolve,
)
from ottla.spark.source.source_options import SourceOptions
from ottla.spark.source.stream_offsets import FoundPartitions

log = logging.getLogger("ottla.spark")

_NO_OFFSET: Final = -1

T = TypeVar("T")


class SourceCluster:
    """Finds partitions and their offsets; connects when it is first asked."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._isolation = IsolationLevel[options.isolation_level.upper()]
        self._admin: Admin | None = None
        self._cluster_id: str | None = None
        self._was_reached = False

    @property
    def admin(self) -> Admin:
        """The client."""
        if self._admin is None:
            self._admin = Admin(dict(self._options.admin))
        return self._admin

    def close(self) -> None:
        """Give up the connections; the next question makes others."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    # Partitions

    def found(self) -> FoundPartitions:
        """What there is of the subscription now; topics that do not exist are left out."""
        topics = self._asked(lambda: existing(self.admin, self._topics()))
        wanted = self._options.subscription.partitions
        partitions = [
            TopicPartition(name, info.partition)
            for name, topic in topics.items()
            for info in topic.partitions
        ]
        ids = {
            name: topic_id_text(topic.topic_id)
            for name, topic in topics.items()
            if topic.topic_id is not None
        }
        if wanted:
            partitions = [each for each in partitions if each in wanted]
        return FoundPartitions(tuple(sorted(partitions)), ids, self._id())

    def found_at_first(self) -> FoundPartitions:
        """As `found`, for a query that begins: what it names has to exist."""
        looks = 1
        while missing := self._missing(found := self.found()):
            if looks == LOOKUP_ATTEMPTS:
                names = ", ".join(map(str, missing))
                raise ConfigError(
                    f"The cluster has no topic {names}: create it, or read something else"
                )
            looks += 1
            time.sleep(LOOKUP_PAUSE_SECONDS)
        return found

    def _missing(self, found: FoundPartitions) -> list[object]:
        """What the subscription names, and the cluster does not have."""
        subscription = self._options.subscription
        there = {each.topic for each in found.partitions}
        missing: list[object] = [each for each in subscription.topics if each not in there]
        return missing + [each for each in subscription.partitions if each not in found.partitions]

    def _topics(self) -> Collection[str]:
        subscription = self._options.subscription
        if subscription.pattern is not None:
            matches = re.compile(subscription.pattern).fullmatch
            return [name for name in sorted(self.admin.list_topics()) if matches(name)]
        return subscription.topics or sorted({each.topic for each in subscription.partitions})

    def _id(self) -> str | None:
        if self._cluster_id is None:
            self._cluster_id = self._asked(lambda: self.admin.describe_cluster().cluster_id)
        return self._cluster_id

    # Offsets

    def offsets(self, wanted: Lookups) -> dict[TopicPartition, int | None]:
        """The first, the last or another offset of partitions; None where no record is that young."""
        if not wanted:
            return {}
        found = self._asked(
            lambda: self.admin.list_offsets(
                dict[tuple[str, int], OffsetSpec | int](wanted.items()),
                isolation_level=self._isolation,
            )
        )
        return {
            each: None if found[each].offset == _NO_OFFSET else found[each].offset
            for each in wanted
        }

    def ends(self, partitions: Iterable[TopicPartition], lookup: int) -> dict[TopicPartition, int]:
        """The first or the last offset of partitions."""
        found = self.offsets(dict.fromkeys(partitions, lookup))
        return {each: 0 if offset is None else offset for each, offset in found.items()}

    def starts(self, limit: Limit, found: FoundPartitions) -> dict[TopicPartition, int]:
        """Where a query begins."""
        check_partitions("starting", limit, found.partitions)
        at = resolve(limit, found.partitions, self.offsets(lookups(limit, found.partitions)))
        if not self._options.latest_without_match:
            check_found(at)
        return self._or_latest(at)

    def stops(self, limit: Limit, found: FoundPartitions) -> dict[TopicPartition, int]:
        """Where a batch query ends."""
        check_partitions("ending", limit, found.partitions)
        at = resolve(limit, found.partitions, self.offsets(lookups(limit, found.partitions)))
        return self._or_latest(at)

    def _or_latest(self, offsets: Mapping[TopicPartition, int | None]) -> dict[TopicPartition, int]:
        latest = self.ends([each for each, offset in offsets.items() if offset is None], LATEST)
        return {
            each: latest[each] if offset is None else offset for each, offset in offsets.items()
        }

    # The group

    def committed(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int | None]:
        """What a group has committed, when no transaction that commits more is open."""
        found = self._asked(
            lambda: self.admin.list_consumer_group_offsets(
                {group: partitions}, require_stable=True
            )[group]
        )
        return {each: None if at is None else at.offset for each, at in found.items()}

    def fence(self, pipeline: str) -> None:
        """Stop whoever ran the pipeline before: nothing of his is committed from now on."""
        group = marker_group(pipeline)
        self._asked(lambda: self.admin.fence_producers([transactional_id(pipeline)]))
        markers = self._asked(lambda: self.admin.list_consumer_group_offsets([group])[group])
        for kept in markers.values():
            if kept is not None:
                marker = Marker.from_offset(kept, group)
                self._asked(partial(fence_bare_name, self.admin, pipeline, marker))

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> bool:
        """Tell the lag, and whether that succeeded: a failure loses no record."""
        try:
            self.admin.alter_consumer_group_offsets(group, dict(offsets))
        except KafkaError as error:
            log.warning("offsets for the lag of group %s were not committed: %s", group, error)
            return False
        return True

    def _asked(self, question: Callable[[], T]) -> T:
        """The answer, asked for as often as the options say."""
        attempt = 1
        while True:
            try:
                answer = retriable_as_a_whole(question)
                self._was_reached = True
                return answer
            except RetriableError as error:
                if attempt >= self._attempts_after(error):
                    raise
                log.warning("attempt %d to ask the cluster failed: %s", attempt, error)
            attempt += 1
            self.pause()

    def _attempts_after(self, error: RetriableError) -> int:
        if not isinstance(error, TimedOutError):
            return self._options.lookup_attempts
        # The client has tried for the whole of its timeout. Where nobody ever answered, the address may be wrong.
        return self._options.timeout_attempts if self._was_reached else 1

    def pause(self) -> None:
        """Wait for fetchOffset.retryIntervalMs."""
        time.sleep(self._options.lookup_pause_ms / 1000)
