"""Reads of parts of objects: joined, ahead of the reader, at most a few at a time, kept for a while.

A read answers at once what is here; else it gives a future, and when that is done the same read answers: with the
bytes, or by raising why there are none. What was fetched for a reader stays until it has asked again, for some seconds.
So callers that cannot wait (`Log.read`) can come back, and are not told "later" for ever. Everything else goes when
room is needed, the longest unused first.

    read ──> here? ── yes ──> bytes (and the next range is fetched, if the reader goes on like this)
              │ no
              └─> a flight for each part that is neither here nor on its way; neighbours in the queue are joined

One store may hold what many partitions wrote together, so ranges of one object that are asked for at the same time
often touch.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right, insort
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, NamedTuple

from ottla.ports import Buffer, StorageError
from ottla.storage.shared.errors import ObjectMissingError, ObjectsUnavailableError
from ottla.storage.shared.objects.objects import Objects
from ottla.storage.shared.objects.recent_latencies import RecentLatencies

# Ranges this near to each other are fetched as one: a request costs more than these bytes.
_JOINED_GAP_BYTES: Final = 64 * 1024
_JOINED_BYTES: Final = 8 * 1024 * 1024
_FIRST_PAUSE_SECONDS: Final = 0.05
_LAST_PAUSE_SECONDS: Final = 1.0
_start_of: Final = attrgetter("start")


class ObjectRange(NamedTuple):
    key: str
    position: int
    size_bytes: int

    @property
    def end(self) -> int:
        return self.position + self.size_bytes


# Where the bytes of a range are now that its object is gone; None if that is not known. The caller's next read has to
# ask for what this returned.
Relocate = Callable[[], Awaitable[ObjectRange | None]]


async def _nowhere() -> ObjectRange | None:
    return None


@dataclass(frozen=True)
class RangeCacheOptions:
    max_bytes: int = 64 << 20
    max_flights: int = 8
    first_ahead_bytes: int = 256 << 10
    max_ahead_bytes: int = 4 << 20
    # How long a store that is unavailable is asked again, the wait in the queue included, and how long bytes and
    # failures wait for their reader.
    patience_seconds: float = 10.0
    keep_seconds: float = 10.0


@dataclass
class RangeCacheCounts:
    """For metrics: reads that were answered at once or not, and what was asked of the store."""

    hits: int = 0
    misses: int = 0
    requests: int = 0
    request_bytes: int = 0
    failures: int = 0


class _Waiter:
    """A read that found too little: its future is done when its last flight is."""

    __slots__ = ("done", "flights", "is_relocated", "relocate", "wanted")

    def __init__(self, wanted: ObjectRange, relocate: Relocate, done: asyncio.Future[None]) -> None:
        self.wanted = wanted
        self.relocate = relocate
        self.done = done
        self.flights = 0
        self.is_relocated = False


class _Extent:
    """Bytes of an object that are here.

    `awaited` has the positions at which a reader will ask again, and until when that is waited for.
    """

    __slots__ = ("awaited", "data", "end", "key", "start")

    def __init__(self, key: str, start: int, data: memoryview) -> None:
        self.key = key
        self.start = start
        self.end = start + len(data)
        self.data = data
        self.awaited: dict[int, float] = {}


class _Flight:
    """Bytes of an object that are on their way, or in the queue."""

    __slots__ = ("deadline", "end", "is_started", "key", "start", "waiters")

    def __init__(self, key: str, start: int, end: int, deadline: float) -> None:
        self.key = key
        self.start = start
        self.end = end
        self.deadline = deadline
        self.is_started = False
        self.waiters: dict[_Waiter, None] = {}


class RangeCache:
    """A cache of ranges of immutable objects, of one event loop."""

    def __init__(self, objects: Objects, options: RangeCacheOptions | None = None) -> None:
        self._objects = objects
        self._options = options or RangeCacheOptions()
        self.counts = RangeCacheCounts()
        self.latencies = RecentLatencies()
        self._extents: dict[str, list[_Extent]] = {}  # by position; they do not overlap
        # By use, the longest unused first: those that a reader has read to their ends go before the others.
        self._finished: OrderedDict[_Extent, None] = OrderedDict()
        self._in_use: OrderedDict[_Extent, None] = OrderedDict()
        self._flights: dict[str, list[_Flight]] = {}
        self._queue: deque[_Flight] = deque()
        self._failures: dict[tuple[str, int], tuple[StorageError, float]] = {}  # by position
        self._waiters: dict[ObjectRange, _Waiter] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._wakeup: asyncio.Handle | None = None
        self.size_bytes = 0
        self._flying_bytes = 0
        self._is_closed = False

    def read(
        self, wanted: ObjectRange, readable_end: int, relocate: Relocate
    ) -> Buffer | asyncio.Future[None]:
        """The bytes of a range, or when to ask again. Only inside the running loop.

        Up to `readable_end` (a position in the object) the reader may want to go on. Raises what made the read fail,
        once; another read tries again. ObjectMissingError: the object is gone, also from where `relocate` said.
        """
        if not wanted.size_bytes:
            return b""
        if self._is_closed:
            raise ObjectsUnavailableError("the cache of objects is closed")
        failure = self._failures.pop((wanted.key, wanted.position), None)
        if failure is not None and failure[1] > self._now():
            raise failure[0]
        found = self._find(wanted, readable_end)
        if found is not None:
            self.counts.hits += 1
            return found
        self.counts.misses += 1
        waiter = self._waiters.get(wanted)
        if waiter is None:
            waiter = _Waiter(wanted, relocate, asyncio.get_running_loop().create_future())
            self._wait(waiter, wanted, readable_end)
        return waiter.done

    async def fetch(self, wanted: ObjectRange, readable_end: int) -> Buffer:
        """As `read`, for callers that can wait, and keep the bytes.

        ObjectMissingError if there is no such object.
        """
        answer = self.read(wanted, readable_end, _nowhere)
        while isinstance(answer, asyncio.Future):
            await asyncio.wait({answer})
            answer = self.read(wanted, readable_end, _nowhere)
        if isinstance(answer, memoryview) and 2 * len(answer) < memoryview(answer.obj).nbytes:
            # The caller may keep it for long: it must not hold all that was fetched with it.
            return bytes(answer)
        return answer

    def forget(self, key: str) -> None:
        """Drops what is here of an object that nothing refers to any more."""
        for extent in self._extents.pop(key, ()):
            self._forget_use(extent)
            self.size_bytes -= len(extent.data)

    async def close(self) -> None:
        """Gives up everything; reads that wait are done, and fail."""
        self._is_closed = True
        if self._wakeup is not None:
            self._wakeup.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for waiter in list(self._waiters.values()):
            self._fail(waiter, ObjectsUnavailableError("the cache of objects is closed"))
        self._queue.clear()
        self._flights.clear()
        for key in list(self._extents):
            self.forget(key)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    # What is here.

    def _covering(self, key: str, start: int, end: int) -> Iterator[_Extent]:
        """The extents that overlap a range, in order."""
        extents = self._extents.get(key, ())
        number = max(bisect_right(extents, start, key=_start_of) - 1, 0)
        for extent in extents[number:]:
            if extent.start >= end:
                return
            if extent.end > start:
                yield extent

    def _parts(self, wanted: ObjectRange) -> list[tuple[_Extent, memoryview]] | None:
        """The bytes of a range, if all are here."""
        parts: list[tuple[_Extent, memoryview]] = []
        position = wanted.position
        for extent in self._covering(wanted.key, position, wanted.end):
            if extent.start > position:
                return None
            stop = min(wanted.end, extent.end)
            parts.append((extent, extent.data[position - extent.start : stop - extent.start]))
            position = stop
        return parts if position == wanted.end else None

    def _find(self, wanted: ObjectRange, readable_end: int) -> Buffer | None:
        parts = self._parts(wanted)
        if parts is None:
            return None
        for extent, _ in parts:
            extent.awaited.pop(wanted.position, None)
            self._forget_use(extent)
            (self._in_use if wanted.end < extent.end else self._finished)[extent] = None
        self._read_on(parts[-1][0], wanted.end, readable_end)
        if self._queue:
            self._pump_soon()  # there may be room now
        return parts[0][1] if len(parts) == 1 else b"".join(part for _, part in parts)

    def _read_on(self, extent: _Extent, position: int, readable_end: int) -> None:
        """Fetches what follows an extent of which a reader has read most."""
        if extent.end - position > len(extent.data) // 2 or extent.end >= readable_end:
            return
        ahead_bytes = min(2 * len(extent.data), self._options.max_ahead_bytes)
        # Half of the room is for what readers wait for.
        if 2 * (self._flying_bytes + ahead_bytes) <= self._options.max_bytes:
            self._request(extent.key, extent.end, min(extent.end + ahead_bytes, readable_end), None)

    def _add(self, key: str, start: int, data: memoryview) -> _Extent | None:
        """Keeps what was fetched, as far as it is not here."""
        extent = _Extent(key, start, data)
        extents = self._extents.setdefault(key, [])
        if any(True for _ in self._covering(key, extent.start, extent.end)):
            return None  # flights do not overlap, except after `forget`
        insort(extents, extent, key=_start_of)
        self._in_use[extent] = None
        self.size_bytes += len(data)
        return extent

    def _make_room(self, flight: _Flight) -> bool:
        """Drops what is not awaited until there is room for a flight."""
        now = self._now()
        limit_bytes = self._options.max_bytes - self._flying_bytes - (flight.end - flight.start)
        for extent in [*self._finished, *self._in_use]:
            if self.size_bytes <= limit_bytes:
                return True
            if all(until <= now for until in extent.awaited.values()):
                self._drop(extent)
        if self.size_bytes <= limit_bytes:
            return True
        # While something is on its way there will be room, but not if reads of several parts hold their first parts
        # and all wait for room for others. Then those of the first in the queue are enough to go on.
        return not self._flying_bytes and self._take_room(flight, limit_bytes)

    def _take_room(self, flight: _Flight, limit_bytes: int) -> bool:
        """Drops what is here of other reads that wait, which fetch it again."""
        unfinished = {(wanted.key, wanted.position) for wanted in self._waiters}
        own = {(each.wanted.key, each.wanted.position) for each in flight.waiters}
        is_own = True
        for extent in [*self._finished, *self._in_use]:
            awaiting = {(extent.key, position) for position in extent.awaited}
            if awaiting & own:
                continue
            if awaiting <= unfinished:
                self._drop(extent)
                if self.size_bytes <= limit_bytes:
                    return True
            else:
                is_own = False  # its reader will ask again at once
        # A read that is larger than the cache has it alone.
        return is_own

    def _forget_use(self, extent: _Extent) -> None:
        self._finished.pop(extent, None)
        self._in_use.pop(extent, None)

    def _drop(self, extent: _Extent) -> None:
        self._forget_use(extent)
        extents = self._extents[extent.key]
        extents.remove(extent)
        if not extents:
            del self._extents[extent.key]
        self.size_bytes -= len(extent.data)

    # What is on its way.

    def _wait(self, waiter: _Waiter, where: ObjectRange, readable_end: int) -> None:
        """Has the parts of a range fetched that are missing, and the waiter wait for them."""
        self._waiters[waiter.wanted] = waiter
        until = self._now() + self._options.keep_seconds + self._options.patience_seconds
        for extent in self._covering(where.key, where.position, where.end):
            extent.awaited[where.position] = until
        ahead_bytes = self._ahead_bytes(where)
        end = max(where.end, min(readable_end, where.position + ahead_bytes))
        self._request(where.key, where.position, end, waiter, where.end)
        if not waiter.flights:
            # Between two reads of one turn everything has arrived.
            self._complete(waiter)

    def _ahead_bytes(self, where: ObjectRange) -> int:
        """How much to fetch from a position on: more for a reader that comes from the bytes before it."""
        for extent in self._covering(where.key, where.position - 1, where.position + 1):
            return max(
                min(2 * len(extent.data), self._options.max_ahead_bytes),
                self._options.first_ahead_bytes,
            )
        return self._options.first_ahead_bytes

    def _request(
        self, key: str, start: int, end: int, waiter: _Waiter | None, needed_end: int | None = None
    ) -> None:
        """Flights for what is neither here nor on its way; the waiter waits for those before `needed_end`."""
        needed_end = end if needed_end is None else needed_end
        flights = self._flights.setdefault(key, [])
        taken = [(extent.start, extent.end) for extent in self._covering(key, start, end)]
        for flight in flights:
            if flight.start < end and flight.end > start:
                taken.append((flight.start, flight.end))
                if waiter is not None and flight.start < needed_end:
                    self._attach(flight, waiter)
        position = start
        for taken_start, taken_end in [*sorted(taken), (end, end)]:
            if taken_start > position:
                gap_end = min(taken_start, end)
                # What lies beyond a hole in what is ahead is another reader's.
                if position >= needed_end and position > start:
                    break
                self._enqueue(key, position, gap_end, waiter if position < needed_end else None)
            position = max(position, taken_end)
        if not flights:
            self._flights.pop(key, None)
        self._pump_soon()

    def _enqueue(self, key: str, start: int, end: int, waiter: _Waiter | None) -> None:
        flights = self._flights.setdefault(key, [])
        flight = self._neighbour(flights, start, end)
        if flight is None:
            deadline = self._now() + self._options.patience_seconds
            flight = _Flight(key, start, end, deadline)
            flights.append(flight)
            self._queue.append(flight)
        else:
            flight.start, flight.end = min(flight.start, start), max(flight.end, end)
        if waiter is not None:
            self._attach(flight, waiter)

    def _neighbour(self, flights: list[_Flight], start: int, end: int) -> _Flight | None:
        """A flight in the queue that can take a range along, with nothing else between both."""
        for flight in flights:
            if flight.is_started:
                continue
            joined_start, joined_end = min(flight.start, start), max(flight.end, end)
            gap_start, gap_end = min(flight.end, end), max(flight.start, start)
            if (
                gap_end - gap_start <= _JOINED_GAP_BYTES
                and joined_end - joined_start <= _JOINED_BYTES
                and not any(True for _ in self._covering(flight.key, gap_start, gap_end))
                and not any(
                    other is not flight and other.start < joined_end and other.end > joined_start
                    for other in flights
                )
            ):
                return flight
        return None

    @staticmethod
    def _attach(flight: _Flight, waiter: _Waiter) -> None:
        if waiter not in flight.waiters:
            flight.waiters[waiter] = None
            waiter.flights += 1

    def _pump_soon(self) -> None:
        """Starts flights at the end of this turn of the loop, when all that is asked for in it can be joined."""
        if isinstance(self._wakeup, asyncio.TimerHandle):
            self._wakeup.cancel()
            self._wakeup = None
        if self._wakeup is None and not self._is_closed:
            self._wakeup = asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._wakeup = None
        while self._queue and len(self._tasks) < self._options.max_flights:
            flight = self._queue[0]
            if not self._make_room(flight):
                if not self._tasks:
                    # All room is kept for readers that may have gone.
                    self._wakeup = asyncio.get_running_loop().call_later(0.1, self._pump)
                return
            self._queue.popleft()
            flight.is_started = True
            self._flying_bytes += flight.end - flight.start
            task = asyncio.get_running_loop().create_task(self._fly(flight))
            self._tasks.add(task)
            task.add_done_callback(self._landed)

    def _landed(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._queue:
            self._pump_soon()

    async def _fly(self, flight: _Flight) -> None:
        error: StorageError | None = None
        data: Buffer = b""
        try:
            data = await self._fetch(flight)
        except StorageError as failure:
            error = failure
        except Exception as failure:
            error = _unexpected(failure)
        finally:
            self._flying_bytes -= flight.end - flight.start
            flights = self._flights[flight.key]
            flights.remove(flight)
            if not flights:
                del self._flights[flight.key]
        if error is None:
            self._arrive(flight, memoryview(data))
            return
        self.counts.failures += 1
        for waiter in flight.waiters:
            waiter.flights -= 1
            if waiter.wanted.key != flight.key:
                # It was relocated when another part of the same object was missing.
                if not waiter.flights:
                    self._complete(waiter)
            elif isinstance(error, ObjectMissingError) and not waiter.is_relocated:
                await self._follow(waiter, error)
            else:
                self._fail(waiter, error)

    async def _fetch(self, flight: _Flight) -> Buffer:
        """The bytes of a flight; as long as the store is unavailable it is asked again."""
        loop = asyncio.get_running_loop()
        pause_seconds = _FIRST_PAUSE_SECONDS
        wanted = (flight.start, flight.end - flight.start)
        while True:
            started = loop.time()
            self.counts.requests += 1
            try:
                (data,) = await self._objects.get_ranges(flight.key, [wanted])
            except ObjectsUnavailableError:
                if loop.time() + pause_seconds > flight.deadline or not flight.waiters:
                    raise
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, _LAST_PAUSE_SECONDS)
            else:
                self.latencies.add(loop.time() - started)
                self.counts.request_bytes += len(data)
                return data

    def _arrive(self, flight: _Flight, data: memoryview) -> None:
        extent = self._add(flight.key, flight.start, data)
        until = self._now() + self._options.keep_seconds
        for waiter in flight.waiters:
            if extent is not None:
                extent.awaited[waiter.wanted.position] = until
            waiter.flights -= 1
            if waiter.flights or waiter.done.done():
                continue
            if self._parts(waiter.wanted) is None:
                # A part of it had to go again.
                self._wait(waiter, waiter.wanted, waiter.wanted.end)
            else:
                self._complete(waiter)

    async def _follow(self, waiter: _Waiter, error: ObjectMissingError) -> None:
        """Looks up once where the bytes are now, and has them fetched from there."""
        waiter.is_relocated = True
        try:
            where = await waiter.relocate()
        except StorageError as failure:
            self._fail(waiter, failure)
            return
        except Exception as failure:
            self._fail(waiter, _unexpected(failure))
            return
        if where is None or where.key == waiter.wanted.key:
            self._fail(waiter, error)
        elif not waiter.done.done():
            # The next read asks for the new range: it is told what became of this one.
            if self._waiters.get(waiter.wanted) is waiter:
                del self._waiters[waiter.wanted]
            waiter.wanted = where
            self._wait(waiter, where, where.end)

    def _complete(self, waiter: _Waiter) -> None:
        if self._waiters.get(waiter.wanted) is waiter:
            del self._waiters[waiter.wanted]
        if not waiter.done.done():
            waiter.done.set_result(None)

    def _fail(self, waiter: _Waiter, error: StorageError) -> None:
        """The next read at the position raises this."""
        if waiter.done.done():
            return
        now = self._now()
        for old in [old for old, (_, until) in self._failures.items() if until <= now]:
            del self._failures[old]
        self._failures[waiter.wanted.key, waiter.wanted.position] = (
            error,
            now + self._options.keep_seconds,
        )
        self._complete(waiter)


def _unexpected(failure: Exception) -> StorageError:
    error = StorageError(f"reading an object failed: {failure!r}")
    error.__cause__ = failure
    return error
