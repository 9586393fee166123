"""Claims and releases the partitions of a broker that shares a store with others, as the balance of leaders asks.

Nothing is taken from a live broker: one that leads more than its share releases some, each for the broker that should
lead it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from ottla.broker.leaders.leased import LeasedLeaders
from ottla.broker.partitions.led_partitions import LedPartitions
from ottla.core.catalog import Catalog
from ottla.core.leader_balance import BalancedTopic, PartitionKey, balanced_leaders
from ottla.events import EventLog
from ottla.ports import Clock, FencedError, PartitionRef, StorageError

logger = EventLog(__name__)

CLAIMS_AT_ONCE: Final = 500
# Partitions that are handed over at the same time: each is without a leader for a moment.
RELEASES_AT_ONCE: Final = 50
# Brokers that start together are all there before the first of them releases what it has taken meanwhile.
BALANCE_AFTER_SECONDS: Final = 3.0
# Changes come in crowds.
GATHER_SECONDS: Final = 0.02
# A client may have chosen other replicas, which moves nothing at once.
BALANCE_CHECK_SECONDS: Final = 30.0
# What has failed is tried again.
CHECK_SECONDS: Final = 1.0


class LeaseKeeper:
    """Keeps the partitions of this process's node."""

    def __init__(
        self, leaders: LeasedLeaders, partitions: LedPartitions, catalog: Catalog, clock: Clock
    ) -> None:
        self._leaders = leaders
        self._leases = leaders.leases
        self._partitions = partitions
        self._catalog = catalog
        self._clock = clock
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._wishes: dict[PartitionRef, int] = {}
        self._live: frozenset[int] = frozenset()
        self._live_since = clock.monotonic_seconds()
        # Whether nothing was to be done when that was looked at last.
        self._is_balanced = False
        self._next_check = 0.0
        # Called when brokers have come or gone, or are elsewhere.
        self.members_followed: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Follows the leases, claims what nobody holds, and goes on with both until `stop`."""
        self._leases.follow(self._members_changed, self._holdings_changed, self._exists)
        self._leaders.grown = self._changed.set
        self._leaders.give = self._give
        self._members_changed()
        await self._claim_free()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Hands all partitions over to the others, and claims none any more."""
        await self._cancel()
        held = [ref for ref in self._refs() if self._is_own(ref)]
        try:
            for portion in _portions(held, CLAIMS_AT_ONCE):
                # Whoever is live takes them at once.
                await self._release(dict.fromkeys(portion))
        except StorageError as error:
            # The next portion would wait as long in vain. The store tries all of them once more when it is closed.
            logger.warning(
                "leases_not_kept",
                "partitions were not released before the stop, others lead them when the lease has run out: %(reason)s",
                reason=str(error),
            )

    async def kill(self) -> None:
        """Leaves everything as it is."""
        await self._cancel()

    async def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    # Following the others.

    def _members_changed(self) -> None:
        live = frozenset(each.node_id for each in self._leases.members() if each.is_live)
        if live != self._live:
            self._live, self._live_since = live, self._clock.monotonic_seconds()
            self._changed.set()
        self._leaders.members_changed()
        self.members_followed()

    def _holdings_changed(self) -> None:
        """Gives up at once what another broker has taken."""
        for shard in self._partitions.open_shards():
            if not self._is_own(shard.log.ref):
                self._partitions.resign_lost(shard.log.ref)
        self._changed.set()

    def _exists(self, ref: PartitionRef) -> bool:
        return ref.topic_id in self._catalog.topics_by_id

    def _is_own(self, ref: PartitionRef) -> bool:
        holding = self._leases.holding(ref)
        return holding is not None and holding.is_own

    def _give(self, moves: Sequence[tuple[PartitionRef, int]]) -> None:
        self._wishes.update(moves)
        self._changed.set()

    # Claiming and releasing.

    async def _run(self) -> None:
        while True:
            # Not by `wait_for`, which forgets that its task was cancelled if what it waits for comes at that moment.
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._changed.wait()
                await asyncio.sleep(GATHER_SECONDS)
            now = self._clock.monotonic_seconds()
            if not self._changed.is_set() and self._is_balanced and now < self._next_check:
                continue
            self._next_check = now + BALANCE_CHECK_SECONDS
            self._changed.clear()
            self._is_balanced = False
            try:
                await self._release_wished()
                await self._claim_free()
                self._is_balanced = await self._release_surplus()
            except StorageError as error:
                logger.warning(
                    "leases_not_kept",
                    "partitions were not claimed or released, which is tried again: %(reason)s",
                    reason=str(error),
                )
            except Exception as error:
                logger.bug("work_failed", "the lease keeper failed: this is a bug", error)

    def _refs(self) -> Iterable[PartitionRef]:
        for topic in list(self._catalog.topics.values()):
            for partition in range(topic.partition_count):
                yield PartitionRef(topic.name, partition, topic.topic_id)

    async def _targets(self) -> dict[PartitionKey, int]:
        """Who should lead which partition; computed on a thread, as there may be very many."""
        topics = [
            BalancedTopic(each.name, each.topic_id, each.partition_count, each.assignments)
            for each in self._catalog.topics.values()
        ]
        live = sorted(self._live)
        return await asyncio.to_thread(lambda: balanced_leaders(topics, self._held(topics), live))

    def _held(self, topics: Iterable[BalancedTopic]) -> dict[PartitionKey, int]:
        held = {}
        for topic in topics:
            for partition in range(topic.partition_count):
                holding = self._leases.holding(PartitionRef(topic.name, partition, topic.topic_id))
                if holding is None:
                    continue
                wanted = holding.node_id if holding.is_held else holding.wanted_node
                if wanted is not None:
                    held[topic.topic_id, partition] = wanted
        return held

    async def _claim_free(self) -> None:
        """Claims what nobody holds, and this broker should."""
        if not self._leases.may_lead() or all(map(self._is_held, self._refs())):
            return
        targets = await self._targets()
        own_id = self._leases.node_id
        free = [
            ref
            for ref in self._refs()
            if targets.get((ref.topic_id, ref.partition)) == own_id and not self._is_held(ref)
        ]
        for portion in _portions(free, CLAIMS_AT_ONCE):
            await self._leases.claim(portion)

    def _is_held(self, ref: PartitionRef) -> bool:
        holding = self._leases.holding(ref)
        return holding is not None and holding.is_held

    async def _release_wished(self) -> None:
        wishes, self._wishes = self._wishes, {}
        live = self._live
        await self._release_some({ref: node for ref, node in wishes.items() if node in live})

    async def _release_surplus(self) -> bool:
        """Releases what others should lead, once brokers have stopped coming and going; True if there was nothing."""
        if not all(map(self._is_held, self._refs())):
            return False  # first everything gets a leader
        if len(self._live) < 2:
            return True
        if self._clock.monotonic_seconds() < self._live_since + BALANCE_AFTER_SECONDS:
            return False
        targets = await self._targets()
        own_id = self._leases.node_id
        surplus: dict[PartitionRef, int] = {}
        for ref in self._refs():
            target = targets.get((ref.topic_id, ref.partition), own_id)
            if target != own_id and self._is_own(ref):
                surplus[ref] = target
        await self._release_some(surplus)
        return not surplus

    async def _release_some(self, wanted: dict[PartitionRef, int]) -> None:
        for portion in _portions(list(wanted), RELEASES_AT_ONCE):
            await self._release({ref: wanted[ref] for ref in portion})

    async def _release(self, wanted: dict[PartitionRef, int | None]) -> None:
        """Hands partitions over; one that cannot be, because the store is not reached, stays with its lease."""
        own = [ref for ref in wanted if self._is_own(ref)]
        leaving = self._leaders.leaving
        leaving.update(own)
        try:
            ended = await asyncio.gather(
                *(self._partitions.hand_over(ref) for ref in own), return_exceptions=True
            )
            for ref, error in zip(own, ended, strict=True):
                if isinstance(error, BaseException) and not isinstance(error, FencedError):
                    logger.warning(
                        "partition_not_released",
                        "partition %(topic)s-%(partition)d was not handed over: %(reason)s",
                        topic=ref.topic,
                        partition=ref.partition,
                        reason=str(error),
                    )
            settled = [
                ref
                for ref, error in zip(own, ended, strict=True)
                if not isinstance(error, BaseException)
            ]
            await self._leases.release({ref: wanted[ref] for ref in settled})
            _log_released(Counter(wanted[ref] for ref in settled))
        finally:
            leaving.difference_update(own)


def _log_released(counts: Mapping[int | None, int]) -> None:
    """`counts` has how many partitions were released for which node, or for any."""
    for node_id, count in counts.items():
        if node_id is not None:
            text = "%(partitions)d partition(s) are released for node %(node)d"
            logger.info("partitions_released", text, partitions=count, node=node_id)
        else:
            text = "%(partitions)d partition(s) are released"
            logger.info("partitions_released", text, partitions=count)


def _portions(refs: Sequence[PartitionRef], size: int) -> Iterable[Sequence[PartitionRef]]:
    for start in range(0, len(refs), size):
        yield refs[start : start + size]
