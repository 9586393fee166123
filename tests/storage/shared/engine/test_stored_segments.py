"""What becomes of what was written: small segments are merged, old objects deleted, and reads of one object joined."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from tests.storage.batches import ref_of
from tests.storage.shared.engine.brokers import (
    QUICK,
    Machine,
    append,
    begin_append,
    claimed,
    read_all,
)

from ottla.ports import Buffer, PartitionRef
from ottla.storage.shared.log.partition_log import SharedLog
from ottla.storage.shared.objects.cluster_identity import IDENTITY_KEY, write_identity
from ottla.storage.shared.objects.memory import MemoryObjects, ObjectOperation
from ottla.storage.shared.segment_merging import MIN_PIECES
from ottla.storage.shared.sequencer.records import ObjectState
from ottla.storage.shared.storage_check import StorageCheck
from ottla.storage.shared.store import SharedStore


def play(story: Callable[[Machine], Awaitable[None]]) -> None:
    async def whole() -> None:
        machine = Machine()
        try:
            await story(machine)
        finally:
            await machine.close()

    asyncio.run(whole())


async def pass_time(machine: Machine, store: SharedStore, seconds: int) -> None:
    """Time passes, in which the broker keeps its lease; then its housekeeping has a round."""
    for _ in range(seconds):
        machine.clock.value_ms += 1000
        await store.session.beat()
    store.tick(machine.clock.value_ms)
    running = store._housekeeping._running
    assert running is not None
    await asyncio.wait_for(running, 20)


def stored_sizes(log: SharedLog) -> list[int]:
    return [run.size_bytes for run in log.runs.stored()]


def test_small_segments_are_merged_and_nothing_changes_for_readers() -> None:
    async def story(machine: Machine) -> None:
        store, _ = await machine.broker("a")
        logs = [await claimed(store, ref_of(partition=number)) for number in range(2)]
        written: dict[PartitionRef, bytes] = {log.ref: b"" for log in logs}
        for _ in range(MIN_PIECES):
            for log in logs:
                # One is kept with its rows, the other in objects.
                body_bytes = 100 if log is logs[0] else 80_000
                batches = await append(log, 2, body_bytes=body_bytes)
                written[log.ref] += b"".join(batch.data for batch in batches)
            await pass_time(machine, store, 61)
        assert store.metrics.merged_logs == 2
        for log in logs:
            assert stored_sizes(log) == [len(written[log.ref])]
            assert await read_all(log) == written[log.ref]
        # The next broker finds the same.
        other, _ = await machine.broker("b")
        await machine.pass_lease(other)
        for log in logs:
            taken = await claimed(other, log.ref)
            assert stored_sizes(taken) == [len(written[log.ref])]
            assert await read_all(taken) == written[log.ref]

    play(story)


def test_what_merges_leave_behind_is_deleted() -> None:
    async def story(machine: Machine) -> None:
        store, _ = await machine.broker("a")
        await write_identity(machine.objects, store.cluster_id)
        log = await claimed(store)
        written = b""
        for _ in range(MIN_PIECES):
            written += b"".join(batch.data for batch in await append(log, 1, body_bytes=150_000))
            await pass_time(machine, store, 61)
        assert len(machine.objects.stored) > MIN_PIECES
        for _ in range(3):
            await pass_time(machine, store, 601)
        known = await store._sequencer.objects(-1, 1000)
        live = {each.key for each in known if each.state is ObjectState.LIVE}
        assert set(machine.objects.stored) == {*live, IDENTITY_KEY}
        assert len(live) == 1
        assert store.metrics.collected_objects >= MIN_PIECES
        assert await read_all(log) == written
        check = StorageCheck(store._sequencer, machine.objects, store.cluster_id)
        assert [each async for each in check.compare()] == []
        assert [each async for each in check.verify()] == []
        assert check.counts.verified_bytes > len(written)

    play(story)


class CountedObjects(MemoryObjects):
    def __init__(self) -> None:
        super().__init__(self._slow)
        self.requests = 0

    async def _slow(
        self, operation: ObjectOperation, perform: Callable[[], Sequence[Buffer]]
    ) -> Sequence[Buffer]:
        if operation.name == "get_ranges":
            self.requests += 1
            await asyncio.sleep(0.01)
        return perform()


def test_what_logs_have_written_together_is_read_together() -> None:
    async def story(machine: Machine) -> None:
        objects = machine.objects = CountedObjects()
        store, _ = await machine.broker("a")
        logs = [await claimed(store, ref_of(partition=number)) for number in range(30)]
        written, waits = {}, []
        for log in logs:
            batches, futures = begin_append(log, 1, body_bytes=20_000)
            written[log.ref] = batches[0].data
            waits += futures
        await asyncio.gather(*waits)
        assert 1 <= len(objects.stored) <= 10
        # Another broker has none of it in memory.
        other, _ = await machine.broker("b", QUICK)
        await machine.pass_lease(other)
        taken = [await claimed(other, log.ref) for log in logs]
        objects.requests = 0
        found = await asyncio.gather(*(read_all(log) for log in taken))
        assert list(found) == [written[log.ref] for log in taken]
        assert objects.requests < 15

    play(story)
