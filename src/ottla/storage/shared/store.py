"""The shared engine's store: what brokers on several machines see of one cluster's data."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from ottla.config.topic import TopicConfig
from ottla.events import EventLog
from ottla.histogram import Histogram
from ottla.ports import (
    Clock,
    DamagedError,
    LogDir,
    PartitionLog,
    PartitionRef,
    StorageError,
    UnclaimedLog,
)
from ottla.ports.leases import Leases
from ottla.storage.shared.catalog import SharedCatalog
from ottla.storage.shared.claims import Claims
from ottla.storage.shared.engine_metrics import EngineMetrics
from ottla.storage.shared.holders import Holders
from ottla.storage.shared.housekeeping import Housekeeping
from ottla.storage.shared.leases import SharedLeases
from ottla.storage.shared.log.partition_log import SharedLog
from ottla.storage.shared.log.store_parts import StoreParts
from ottla.storage.shared.objects.objects import Objects
from ottla.storage.shared.options import SharedOptions
from ottla.storage.shared.read.cold_reads import ColdReads
from ottla.storage.shared.read.tail_cache import TailCache
from ottla.storage.shared.retries import until_available
from ottla.storage.shared.sequencer.records import CatalogState
from ottla.storage.shared.sequencer.sequencer import Sequencer
from ottla.storage.shared.session import Session
from ottla.storage.shared.unclaimed_logs import UnclaimedLogs
from ottla.storage.shared.write.commits import Commits
from ottla.storage.shared.write.inline_lane import InlineLane
from ottla.storage.shared.write.lanes import Lanes
from ottla.storage.shared.write.objects_lane import ObjectsLane
from ottla.storage.shared.write.uploads import Uploads

logger = EventLog(__name__)

DELETIONS_PER_CALL: Final = 500
# Of a partition that was never claimed.
FIRST_EPOCH: Final = 1


class SharedStore:
    """Implements LogStore, on the event loop in which it was opened."""

    def __init__(
        self,
        sequencer: Sequencer,
        objects: Objects,
        session: Session,
        catalog: CatalogState,
        clock: Clock,
        options: SharedOptions,
        metrics: EngineMetrics,
    ) -> None:
        self._sequencer = sequencer
        self._objects = objects
        self.session = session
        self.metrics = metrics
        self._options = options
        self._closing: asyncio.Future[None] | None = None
        self._doomed: dict[PartitionRef, None] = {}
        self._deletion: asyncio.Future[None] | None = None
        self._following: asyncio.Task[None] | None = None
        self._catalog = SharedCatalog(sequencer, session, catalog, options, self._deleted_all)
        self.holders = Holders(sequencer)
        self._uploads = Uploads(sequencer, objects, session, options, metrics)
        commits = Commits(sequencer, session, options, metrics)
        self._lanes = Lanes(
            InlineLane(commits, options, metrics.inline),
            ObjectsLane(self._uploads, commits, options, metrics.objects),
            options,
            metrics,
        )
        self._reads = ColdReads(sequencer, objects, options, metrics)
        self.tails = TailCache(options.tail_cache_bytes)
        parts = StoreParts(
            sequencer=sequencer,
            session=session,
            lanes=self._lanes,
            uploads=self._uploads,
            tails=self.tails,
            reads=self._reads,
            clock=clock,
            options=options,
            metrics=metrics,
            ended=self._log_ended,
        )
        self.claims = Claims(session, self._catalog, self.holders, parts)
        self.leases: Leases = SharedLeases(sequencer, session, self.holders, self.claims)
        self._unclaimed = UnclaimedLogs(sequencer, options, self.claims.logs)
        self._housekeeping = Housekeeping(parts, self.claims.logs)
        session.answered.append(self._catch_up)
        session.answered.append(self._delete_again)
        session.reconnected.append(self._reconnected)

    # What it knows of the cluster.

    @property
    def cluster_id(self) -> str:
        return self.session.cluster_id

    @property
    def catalog(self) -> SharedCatalog:
        return self._catalog

    def _catch_up(self) -> None:
        if self._is_behind() and self._following is None:
            self._following = asyncio.get_running_loop().create_task(self._follow())

    def _is_behind(self) -> bool:
        return (
            self._catalog.revision < self.session.catalog_revision
            or self.holders.revision < self.session.holders_revision
        )

    async def _follow(self) -> None:
        """Catches up with what others have changed; what fails is tried again after the next heartbeat."""
        try:
            with suppress(StorageError):
                # What a heartbeat tells meanwhile belongs to it.
                while self._is_behind():
                    before = self._catalog.revision, self.holders.revision
                    if self._catalog.revision < self.session.catalog_revision:
                        await self._catalog.catch_up()
                    if self.holders.revision < self.session.holders_revision:
                        await self.holders.catch_up()
                    if before == (self._catalog.revision, self.holders.revision):
                        break
        finally:
            self._following = None

    def _reconnected(self) -> None:
        self._begin(self.claims.check_ends())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Does something in the background, of which nobody needs the result."""
        task = asyncio.ensure_future(work)
        self._reads.tasks.add(task)
        task.add_done_callback(self._reads.tasks.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    # Claims.

    def epoch_of(self, ref: PartitionRef) -> int:
        holder = self.holders.find(ref)
        if holder is None:
            epoch = FIRST_EPOCH
        elif holder.session is None or self.claims.has_ended(holder):
            epoch = holder.epoch + 1
        else:
            return holder.epoch
        return max(epoch, self.claims.least_epochs.get(ref, 0))

    def raise_epochs(self, refs: Iterable[PartitionRef]) -> None:
        self._check_open()
        for ref in refs:
            if ref not in self.claims.logs:
                self.claims.least_epochs[ref] = self.epoch_of(ref) + 1

    def claim(self, ref: PartitionRef, config: TopicConfig) -> SharedLog:
        self._check_open()
        return self.claims.take(ref, config)

    def _check_open(self) -> None:
        if self._closing is not None:
            raise StorageError("the store is closed")

    def _log_ended(self, log: SharedLog) -> None:
        self.claims.ended(log)
        self._unclaimed.closed(log)

    def condemn(self, ref: PartitionRef, error: DamagedError) -> None:
        """Does nothing: the caller will find the damage again."""

    def trim_all(
        self, starts: Mapping[PartitionLog, int]
    ) -> asyncio.Future[Sequence[StorageError | None]]:
        return asyncio.ensure_future(self._trim_all(dict(starts)))

    async def _trim_all(self, starts: Mapping[PartitionLog, int]) -> Sequence[StorageError | None]:
        """One call of the sequencer for the logs whose claims last."""
        errors: dict[PartitionLog, StorageError] = {}
        wanted: list[tuple[SharedLog, int]] = []
        for log, start_offset in starts.items():
            assert isinstance(log, SharedLog)
            try:
                log.check_trim(start_offset)
                await log.settled_up_to(start_offset)
            except StorageError as error:
                errors[log] = error
            else:
                wanted.append((log, max(start_offset, log.start_offset)))
        if wanted:
            calls = [(log.partition_id, log.epoch, start) for log, start in wanted]
            accepted = await until_available(
                lambda: self._sequencer.trim(calls),
                self._options.write_budget_seconds,
                self._options,
            )
            for (log, start_offset), answer in zip(wanted, accepted, strict=True):
                try:
                    log.trimmed(answer, start_offset)
                except StorageError as error:
                    errors[log] = error
        return [errors.get(log) for log in starts]

    # Deleting.

    def delete(self, ref: PartitionRef) -> None:
        """The next change of the catalog waits for it."""
        self._check_open()
        self.claims.deleted([ref])
        self._unclaimed.forget(ref)
        # Also one that is not known here: another broker may have claimed it a moment ago.
        self._doomed[ref] = None
        if self._deletion is None:
            self._deletion = asyncio.ensure_future(self._delete_doomed())

    def _delete_again(self) -> None:
        """Goes on with what was not deleted because the sequencer was away."""
        if self._doomed and self._deletion is None and self._closing is None:
            self._deletion = asyncio.ensure_future(self._delete_doomed())

    async def _delete_doomed(self) -> None:
        """Deletes what was asked for in the same turn, and meanwhile, in a few calls."""
        try:
            await asyncio.sleep(0)
            while self._doomed:
                refs = list(self._doomed)[:DELETIONS_PER_CALL]
                await until_available(
                    partial(self._sequencer.delete, refs),
                    self._options.write_budget_seconds,
                    self._options,
                )
                for ref in refs:
                    del self._doomed[ref]
                self.holders.forget(refs)
                self.holders.tell_deleted(refs)
        except StorageError as error:
            logger.error(
                "topic_data_not_deleted",
                "the data of the deleted topic %(topic)s is still there: %(reason)s",
                topic=next(iter(self._doomed)).topic,
                reason=str(error),
            )
        finally:
            self._deletion = None

    async def _deleted_all(self) -> None:
        """Returns when deletions are durable; raises StorageError if they are not."""
        if self._doomed and self._deletion is None:
            self._deletion = asyncio.ensure_future(self._delete_doomed())
        if self._deletion is not None:
            await asyncio.wait([self._deletion])
        if self._doomed:
            raise StorageError("the data of deleted topics is still there")

    def sync_deletions(self) -> None:
        """The catalog waits for them itself."""

    # What needs no claim.

    def partitions(self) -> Sequence[PartitionRef]:
        return [holder.ref for holder in self.holders]

    def has_data(self, ref: PartitionRef) -> bool:
        return self.holders.find(ref) is not None

    def unclaimed(
        self, refs: Iterable[PartitionRef]
    ) -> Mapping[PartitionRef, UnclaimedLog | StorageError]:
        """What is known of them; what is not, or no more for certain, is asked for, and known the next time."""
        return self._unclaimed.find([ref for ref in refs if self.has_data(ref)])

    async def ask_unclaimed(self, refs: Iterable[PartitionRef]) -> None:
        """Has the next `unclaimed` answer by what the sequencer says now."""
        await self._unclaimed.ask(list(refs))

    def offline(self) -> Mapping[PartitionRef, StorageError]:
        return {}

    def log_dirs(self) -> Sequence[LogDir]:
        sizes = self._unclaimed.sizes()
        sizes |= {
            (ref.topic, ref.partition): log.size_bytes for ref, log in self.claims.logs.items()
        }
        return [LogDir("shared", -1, -1, sizes)]

    @property
    def syncs(self) -> Histogram:
        return self.metrics.append_seconds

    # Its life.

    def tick(self, now_ms: int) -> None:
        self._housekeeping.tick(now_ms)

    def close(self) -> asyncio.Future[None]:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        return self._closing

    def abandon(self) -> None:
        """Ends as a kill does: nothing is released, and the lease runs out."""
        self.session.abandon()
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._abandon())

    async def _abandon(self) -> None:
        await self._housekeeping.close()
        await self._lanes.drain()
        await self._end_work()
        await self._sequencer.close()
        await self._objects.close()

    async def _close(self) -> None:
        """Drains the lanes, saves snapshots, releases everything, and ends the session."""
        await self._housekeeping.close()
        held = [holder.ref for holder in self.holders if holder.session == self.session.id]
        with suppress(StorageError):
            await self.claims.release(dict.fromkeys(held))
        await self._lanes.drain()
        with suppress(StorageError):
            await self._deleted_all()
        await self._end_work()
        await self.session.end()
        await self._sequencer.close()
        await self._objects.close()

    async def _end_work(self) -> None:
        """Ends what goes on beside appends."""
        await self._reads.close()
        self._uploads.close()
        self._catalog.close()
        if self._following is not None:
            self._following.cancel()
