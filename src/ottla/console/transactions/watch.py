"""Watches open transactions beside the poller: which last stable offsets stand, and which transactions hang.

A partition can only have an open transaction if its last stable offset is behind its end. So only such partitions are
asked for their producers, and only those whose offset has stood still for a while: most transactions are short.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ottla.client.aio.admin.client import Admin
from ottla.console.clients import Clients
from ottla.console.cluster.poller import ClusterPoller
from ottla.console.cluster.snapshot import ClusterSnapshot
from ottla.console.transactions.coordinators import (
    ASK_SECONDS,
    describe_existing,
    names_of_producers,
    silent_coordinators,
)
from ottla.console.transactions.held import StandingOffset, standing_offsets
from ottla.errors import OttlaError, PartialFailureError
from ottla.events import EventLog
from ottla.inspection.transactions import (
    PartitionTransaction,
    open_on_partitions,
    unknown_to_coordinators,
)
from ottla.model import TopicPartition

logger = EventLog(__name__)

TICK_SECONDS: Final = 0.5
# An offset that is behind in two snapshots.
STANDING_MS: Final = 1500
SEARCH_SECONDS: Final = 2.0
MAX_SHARE: Final = 1 / 20
MAX_PARTITIONS: Final = 500


@dataclass(frozen=True)
class OpenOnPartitions:
    """Who has a transaction open on the partitions whose last stable offset stands."""

    at_ms: int = 0
    by_partition: Mapping[TopicPartition, tuple[PartitionTransaction, ...]] = field(
        default_factory=dict
    )
    hanging: tuple[PartitionTransaction, ...] = ()
    """Those that no coordinator will end."""
    names: Mapping[int, str] = field(default_factory=dict)
    """The transactional ids of the producers, where coordinators know them."""
    left_out_count: int = 0
    """The partitions that were not asked, because there are too many."""
    problems: tuple[str, ...] = ()


class OpenTransactionWatch:
    """Knows what is open on partitions, in the background and for all browsers."""

    def __init__(self, clients: Clients, poller: ClusterPoller) -> None:
        self._clients = clients
        self._poller = poller
        self._task: asyncio.Task[None] | None = None
        self._standing: dict[TopicPartition, StandingOffset] = {}
        self._seen_version = 0
        self._not_before = 0.0
        self._latest = OpenOnPartitions()

    @property
    def standing(self) -> Mapping[TopicPartition, StandingOffset]:
        """The last stable offsets that are behind their ends."""
        return self._standing

    @property
    def latest(self) -> OpenOnPartitions:
        """What was found last."""
        return self._latest

    def start(self) -> None:
        """Begin to watch."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def search_soon(self) -> None:
        """Search with the next snapshot, because something was changed."""
        self._not_before = 0.0

    async def _run(self) -> None:
        while True:
            try:
                snapshot = self._poller.snapshot
                if snapshot is not None and snapshot.version != self._seen_version:
                    self._seen_version = snapshot.version
                    self._standing = standing_offsets(self._standing, snapshot)
                    await self._search(snapshot)
            except Exception as error:
                logger.bug("watch_failed", "open transactions cannot be watched: a bug", error)
            await asyncio.sleep(TICK_SECONDS)

    async def _search(self, snapshot: ClusterSnapshot) -> None:
        began = time.monotonic()
        if began < self._not_before:
            return
        candidates = [
            (each.since_ms, key)
            for key, each in self._standing.items()
            if snapshot.at_ms - each.since_ms >= STANDING_MS
        ]
        oldest = [key for _, key in sorted(candidates)]
        if oldest or self._latest.by_partition:
            found = await find_open(self._clients.admin(), oldest[:MAX_PARTITIONS])
            self._latest = replace(found, left_out_count=max(0, len(oldest) - MAX_PARTITIONS))
        took = time.monotonic() - began
        self._not_before = began + max(SEARCH_SECONDS, took / MAX_SHARE)


async def find_open(admin: Admin, partitions: Sequence[TopicPartition]) -> OpenOnPartitions:
    """What is open on the partitions, and which of it hangs; what could not be asked is among the problems."""
    at_ms = int(time.time() * 1000)
    opened, problems = await open_on(admin, partitions)
    hanging: list[PartitionTransaction] = []
    names: dict[int, str] = {}
    try:
        names = await names_of_producers(admin, {each.producer.producer_id for each in opened})
        described = await describe_existing(admin, list(names.values()))
        suspects = unknown_to_coordinators(opened, names, described)
        hanging = await _still_open(admin, suspects)
        if hanging and (reason := await silent_coordinators(admin)) is not None:
            hanging = []
            problems.append(
                "which transactions hang is not known, because a coordinator may know those that seem to: "
                + reason
            )
    except OttlaError as error:
        problems.append(f"hanging transactions are not known: {error}")
    by_partition: dict[TopicPartition, tuple[PartitionTransaction, ...]] = {}
    for each in opened:
        by_partition[each.partition] = (*by_partition.get(each.partition, ()), each)
    return OpenOnPartitions(at_ms, by_partition, tuple(hanging), names, problems=tuple(problems))


async def open_on(
    admin: Admin, partitions: Sequence[TopicPartition]
) -> tuple[list[PartitionTransaction], list[str]]:
    """What is open on the partitions, and what could not be asked."""
    if not partitions:
        return [], []
    answer: Mapping[Any, Any] = {}
    problems = []
    try:
        answer = await admin.describe_producers(partitions, timeout=ASK_SECONDS)
    except PartialFailureError as error:
        answer = error.results
        reasons = dict.fromkeys(str(each) for each in error.errors.values())
        problems = [f"producers of some partitions are not known: {each}" for each in reasons]
    except OttlaError as error:
        problems = [f"producers of partitions are not known: {error}"]
    return list(open_on_partitions(answer)), problems[:3]


async def _still_open(
    admin: Admin, suspects: Sequence[PartitionTransaction]
) -> list[PartitionTransaction]:
    """Those that are open still: others have ended since the leader was asked, and before the coordinator was."""
    if not suspects:
        return []
    again, _ = await open_on(admin, list(dict.fromkeys(each.partition for each in suspects)))
    same = {(each.partition, each.producer.producer_id, each.start_offset) for each in again}
    return [
        each
        for each in suspects
        if (each.partition, each.producer.producer_id, each.start_offset) in same
    ]
