"""The partitions that this session holds: claimed in bulk, opened one by one, released with a successor."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ottla.config.topic import TopicConfig
from ottla.events import EventLog
from ottla.ports import (
    ClaimPendingError,
    DamagedError,
    FencedError,
    PartitionRef,
    StorageError,
    StorageUnavailableError,
)
from ottla.storage.shared.catalog import SharedCatalog
from ottla.storage.shared.errors import HeldElsewhereError, SequencerUnavailableError
from ottla.storage.shared.holders import Holders
from ottla.storage.shared.log.partition_log import SharedLog
from ottla.storage.shared.log.store_parts import StoreParts
from ottla.storage.shared.retries import until_available
from ottla.storage.shared.sequencer.records import Claimed, Holder, NotClaimed
from ottla.storage.shared.session import Session
from ottla.storage.shared_future import SharedFuture, unwatched_future

logger = EventLog(__name__)

# A catalog that others change is caught up with so often for one claim.
_STALE_TRIES = 20


class Claims:
    """Held partitions, those that are being opened, and the logs that were handed out."""

    def __init__(
        self, session: Session, catalog: SharedCatalog, holders: Holders, parts: StoreParts
    ) -> None:
        self._session = session
        self._catalog = catalog
        self._holders = holders
        self._parts = parts
        # Claimed, and not opened yet.
        self._held: dict[PartitionRef, Claimed] = {}
        self._opening: dict[PartitionRef, SharedFuture] = {}
        # Opened, for the caller who makes the claim again; or why that was not possible.
        self._opened: dict[PartitionRef, SharedLog | StorageError] = {}
        self._logs: dict[PartitionRef, SharedLog] = {}
        # Where the logs of earlier claims of this process ended: no later one may end below.
        self._ends: dict[PartitionRef, int] = {}
        # Those that are being released: nothing claims or opens them meanwhile.
        self._releasing: set[PartitionRef] = set()
        # Whether the topic of a partition exists by the catalog, at the revision that `catalog` tells.
        self.exists: Callable[[PartitionRef], bool] = lambda ref: True
        # The least epoch of the next claim, where clients were told one.
        self.least_epochs: dict[PartitionRef, int] = {}
        session.lost.append(self._session_lost)
        holders.followers.append(self._holders_changed)

    @property
    def logs(self) -> Mapping[PartitionRef, SharedLog]:
        """The logs of the claims that last."""
        return self._logs

    def has(self, ref: PartitionRef) -> bool:
        """Whether a partition is claimed and of use, or is about to be."""
        if any(ref in known for known in (self._logs, self._held, self._opening, self._releasing)):
            return True
        opened = self._opened.get(ref)
        return isinstance(opened, SharedLog) and opened.is_open

    def has_ended(self, holder: Holder) -> bool:
        """Whether a claim of this session was closed or has failed, so that the next use needs another one."""
        return holder.session == self._session.id and not self.has(holder.ref)

    # Claiming and releasing in bulk.

    async def claim_all(self, refs: Sequence[PartitionRef]) -> list[Claimed | NotClaimed]:
        """Takes partitions that nobody holds, for later use."""
        found: list[Claimed | NotClaimed] = []
        size = self._parts.options.claims_per_call
        for start in range(0, len(refs), size):
            some = await self._claim_some(refs[start : start + size])
            # Before the next call: what ends a claim finds it here.
            for claimed in some:
                if isinstance(claimed, Claimed):
                    self._hold(claimed)
            found += some
        return found

    def _hold(self, claimed: Claimed) -> None:
        log = self._logs.get(claimed.ref)
        if log is not None:
            log.fence()
        # Why an earlier claim failed is of no interest any more.
        self._forget_opened(claimed.ref)
        self._held[claimed.ref] = claimed

    async def _claim_some(self, refs: Sequence[PartitionRef]) -> list[Claimed | NotClaimed]:
        """One call of the sequencer, again after catching up where the catalog was old.

        Partitions of topics that do not exist are STALE. FencedError if the session ends meanwhile.
        """
        session = self._session.id
        budget = self._parts.options.claim_budget_seconds
        outcomes: dict[PartitionRef, Claimed | NotClaimed] = dict.fromkeys(refs, NotClaimed.STALE)
        for _ in range(_STALE_TRIES):
            # By the revision that the call names: a topic may have been deleted since the caller looked.
            left = [ref for ref in refs if outcomes[ref] is NotClaimed.STALE and self.exists(ref)]
            if not left:
                break
            claim = partial(self._parts.sequencer.claim, session, left, self._catalog.revision)
            found = await until_available(claim, budget, self._parts.options)
            self._check_session(session)
            outcomes.update(zip(left, found, strict=True))
            self._note([each for each in found if isinstance(each, Claimed)])
            if NotClaimed.STALE in found:
                await self._catalog.catch_up(budget)
                self._check_session(session)
        return [outcomes[ref] for ref in refs]

    def _check_session(self, session: uuid.UUID) -> None:
        """What was answered to a session that has ended since is of no use to the next one."""
        if self._session.id != session:
            raise FencedError("the session has ended meanwhile, and its claims with it")

    def _note(self, claimed: Sequence[Claimed]) -> None:
        self._holders.changed_here(
            [
                Holder(
                    each.ref,
                    each.partition_id,
                    self._session.node_id,
                    self._session.id,
                    each.epoch,
                    None,
                )
                for each in claimed
            ]
        )

    async def release(self, wanted: Mapping[PartitionRef, int | None]) -> None:
        """Gives up partitions, each for a node that should take it; everything appended to them is settled before."""
        releasing = wanted.keys() - self._releasing
        self._releasing |= releasing
        try:
            await self._close(list(wanted))
            await self._release(wanted)
        finally:
            self._releasing -= releasing

    async def _close(self, refs: Sequence[PartitionRef]) -> None:
        """Closes logs, also those that are being opened, or were and have not been handed out."""
        opening = [self._opening[ref] for ref in refs if ref in self._opening]
        if opening:
            await asyncio.wait(opening)
        found = [self._logs.get(ref) for ref in refs] + [
            self._opened.pop(ref, None) for ref in refs
        ]
        await asyncio.gather(*(log.close() for log in found if isinstance(log, SharedLog)))

    async def _release(self, wanted: Mapping[PartitionRef, int | None]) -> None:
        released: dict[PartitionRef, Holder] = {}
        for ref in wanted:
            self._held.pop(ref, None)
            holder = self._holders.find(ref)
            if holder is not None and holder.session == self._session.id:
                released[ref] = holder
        if not released:
            return
        session = self._session.id
        ids = {holder.partition_id: wanted[ref] for ref, holder in released.items()}
        await until_available(
            lambda: self._parts.sequencer.release(session, ids),
            self._parts.options.claim_budget_seconds,
            self._parts.options,
        )
        self._holders.changed_here(
            [
                holder._replace(session=None, wanted_node=wanted[ref])
                for ref, holder in released.items()
            ]
        )

    # Opening.

    def take(self, ref: PartitionRef, config: TopicConfig) -> SharedLog:
        """The log of a new claim, or of one that `claim_all` made. Raises ClaimPendingError until it is open."""
        if ref in self._releasing:
            raise FencedError(f"{ref.topic}-{ref.partition} is being released")
        opened = self._opened.pop(ref, None)
        if isinstance(opened, StorageError):
            raise opened
        if opened is not None and opened.is_open:
            opened.configure(config)
            self._logs[ref] = opened
            return opened
        done = self._opening.get(ref)
        if done is None:
            for each in (ref, *self._holders.namesakes(ref)):
                log = self._logs.get(each)
                if log is not None:
                    log.fence()
            done = self._opening[ref] = unwatched_future()
            task = asyncio.get_running_loop().create_task(self._open(ref, config, done))
            self._parts.reads.tasks.add(task)
            task.add_done_callback(self._parts.reads.tasks.discard)
        raise ClaimPendingError(f"{ref.topic}-{ref.partition} is being opened", done)

    async def _open(self, ref: PartitionRef, config: TopicConfig, done: SharedFuture) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            self._opened[ref] = await self._open_claimed(ref, config)
            self._parts.metrics.opening_seconds.observe(loop.time() - began)
        except SequencerUnavailableError as error:
            self._opened[ref] = StorageUnavailableError(
                f"{ref.topic}-{ref.partition} cannot be opened now: {error}"
            )
        except StorageError as error:
            self._opened[ref] = error
        except Exception as error:
            logger.bug("opening_impossible", "a partition cannot be opened", error)
            self._opened[ref] = StorageError(f"{ref} cannot be opened: {error}")
        finally:
            del self._opening[ref]
            done.set_result(None)

    async def _open_claimed(self, ref: PartitionRef, config: TopicConfig) -> SharedLog:
        session = self._session.id
        claimed = self._held.pop(ref, None)
        if claimed is None:
            claimed = await self._claim_one(ref)
        while claimed.epoch < self.least_epochs.get(ref, claimed.epoch):
            claimed = await self._claim_one(ref)
        self.least_epochs.pop(ref, None)
        known_end = self._ends.get(ref, 0)
        if claimed.end_offset < known_end:
            raise lost_records(ref, claimed.end_offset, known_end)
        partition_id, epoch = claimed.partition_id, claimed.epoch
        opened = await until_available(
            lambda: self._parts.sequencer.open(partition_id, epoch),
            self._parts.options.claim_budget_seconds,
            self._parts.options,
        )
        self._check_session(session)
        holder = self._holders.find(ref)
        if holder is None or holder.epoch > epoch:
            raise FencedError(f"{ref} was claimed anew, or deleted, while it was opened")
        return SharedLog(claimed, opened, config, self._parts)

    async def _claim_one(self, ref: PartitionRef) -> Claimed:
        if ref in self._releasing:
            raise FencedError(f"{ref.topic}-{ref.partition} is being released")
        # Not those that are learnt of later: they may be newer than this partition.
        namesakes = self._holders.namesakes(ref)
        (claimed,) = await self._claim_some([ref])
        if claimed is NotClaimed.HELD:
            raise HeldElsewhereError(f"another broker holds {ref.topic}-{ref.partition}")
        if not isinstance(claimed, Claimed):
            raise StorageError(
                f"the catalog changes too quickly to claim {ref}"
                if self.exists(ref)
                else f"the topic of {ref} was deleted"
            )
        await self._delete(namesakes)
        return claimed

    async def _delete(self, namesakes: Sequence[PartitionRef]) -> None:
        """Deletes partitions of earlier topics of the same name.

        They were claimed before a claim that was made by the newest catalog, so that their topics are none of that one.
        """
        if namesakes:
            await until_available(
                lambda: self._parts.sequencer.delete(namesakes),
                self._parts.options.claim_budget_seconds,
                self._parts.options,
            )
            self.deleted(namesakes)
            self._holders.tell_deleted(namesakes)

    # The ends of claims.

    def ended(self, log: SharedLog) -> None:
        """A log was closed, or its claim is over."""
        if self._logs.get(log.ref) is log:
            del self._logs[log.ref]
        self._ends[log.ref] = max(self._ends.get(log.ref, 0), log.settled_offset)

    def deleted(self, refs: Sequence[PartitionRef]) -> None:
        """Partitions were or will be deleted: nothing of them is of use. Followers of the holders are told later."""
        for ref in refs:
            log = self._logs.get(ref)
            if log is not None:
                log.fence()
            self._held.pop(ref, None)
            self._forget_opened(ref)
            self._ends.pop(ref, None)
            self.least_epochs.pop(ref, None)
        self._holders.forget(refs)

    def _session_lost(self) -> None:
        """All claims of the session are over."""
        self._held.clear()
        for log in list(self._logs.values()):
            log.fence()
        for opened in list(self._opened.values()):
            if isinstance(opened, SharedLog):
                opened.fence()

    def _holders_changed(self, changed: Sequence[Holder], deleted: Sequence[PartitionRef]) -> None:
        """Ends claims that others have followed, before an append finds that out."""
        for holder in changed:
            if holder.session != self._session.id:
                self._fence_older(holder.ref, holder.epoch)
        for ref in deleted:
            log = self._logs.get(ref)
            if log is not None:
                log.fence()
            self._held.pop(ref, None)
            self._forget_opened(ref)

    def _forget_opened(self, ref: PartitionRef) -> None:
        opened = self._opened.pop(ref, None)
        if isinstance(opened, SharedLog):
            opened.fence()

    def _fence_older(self, ref: PartitionRef, epoch: int) -> None:
        log = self._logs.get(ref)
        if log is not None and log.epoch < epoch:
            log.fence()
        held = self._held.get(ref)
        if held is not None and held.epoch < epoch:
            del self._held[ref]
        opened = self._opened.get(ref)
        if isinstance(opened, SharedLog) and opened.epoch < epoch:
            self._forget_opened(ref)

    async def check_ends(self) -> None:
        """After the sequencer was away: no log may end below what was acknowledged."""
        before = {log.partition_id: (log, log.settled_offset) for log in self._logs.values()}
        if not before:
            return
        found = await until_available(
            lambda: self._parts.sequencer.ends(list(before)),
            self._parts.options.claim_budget_seconds,
            self._parts.options,
        )
        for partition_id, (log, settled_offset) in before.items():
            known = found.get(partition_id)
            # A partition that is gone was deleted, which the table of holders tells.
            if known is None or not log.is_open:
                continue
            if known.end_offset < settled_offset:
                log.lose(lost_records(log.ref, known.end_offset, settled_offset))
            elif known.epoch < log.epoch:
                log.lose(lost_claim(log.ref, known.epoch, log.epoch))


def lost_claim(ref: PartitionRef, epoch: int, known_epoch: int) -> DamagedError:
    """The sequencer has gone back in time to before a claim: whoever claims next gets its epoch once more."""
    logger.error(
        "claim_lost",
        "partition %(topic)s-%(partition)d is offline: it is at epoch %(epoch)d, and was claimed at epoch"
        " %(known_epoch)d",
        topic=ref.topic,
        partition=ref.partition,
        epoch=epoch,
        known_epoch=known_epoch,
    )
    return DamagedError(
        f"{ref.topic}-{ref.partition} is at epoch {epoch}, and was claimed at epoch {known_epoch}"
    )


def lost_records(ref: PartitionRef, end_offset: int, known_end: int) -> DamagedError:
    """The sequencer has gone back in time: a failover to a copy that had not everything, or a restored backup."""
    logger.error(
        "acknowledged_records_lost",
        "partition %(topic)s-%(partition)d is offline: it ends at offset %(end_offset)d, and records up to"
        " %(known_end)d were acknowledged",
        topic=ref.topic,
        partition=ref.partition,
        end_offset=end_offset,
        known_end=known_end,
    )
    return DamagedError(
        f"{ref.topic}-{ref.partition} ends at offset {end_offset}, and records up to {known_end} were acknowledged"
    )
