"""Reads of ranges: what is fetched, what is kept, and that every read comes to an end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.ports import Buffer, DamagedError, FencedError, StorageError
from ottla.storage.shared.errors import ObjectMissingError, ObjectsUnavailableError
from ottla.storage.shared.objects.memory import Answer, MemoryObjects, ObjectOperation
from ottla.storage.shared.objects.range_cache import (
    ObjectRange,
    RangeCache,
    RangeCacheOptions,
    Relocate,
)

KIB = 1024
SMALL = RangeCacheOptions(
    max_bytes=64 * KIB,
    max_flights=2,
    first_ahead_bytes=4 * KIB,
    max_ahead_bytes=16 * KIB,
    patience_seconds=30.0,
    keep_seconds=30.0,
)
IMPATIENT = replace(SMALL, patience_seconds=0.1)
DATA = random.Random(1).randbytes(256 * KIB)


async def nowhere() -> ObjectRange | None:
    return None


class Store(MemoryObjects):
    """Notes every request, and holds them while `gate` is closed."""

    def __init__(self, names: Sequence[str] = ("a",)) -> None:
        super().__init__(self._note)
        self.asked: list[tuple[str, int, int]] = []
        self.running = self.most_running = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.errors: list[Exception] = []
        for name in names:
            self.stored[name] = DATA

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Sequence[Buffer]:
        self.asked += [(key, position, size_bytes) for position, size_bytes in ranges]
        return await super().get_ranges(key, ranges)

    async def _note(self, operation: ObjectOperation, perform: Callable[[], Answer]) -> Answer:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await asyncio.sleep(0)
            await self.gate.wait()
            if self.errors:
                raise self.errors.pop(0)
            return perform()
        finally:
            self.running -= 1


async def read(
    cache: RangeCache,
    key: str,
    position: int,
    size_bytes: int,
    readable_end: int = 0,
    relocate: Relocate = nowhere,
) -> bytes:
    """As the engine: asks, waits, asks again, and then has to find the bytes."""
    wanted = ObjectRange(key, position, size_bytes)
    answer = cache.read(wanted, readable_end or wanted.end, relocate)
    if isinstance(answer, asyncio.Future):
        async with asyncio.timeout(5):
            await answer
        answer = cache.read(wanted, readable_end or wanted.end, relocate)
        assert not isinstance(answer, asyncio.Future), "what was fetched was not kept"
    return bytes(answer)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await test()

    asyncio.run(main())


def test_what_was_fetched_is_answered_at_once() -> None:
    async def test() -> None:
        store = Store()
        cache = RangeCache(store, SMALL)
        assert await read(cache, "a", 100, 50) == DATA[100:150]
        found = cache.read(ObjectRange("a", 110, 20), 150, nowhere)
        assert isinstance(found, memoryview)
        assert found == DATA[110:130]
        assert cache.read(ObjectRange("a", 110, 0), 150, nowhere) == b""
        assert store.asked == [("a", 100, 50)]
        assert (cache.counts.hits, cache.counts.misses, cache.counts.requests) == (2, 1, 1)
        assert cache.latencies.count == 1

    run(test)


def test_the_same_range_has_one_flight() -> None:
    async def test() -> None:
        store = Store()
        cache = RangeCache(store, SMALL)
        got = await asyncio.gather(*(read(cache, "a", 0, 100) for _ in range(20)))
        assert got == [DATA[:100]] * 20
        assert len(store.asked) == 1

    run(test)


def test_a_range_that_is_partly_on_its_way_is_fetched_in_part() -> None:
    async def test() -> None:
        store = Store()
        store.gate.clear()
        cache = RangeCache(store, SMALL)
        first = asyncio.create_task(read(cache, "a", 0, 100))
        await asyncio.sleep(0.01)
        second = asyncio.create_task(read(cache, "a", 50, 100))
        await asyncio.sleep(0.01)
        store.gate.set()
        assert await first == DATA[:100]
        assert await second == DATA[50:150]
        assert store.asked == [("a", 0, 100), ("a", 100, 50)]

    run(test)


def test_neighbours_of_one_turn_are_joined() -> None:
    async def test() -> None:
        store = Store(["a", "b"])
        cache = RangeCache(store, RangeCacheOptions())
        reads = [("a", 5000, 100), ("a", 0, 100), ("b", 0, 10), ("a", 5100, 50), ("a", 250_000, 9)]
        got = await asyncio.gather(*(read(cache, *one) for one in reads))
        assert got == [DATA[at : at + size_bytes] for _, at, size_bytes in reads]
        assert sorted(store.asked) == [("a", 0, 5150), ("a", 250_000, 9), ("b", 0, 10)]

    run(test)


def test_a_reader_that_goes_on_is_read_ahead_for() -> None:
    async def test() -> None:
        store = Store()
        cache = RangeCache(store, SMALL)
        waits = 0
        position = 0
        while position < len(DATA):
            size_bytes = min(1000, len(DATA) - position)
            wanted = ObjectRange("a", position, size_bytes)
            answer = cache.read(wanted, len(DATA), nowhere)
            if isinstance(answer, asyncio.Future):
                waits += 1
                await answer
                continue
            assert answer == DATA[position : position + size_bytes]
            position += size_bytes
            await asyncio.sleep(0.001)  # the reader is slower than the store
            assert cache.size_bytes <= SMALL.max_bytes
        assert waits <= 3
        # Each byte once, in steps that grow.
        assert sum(size_bytes for _, _, size_bytes in store.asked) == len(DATA)
        assert [size_bytes for _, _, size_bytes in store.asked[:4]] == [4096, 8192, 16384, 16384]

    run(test)


def test_nothing_is_read_beyond_the_readable_end() -> None:
    async def test() -> None:
        store = Store()
        cache = RangeCache(store, SMALL)
        await read(cache, "a", 1000, 10, readable_end=2000)
        await read(cache, "a", 1990, 10, readable_end=2000)
        await asyncio.sleep(0.01)
        assert store.asked == [("a", 1000, 1000)]

    run(test)


def test_memory_is_bounded_and_old_ranges_go() -> None:
    async def test() -> None:
        store = Store()
        cache = RangeCache(store, SMALL)
        for position in range(0, len(DATA), 8 * KIB):
            assert await read(cache, "a", position, 8 * KIB) == DATA[position : position + 8 * KIB]
            assert cache.size_bytes <= SMALL.max_bytes
        asked = len(store.asked)
        assert isinstance(cache.read(ObjectRange("a", 0, 10), 10, nowhere), asyncio.Future)
        last = len(DATA) - 8 * KIB
        assert cache.read(ObjectRange("a", last, 10), last, nowhere) == DATA[last : last + 10]
        assert len(store.asked) == asked

    run(test)


def test_what_a_reader_waits_for_is_kept_although_others_need_room() -> None:
    async def test() -> None:
        store = Store([f"k{number}" for number in range(30)])
        cache = RangeCache(store, SMALL)
        wanted = [ObjectRange(f"k{number}", 0, 16 * KIB) for number in range(30)]
        waiting = [cache.read(one, one.end, nowhere) for one in wanted]
        for one, answer in zip(wanted, waiting, strict=True):
            assert isinstance(answer, asyncio.Future)
            await answer
            await asyncio.sleep(0.002)  # others arrive, and would like its room
            assert cache.read(one, one.end, nowhere) == DATA[: 16 * KIB]
            assert cache.size_bytes <= SMALL.max_bytes
        assert len(store.asked) == 30
        assert store.most_running == SMALL.max_flights

    run(test)


def test_readers_that_never_come_back_hold_up_others_only_for_a_time() -> None:
    async def test() -> None:
        store = Store([f"k{number}" for number in range(12)])
        cache = RangeCache(store, replace(SMALL, keep_seconds=0.2))
        for number in range(8):
            cache.read(ObjectRange(f"k{number}", 0, 16 * KIB), 16 * KIB, nowhere)
        wanted = ObjectRange("k11", 0, 16 * KIB)
        found = await asyncio.wait_for(cache.fetch(wanted, wanted.end), 10)
        assert found == DATA[: 16 * KIB]

    run(test)


def test_a_range_larger_than_the_cache_is_read() -> None:
    async def test() -> None:
        store = Store(["a", "b"])
        cache = RangeCache(store, SMALL)
        await read(cache, "b", 0, 100)
        got = await asyncio.gather(
            read(cache, "a", 0, 100 * KIB), read(cache, "b", 50 * KIB, 100 * KIB)
        )
        assert list(got) == [DATA[: 100 * KIB], DATA[50 * KIB : 150 * KIB]]

    run(test)


def test_a_store_that_is_unavailable_is_asked_again() -> None:
    async def test() -> None:
        store = Store()
        store.errors = [ObjectsUnavailableError("busy")]
        cache = RangeCache(store, SMALL)
        assert await read(cache, "a", 0, 10) == DATA[:10]
        assert len(store.asked) == 2

    run(test)


def test_an_outage_fails_all_reads_after_the_same_time() -> None:
    async def test() -> None:
        store = Store([f"k{number}" for number in range(20)])

        async def fail(operation: ObjectOperation, perform: Callable[[], Answer]) -> Answer:
            raise ObjectsUnavailableError("down")

        store.fault = fail
        cache = RangeCache(store, IMPATIENT)  # two flights at a time

        async def failing(key: str) -> None:
            with pytest.raises(ObjectsUnavailableError):
                await read(cache, key, 0, 10)

        await asyncio.gather(*(failing(key) for key in store.stored))
        # Those that had to wait for others ask once; each would have asked for as long as the first ones.
        assert len(store.stored) <= cache.counts.requests <= len(store.stored) + 10

    run(test)


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (ObjectsUnavailableError("busy"), ObjectsUnavailableError),
        (DamagedError("short"), DamagedError),
        (ValueError("a bug"), StorageError),
    ],
)
def test_the_read_after_a_failure_raises_it_and_the_next_one_tries_again(
    raised: Exception, expected: type[StorageError]
) -> None:
    async def test() -> None:
        store = Store()
        store.errors = [raised] * 20
        cache = RangeCache(store, IMPATIENT)
        with pytest.raises(expected):
            await read(cache, "a", 0, 10)
        store.errors = []
        assert await read(cache, "a", 0, 10) == DATA[:10]

    run(test)


def test_a_read_with_another_size_hears_of_the_failure() -> None:
    async def test() -> None:
        store = Store()
        store.errors = [DamagedError("short")]
        cache = RangeCache(store, SMALL)
        answer = cache.read(ObjectRange("a", 0, 10), 10, nowhere)
        assert isinstance(answer, asyncio.Future)
        await answer
        with pytest.raises(DamagedError):
            cache.read(ObjectRange("a", 0, 20), 20, nowhere)

    run(test)


def test_a_failed_read_ahead_fails_nobody() -> None:
    async def test() -> None:
        store = Store()
        cache = RangeCache(store, SMALL)
        await read(cache, "a", 0, 4 * KIB)
        store.errors = [DamagedError("short")]
        assert cache.read(ObjectRange("a", 3 * KIB, KIB), 64 * KIB, nowhere) == DATA[3072:4096]
        await asyncio.sleep(0.01)
        assert not store.errors
        assert await read(cache, "a", 4 * KIB, KIB) == DATA[4096:5120]

    run(test)


def test_a_missing_object_is_looked_up_again_once() -> None:
    async def test() -> None:
        store = Store(["new"])
        cache = RangeCache(store, SMALL)
        place = ["old", 0]
        lookups = 0

        async def relocate() -> ObjectRange | None:
            nonlocal lookups
            lookups += 1
            place[:] = ["new", 1000]
            return ObjectRange("new", 1000, 10)

        answer = cache.read(ObjectRange("old", 0, 10), 10, relocate)
        assert isinstance(answer, asyncio.Future)
        await answer
        assert place == ["new", 1000]
        assert cache.read(ObjectRange("new", 1000, 10), 1010, relocate) == DATA[1000:1010]
        assert lookups == 1
        assert [key for key, _, _ in store.asked] == ["old", "new"]

    run(test)


@pytest.mark.parametrize("found", [None, ObjectRange("old", 5, 10), ObjectRange("gone", 0, 10)])
def test_an_object_that_is_missing_after_all_is_an_error(found: ObjectRange | None) -> None:
    async def test() -> None:
        store = Store([])
        cache = RangeCache(store, SMALL)
        lookups = 0

        async def relocate() -> ObjectRange | None:
            nonlocal lookups
            lookups += 1
            return found

        answer = cache.read(ObjectRange("old", 0, 10), 10, relocate)
        assert isinstance(answer, asyncio.Future)
        await answer
        where = found if found is not None and found.key == "gone" else ObjectRange("old", 0, 10)
        with pytest.raises(ObjectMissingError):
            cache.read(where, where.end, relocate)
        assert lookups == 1

    run(test)


def test_a_failed_lookup_is_what_the_read_raises() -> None:
    async def test() -> None:
        cache = RangeCache(Store([]), SMALL)

        async def relocate() -> ObjectRange | None:
            raise FencedError("another claim")

        with pytest.raises(FencedError):
            await read(cache, "old", 0, 10, relocate=relocate)

    run(test)


def test_readers_of_a_joined_range_are_relocated_each_on_its_own() -> None:
    async def test() -> None:
        store = Store(["x", "y"])
        cache = RangeCache(store, SMALL)

        def to(key: str) -> Relocate:
            async def relocate() -> ObjectRange | None:
                return ObjectRange(key, 7, 10)

            return relocate

        answers = [
            cache.read(ObjectRange("old", 0, 10), 10, to("x")),
            cache.read(ObjectRange("old", 10, 10), 20, to("y")),
            cache.read(ObjectRange("old", 20, 10), 30, nowhere),
        ]
        for answer in answers:
            assert isinstance(answer, asyncio.Future)
            await answer
        assert [each[0] for each in store.asked[:1]] == ["old"]
        for key in "xy":
            assert cache.read(ObjectRange(key, 7, 10), 17, nowhere) == DATA[7:17]
        with pytest.raises(ObjectMissingError):
            cache.read(ObjectRange("old", 20, 10), 30, nowhere)

    run(test)


def test_callers_that_can_wait_share_flights_with_the_others() -> None:
    async def test() -> None:
        store = Store()
        cache = RangeCache(store, SMALL)
        wanted = ObjectRange("a", 0, 100)
        got = await asyncio.gather(
            cache.fetch(wanted, 100), cache.fetch(wanted, 100), read(cache, "a", 0, 100)
        )
        assert list(map(bytes, got)) == [DATA[:100]] * 3
        assert len(store.asked) == 1
        with pytest.raises(ObjectMissingError):
            await cache.fetch(ObjectRange("gone", 0, 1), 1)

    run(test)


def test_closing_ends_all_reads() -> None:
    async def test() -> None:
        store = Store()
        store.gate.clear()
        cache = RangeCache(store, SMALL)
        answers = [cache.read(ObjectRange("a", at, 10), at + 10, nowhere) for at in (0, 200_000)]
        await asyncio.sleep(0.01)
        await cache.close()
        for answer in answers:
            assert isinstance(answer, asyncio.Future)
            assert answer.done()
        with pytest.raises(ObjectsUnavailableError):
            cache.read(ObjectRange("a", 0, 10), 10, nowhere)

    run(test)


def test_a_forgotten_object_is_fetched_again() -> None:
    async def test() -> None:
        store = Store()
        cache = RangeCache(store, SMALL)
        await read(cache, "a", 0, 10)
        cache.forget("a")
        assert cache.size_bytes == 0
        await read(cache, "a", 0, 10)
        assert len(store.asked) == 2

    run(test)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b"]),
            st.integers(0, len(DATA) - 1),
            st.integers(1, 90 * KIB),
            st.integers(0, 60 * KIB),
            st.integers(0, 3),
        ),
        min_size=1,
        max_size=25,
    ),
    st.booleans(),
)
def test_every_read_finds_its_bytes(
    reads: list[tuple[str, int, int, int, int]], is_busy: bool
) -> None:
    async def test() -> None:
        store = Store(["a", "b"])
        store.errors = [ObjectsUnavailableError("busy")] * is_busy
        cache = RangeCache(store, SMALL)

        async def one(key: str, position: int, size_bytes: int, more: int, turns: int) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            end = min(position + size_bytes, len(DATA))
            readable_end = min(end + more, len(DATA))
            found = await read(cache, key, position, end - position, readable_end)
            assert found == DATA[position:end]

        await asyncio.gather(*(one(*each) for each in reads))
        await cache.close()
        assert cache.size_bytes == cache._flying_bytes == 0
        assert not cache._waiters
        assert not cache._flights

    asyncio.run(test())


def test_latencies_are_those_of_the_last_requests() -> None:
    from ottla.storage.shared.objects.recent_latencies import RecentLatencies

    recent = RecentLatencies(kept=4)
    assert recent.percentile(0.5) is None
    for seconds in (9.0, 9.0, 1.0, 4.0, 2.0, 3.0):
        recent.add(seconds)
    assert [recent.percentile(share) for share in (0, 0.5, 0.99, 1)] == [1.0, 3.0, 4.0, 4.0]
    assert recent.count == 4
