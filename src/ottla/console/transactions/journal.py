"""Follows the ends of transactions: in `__transaction_state` where that may be read, otherwise between snapshots."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ottla.client.admin_model.transactions import TransactionState
from ottla.console.clients import Clients
from ottla.console.cluster.log_follower import LogFollower
from ottla.console.cluster.log_tail import AnyRecord, LogTail
from ottla.console.cluster.poller import ClusterPoller
from ottla.console.cluster.snapshot import ClusterSnapshot, TransactionSnapshot
from ottla.console.transactions.coordinators import describe_existing
from ottla.console.transactions.ended import EndedTransaction, EndedTransactions, Outcome
from ottla.console.transactions.state_changes import EndsOfTransactions
from ottla.core.catalog import TRANSACTIONS_TOPIC
from ottla.errors import OttlaError
from ottla.events import EventLog
from ottla.model import TopicPartition

logger = EventLog(__name__)

# Before the console began: enough to show something at once, of each partition.
EARLIER_OFFSETS: Final = 200
PAUSE_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 60.0
# A log that could be read before.
AGAIN_SECONDS: Final = 5.0
MAX_DESCRIBED: Final = 100
_OUTCOMES: Final = {
    TransactionState.COMPLETE_COMMIT: Outcome.COMMITTED,
    TransactionState.COMPLETE_ABORT: Outcome.ABORTED,
}


class JournalSource(StrEnum):
    """Where the ends of transactions are seen."""

    LOG = "log"
    """In `__transaction_state`: all of them."""
    SNAPSHOTS = "snapshots"
    """Between two snapshots: short transactions are missed."""
    NONE = "none"
    """The cluster has had no transactions yet, or has not answered."""


@dataclass
class JournalState:
    """How the journal follows, and since when."""

    source: JournalSource = JournalSource.NONE
    since_ms: int = 0
    skipped_count: int = 0
    """The records of the log that were skipped because there were too many."""
    problem: str | None = None
    """Why the log is not read."""


class TransactionJournal:
    """Knows which transactions have ended since the console watches."""

    def __init__(self, clients: Clients, poller: ClusterPoller) -> None:
        self._clients = clients
        self._poller = poller
        self._task: asyncio.Task[None] | None = None
        self._follower = LogFollower(
            clients, poller, TRANSACTIONS_TOPIC, earlier_offsets=EARLIER_OFFSETS
        )
        self._ends = EndsOfTransactions()
        self._open: dict[str, TransactionSnapshot] = {}
        self._seen_version = 0
        self.ended = EndedTransactions()
        self.state: Final = JournalState(since_ms=_now_ms())

    def start(self) -> None:
        """Begin to follow."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End."""
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
            except OttlaError as error:
                self.state.problem = f"{TRANSACTIONS_TOPIC} cannot be read: {error}"
                if self.state.source is JournalSource.LOG:
                    # What ends meanwhile is in the log, and counted once it can be read again.
                    await asyncio.sleep(AGAIN_SECONDS)
                else:
                    await self._follow_snapshots(RETRY_SECONDS)
            except Exception as error:
                logger.bug("journal_failed", "ended transactions cannot be followed: a bug", error)
                await asyncio.sleep(RETRY_SECONDS)
            await asyncio.sleep(PAUSE_SECONDS)

    # The log

    def _begin(self, tails: dict[TopicPartition, LogTail]) -> None:
        found = [
            ended
            for tail in tails.values()
            for each in tail.records
            if (ended := self._ends.next(each)) is not None
        ]
        if self.state.source is JournalSource.SNAPSHOTS:
            # Snapshots showed some of these, and not all: they are counted anew.
            self.ended = EndedTransactions()
            self.state.since_ms = _now_ms()
        self.state.source = JournalSource.LOG
        self.state.problem = self._follower.away()
        self.state.skipped_count = self._follower.skipped_count
        # The first transaction of a cluster makes the topic: it may have ended since the console began.
        since_ms = self.state.since_ms
        self.ended.add_earlier(each for each in found if each.ended_at_ms < since_ms)
        for each in found:
            if each.ended_at_ms >= since_ms:
                self.ended.add(each, min(each.ended_at_ms, _now_ms()))

    def _take(self, records: Sequence[AnyRecord]) -> None:
        for record in records:
            ended = self._ends.next(record)
            if ended is not None:
                self.ended.add(ended, _now_ms())
        self.state.skipped_count = self._follower.skipped_count

    # Snapshots

    async def _follow_snapshots(self, seconds: float) -> None:
        """Compare snapshots for a while."""
        if self.state.source is not JournalSource.SNAPSHOTS:
            self.state.source = JournalSource.SNAPSHOTS
            self.state.since_ms = _now_ms()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            snapshot = self._poller.snapshot
            if snapshot is not None and snapshot.version != self._seen_version:
                await self._compare(snapshot)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _compare(self, snapshot: ClusterSnapshot) -> None:
        gone = [
            each
            for name, each in self._open.items()
            if name not in snapshot.transactions
            or snapshot.transactions[name].started_at_ms != each.started_at_ms
        ]
        self._open = dict(snapshot.transactions)
        self._seen_version = snapshot.version
        names = [each.transactional_id for each in gone[:MAX_DESCRIBED]]
        described = await describe_existing(self._clients.admin(), names)
        for each in gone[:MAX_DESCRIBED]:
            description = described.get(each.transactional_id)
            outcome = None if description is None else _OUTCOMES.get(description.state)
            if outcome is not None:
                self.ended.add(_ended(each, outcome, snapshot.at_ms), snapshot.at_ms)


def _ended(open_one: TransactionSnapshot, outcome: Outcome, at_ms: int) -> EndedTransaction:
    return EndedTransaction(
        transactional_id=open_one.transactional_id,
        producer_id=open_one.producer_id,
        producer_epoch=-1 if open_one.producer_epoch is None else open_one.producer_epoch,
        outcome=outcome,
        ended_at_ms=at_ms,
        started_at_ms=open_one.started_at_ms,
        timeout_ms=open_one.timeout_ms,
        partitions=open_one.partitions,
    )


def _now_ms() -> int:
    return int(time.time() * 1000)
