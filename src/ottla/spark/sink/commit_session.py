"""A transactional producer that has fenced older instances of its pipeline, and writes micro-batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Final, NamedTuple, Protocol

from ottla.client.admin_model.transactions import TransactionState
from ottla.client.blocking.admin import Admin
from ottla.client.blocking.producer import Producer
from ottla.client.model import OffsetAndMetadata
from ottla.config.client import read_client_config
from ottla.config.producer import ProducerConfig
from ottla.errors import AbortableError, ErrorCode, KafkaError, OttlaError
from ottla.model import TopicPartition
from ottla.records.record import Buffer
from ottla.spark.cluster_queries import missing_topics
from ottla.spark.sink.commit_plan import CommitPlan
from ottla.spark.sink.progress import (
    Marker,
    TakenOverError,
    Target,
    group_offsets,
    marker_group,
    read_progress,
)
from ottla.spark.sink.transaction import one_transaction

log = logging.getLogger("ottla.spark")

CLOSE_AT_ONCE_SECONDS: Final = 0.0
# An idle session is used again for this long. Later the source may have fenced it, to renew the pipeline's progress.
MAX_IDLE_SECONDS: Final = 600.0
# Record batches are as large as brokers accept. A request has one of each partition, so that a large micro-batch
# waits for fewer answers.
LARGE_REQUESTS: Final = {"max.request.size": str(16 * 1024 * 1024)}
_FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
# The states of a transaction that timed out. After a takeover the transactional id has moved on from them.
_ABORTED: Final = (
    TransactionState.PREPARE_EPOCH_FENCE,
    TransactionState.PREPARE_ABORT,
    TransactionState.COMPLETE_ABORT,
)


class CommitPoint(Enum):
    """The steps of a commit. Tests let the process die or wait at each."""

    ENTERED = "before anything is asked"
    LOOKED = "the marker was read, before any instance is fenced"
    FENCED = "older instances are fenced"
    LOOKED_AGAIN = "the marker was read again, and says that the micro-batch is to be written"
    BEGUN = "the transaction has begun"
    SENT_SOME = "a record batch was sent"
    SENT = "all records are acknowledged"
    SENT_SOURCE_OFFSETS = "the source's offsets are in the transaction"
    SENT_MARKER = "the marker is in the transaction"
    ENDED = "the transaction is committed"


# Called at each step; only tests set it.
listener: Callable[[CommitPoint], None] | None = None


def reach(point: CommitPoint) -> None:
    """The commit has come to a step."""
    if listener is not None:
        listener(point)


class EncodedRecords(NamedTuple):
    """An encoded record batch and its partition."""

    topic: str
    partition: int
    data: Buffer


class RecordSender(Protocol):
    """How the records of a micro-batch get into its transaction."""

    def send(self, producer: Producer) -> None:
        """Send all records in the open transaction; return when every one is acknowledged."""


class DriverSender:
    """The driver sends what tasks have encoded."""

    def __init__(self, records: Iterable[EncodedRecords] = ()) -> None:
        self._records = records

    def send(self, producer: Producer) -> None:
        futures = []
        for topic, partition, data in self._records:
            futures.append(producer.send_encoded(topic, partition, data, check_crc=False))
            if len(futures) == 1:
                reach(CommitPoint.SENT_SOME)
        producer.flush()
        for future in futures:
            future.result(0)


class CommitSession:
    """A transactional producer and the admin client that asks about its progress; `close` closes both."""

    def __init__(self, target: Target, admin: Admin, cluster: str | None) -> None:
        self.target = target
        self.cluster = cluster
        self.last_committed: Marker | None = None
        self.idle_since = time.monotonic()
        self._admin = admin
        self._began = 0.0
        own = {"transactional.id": target.transactional_id, "acks": "all"}
        config = read_client_config(ProducerConfig, {**LARGE_REQUESTS, **target.options, **own}, {})
        self._transaction_timeout_ms = config.transaction_timeout_ms
        self._producer = Producer(config)

    def fence(self) -> None:
        """InitProducerId: from now on no older instance can commit."""
        with _fenced_means_taken_over(self.target):
            self._producer.init_transactions()
        # Groups store offsets only of topics that exist, and a micro-batch without records would not create this one.
        self._producer.partitions_for(self.target.marker_topic)

    def write(self, plan: CommitPlan, sender: RecordSender) -> None:
        """Commit the records, the sources' offsets and the marker in one transaction."""
        offsets = self._offsets_of_existing_topics(plan)
        self._began = time.monotonic()
        with (
            _fenced_means_taken_over(self.target, lambda: self._timed_out(plan)),
            one_transaction(self._producer, self.target.pipeline),
        ):
            reach(CommitPoint.BEGUN)
            sender.send(self._producer)
            reach(CommitPoint.SENT)
            self._send_progress(plan, offsets)
        self.last_committed = plan.marker
        reach(CommitPoint.ENDED)

    def _send_progress(
        self, plan: CommitPlan, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        producer, pipeline = self._producer, self.target.pipeline
        if offsets:
            producer.send_offsets_to_transaction(dict(offsets), pipeline)
        reach(CommitPoint.SENT_SOURCE_OFFSETS)
        place = TopicPartition(self.target.marker_topic, 0)
        marker = plan.marker._replace(writer=self.target.transactional_id)
        producer.send_offsets_to_transaction({place: marker.to_offset()}, marker_group(pipeline))
        reach(CommitPoint.SENT_MARKER)

    def _offsets_of_existing_topics(
        self, plan: CommitPlan
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets for the group, without deleted topics: a cluster refuses those.

        Their records are in the micro-batch, so nothing is lost. The source reports what it could not read of them.
        """
        offsets = group_offsets(plan.sources_on(self.cluster))
        deleted = missing_topics(self._admin, [each.topic for each in offsets])
        if deleted:
            log.warning(
                "%s: %s exist no longer: their offsets are not committed",
                self.target.pipeline,
                ", ".join(deleted),
            )
        return {each: at for each, at in offsets.items() if each.topic not in deleted}

    def _timed_out(self, plan: CommitPlan) -> bool:
        """Whether the coordinator aborted the transaction after its timeout, and no other instance took over since."""
        limit_ms = self._transaction_timeout_ms
        if (time.monotonic() - self._began) * 1000 < limit_ms:
            return False
        pipeline, name = self.target.pipeline, self.target.transactional_id
        try:
            found = self._admin.describe_transactions([name])[name]
            if found.state not in _ABORTED:
                return False
            # Another instance may have taken over and been aborted too; what it committed before shows in the marker.
            marker = read_progress(self._admin, self.target, (), is_stable=True).marker
        except OttlaError as error:
            # Without permission to ask, the pipeline restarts: if another instance took over, the restart finds out.
            log.warning(
                "%s: the instance that fenced this one could not be found: %s", pipeline, error
            )
            return True
        return marker is None or (marker.query == plan.query and marker.batch < plan.batch)

    def close(self) -> None:
        """Close the clients at once, without ending an open transaction."""
        self._producer.close(CLOSE_AT_ONCE_SECONDS)
        self._admin.close()


@contextmanager
def _fenced_means_taken_over(
    target: Target, timed_out: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        if error.code not in _FENCED:
            raise
        if timed_out():
            raise AbortableError(
                error.code,
                f"The transaction of pipeline {target.pipeline!r} took longer than transaction.timeout.ms and was "
                "aborted: write less at a time (maxOffsetsPerTrigger), or set kafka.transaction.timeout.ms.",
                error.context,
            ) from error
        raise TakenOverError(
            f"Another instance took over pipeline {target.pipeline!r}: this one has been fenced and stops. Nothing "
            "is lost; run one instance of a pipeline, or give the other one another name."
        ) from error
