"""Batches with the numbers of a producer."""

from __future__ import annotations

from typing import Any

from ottla.records.batch import HEADER_BYTES, header_with_producer
from ottla.records.record import Buffer


def with_producer(batch: Buffer, **numbers: Any) -> bytes:
    """What is sent of a batch that got these numbers."""
    return header_with_producer(batch, **numbers) + bytes(batch[HEADER_BYTES:])
