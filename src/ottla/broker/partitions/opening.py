"""Opening the partitions that a node leads: what is checked or replayed meanwhile, and what cannot be opened."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from ottla.broker.cluster import Cluster
from ottla.broker.partitions.replay import Replay, ReplayQueue
from ottla.config.topic import TopicConfig
from ottla.core.catalog import Topic
from ottla.errors import ErrorCode
from ottla.events import EventLog
from ottla.ports import (
    BeingCheckedError,
    DamagedError,
    FencedError,
    PartitionLog,
    PartitionRef,
    StorageError,
)
from ottla.records.errors import CorruptRecordsError

logger = EventLog(__name__)

# How long a partition that could not be opened is left alone; the time doubles with every failure.
FIRST_RETRY_MS = 1000
LAST_RETRY_MS = 60_000


class Offline(NamedTuple):
    """A partition that could not be opened; it is left alone until the monotonic clock says so.

    One that is damaged is left alone until its fingerprint is another.
    """

    retry_at_ms: int
    wait_ms: int
    reason: str
    fingerprint: Hashable


class PartitionOpener:
    """Claims partitions for a node, and tells it when they are ready."""

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
        self._being_checked: dict[PartitionRef, None] = {}
        self._replays = ReplayQueue(self._replayed, self._replay_failed, self._is_led)

    def open(self, ref: PartitionRef, topic: Topic) -> ErrorCode:
        """NONE if the partition is ready now; else why it is not, or not yet."""
        if ref in self._being_checked or (self.is_offline(ref) and not self._is_worth_a_try(ref)):
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if ref in self._replays else self._open(ref, topic)

    def is_replaying(self, ref: PartitionRef) -> bool:
        """Whether the partition will be ready soon."""
        return ref in self._replays

    def drop(self, ref: PartitionRef) -> None:
        """Forgets a partition that is led elsewhere, or is no more."""
        self._offline.pop(ref, None)
        self._being_checked.pop(ref, None)
        self._replays.drop(ref)

    def stop(self) -> None:
        """Opens nothing more."""
        self._being_checked.clear()
        self._replays.clear()

    def _is_led(self, ref: PartitionRef) -> bool:
        topic = self._cluster.catalog.topics_by_id.get(ref.topic_id)
        return topic is not None and self._leads(topic, ref.partition)

    def _open(self, ref: PartitionRef, topic: Topic) -> ErrorCode:
        replay = None
        try:
            log = self._cluster.store.claim(ref, self._config_of(topic))
            replay = Replay(log, self._cluster.clock.now_ms())
            self._replays.begin(replay)
        except BeingCheckedError as error:
            self._being_checked[ref] = None
            error.done.add_done_callback(lambda _: self._open_checked(ref))
            return ErrorCode.KAFKA_STORAGE_ERROR
        except (StorageError, CorruptRecordsError) as error:
            self._take_offline(ref, error, None if replay is None else replay.log)
            return ErrorCode.KAFKA_STORAGE_ERROR
        if not replay.is_over:
            # What Kafka says while it makes itself the leader: clients ask again.
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        self._replayed(replay)
        return ErrorCode.NONE

    def _open_checked(self, ref: PartitionRef) -> None:
        """Opens a partition, or takes it offline, when its files have been checked."""
        if ref not in self._being_checked:
            return
        del self._being_checked[ref]
        topic = self._cluster.catalog.topics_by_id.get(ref.topic_id)
        if topic is not None and self._leads(topic, ref.partition):
            self._open(ref, topic)

    def _replayed(self, replay: Replay) -> None:
        ref = replay.log.ref
        if self._offline.pop(ref, None) is not None:
            text = "partition %(topic)s-%(partition)d is online again"
            logger.info("partition_online", text, topic=ref.topic, partition=ref.partition)
        self._ready(replay)

    def _replay_failed(self, replay: Replay, error: StorageError | CorruptRecordsError) -> None:
        # Another claim has it, or its topic is gone.
        if not isinstance(error, FencedError):
            self._take_offline(replay.log.ref, error, replay.log)

    # What cannot be opened.

    def _monotonic_ms(self) -> int:
        """Time for waits: the wall clock may be set back, and no partition should wait until it catches up."""
        return int(self._cluster.clock.monotonic_seconds() * 1000)

    def take_offline(self, log: PartitionLog, error: DamagedError) -> None:
        """Leaves a partition alone in which damage was found after it was opened, until its files are others."""
        self._take_offline(log.ref, error, log)

    def _take_offline(self, ref: PartitionRef, error: Exception, log: PartitionLog | None) -> None:
        if isinstance(error, DamagedError) and log is not None and log.is_open:
            # For the engine it is in order: a claim would find it so again.
            error.fingerprint = self._cluster.store.fingerprint(ref)
        known = self._offline.get(ref)
        if known is None or known.reason != str(error):
            text = "partition %(topic)s-%(partition)d is offline: %(reason)s"
            fields = {"topic": ref.topic, "partition": ref.partition, "reason": str(error)}
            logger.error("partition_offline", text, **fields)
        self._note_offline(ref, error)

    def _note_offline(self, ref: PartitionRef, error: Exception) -> None:
        known = self._offline.get(ref)
        wait_ms = FIRST_RETRY_MS if known is None else min(2 * known.wait_ms, LAST_RETRY_MS)
        fingerprint = error.fingerprint if isinstance(error, DamagedError) else None
        retry_at_ms = self._monotonic_ms() + wait_ms
        self._offline[ref] = Offline(retry_at_ms, wait_ms, str(error), fingerprint)

    def _is_worth_a_try(self, ref: PartitionRef) -> bool:
        """Whether a partition that could not be opened may be in order now: not if it is damaged and unchanged."""
        offline = self._offline[ref]
        now_ms = self._monotonic_ms()
        if now_ms < offline.retry_at_ms:
            return False
        fingerprint = offline.fingerprint
        if fingerprint is None or fingerprint != self._cluster.store.fingerprint(ref):
            return True
        wait_ms = min(2 * offline.wait_ms, LAST_RETRY_MS)
        self._offline[ref] = offline._replace(retry_at_ms=now_ms + wait_ms, wait_ms=wait_ms)
        return False

    def find_offline(self) -> None:
        """Takes note of what the engine could not put in order at its start, so that clients are told."""
        for ref, error in self._cluster.store.offline().items():
            if self._is_led(ref):
                self._note_offline(ref, error)  # the engine has told it

    def is_offline(self, ref: PartitionRef) -> bool:
        """Whether the partition could not be opened when that was last tried."""
        return bool(self._offline) and ref in self._offline

    def offline_partitions(self) -> list[tuple[str, int]]:
        return [(ref.topic, ref.partition) for ref in self._offline]

    def retry_offline(self) -> None:
        """Tries to open partitions that could not be opened; clients that see no leader do not ask."""
        now_ms = self._monotonic_ms()
        due = [ref for ref, offline in self._offline.items() if offline.retry_at_ms <= now_ms]
        for ref in due:
            topic = self._cluster.catalog.topics_by_id.get(ref.topic_id)
            if topic is None or not self._leads(topic, ref.partition):
                self.drop(ref)
            else:
                self.open(ref, topic)
