"""The records that come in, as they come: in batches, and with a count of what a page could not take."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.aio.consumer.consumer import Consumer
from ottla.console.records.filters import Filter
from ottla.console.records.rows import RecordRow, RecordRows
from ottla.console.records.windows import AnyRecord
from ottla.model import TopicPartition

BATCH_SECONDS: Final = 0.2
MAX_BATCH_ROWS: Final = 600
# A page that is behind gets everything as long as there are no more offsets than these to read, at most 6,000 rows a
# second. With more, rows are left out, so that it shows what comes in now.
MAX_CAUGHT_UP: Final = 10_000
CATCH_UP_SECONDS: Final = 0.05
CATCH_UP_ROWS: Final = 300
# A page that is so many offsets behind goes on at the end.
MAX_BEHIND: Final = 30_000
TAIL_OPTIONS: Final[Mapping[str, object]] = {
    "max_poll_records": CATCH_UP_ROWS,
    "fetch_max_wait_ms": 100,
    "fetch_max_bytes": 8 << 20,
    "max_partition_fetch_bytes": 1 << 20,
}


@dataclass(frozen=True)
class TailBatch:
    """What has come in since the last batch."""

    rows: list[RecordRow]
    scanned_count: int
    """The records that were read, whether they pass the filters or not."""
    skipped_row_count: int
    """The records that pass the filters, and are left out because too many came at a time."""
    skipped_offset_count: int
    """The offsets that were not read, because the page or the console was too far behind."""
    positions: dict[int, int]
    """The offsets behind all that was read, for going on from there; of partitions that have changed."""


async def tail(
    consumer: Consumer[Any, Any],
    starts: Mapping[TopicPartition, int],
    rows: RecordRows,
    filters: Sequence[Filter],
) -> AsyncGenerator[TailBatch | None]:
    """What comes in from these offsets on; the first batch has them, and None says that nothing new came in."""
    consumer.assign(starts)
    for each, offset in starts.items():
        consumer.seek(each, offset)
    yield TailBatch([], 0, 0, 0, {each.partition: offset for each, offset in starts.items()})
    while True:
        skipped = await _skip(consumer, starts)
        began = time.monotonic()
        batch = await _batch(consumer, starts, rows, filters, skipped)
        yield batch if batch.positions else None
        await asyncio.sleep(began + CATCH_UP_SECONDS - time.monotonic())


async def _skip(
    consumer: Consumer[Any, Any], partitions: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Go on at the end if that is too far away; returns the number of offsets in between."""
    lags = _lags(consumer, partitions)
    if sum(lags.values()) <= MAX_BEHIND:
        return {}
    for each, lag in lags.items():
        if lag:
            consumer.seek(each, await consumer.position(each) + lag)
    return {each: lag for each, lag in lags.items() if lag}


def _lags(
    consumer: Consumer[Any, Any], partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """How many offsets are known that were not read."""
    return {each: consumer.current_lag(each) or 0 for each in partitions}


async def _batch(
    consumer: Consumer[Any, Any],
    partitions: Collection[TopicPartition],
    rows: RecordRows,
    filters: Sequence[Filter],
    skipped: Mapping[TopicPartition, int],
) -> TailBatch:
    matched: deque[AnyRecord] = deque(maxlen=MAX_BATCH_ROWS)
    matched_count = scanned_count = 0
    positions = {each.partition: await consumer.position(each) for each in skipped}
    end = time.monotonic() + BATCH_SECONDS
    while (left := end - time.monotonic()) > 0:
        polled = await consumer.poll(left)
        for record in polled:
            scanned_count += 1
            if await _passes(record, filters, rows):
                matched.append(record)
                matched_count += 1
        for each, position in polled.next_offsets.items():
            positions[each.partition] = position.offset
        is_half_full = matched_count >= MAX_BATCH_ROWS - CATCH_UP_ROWS
        if is_half_full and sum(_lags(consumer, partitions).values()) <= MAX_CAUGHT_UP:
            # The rest follows with the next batch.
            break
    return TailBatch(
        rows=[await rows.row(record) for record in matched],
        scanned_count=scanned_count,
        skipped_row_count=matched_count - len(matched),
        skipped_offset_count=sum(skipped.values()),
        positions=positions,
    )


async def _passes(record: AnyRecord, filters: Sequence[Filter], rows: RecordRows) -> bool:
    for each in filters:
        if not await each.matches(record, rows.text):
            return False
    return True
