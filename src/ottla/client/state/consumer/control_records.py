"""Records that consumers skip, for tools that show them: control records and those of aborted transactions."""

from __future__ import annotations

from typing import Self

from ottla.client.model import ConsumerRecord
from ottla.records.batch import BatchHeader


class MarkedRecord(ConsumerRecord):
    """A control record, or a record of an aborted transaction; key and value are always bytes."""

    producer_id: int
    producer_epoch: int
    is_control: bool

    @classmethod
    def of(cls, record: ConsumerRecord, header: BatchHeader) -> Self:
        """The record of a batch with this header."""
        marked = cls._make(record)
        marked.producer_id = header.producer_id
        marked.producer_epoch = header.producer_epoch
        marked.is_control = header.is_control
        return marked
