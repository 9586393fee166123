"""The queue of one partition's batches, and their limits."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.client.state.producer.ongoing_transaction import OngoingTransaction
from ottla.client.state.producer.producer_batch import ProducerBatch
from ottla.errors import TimedOutError
from ottla.model import TopicPartition
from ottla.records.batch import HEADER_BYTES
from ottla.records.record import Header

FOREVER: Final = float("inf")
RATIO_RISE: Final = 0.05
RATIO_FALL: Final = 0.005


@dataclass(frozen=True)
class AccumulatorSettings:
    """The options of the accumulator."""

    batch_bytes: int
    linger_ms: float
    delivery_timeout_ms: float
    memory_bytes: int
    max_request_bytes: int


class PartitionQueue:
    """The batches of one partition that wait to be sent, the oldest first."""

    __slots__ = (
        "batches",
        "compression_ratio",
        "key",
        "limit_bytes",
        "muted",
        "next_order",
        "open",
        "transaction",
    )

    def __init__(self, key: TopicPartition, limit_bytes: int) -> None:
        self.key = key
        self.limit_bytes = limit_bytes
        """How many bytes of records a new batch takes, before compression."""
        self.compression_ratio = 1.0
        self.batches: deque[ProducerBatch] = deque()
        self.open: ProducerBatch | None = None
        """The last batch, while it takes records."""
        self.muted = False
        """Whether a batch is in flight that must end before the next one is sent."""
        self.transaction: OngoingTransaction | None = None
        """The last transaction that had records here."""
        self.next_order = 0


class BulkRecords(NamedTuple):
    """Records of `send_many` for one partition; `positions` are their indexes in the call."""

    timestamp: int
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None
    headers: Sequence[Header]
    positions: Sequence[int]


def capacity_bytes(settings: AccumulatorSettings, compression_ratio: float) -> int:
    """How many bytes of records a batch takes, if compression makes `compression_ratio` times as many of them."""
    # A margin, as in Kafka, because a batch that is too large has to be split.
    fits_bytes = int((settings.batch_bytes - HEADER_BYTES) / (compression_ratio * 1.05))
    plain_bytes = settings.batch_bytes - HEADER_BYTES
    # So a record that fits into an open batch is within max.request.size.
    most_bytes = min(settings.max_request_bytes, settings.memory_bytes) - HEADER_BYTES
    return max(1, min(max(fits_bytes, plain_bytes), most_bytes))


def out_of_memory(settings: AccumulatorSettings, timeout_ms: float) -> TimedOutError:
    """No memory became free within max.block.ms."""
    return TimedOutError(
        message=(
            f"buffer.memory ({settings.memory_bytes} bytes) is full of records that wait to be sent, "
            f"and none of it became free within {round(timeout_ms)} ms."
        ),
        context={"api": "Produce"},
    )
