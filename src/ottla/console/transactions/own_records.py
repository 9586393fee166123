"""What an open transaction has written: counted from the headers of its batches, as far as a limit allows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla.client.aio.consumer.inspecting_consumer import InspectingConsumer
from ottla.console.clients import Clients
from ottla.console.transactions.held import HeldPartition
from ottla.errors import OttlaError
from ottla.model import TopicPartition

MAX_READ_BYTES: Final = 1 << 20
MAX_BYTES: Final = 8 << 20
LIMIT_SECONDS: Final = 3.0


@dataclass
class OwnRecords:
    """How many records a transaction has written so far, and how large their batches are."""

    record_count: int = 0
    size_bytes: int = 0
    is_whole: bool = True
    """Whether all of its partitions could be read to their ends within the limits."""


async def own_records(
    clients: Clients, producer_id: int, partitions: Sequence[HeldPartition]
) -> OwnRecords:
    """Read the partitions from where the transaction begins, by the user's own connection."""
    found = OwnRecords()
    try:
        async with (
            asyncio.timeout(LIMIT_SECONDS),
            clients.inspecting_consumer(
                shows_control=True, shows_aborted=True, default_api_timeout_ms=3_000
            ) as consumer,
        ):
            left_bytes = MAX_BYTES
            for each in partitions:
                if each.topic.startswith("__"):
                    continue  # offsets, which are no records to readers
                left_bytes = await _count(consumer, each, producer_id, found, left_bytes)
    except (OttlaError, TimeoutError):
        found.is_whole = False
    return found


async def _count(
    consumer: InspectingConsumer,
    place: HeldPartition,
    producer_id: int,
    found: OwnRecords,
    left_bytes: int,
) -> int:
    """Count on one partition; returns how many bytes may still be read."""
    if place.start_offset is None or place.end_offset is None:
        return left_bytes
    key = TopicPartition(place.topic, place.partition)
    position = place.start_offset
    while True:
        if left_bytes <= 0:
            found.is_whole = False
            return left_bytes
        part = await consumer.batches(key, position, max_bytes=MAX_READ_BYTES)
        for batch in part.batches:
            header = batch.header
            left_bytes -= header.size_bytes
            if header.base_offset < place.start_offset or header.producer_id != producer_id:
                continue
            if header.is_transactional and not header.is_control:
                found.record_count += header.record_count
                found.size_bytes += header.size_bytes
        if not part.batches or part.batches[-1].header.last_offset + 1 >= part.end_offset:
            return left_bytes
        position = part.batches[-1].header.last_offset + 1
