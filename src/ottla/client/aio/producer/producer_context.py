"""The objects that the parts of a producer share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla.client.aio.network.network import Network
from ottla.client.metrics.producer_metrics import ProducerMetrics
from ottla.client.state.producer.accumulator import Accumulator
from ottla.client.state.producer.batch_actions import ProducerKind
from ottla.client.state.producer.sequences import Sequences
from ottla.client.state.producer.sticky import Sticky
from ottla.client.state.producer.transactions import Transactions
from ottla.config.producer import ProducerConfig


@dataclass(frozen=True)
class ProducerContext:
    """The state of one producer, and what it talks through."""

    config: ProducerConfig
    network: Network
    accumulator: Accumulator
    sticky: Sticky
    metrics: ProducerMetrics
    random_unit: Callable[[], float]
    sequences: Sequences | None
    """None if enable.idempotence=false."""
    transactions: Transactions | None
    """None without a transactional.id."""

    @property
    def kind(self) -> ProducerKind:
        return ProducerKind.PLAIN if self.sequences is None else self.sequences.kind

    @property
    def mutes_partitions(self) -> bool:
        """Whether a partition waits for the end of its batch in flight, which preserves the order without sequences."""
        return self.config.max_in_flight_requests_per_connection == 1
