"""Follows rebalances in `__consumer_offsets`, for all browsers, and tells them while they happen."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ottla.console.clients import Clients
from ottla.console.cluster.log_follower import LogFollower
from ottla.console.cluster.log_tail import AnyRecord, LogTail, read_tails
from ottla.console.cluster.poller import ClusterPoller
from ottla.console.groups.broker_notes import BrokerNotes
from ottla.console.groups.timeline import GroupTimeline, Rebalance
from ottla.console.groups.timelines import Timelines, is_of_rebalances
from ottla.console.http.live import LiveEvents
from ottla.console.http.routes import ServerEvent
from ottla.console.internals.page_client import InternalsClient
from ottla.core.catalog import GROUPS_TOPIC
from ottla.errors import OttlaError
from ottla.events import EventLog
from ottla.model import TopicPartition, coordinator_partition

logger = EventLog(__name__)

REBALANCE: Final = "rebalance"
# Before the console began, of each partition: most of them are committed offsets.
EARLIER_OFFSETS: Final = 2_000
PAUSE_SECONDS: Final = 0.5
RETRY_SECONDS: Final = 60.0
# A log that could be read before.
AGAIN_SECONDS: Final = 5.0
# For a group of which the end of the log has nothing.
LOOK_BACK_OFFSETS: Final = 100_000
LOOK_BACK_SECONDS: Final = 4.0
LOOK_BACK_API_MS: Final = 5_000
LOOK_BACK_AGAIN_SECONDS: Final = 600.0
MAX_LOOKED_BACK: Final = 1_000
# A storm of rebalances is told as one event for each group and look at the log.
MAX_TOLD: Final = 100


class RebalanceSource(StrEnum):
    """Where rebalances are seen."""

    LOG = "log"
    """In `__consumer_offsets`: all of them."""
    NONE = "none"
    """Nowhere: the log cannot be read, or does not exist yet."""


@dataclass
class RebalanceJournalState:
    """How the journal follows, and since when."""

    source: RebalanceSource = RebalanceSource.NONE
    since_ms: int = 0
    skipped_count: int = 0
    """The records of the log that were skipped because there were too many."""
    problem: str | None = None
    """Why the log is not read."""


@dataclass(frozen=True)
class RebalanceTold:
    """The event of the live stream."""

    group_id: str
    number: int
    kind: str
    is_over: bool


class RebalanceJournal:
    """Knows the rebalances of all groups since the console watches, and the newest ones before."""

    def __init__(
        self,
        clients: Clients,
        poller: ClusterPoller,
        live: LiveEvents,
        internals: InternalsClient | None,
    ) -> None:
        self._clients = clients
        self._poller = poller
        self._live = live
        self._looked_back: OrderedDict[str, float] = OrderedDict()
        self._looking_back = asyncio.Lock()
        self._follower = LogFollower(
            clients,
            poller,
            GROUPS_TOPIC,
            earlier_offsets=EARLIER_OFFSETS,
            wanted=is_of_rebalances,
        )
        self._task: asyncio.Task[None] | None = None
        self.timelines: Final = Timelines()
        self.notes: Final = BrokerNotes(internals, self.timelines)
        self.state: Final = RebalanceJournalState(since_ms=_now_ms())

    def start(self) -> None:
        """Begin to follow."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End."""
        await self.notes.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                await self._follower.follow(
                    begin=self._begin, take=self._take, pause_seconds=PAUSE_SECONDS
                )
                self.state.problem = self._follower.away()
                if self._poller.snapshot is not None and not self._follower.partitions():
                    self.state.problem = (
                        f"the cluster does not show {GROUPS_TOPIC}: no group has existed yet, or the console "
                        "may not describe the topic"
                    )
            except OttlaError as error:
                was_read = self.state.source is RebalanceSource.LOG
                self.state.source = RebalanceSource.NONE
                self.state.problem = f"{GROUPS_TOPIC} cannot be read: {error}"
                await asyncio.sleep(AGAIN_SECONDS if was_read else RETRY_SECONDS)
            except Exception as error:
                logger.bug("rebalances_failed", "rebalances cannot be followed: a bug", error)
                await asyncio.sleep(RETRY_SECONDS)
            await asyncio.sleep(PAUSE_SECONDS)

    async def look_back(self, group_id: str) -> None:
        """Read more of the group's partition if nothing is known of it: it may have been stable for long."""
        if self.state.source is not RebalanceSource.LOG or self.timelines.of(group_id) is not None:
            return
        async with self._looking_back:
            now = time.monotonic()
            if now - self._looked_back.get(group_id, -LOOK_BACK_AGAIN_SECONDS) < (
                LOOK_BACK_AGAIN_SECONDS
            ):
                return
            self._looked_back[group_id] = now
            if len(self._looked_back) > MAX_LOOKED_BACK:
                self._looked_back.popitem(last=False)
            count = len(self._follower.partitions())
            if not count:
                return
            partition = TopicPartition(GROUPS_TOPIC, coordinator_partition(group_id, count))
            if partition not in self._follower.readable():
                return
            try:
                async with self._clients.consumer(
                    max_poll_records=5_000, default_api_timeout_ms=LOOK_BACK_API_MS
                ) as consumer:
                    tails = await read_tails(
                        consumer,
                        [partition],
                        max_offsets=LOOK_BACK_OFFSETS,
                        limit_seconds=LOOK_BACK_SECONDS,
                        wanted=is_of_rebalances,
                    )
            except OttlaError:
                # The journal says why soon.
                return
            tail = tails[partition]
            self.timelines.add_earlier(group_id, tail.records, is_to_end=tail.is_to_end)

    def _begin(self, tails: dict[TopicPartition, LogTail]) -> None:
        self._break_off_if_skipped()
        for tail in tails.values():
            for record in tail.records:
                self.timelines.take(record)
        self.state.source = RebalanceSource.LOG
        self.state.problem = self._follower.away()
        self.notes.look_soon()

    def _break_off_if_skipped(self) -> None:
        if self._follower.skipped_count != self.state.skipped_count:
            self.state.skipped_count = self._follower.skipped_count
            self.timelines.break_off()

    def _take(self, records: Sequence[AnyRecord]) -> None:
        told: dict[str, tuple[GroupTimeline, Rebalance]] = {}
        for record in records:
            found = self.timelines.take(record)
            if found is not None:
                told[found[0].group_id] = found
        self._break_off_if_skipped()
        if told:
            self.notes.look_soon()
        for timeline, rebalance in list(told.values())[:MAX_TOLD]:
            data = RebalanceTold(
                timeline.group_id,
                rebalance.number,
                str(rebalance.kind),
                rebalance.ended_at_ms is not None,
            )
            self._live.send(ServerEvent(REBALANCE, data, groups=(timeline.group_id,)))


def _now_ms() -> int:
    return int(time.time() * 1000)
