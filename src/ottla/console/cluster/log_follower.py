"""Reads an internal topic from shortly before its end, and follows it from then on, within limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from ottla.client.aio.consumer.consumer import Consumer
from ottla.console.clients import Clients
from ottla.console.cluster.log_tail import AnyRecord, LogTail, read_tails
from ottla.console.cluster.poller import ClusterPoller
from ottla.console.cluster.snapshot import PartitionSnapshot
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
    "default_api_timeout_ms": 15_000,
}


class LogFollower:
    """One consumer without a group; `earlier_offsets` are read of each partition before its end at the beginning."""

    def __init__(
        self,
        clients: Clients,
        poller: ClusterPoller,
        topic: str,
        *,
        earlier_offsets: int,
        wanted: Callable[[AnyRecord], bool] = lambda record: True,
    ) -> None:
        self._clients = clients
        self._poller = poller
        self._topic = topic
        self._earlier_offsets = earlier_offsets
        self._wanted = wanted
        self._next_offsets: dict[TopicPartition, int] = {}
        self.skipped_count = 0
        """The records that were skipped because there were too many."""

    def partitions(self) -> list[PartitionSnapshot]:
        """Those of the topic; none before the cluster has shown it."""
        snapshot = self._poller.snapshot
        found = None if snapshot is None else snapshot.topics.get(self._topic)
        return [] if found is None else list(found.partitions)

    def readable(self) -> list[TopicPartition]:
        """The partitions that have a leader."""
        return [
            TopicPartition(self._topic, each.partition)
            for each in self.partitions()
            if each.leader_id is not None
        ]

    def away(self) -> str | None:
        """What is not followed, because it has no leader."""
        found = [str(each.partition) for each in self.partitions() if each.leader_id is None]
        return f"{self._topic} has no leader for partition {', '.join(found)}" if found else None

    async def follow(
        self,
        *,
        begin: Callable[[dict[TopicPartition, LogTail]], None],
        take: Callable[[Sequence[AnyRecord]], None],
        pause_seconds: float,
    ) -> None:
        """Give the end of the log to `begin`, and what is written from then on to `take`.

        It returns when other partitions have leaders than before, and raises an OttlaError where the log cannot be
        read. A caller that follows again is not given twice what was read before.
        """
        partitions = self.readable()
        if not partitions:
            return
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
            self.skipped_count += sum(each.skipped_count for each in tails.values())
            begin(tails)
            while self.readable() == partitions:
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
