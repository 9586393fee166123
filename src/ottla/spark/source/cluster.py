"""The source's requests to its cluster, on the driver."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Final, TypeVar

from ottla.client.admin_model.offsets import IsolationLevel, OffsetSpec
from ottla.client.blocking.admin import Admin
from ottla.client.existing_topics import describe_existing_topics
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
    """Finds partitions and their offsets; connects with the first request."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._isolation = IsolationLevel[options.isolation_level.upper()]
        self._admin: Admin | None = None
        self._cluster_id: str | None = None
        self._was_reached = False

    @property
    def admin(self) -> Admin:
        """The admin client."""
        if self._admin is None:
            self._admin = Admin(dict(self._options.admin))
        return self._admin

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    # Partitions

    def found(self) -> FoundPartitions:
        """The partitions of the subscription that exist now."""
        topics = self._request(lambda: describe_existing_topics(self.admin, self._topics()))
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
        """As `found`, for a new query: the topics and partitions that it names have to exist."""
        looks = 1
        while missing := self._missing(found := self.found()):
            if looks == LOOKUP_ATTEMPTS:
                names = ", ".join(map(str, missing))
                raise ConfigError(
                    f"The cluster has no topic {names}: create it, or read another one"
                )
            looks += 1
            time.sleep(LOOKUP_PAUSE_SECONDS)
        return found

    def _missing(self, found: FoundPartitions) -> list[object]:
        """Topics and partitions that the subscription names and the cluster does not have."""
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
            self._cluster_id = self._request(lambda: self.admin.describe_cluster().cluster_id)
        return self._cluster_id

    # Offsets

    def offsets(self, wanted: Lookups) -> dict[TopicPartition, int | None]:
        """The first or the last offset of partitions, or the one at a time; None where no record is that young."""
        if not wanted:
            return {}
        found = self._request(
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
        """Where a query starts."""
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
        """The committed offsets of a group; waits for open transactions that commit more."""
        found = self._request(
            lambda: self.admin.list_consumer_group_offsets(
                {group: partitions}, require_stable=True
            )[group]
        )
        return {each: None if at is None else at.offset for each, at in found.items()}

    def fence(self, pipeline: str) -> None:
        """Fence former instances of the pipeline: they cannot commit any more."""
        group = marker_group(pipeline)
        self._request(lambda: self.admin.fence_producers([transactional_id(pipeline)]))
        markers = self._request(lambda: self.admin.list_consumer_group_offsets([group])[group])
        for stored in markers.values():
            if stored is not None:
                marker = Marker.from_offset(stored, group)
                self._request(partial(fence_bare_name, self.admin, pipeline, marker))

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> bool:
        """Commit offsets for lag tools; whether that succeeded. A failure loses no record."""
        try:
            self.admin.alter_consumer_group_offsets(group, dict(offsets))
        except KafkaError as error:
            log.warning(
                "the offsets of group %s, for tools that show lag, were not committed: %s",
                group,
                error,
            )
            return False
        return True

    def _request(self, request: Callable[[], T]) -> T:
        """The response, after as many attempts as the options allow."""
        attempt = 1
        while True:
            try:
                response = retriable_as_a_whole(request)
                self._was_reached = True
                return response
            except RetriableError as error:
                if attempt >= self._attempts_after(error):
                    raise
                log.warning("attempt %d of a request to the cluster failed: %s", attempt, error)
            attempt += 1
            self.pause()

    def _attempts_after(self, error: RetriableError) -> int:
        if not isinstance(error, TimedOutError):
            return self._options.lookup_attempts
        # The client has tried for its whole timeout. If no broker has ever answered, the address may be wrong.
        return self._options.timeout_attempts if self._was_reached else 1

    def pause(self) -> None:
        """Wait for fetchOffset.retryIntervalMs."""
        time.sleep(self._options.lookup_pause_ms / 1000)
