"""Opening the partitions that a node leads: long claims and replays, and partitions that cannot be opened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from ottla.broker.cluster import Cluster
from ottla.broker.partitions.replay import Replay, ReplayQueue
from ottla.config.topic import TopicConfig
from ottla.core.catalog import Topic
from ottla.errors import ErrorCode
from ottla.events import EventLog
from ottla.ports import (
    ClaimPendingError,
    DamagedError,
    FencedError,
    PartitionLog,
    PartitionRef,
    StorageError,
    StorageUnavailableError,
    monotonic_ms,
)
from ottla.records.errors import CorruptRecordsError

logger = EventLog(__name__)

# The first wait before a failed partition is opened again; it doubles with every failure.
FIRST_RETRY_MS = 1000
LAST_RETRY_MS = 60_000


class Offline(NamedTuple):
    """A partition that could not be opened, and the monotonic time of the next attempt.

    `is_logged` unless it waits for a storage that another partition was logged to wait for.
    """

    retry_at_ms: int
    wait_ms: int
    reason: str
    is_logged: bool


class PartitionOpener:
    """Claims and replays partitions for a node, and calls `ready` with each that can be used."""

    def __init__(
        self,
        cluster: Cluster,
        leads: Callable[[Topic, int], bool],
        config_of: Callable[[Topic], TopicConfig],
        ready: Callable[[Replay], None],
    ) -> None:
        self._cluster = cluster
        self._leads = leads
        self._config_of = config_of
        self._ready = ready
        self._offline: dict[PartitionRef, Offline] = {}
        # Those among them that wait for the storage to answer.
        self._unavailable: set[PartitionRef] = set()
        self._pending: dict[PartitionRef, None] = {}
        # Of claims that the engine could not make at once: done when the partition is replayed, or cannot be used.
        self._waiters: dict[PartitionRef, asyncio.Future[None]] = {}
        self._replays = ReplayQueue(self._replayed, self._replay_failed, self._is_led)

    def open(self, ref: PartitionRef, topic: Topic) -> ErrorCode:
        """NONE if the partition is ready now; else the error that a client gets."""
        if ref in self._pending or not self._may_retry(ref):
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if ref in self._replays else self._open(ref, topic)

    def is_replaying(self, ref: PartitionRef) -> bool:
        """Whether the partition is claimed, and its replay goes on."""
        return ref in self._replays

    def opening(self, ref: PartitionRef) -> asyncio.Future[None] | None:
        """When the partition is open, or is known to be of no use here; None if no claim of the engine is awaited."""
        return self._waiters.get(ref)

    def _end_wait(self, ref: PartitionRef) -> None:
        waiter = self._waiters.pop(ref, None)
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def drop(self, ref: PartitionRef) -> None:
        """Forgets a partition that another node leads, or whose topic was deleted."""
        self._offline.pop(ref, None)
        self._unavailable.discard(ref)
        self._pending.pop(ref, None)
        self._replays.drop(ref)
        self._end_wait(ref)

    def stop(self) -> None:
        """Opens nothing more."""
        self._pending.clear()
        self._replays.clear()
        for ref in list(self._waiters):
            self._end_wait(ref)

    def _is_led(self, ref: PartitionRef) -> bool:
        topic = self._cluster.catalog.topics_by_id.get(ref.topic_id)
        return topic is not None and self._leads(topic, ref.partition)

    def _open(self, ref: PartitionRef, topic: Topic) -> ErrorCode:
        replay = None
        try:
            log = self._cluster.store.claim(ref, self._config_of(topic))
            replay = Replay(log, self._cluster.clock.now_ms())
            self._replays.begin(replay)
        except ClaimPendingError as error:
            self._pending[ref] = None
            if ref not in self._waiters:
                self._waiters[ref] = asyncio.get_running_loop().create_future()
            error.done.add_done_callback(lambda _: self._open_pending(ref))
            return ErrorCode.KAFKA_STORAGE_ERROR
        except (StorageError, CorruptRecordsError) as error:
            self._take_offline(ref, error, None if replay is None else replay.log)
            return ErrorCode.KAFKA_STORAGE_ERROR
        if not replay.is_over:
            # As a Kafka broker answers while it becomes the leader: clients try again.
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        self._replayed(replay)
        return ErrorCode.NONE

    def _open_pending(self, ref: PartitionRef) -> None:
        """Opens a partition, or takes it offline, when the engine is ready for the claim."""
        if ref not in self._pending:
            return
        del self._pending[ref]
        topic = self._cluster.catalog.topics_by_id.get(ref.topic_id)
        if topic is not None and self._leads(topic, ref.partition):
            self._open(ref, topic)
        else:
            self._end_wait(ref)

    def _replayed(self, replay: Replay) -> None:
        ref = replay.log.ref
        self._unavailable.discard(ref)
        offline = self._offline.pop(ref, None)
        if offline is not None and offline.is_logged:
            text = "partition %(topic)s-%(partition)d is online again"
            logger.info("partition_online", text, topic=ref.topic, partition=ref.partition)
        self._ready(replay)
        self._end_wait(ref)

    def _replay_failed(self, replay: Replay, error: StorageError | CorruptRecordsError) -> None:
        # After another claim, or a deletion, the partition is not this node's any more.
        if not isinstance(error, FencedError):
            self._take_offline(replay.log.ref, error, replay.log)
        self._end_wait(replay.log.ref)

    # Partitions that could not be opened.

    def _monotonic_ms(self) -> int:
        return monotonic_ms(self._cluster.clock)

    def take_offline(self, log: PartitionLog, error: DamagedError) -> None:
        """Takes a partition offline in which damage was found after it was opened."""
        self._take_offline(log.ref, error, log)

    def _take_offline(self, ref: PartitionRef, error: Exception, log: PartitionLog | None) -> None:
        if isinstance(error, DamagedError) and log is not None and log.is_open:
            # The engine has not noticed it: another claim would succeed, and the replay fail again.
            self._cluster.store.condemn(ref, error)
        if isinstance(error, StorageUnavailableError):
            self._wait_for_storage(ref, error)
        else:
            known = self._offline.get(ref)
            if known is None or known.reason != str(error):
                text = "partition %(topic)s-%(partition)d is offline: %(reason)s"
                fields = {"topic": ref.topic, "partition": ref.partition, "reason": str(error)}
                logger.error("partition_offline", text, **fields)
            self._note_offline(ref, error)
        self._end_wait(ref)

    def _wait_for_storage(self, ref: PartitionRef, error: StorageUnavailableError) -> None:
        """Nothing is wrong with the partition: it is opened soon after the storage answers again."""
        known = self._offline.get(ref)
        is_logged = known is not None and known.is_logged
        if not self._unavailable:
            is_logged = True
            logger.warning(
                "partition_unavailable",
                "partition %(topic)s-%(partition)d, and perhaps others, cannot be opened now: %(reason)s",
                topic=ref.topic,
                partition=ref.partition,
                reason=str(error),
            )
        self._unavailable.add(ref)
        retry_at_ms = self._monotonic_ms() + FIRST_RETRY_MS
        self._offline[ref] = Offline(retry_at_ms, FIRST_RETRY_MS, str(error), is_logged)

    def _note_offline(self, ref: PartitionRef, error: Exception) -> None:
        self._unavailable.discard(ref)
        known = self._offline.get(ref)
        wait_ms = FIRST_RETRY_MS if known is None else min(2 * known.wait_ms, LAST_RETRY_MS)
        retry_at_ms = self._monotonic_ms() + wait_ms
        self._offline[ref] = Offline(retry_at_ms, wait_ms, str(error), is_logged=True)

    def _may_retry(self, ref: PartitionRef) -> bool:
        """Whether the wait of a partition that could not be opened is over."""
        offline = self._offline.get(ref)
        return offline is None or self._monotonic_ms() >= offline.retry_at_ms

    def find_offline(self) -> None:
        """Takes partitions offline that the engine found unusable at its start (and logged)."""
        for ref, error in self._cluster.store.offline().items():
            if self._is_led(ref):
                self._note_offline(ref, error)

    def is_offline(self, ref: PartitionRef) -> bool:
        """Whether the partition could not be opened when that was last tried."""
        return bool(self._offline) and ref in self._offline

    def offline_partitions(self) -> list[tuple[str, int]]:
        return [(ref.topic, ref.partition) for ref in self._offline]

    def retry_offline(self) -> None:
        """Tries again to open partitions: clients do not send requests to a partition without a leader."""
        now_ms = self._monotonic_ms()
        due = [ref for ref, offline in self._offline.items() if offline.retry_at_ms <= now_ms]
        for ref in due:
            topic = self._cluster.catalog.topics_by_id.get(ref.topic_id)
            if topic is None or not self._leads(topic, ref.partition):
                self.drop(ref)
            else:
                self.open(ref, topic)
