"""Requests as the proxy sees them."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

from tests.history.digest import Place

from ottla.broker.requests.apis import SERVED
from ottla.core.turn import ProducerIdentity
from ottla.records.batch import read_header
from ottla.wire.compile import decode_message
from ottla.wire.declare import info_of
from ottla.wire.framing import read_request_header

PRODUCE, INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT = (
    0,
    22,
    24,
    25,
    26,
    28,
)
TRANSACTIONAL: Final = (
    PRODUCE,
    INIT_PRODUCER_ID,
    ADD_PARTITIONS,
    ADD_OFFSETS,
    END_TXN,
    TXN_OFFSET_COMMIT,
)
# From these on a request belongs to transaction version 2 (KIP-890).
FIRST_OF_VERSION_2: Final = {
    PRODUCE: 12,
    ADD_PARTITIONS: 4,
    ADD_OFFSETS: 4,
    END_TXN: 5,
    TXN_OFFSET_COMMIT: 5,
}
SIZE_BYTES: Final = 4


class Frame:
    """A request frame: its bytes with the length in front, and what the proxy wants to know of it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.api_key = int.from_bytes(data[4:6])
        self.version = int.from_bytes(data[6:8])

    @property
    def is_of_version_1(self) -> bool:
        """Whether it is one by which a client of the first transaction version ends or joins a transaction."""
        first = FIRST_OF_VERSION_2.get(self.api_key)
        return first is not None and self.version < first

    @cached_property
    def message(self) -> Any:
        """The request itself."""
        request_class = SERVED[self.api_key].request
        flexible = self.version >= info_of(request_class).flexible_since
        body = memoryview(self.data)[SIZE_BYTES:]
        start = read_request_header(body, flexible).body_position
        return decode_message(request_class, self.version, body, start)

    @property
    def owner(self) -> tuple[str, ProducerIdentity]:
        """Whose transaction a request of version 1 is about."""
        message = self.message
        if self.api_key == ADD_PARTITIONS:
            return message.v3_and_below_transactional_id, ProducerIdentity(
                message.v3_and_below_producer_id, message.v3_and_below_producer_epoch
            )
        if self.api_key == PRODUCE:
            header = read_header(message.topic_data[0].partition_data[0].records, 0)
            return message.transactional_id, ProducerIdentity(
                header.producer_id, header.producer_epoch
            )
        return message.transactional_id, ProducerIdentity(
            message.producer_id, message.producer_epoch
        )

    @property
    def places(self) -> frozenset[Place]:
        """The partitions that a Produce is for, or that a transaction of version 1 is to have."""
        message = self.message
        if self.api_key == PRODUCE:
            return frozenset(
                Place(topic.name, data.index)
                for topic in message.topic_data
                for data in topic.partition_data
            )
        if self.api_key == ADD_PARTITIONS:
            return frozenset(
                Place(topic.name, partition)
                for topic in message.v3_and_below_topics
                for partition in topic.partitions
            )
        return frozenset()

    def __str__(self) -> str:
        name = SERVED[self.api_key].name if self.api_key in SERVED else str(self.api_key)
        text = f"{name} v{self.version}"
        if self.api_key in TRANSACTIONAL and self.api_key != PRODUCE:
            text += f" {self.message}"
        return text
