"""A coordinator of groups over a log in memory that is as slow as a test wants."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from tests.core.group.topics import EveryTopic
from tests.storage.batches import SteppingClock, ref_of

from ottla.broker.coordination.coordinator import (
    PARKED,
    Coordinator,
    Parked,
    Settings,
    When,
    unchanged,
)
from ottla.broker.coordination.groups import CRASH_POINTS, OFFSET_COLUMNS
from ottla.broker.coordination.machine_log import EventCodec
from ottla.broker.loop.pause_aware_clock import Uptime
from ottla.broker.partitions.replay import replay
from ottla.broker.partitions.shard import Shard
from ottla.broker.partitions.unsettled_bytes import UnsettledBytes
from ottla.config.topic import TopicConfig
from ottla.core.group import records
from ottla.core.group.machine import GroupMachine
from ottla.core.group.requests import CommitSender, GroupConfig, JoinRequest, NewOffsets
from ottla.core.turn import ProducerIdentity, Ticket, Turn
from ottla.ports import Buffer, Extent, PartitionLog, StorageError
from ottla.records.batch import BatchHeader, read_batch, split_batches
from ottla.records.compression import Codec
from ottla.storage.memory import MemoryStore


class SlowLog:
    """A log in memory whose appends are durable when the test says so."""

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self.is_slow = False
        self.error: StorageError | None = None
        self.appends: list[asyncio.Future[None]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def append(
        self, data: Buffer, extents: Sequence[Extent], expected_end_offset: int
    ) -> asyncio.Future[None] | None:
        if self.error is not None:
            raise self.error
        self._log.append(data, extents, expected_end_offset)
        if not self.is_slow:
            return None
        self.appends.append(asyncio.get_running_loop().create_future())
        return self.appends[-1]


class Bench:
    """A coordinator over a log, and the next one when that is given up."""

    def __init__(self, *, write_timeout_ms: int = 60_000, **options: int) -> None:
        self.clock = SteppingClock()
        self.store = MemoryStore(clock=self.clock)
        self.config = GroupConfig(**{"initial_rebalance_delay_ms": 0, **options})
        self.write_timeout_ms = write_timeout_ms
        self.discarded: list[Coordinator[GroupMachine]] = []
        self.claim()

    def claim(self) -> None:
        self.log = SlowLog(self.store.claim(ref_of(), TopicConfig()))
        replayed = replay(cast(PartitionLog, self.log), self.clock.now_ms())
        self.shard = Shard(replayed, TopicConfig(), lambda shard: None, UnsettledBytes())
        self.start()

    def start(self) -> None:
        self.coordinator = Coordinator(
            self.shard,
            GroupMachine(self.config, EveryTopic()),
            self.settings(),
            self.discarded.append,
        )

    def settings(self) -> Settings:
        return Settings(
            EventCodec(
                records.encode,
                records.decode,
                Codec.NONE,
                lambda event: CRASH_POINTS,
                OFFSET_COLUMNS,
            ),
            self.clock,
            Uptime(asyncio.get_running_loop().time),
            1 << 20,
            self.write_timeout_ms,
            Counter(),
            self._perform,
        )

    def _perform(self, coordinator: Coordinator[GroupMachine], effect: Any) -> None:
        raise AssertionError(f"groups have no effects, but here is {effect!r}")

    @property
    def machine(self) -> GroupMachine:
        return self.coordinator.machine

    def ask(self, decide: Callable[[GroupMachine, Turn], Any]) -> Any:
        return self._ask(decide, When.SOON)

    def ask_now(self, decide: Callable[[GroupMachine, Turn], Any]) -> Any:
        return self._ask(decide, When.NOW)

    def ask_when_loaded(self, decide: Callable[[GroupMachine, Turn], Any]) -> Any:
        return self._ask(decide, When.LOADED)

    def _ask(self, decide: Callable[[GroupMachine, Turn], Any], when: When) -> Any:
        return self.coordinator.ask(lambda machine, turn, _: decide(machine, turn), unchanged, when)

    def commit(self, value: int, group: str = "g", count: int = 1, metadata: str = "") -> Any:
        columns = [*range(count)], [value] * count, [-1] * count, [metadata] * count
        offsets = [NewOffsets("orders", *columns)]
        return self.ask(lambda machine, turn: machine.commit(turn, CommitSender(group), offsets))

    def commit_in_transaction(self, producer_id: int, value: int) -> Any:
        offsets = [NewOffsets("orders", [producer_id], [value], [-1], [""])]
        return self.ask(
            lambda machine, turn: machine.commit_in_transaction(
                turn, CommitSender("g"), ProducerIdentity(producer_id, 3), offsets
            )
        )

    def join(self, name: str, group: str = "g") -> Any:
        protocols = {"range": b""}
        request = JoinRequest(
            group, "", None, "client", "", 10_000, 60_000, "x", protocols, name, False, False
        )

        def decide(machine: GroupMachine, turn: Turn, ticket: Ticket) -> Parked:
            machine.join(turn, request, ticket)
            return PARKED

        return self.coordinator.ask(decide, unchanged)

    def batches(self) -> list[tuple[BatchHeader, int]]:
        """The headers of the log and how many records each batch has."""
        data = bytes(self.log.read(0, 1 << 30, self.log.end_offset))
        return [(header, len(read_batch(data, at))) for at, header in split_batches(data)]


async def settle() -> None:
    """Lets the loop do everything that is due now."""
    for _ in range(10):
        await asyncio.sleep(0)


async def every(*asked: Awaitable[Any]) -> list[Any]:
    return [await one for one in asked]


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario()

    asyncio.run(main())
