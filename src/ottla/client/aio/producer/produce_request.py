"""A Produce request in flight: the batches in it, and the broker's answer to each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, cast
from uuid import UUID

from ottla.client.aio.network.connection import Connection
from ottla.client.model import NO_OFFSET, NO_TIMESTAMP, Node
from ottla.client.state.producer.producer_batch import ProducerBatch
from ottla.errors import ErrorCode
from ottla.model import NO_TOPIC_ID
from ottla.records.record import Buffer
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.types import InPieces

# The newest version for transactions of version 1, and the newest that has the names of topics.
_LAST_VERSION_1_TRANSACTIONS: Final = 11
_LAST_WITH_NAMES: Final = 12


class PartitionAnswer(NamedTuple):
    """The broker's answer to one batch, or the error of a request that was not answered."""

    code: ErrorCode
    message: str | None = None
    base_offset: int = NO_OFFSET
    append_time_ms: int = NO_TIMESTAMP
    log_start_offset: int = NO_OFFSET
    record_errors: Mapping[int, str] | None = None
    leader_id: int = -1
    leader_epoch: int = -1
    nodes: Mapping[int, Node] = {}


class ProduceInFlight:
    """The batches of one request."""

    __slots__ = ("_is_answered", "_topics", "batches", "connection", "names", "sent_ms")

    def __init__(self, connection: Connection, sent_ms: float, *, is_answered: bool) -> None:
        self._is_answered = is_answered
        self.connection = connection
        self.sent_ms = sent_ms
        self.batches: dict[tuple[str, int], ProducerBatch] = {}
        self.names: dict[UUID, str] = {}
        """The names of the topics by their ids: newer versions of Produce have only the ids."""
        self._topics: dict[str, TopicProduceData] = {}

    @property
    def topic_data(self) -> list[TopicProduceData]:
        """The partitions and batches of the request."""
        return list(self._topics.values())

    def add(self, batch: ProducerBatch, topic_id: UUID, encoded: Buffer | InPieces) -> None:
        """Add a batch, of a partition that has none in the request."""
        self.batches[batch.key] = batch
        data = self._topics.get(batch.topic)
        if data is None:
            self.names[topic_id] = batch.topic
            data = TopicProduceData(name=batch.topic, topic_id=topic_id, partition_data=[])
            self._topics[batch.topic] = data
        if isinstance(encoded, InPieces) and not self._is_answered:
            # Its memory may change when the future is done, which with acks=0 is before the request was written.
            encoded = b"".join(encoded.pieces)
        # The encoder takes pieces as well as a buffer.
        records = cast(Buffer, encoded)
        data.partition_data.append(PartitionProduceData(index=batch.partition, records=records))

    def newest_version(self, is_version_1: bool) -> int | None:
        """The newest version of Produce to use, in transactions of version 1 or otherwise."""
        if is_version_1:
            return _LAST_VERSION_1_TRANSACTIONS
        # A broker whose metadata has no topic ids does not know them in requests either.
        return _LAST_WITH_NAMES if NO_TOPIC_ID in self.names else None

    def answers(self, response: ProduceResponse) -> list[tuple[ProducerBatch, PartitionAnswer]]:
        """The answer to each batch."""
        nodes = {
            each.node_id: Node(each.node_id, each.host, each.port, each.rack)
            for each in response.node_endpoints
        }
        left = dict(self.batches)
        answers = []
        for topic in response.responses:
            name = topic.name or self.names.get(topic.topic_id, "")
            for partition in topic.partition_responses:
                batch = left.pop((name, partition.index), None)
                if batch is not None:
                    answers.append((batch, _read(partition, nodes)))
        if left:
            missing = PartitionAnswer(
                ErrorCode.NETWORK_EXCEPTION, "The broker's answer leaves the partition out."
            )
            answers.extend((batch, missing) for batch in left.values())
        return answers


def _read(partition: PartitionProduceResponse, nodes: Mapping[int, Node]) -> PartitionAnswer:
    code = ErrorCode(partition.error_code)
    record_errors = None
    if partition.record_errors:
        record_errors = {
            each.batch_index: each.batch_index_error_message or partition.error_message or code.text
            for each in partition.record_errors
        }
    leader = partition.current_leader
    return PartitionAnswer(
        code,
        partition.error_message,
        partition.base_offset,
        partition.log_append_time_ms,
        partition.log_start_offset,
        record_errors,
        leader.leader_id,
        leader.leader_epoch,
        nodes,
    )
