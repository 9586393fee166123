"""Brokers on one sequencer and one store of objects in this process, whose calls can be held up, lost and refused."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from tests.storage.batches import Batch, SteppingClock, make_batch, ref_of

from ottla.config.topic import TopicConfig
from ottla.ports import Buffer, ClaimPendingError, PartitionRef
from ottla.ports.futures import when_read
from ottla.records.batch import split_batches
from ottla.storage.shared.errors import ObjectsUnavailableError, SequencerUnavailableError
from ottla.storage.shared.log.partition_log import SharedLog
from ottla.storage.shared.objects.memory import MemoryObjects, ObjectOperation
from ottla.storage.shared.open_store import open_shared_store
from ottla.storage.shared.options import SharedOptions
from ottla.storage.shared.sequencer.memory import MemorySequencer, MemorySequencerState
from ottla.storage.shared.sequencer.records import BrokerDescription
from ottla.storage.shared.store import SharedStore

QUICK = SharedOptions(
    inline_linger_seconds=0.0,
    objects_linger_seconds=0.001,
    first_retry_seconds=0.001,
    last_retry_seconds=0.002,
    write_budget_seconds=5.0,
    min_hedge_seconds=0.01,
)
CONFIG = TopicConfig()
END = 2**62


@dataclass
class Seam:
    """Implements CallSeam: holds calls up before they arrive, and loses calls and answers."""

    calls: Counter[str] = field(default_factory=Counter)
    held: dict[str, asyncio.Event] = field(default_factory=dict)
    held_answers: dict[str, asyncio.Event] = field(default_factory=dict)
    lost_before: Counter[str] = field(default_factory=Counter)
    lost_after: Counter[str] = field(default_factory=Counter)
    is_down: bool = False

    def hold(self, method: str) -> asyncio.Event:
        """Calls wait until the event is set."""
        event = self.held[method] = asyncio.Event()
        return event

    def hold_answers(self, method: str) -> asyncio.Event:
        """Answers wait until the event is set; what was called for is done."""
        event = self.held_answers[method] = asyncio.Event()
        return event

    async def before(self, method: str) -> None:
        self.calls[method] += 1
        if method in self.held:
            await self.held[method].wait()
        if self.is_down or self.lost_before[method] > 0:
            self.lost_before[method] -= 1
            raise SequencerUnavailableError(f"{method} did not arrive")

    async def after(self, method: str) -> None:
        if method in self.held_answers:
            await self.held_answers[method].wait()
        if self.lost_after[method] > 0:
            self.lost_after[method] -= 1
            raise SequencerUnavailableError(f"the answer of {method} was lost")


class Machine:
    """What brokers share, and the brokers; the clock of leases is stepped."""

    def __init__(self) -> None:
        self.clock = SteppingClock()
        self.state = MemorySequencerState(clock=self.clock, cluster_id="C" * 22)
        self.objects = MemoryObjects()
        self.stores: list[SharedStore] = []

    async def broker(self, name: str, options: SharedOptions = QUICK) -> tuple[SharedStore, Seam]:
        seam = Seam()
        store = await open_shared_store(
            MemorySequencer(self.state, seam),
            self.objects,
            BrokerDescription(name, None, {}, {}, "", None),
            self.clock,
            options=options,
            boot_clock=self.clock.monotonic_seconds,
        )
        self.stores.append(store)
        return store, seam

    async def pass_lease(self, *live: SharedStore) -> None:
        """Lets the leases of all others run out, while these renew theirs for as long as one lasts."""
        for _ in range(9):
            self.clock.value_ms += 1000
            for store in live:
                assert await store.session.beat()

    async def close(self) -> None:
        for store in self.stores:
            await asyncio.wait_for(store.close(), 10)


async def claimed(
    store: SharedStore, ref: PartitionRef | None = None, config: TopicConfig = CONFIG
) -> SharedLog:
    """The log of a new claim."""
    while True:
        try:
            return store.claim(ref or ref_of(), config)
        except ClaimPendingError as pending:
            done = pending.done
        await asyncio.wait_for(done, 10)


def begin_append(
    log: SharedLog, count: int = 1, *, body_bytes: int = 39
) -> tuple[list[Batch], list[asyncio.Future[None]]]:
    """Appends batches one by one, without waiting."""
    made, waits = [], []
    for _ in range(count):
        end_offset = log.end_offset
        batch = make_batch(
            end_offset, timestamp_ms=1000 + end_offset, body=b"x" * body_bytes, epoch=log.epoch
        )
        waits.append(log.append(batch.data, [batch.extent], end_offset))
        made.append(batch)
    return made, waits


async def append(log: SharedLog, count: int = 1, *, body_bytes: int = 39) -> list[Batch]:
    """Appends batches, which are durable then."""
    made, waits = begin_append(log, count, body_bytes=body_bytes)
    await asyncio.wait_for(asyncio.gather(*waits), 10)
    return made


async def read_all(log: SharedLog) -> bytes:
    """Everything that is settled."""
    pieces: list[Buffer] = []
    offset = log.start_offset
    while offset < log.settled_offset:
        read = partial(log.read, offset, 1 << 20, log.settled_offset)
        data = await asyncio.wait_for(when_read(read), 10)
        if not data:
            break
        pieces.append(bytes(data))
        offset = split_batches(data)[-1][1].last_offset + 1
    return b"".join(pieces)


class LostPuts:
    """A fault of objects: puts are refused, or stored without an answer."""

    def __init__(self, refused: int = 0, unanswered: int = 0) -> None:
        self.refused = refused
        self.unanswered = unanswered

    async def __call__(
        self, operation: ObjectOperation, perform: Callable[[], Sequence[Buffer]]
    ) -> Sequence[Buffer]:
        if operation.name == "put" and self.refused > 0:
            self.refused -= 1
            raise ObjectsUnavailableError("503")
        answer = perform()
        if operation.name == "put" and self.unanswered > 0:
            self.unanswered -= 1
            raise ObjectsUnavailableError("no answer")
        return answer


class SlowPuts:
    """A fault of objects: the first puts wait until `go` is set."""

    def __init__(self, count: int) -> None:
        self.go = asyncio.Event()
        self.left = count
        self.puts = 0

    async def __call__(
        self, operation: ObjectOperation, perform: Callable[[], Sequence[Buffer]]
    ) -> Sequence[Buffer]:
        if operation.name == "put":
            self.puts += 1
            self.left -= 1
            if self.left >= 0:
                await self.go.wait()
        return perform()
