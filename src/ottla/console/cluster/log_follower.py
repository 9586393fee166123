"""Reads an internal topic from shortly before its end, and follows it from then on, within limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from ottla.client.aio.consumer.consumer import Consumer
from ottla.console.clients import Clients
from ottla.console.cluster.log_tail import AnyRecord, LogTail, read_tails
from ottla.console.cluster.snapshot import ClusterSnapshot
from ottla.model import TopicPartition

EARLIER_SECONDS: Final = 10.0
# What is behind by more is skipped: the console rather misses something than that it takes the cluster's time.
MAX_BEHIND: Final = 20_000
RECORDS_AT_ONCE: Final = 5_000
_OPTIONS: Final[dict[str, object]] = {
    # A fetch waits until there is something worth an answer.
    "fetch_min_bytes": 1 << 16,
    "fetch_max_bytes": 1 << 20,
    "max_poll_records": RECORDS_AT_ONCE,
    "auto_offset_reset": "latest",
}


def partitions_of(snapshot: ClusterSnapshot | None, topic: str) -> list[TopicPartition]:
    """The partitions of a topic; none before the cluster has shown it."""
    found = None if snapshot is None else snapshot.topics.get(topic)
    if found is None:
        return []
    return [TopicPartition(topic, each.partition) for each in found.partitions]


class LogFollower:
    """One consumer without a group; `earlier_offsets` are read of each partition before its end at the beginning."""

    def __init__(
        self,
        clients: Clients,
        *,
        earlier_offsets: int,
        wanted: Callable[[AnyRecord], bool] = lambda record: True,
    ) -> None:
        self._clients = clients
        self._earlier_offsets = earlier_offsets
        self._wanted = wanted
        self._next_offsets: dict[TopicPartition, int] = {}
        self.skipped_count = 0
        """The records that were skipped because there were too many."""

    async def follow(
        self,
        partitions: Collection[TopicPartition],
        *,
        begin: Callable[[dict[TopicPartition, LogTail]], None],
        take: Callable[[Sequence[AnyRecord]], None],
        pause_seconds: float,
    ) -> None:
        """Give the end of the log to `begin`, and what is written from then on to `take`; until an OttlaError.

        Who follows again after an error is not given twice what was read before.
        """
        wait_ms = int(pause_seconds * 1000)
        async with self._clients.consumer(fetch_max_wait_ms=wait_ms, **_OPTIONS) as consumer:
            tails = await read_tails(
                consumer,
                partitions,
                max_offsets=self._earlier_offsets,
                limit_seconds=EARLIER_SECONDS,
                wanted=self._wanted,
                known=self._next_offsets,
            )
            for each in partitions:
                self._next_offsets[each] = await consumer.position(each)
            begin(tails)
            while True:
                began = time.monotonic()
                records = await consumer.poll(pause_seconds)
                found = [each for each in records if self._wanted(each)]
                for partition, at in records.next_offsets.items():
                    self._next_offsets[partition] = at.offset
                if len(records) >= RECORDS_AT_ONCE:
                    self._skip(consumer)
                take(found)
                # However much is written, a browser sees no more than a few changes in a second.
                await asyncio.sleep(max(0.0, began + pause_seconds - time.monotonic()))

    def _skip(self, consumer: Consumer[Any, Any]) -> None:
        lags = {each: consumer.current_lag(each) or 0 for each in consumer.assignment()}
        if sum(lags.values()) > MAX_BEHIND:
            self.skipped_count += sum(lags.values())
            consumer.seek_to_end()
