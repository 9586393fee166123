"""Batches of one partition that arrived together: decided about one by one, written at once."""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.broker.partitions.shard import Appended, Shard
from ottla.core.append import AT_ONCE, NO_TIMESTAMP, Prepared, check_plain, prepare_within
from ottla.core.outcomes import Refused
from ottla.core.partition import producer_batch
from ottla.core.produce import check_transactional_id, transaction_version
from ottla.core.producer_state import (
    APPEND,
    APPEND_IF_CONFIRMED,
    NO_PRODUCER_ID,
    ProducerBatch,
    continues,
)
from ottla.model import TopicPartition
from ottla.ports import Buffer
from ottla.records.batch import BatchHeader

# Where segments or their indexes are smaller, every batch is written by itself: one may begin a new segment.
SMALLEST_SHARED_SEGMENT_BYTES: Final = 16 << 20
SMALLEST_SHARED_INDEX_BYTES: Final = 1 << 20
# Larger batches that need a closer look are left to the handler, which copies none and has a thread for the longest.
CLOSER_LOOK_BYTES: Final = 16 << 10


class Decided(NamedTuple):
    """A batch that may be appended behind those that are staged already."""

    data: Buffer
    header: BatchHeader
    append_time_ms: int
    producer: ProducerBatch | None
    is_plain: bool  # it needed no closer look
    # It begins a transaction on the partition: it may be staged once the coordinator has confirmed that, which has to
    # happen before anything else does.
    needs_confirmation: bool


class StagedAppends:
    """The batches of a partition that are decided about and not written yet.

    Nothing else happens on the event loop between the first decision and `write`. The state of the partition does not
    change before `write`, so nothing has to be taken back if that fails.
    """

    __slots__ = (
        "_batches",
        "_headers",
        "_may_share",
        "_now_ms",
        "_producers",
        "_staged_producers",
        "next_offset",
        "outcome",
        "shard",
    )

    def __init__(self, shard: Shard, now_ms: int) -> None:
        self.shard = shard
        self.next_offset = shard.partition.end_offset
        self.outcome: Appended | Refused | None = None
        self._now_ms = now_ms
        self._batches: list[Buffer] = []
        self._headers: list[BatchHeader] = []
        # The newest batch of each producer, by its id.
        self._producers: dict[int, ProducerBatch] = {}
        self._staged_producers: list[ProducerBatch | None] = []
        config = shard.config
        self._may_share = (
            config.segment_bytes >= SMALLEST_SHARED_SEGMENT_BYTES
            and config.segment_index_bytes >= SMALLEST_SHARED_INDEX_BYTES
        )

    @property
    def partition(self) -> TopicPartition:
        ref = self.shard.log.ref
        return TopicPartition(ref.topic, ref.partition)

    @property
    def is_empty(self) -> bool:
        return not self._batches

    def decide(
        self, records: memoryview, transactional_id: str | None, version: int
    ) -> Decided | None:
        """Decides about a batch; None if it is refused, or if that cannot be said before the others are written."""
        if self._batches and not self._may_share:
            return None
        shard, now_ms = self.shard, self._now_ms
        limits = shard.plain_limits
        header = None if limits is None else check_plain(records, limits, now_ms)
        if header is not None:
            data: Buffer = records
            append_time_ms, is_plain = NO_TIMESTAMP, True
        elif len(records) > CLOSER_LOOK_BYTES:
            return None
        else:
            # A copy, because timestamps are written in place: the handler has to find a refused batch as it came.
            prepared = prepare_within(bytearray(records), shard.config, now_ms, version, AT_ONCE)
            if not isinstance(prepared, Prepared):
                return None
            data, header, append_time_ms = prepared
            is_plain = False
        producer = None
        needs_confirmation = False
        if header.producer_id > NO_PRODUCER_ID:
            producer = producer_batch(header)
            if check_transactional_id(header, transactional_id) is not None:
                return None
            previous = self._producers.get(header.producer_id)
            if previous is None:
                decision = shard.partition.decide_at_once(producer, transaction_version(version))
                needs_confirmation = decision is APPEND_IF_CONFIRMED
                if decision is not APPEND and not needs_confirmation:
                    return None
            elif not continues(previous, producer):
                return None
        return Decided(data, header, append_time_ms, producer, is_plain, needs_confirmation)

    def add(self, decided: Decided) -> int:
        """Stages a batch that was decided about; returns its base offset."""
        header, producer = decided.header, decided.producer
        if producer is not None:
            self._producers[producer.producer_id] = producer
        self._staged_producers.append(producer)
        self._batches.append(decided.data)
        self._headers.append(header)
        base_offset = self.next_offset
        self.next_offset = base_offset + header.last_offset_delta + 1
        return base_offset

    def write(self) -> Appended | Refused:
        """Appends what is staged, all or nothing."""
        self.outcome = outcome = self.shard.append_together(
            self._batches, self._headers, self._staged_producers, self._now_ms
        )
        return outcome
