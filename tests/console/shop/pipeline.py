"""Commits as a pipeline of Spark does, without Spark: rows, the source's position and the marker in one transaction."""

from __future__ import annotations

from tests.console.shop.names import ORDERS, PIPELINE, REVENUE

import ottla
from ottla.model import TopicPartition
from ottla.spark.sink.progress import Marker, marker_group, transactional_id

QUERY = "0b9b1a3c-5d1e-4f2b-9a70-2f8f4f1f6c11"
PARTITIONS = 6
SECONDS = 20


class Pipeline:
    """One that works through the orders."""

    def __init__(self, servers: str) -> None:
        self._producer = ottla.Producer(
            bootstrap_servers=servers,
            transactional_id=transactional_id(PIPELINE),
            client_id="spark-driver",
        )
        self._producer.init_transactions()
        self._consumer = ottla.Consumer(bootstrap_servers=servers)
        self._source = [TopicPartition(ORDERS, each) for each in range(PARTITIONS)]
        self._batch = 0

    def commit(self) -> None:
        """A micro-batch with all orders that there are."""
        ends = self._consumer.end_offsets(self._source)
        self._producer.begin_transaction()
        for partition in range(2):
            row = b'{"day": "today", "batch": %d, "revenue": "%d.40"}'
            self._producer.send(
                REVENUE, row % (self._batch, 100 + self._batch), partition=partition
            )
        offsets = {each: ottla.OffsetAndMetadata(end) for each, end in ends.items()}
        self._producer.send_offsets_to_transaction(offsets, PIPELINE)
        marker = Marker(QUERY, self._batch, "digest", transactional_id(PIPELINE)).to_offset()
        places = {TopicPartition(REVENUE, each): marker for each in range(2)}
        self._producer.send_offsets_to_transaction(places, marker_group(PIPELINE))
        self._producer.commit_transaction()
        self._batch += 1

    def close(self) -> None:
        self._producer.close(0)
        self._consumer.close()
