"""Metrics of a producer."""

from __future__ import annotations

from collections.abc import Callable

from ottla.client.metrics.kafka_metrics import Measured, Metrics
from ottla.client.state.producer.accumulator import Accumulator
from ottla.client.state.producer.producer_batch import ProducerBatch
from ottla.records.batch import HEADER_BYTES


class ProducerMetrics:
    """Metrics of batches and requests; records are counted per batch."""

    def __init__(self, accumulator: Accumulator) -> None:
        self._metrics = metrics = Metrics()
        self._sends = metrics.meter("record-send")
        self._errors = metrics.meter("record-error")
        self._retries = metrics.meter("record-retry")
        self._splits = metrics.meter("batch-split")
        self._batch_bytes = metrics.distribution("batch-size")
        self._compression = metrics.distribution("compression-rate")
        self._queue_ms = metrics.distribution("record-queue-time")
        self._latency_ms = metrics.distribution("request-latency")
        self._request_records = metrics.distribution("records-per-request")
        self._topics: dict[str, tuple[Measured, Measured]] = {}
        memory = accumulator.memory
        metrics.gauge("buffer-total-bytes", lambda: memory.total_bytes)
        metrics.gauge("buffer-available-bytes", lambda: memory.available_bytes)
        metrics.gauge("waiting-threads", lambda: memory.waiting_count)
        metrics.gauge("batches-incomplete", lambda: len(accumulator.incomplete))

    def gauge(self, name: str, value: Callable[[], float]) -> None:
        """Add a value that another object computes."""
        self._metrics.gauge(name, value)

    def sent(self, batch: ProducerBatch) -> None:
        """A batch is put into a request."""
        size_bytes = batch.estimated_bytes
        self._batch_bytes.record(size_bytes)
        if batch.size_bytes:
            self._compression.record((size_bytes - HEADER_BYTES) / batch.size_bytes)
        self._queue_ms.record(batch.drained_ms - batch.created_ms)
        records, byte_count = self._of(batch.topic)
        records.record(batch.record_count)
        byte_count.record(size_bytes)

    def _of(self, topic: str) -> tuple[Measured, Measured]:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = (
                self._metrics.meter("record-send", topic=topic),
                self._metrics.meter("byte", topic=topic),
            )
        return found

    def requested(self, batches: list[ProducerBatch]) -> None:
        """A request is sent."""
        count = sum(batch.record_count for batch in batches)
        self._sends.record(count)
        self._request_records.record(count)

    def answered(self, node_id: int, latency_ms: float) -> None:
        """A request was answered."""
        self._latency_ms.record(latency_ms)

    def retried(self, batch: ProducerBatch) -> None:
        self._retries.record(batch.record_count)

    def failed(self, batch: ProducerBatch) -> None:
        self._errors.record(batch.record_count)

    def refused(self) -> None:
        """`send` refused a record."""
        self._errors.record()

    def split(self) -> None:
        self._splits.record()

    def snapshot(self) -> dict[str, float]:
        return self._metrics.snapshot()
