"""Records that consumers do not get, for tools that show them."""

from __future__ import annotations

from typing import Self

from ottla.client.model import ConsumerRecord
from ottla.records.batch import BatchHeader


class MarkedRecord(ConsumerRecord):
    """A control record, or one of a transaction that was aborted; key and value are bytes in any case."""

    producer_id: int
    producer_epoch: int
    is_control: bool

    @classmethod
    def of(cls, record: ConsumerRecord, header: BatchHeader) -> Self:
        """A record of a batch with this header."""
        marked = cls._make(record)
        marked.producer_id = header.producer_id
        marked.producer_epoch = header.producer_epoch
        marked.is_control = header.is_control
        return marked
