"""A produce request: the batches in it, and what the broker's answer says of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, cast
from uuid import UUID

from ottla.client.aio.network.connection import Connection
from ottla.client.model import NO_OFFSET, NO_TIMESTAMP, Node
from ottla.client.state.producer.producer_batch import ProducerBatch
from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_TOPIC_ID
from ottla.records.record import Buffer
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.types import InPieces

# The newest version that has no part in transactions of version 2, and the newest that names topics.
_LAST_VERSION_1_TRANSACTIONS: Final = 11
_LAST_WITH_NAMES: Final = 12


class Answer(NamedTuple):
    """The outcome of one batch, as the broker or the network tells it."""

    code: ErrorCode
    message: str | None = None
    base_offset: int = NO_OFFSET
    append_time_ms: int = NO_TIMESTAMP
    log_start_offset: int = NO_OFFSET
    record_errors: Mapping[int, str] | None = None
    leader_id: int = -1
    leader_epoch: int = -1
    nodes: Mapping[int, Node] = {}


# What is not tried again, or in parts, without a look at the bytes.
_OF_BYTES: Final = (ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE)


def judged(batch: ProducerBatch, answer: Answer) -> Answer:
    """The answer; another one if the batch was damaged before it was sent, which no other attempt mends."""
    if answer.code not in _OF_BYTES or batch.is_intact():
        return answer
    damaged = "The batch was damaged before it was sent: its checksum is wrong."
    return answer._replace(code=ErrorCode.INVALID_RECORD, message=damaged)


class Exchange:
    """One request on its way, and its answer."""

    __slots__ = ("_is_answered", "_topics", "batches", "connection", "names", "sent_ms")

    def __init__(self, connection: Connection, sent_ms: float, *, is_answered: bool) -> None:
        self._is_answered = is_answered
        self.connection = connection
        self.sent_ms = sent_ms
        self.batches: dict[tuple[str, int], ProducerBatch] = {}
        self.names: dict[UUID, str] = {}
        """The names of the topics by their ids: newer versions know the ids only."""
        self._topics: dict[str, TopicProduceData] = {}

    @property
    def topic_data(self) -> list[TopicProduceData]:
        """What the request carries."""
        return list(self._topics.values())

    def add(self, batch: ProducerBatch, topic_id: UUID, encoded: Buffer | InPieces) -> None:
        """One more batch, of a partition that has none in it yet."""
        self.batches[batch.key] = batch
        data = self._topics.get(batch.topic)
        if data is None:
            self.names[topic_id] = batch.topic
            data = TopicProduceData(name=batch.topic, topic_id=topic_id, partition_data=[])
            self._topics[batch.topic] = data
        if isinstance(encoded, InPieces) and not self._is_answered:
            # What it shows may change when the future is done, and that is before it has left.
            encoded = b"".join(encoded.pieces)
        # Pieces are as good as a buffer here: a request is encoded, and never read.
        records = cast(Buffer, encoded)
        data.partition_data.append(PartitionProduceData(index=batch.partition, records=records))

    def newest_version(self, is_version_1: bool) -> int | None:
        """The newest version of Produce to use, in transactions of version 1 or otherwise."""
        if is_version_1:
            return _LAST_VERSION_1_TRANSACTIONS
        # A broker that tells no topic ids knows none.
        return _LAST_WITH_NAMES if NO_TOPIC_ID in self.names else None

    def answers(
        self, response: ProduceResponse | None, error: KafkaError | None
    ) -> list[tuple[ProducerBatch, Answer]]:
        """The answer to each batch; all share the error of a request that was not answered."""
        if response is None:
            assert error is not None
            answer = Answer(error.code, error.message)
            return [(batch, answer) for batch in self.batches.values()]
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
        silent = Answer(
            ErrorCode.NETWORK_EXCEPTION, "The broker's answer leaves the partition out."
        )
        answers.extend((batch, silent) for batch in left.values())
        return answers


def _read(partition: PartitionProduceResponse, nodes: Mapping[int, Node]) -> Answer:
    code = ErrorCode(partition.error_code)
    record_errors = None
    if partition.record_errors:
        record_errors = {
            each.batch_index: each.batch_index_error_message or partition.error_message or code.text
            for each in partition.record_errors
        }
    leader = partition.current_leader
    return Answer(
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
