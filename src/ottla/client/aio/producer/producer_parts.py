"""The parts of a producer, put together from its options."""

from __future__ import annotations

import asyncio
import random

from ottla.client.aio.network.network import Network
from ottla.client.aio.producer.producer_context import ProducerContext
from ottla.client.aio.producer.sender import Sender
from ottla.client.aio.producer.transactor import Transactor
from ottla.client.metrics.producer_metrics import ProducerMetrics
from ottla.client.plugins.configured_objects import (
    partitioner_of,
    producer_interceptors_of,
    serializers_of,
)
from ottla.client.send.arrow_writer import ArrowWriter
from ottla.client.send.bulk_writer import BulkWriter
from ottla.client.send.partition_router import PartitionRouter
from ottla.client.send.record_serializers import RecordSerializers
from ottla.client.send.record_writer import RecordWriter
from ottla.client.state.backoff import Backoff
from ottla.client.state.metadata import MetadataState
from ottla.client.state.producer.accumulator import Accumulator
from ottla.client.state.producer.failed_records import FailedRecords
from ottla.client.state.producer.partition_queue import AccumulatorSettings
from ottla.client.state.producer.sequences import Sequences
from ottla.client.state.producer.sticky import Sticky
from ottla.client.state.producer.transactions import Transactions
from ottla.config.producer import ProducerConfig
from ottla.errors import KafkaError


class ProducerParts:
    """The parts of a producer; made on a running loop, they connect at once."""

    def __init__(self, config: ProducerConfig) -> None:
        key_serializer, value_serializer = serializers_of(config)
        partitioner = partitioner_of(config)
        self.interceptors = producer_interceptors_of(config)
        self.user_objects = (key_serializer, value_serializer, partitioner)
        self.accumulator = _accumulator(config)
        self.transactions = _transactions(config, self.accumulator)
        sequences = None
        if config.enable_idempotence:
            sequences = Sequences(is_transactional=self.transactions is not None)
        self.metrics = ProducerMetrics(self.accumulator)
        self.network = _network(config)
        sticky = _sticky_partitions(config)
        context = ProducerContext(
            config=config,
            network=self.network,
            accumulator=self.accumulator,
            sticky=sticky,
            metrics=self.metrics,
            random_unit=random.random,
            sequences=sequences,
            transactions=self.transactions,
        )
        self.sender = Sender(context)
        self.metrics.gauge("requests-in-flight", lambda: self.sender.dispatcher.in_flight_count)
        self.transactor: Transactor | None = None
        if sequences is not None:
            self.transactor = Transactor(context, sequences, self.sender)
            self.sender.identity_source = self.transactor
        router = PartitionRouter(self.accumulator, sticky, partitioner)
        serializers = RecordSerializers(key_serializer, value_serializer, self.accumulator)
        self.writer = RecordWriter(
            accumulator=self.accumulator,
            router=router,
            serializers=serializers,
            interceptors=self.interceptors,
            on_refused=self._record_refused,
            wake_sender=self.sender.wake_threadsafe,
            now_ms=self.sender.now_ms,
        )
        self.bulk_writer = BulkWriter(
            self.accumulator, router, serializers, self.interceptors, self.writer
        )
        self.arrow_writer = ArrowWriter(
            config=config,
            accumulator=self.accumulator,
            router=router,
            serializers=serializers,
            interceptors=self.interceptors,
            single=self.writer,
        )
        self.network.on_update.append(router.update)
        self.network.on_update.append(lambda _: self.sender.wake())
        self.sender.wake()

    def _record_refused(self, error: Exception) -> None:
        """A record was not accepted: a transaction without it must not be committed."""
        self.metrics.refused()
        if self.transactions is not None and isinstance(error, KafkaError):
            self.transactions.record_refused(error)


def _accumulator(config: ProducerConfig) -> Accumulator:
    accumulator = Accumulator(
        AccumulatorSettings(
            batch_bytes=config.batch_size,
            linger_ms=config.linger_ms,
            delivery_timeout_ms=config.delivery_timeout_ms,
            memory_bytes=config.buffer_memory,
            max_request_bytes=config.max_request_size,
        )
    )
    accumulator.loop = asyncio.get_running_loop()
    if config.transactional_id is None:
        accumulator.failed_records = FailedRecords()
    return accumulator


def _transactions(config: ProducerConfig, accumulator: Accumulator) -> Transactions | None:
    if config.transactional_id is None:
        return None
    return Transactions(config.transactional_id, accumulator.lock, accumulator.refuse)


def _network(config: ProducerConfig) -> Network:
    metadata = MetadataState(
        max_age_ms=config.metadata_max_age_ms,
        backoff=Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms),
        max_idle_ms=config.metadata_max_idle_ms,
    )
    return Network(config, metadata)


def _sticky_partitions(config: ProducerConfig) -> Sticky:
    return Sticky(
        batch_size_bytes=config.batch_size,
        random_below=random.randrange,
        is_adaptive=config.partitioner_adaptive_partitioning_enable,
        availability_timeout_ms=config.partitioner_availability_timeout_ms,
    )
