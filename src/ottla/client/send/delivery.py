"""The results of `send` and `send_many`: futures that are cheap to make, and complete with their batches."""

from __future__ import annotations

import asyncio
import os
import time
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count, repeat
from typing import TYPE_CHECKING, Any, Final, overload

from ottla.client.model import NO_TIMESTAMP, RecordMetadata
from ottla.errors import IllegalStateError, KafkaError, TimedOutError
from ottla.records.client_kernel import SentRecord

if TYPE_CHECKING:
    from ottla.client.state.producer.producer_batch import ProducerBatch

OnBatch = Callable[[int, Exception | None], object]

# As RecordMetadata._make, without a call of Python's.
_AS_METADATA: Final = partial(tuple.__new__, RecordMetadata)


class RecordFuture(SentRecord):
    """The outcome of one send: `result()` blocks, `await` does not.

    All records of a batch complete together: the future only points into its batch.
    """

    __slots__ = ()

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._place()[0].is_done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record was written, or the exception that says why it was not; waits up to `timeout` seconds."""
        batch, index = self._wait(timeout)
        error = batch.error_of(index)
        if error is not None:
            batch.note_seen()
            raise error
        return self._metadata(batch, index)

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Why the record was not written; None if it was. Waits up to `timeout` seconds."""
        batch, index = self._wait(timeout)
        error = batch.error_of(index)
        if error is not None:
            batch.note_seen()
        return error

    def add_done_callback(self, callback: Callable[[RecordFuture], object]) -> None:
        """Call it with this future when the outcome is known, on the producer's thread; at once if it is known."""
        batch = self._place()[0]
        if not batch.when_done(lambda: self.add_done_callback(callback)):
            if self.done():
                callback(self)
            else:
                self.add_done_callback(callback)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        while True:
            batch, index = self._place()
            if batch.is_done:
                break
            yield from batch.wait_async().__await__()
        error = batch.error_of(index)
        if error is not None:
            batch.note_seen()
            raise error
        return self._metadata(batch, index)

    def __repr__(self) -> str:
        batch, index = self._place()
        if not batch.is_done:
            return f"<RecordFuture {batch.key} pending>"
        error = batch.error_of(index)
        outcome = f"offset {batch.offset_of(index)}" if error is None else repr(error)
        return f"<RecordFuture {batch.key} {outcome}>"

    def _place(self) -> tuple[ProducerBatch, int]:
        """The batch of the record, and its index in it; a batch that was too large has been split into others."""
        batch: ProducerBatch = self._batch
        index = self._index
        while batch.parts:
            batch, index = _part_of(batch, index)
        return batch, index

    def _wait(self, timeout: float | None) -> tuple[ProducerBatch, int]:
        deadline: float | None = None
        while True:
            batch, index = self._place()
            if batch.is_done:
                return batch, index
            if batch.process_id != os.getpid():
                raise IllegalStateError(
                    "the record was sent by the process that this one was forked from, and only that one is told "
                    "what becomes of it: ask there"
                )
            _refuse_on(batch.loop)
            if deadline is None and timeout is not None:
                deadline = time.monotonic() + timeout
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not batch.wait(left):
                raise TimedOutError(
                    message=f"The record was not acknowledged within {timeout} s; it may be later.",
                    context={"api": "Produce", "partition": str(batch.key)},
                )

    def _metadata(self, batch: ProducerBatch, index: int) -> RecordMetadata:
        return RecordMetadata(
            batch.topic,
            batch.partition,
            batch.offset_of(index),
            self._timestamp if batch.append_time_ms < 0 else batch.append_time_ms,
            self._key_size,
            self._value_size,
        )


def _part_of(batch: ProducerBatch, index: int) -> tuple[ProducerBatch, int]:
    starts = batch.part_starts
    part = bisect_right(starts, index) - 1
    return batch.parts[part], index - starts[part]


def _refuse_on(loop: object) -> None:
    """Raise if the caller would block the loop that completes the batch; a notebook's own loop may be blocked."""
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        return
    if running is loop:
        raise IllegalStateError(
            "result() would block the event loop that brings the result: "
            "await the future, or ask when the callback is over"
        )


class Accepted(dict[int, RecordFuture]):
    """The records that `send_many` had accepted when it failed, which are sent all the same, by position."""

    def __init__(self, futures: Iterable[tuple[int, RecordFuture]], count: int) -> None:
        super().__init__(futures)
        self._count = count

    def __str__(self) -> str:
        return f"{len(self)} of {self._count}"

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        # An error may be pickled for another process, futures cannot.
        return str, (str(self),)


def accepted_before(error: KafkaError) -> Mapping[int, RecordFuture]:
    """The records that `send_many` had accepted when it raised this error, by position."""
    found = error.context.get("accepted")
    return found if isinstance(found, Accepted) else {}


class SentRecords(Sequence[RecordFuture]):
    """The futures of `send_many`, in the order of the values; made when they are first needed."""

    __slots__ = ("_futures", "_keys", "_length", "_segments", "_timestamp", "_values")

    def __init__(
        self,
        timestamp: int,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None,
    ) -> None:
        self._timestamp = timestamp
        self._values = values
        self._keys = keys
        self._length = len(values)
        self._segments: list[tuple[ProducerBatch, int, Sequence[int]]] = []
        self._futures: list[RecordFuture] | None = None

    @classmethod
    def of(cls, futures: list[RecordFuture]) -> SentRecords:
        """The futures of records that were sent one by one."""
        sent = cls(0, (), None)
        sent._futures = futures
        sent._length = len(futures)
        return sent

    def add(self, batch: ProducerBatch, first_index: int, positions: Sequence[int]) -> None:
        """Values at these positions were put into a batch, from `first_index` on."""
        self._segments.append((batch, first_index, positions))

    def blame(self, error: KafkaError, count: int) -> None:
        """Add to an error which of the `count` values were accepted before it."""
        positions: Iterable[int] = range(self._length)
        if self._futures is None:
            positions = sorted(each for _, _, positions in self._segments for each in positions)
        error.context["accepted"] = Accepted(zip(positions, self._all(), strict=True), count)

    def result(self, timeout: float | None = None) -> list[RecordMetadata]:
        """Wait for all, up to `timeout` seconds; the first exception is raised."""
        deadline = None if timeout is None else time.monotonic() + timeout
        for batch, index, _ in self._segments:
            RecordFuture(batch, index, NO_TIMESTAMP, -1, -1)._wait(_left(deadline))
        written = self._written()
        return written or [future.result(_left(deadline)) for future in self._all()]

    def add_batch_callback(self, callback: OnBatch) -> None:
        """Call it once for each batch of these records, with the number of records and their error, when it ends.

        It runs on the producer's thread, or at once for batches that have ended.
        """
        for future in self._futures or () if not self._segments else ():
            future.add_done_callback(lambda done: callback(1, done.exception()))
        for batch, first_index, positions in self._segments:
            _call_when_done(batch, first_index, len(positions), callback)

    def done(self) -> bool:
        """Whether all outcomes are known."""
        return all(future.done() for future in self._all())

    def __await__(self) -> Generator[Any, None, list[RecordMetadata]]:
        for batch, _, _ in self._segments:
            if not batch.is_done:
                yield from batch.wait_async().__await__()
        written = self._written()
        if written is not None:
            return written
        found = []
        for future in self._all():
            found.append((yield from future.__await__()))
        return found

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[RecordFuture]:
        return iter(self._all())

    @overload
    def __getitem__(self, index: int) -> RecordFuture: ...
    @overload
    def __getitem__(self, index: slice) -> list[RecordFuture]: ...
    def __getitem__(self, index: int | slice) -> RecordFuture | list[RecordFuture]:
        return self._all()[index]

    def __repr__(self) -> str:
        return f"<SentRecords {self._length}>"

    def _written(self) -> list[RecordMetadata] | None:
        """The metadata of all records, without a future for each; None if a batch failed or was split."""
        if self._futures is not None or any(
            batch.parts or batch.error is not None for batch, _, _ in self._segments
        ):
            return None
        found: list[Any] = [None] * self._length
        keys = self._keys
        for batch, index, positions in self._segments:
            offset = batch.offset_of(index)
            fields = zip(
                repeat(batch.topic),
                repeat(batch.partition),
                repeat(offset) if offset < 0 else count(offset),
                repeat(self._timestamp if batch.append_time_ms < 0 else batch.append_time_ms),
                repeat(-1) if keys is None else [size_of(keys[each]) for each in positions],
                [size_of(self._values[each]) for each in positions],
                strict=False,
            )
            made = map(_AS_METADATA, fields)
            if isinstance(positions, range):
                found[positions.start : positions.stop] = made
            else:
                for position, metadata in zip(positions, made, strict=True):
                    found[position] = metadata
        return found

    def _all(self) -> list[RecordFuture]:
        if self._futures is None:
            values, keys, timestamp = self._values, self._keys, self._timestamp
            slots: list[RecordFuture | None] = [None] * self._length
            for batch, first_index, positions in self._segments:
                for index, position in enumerate(positions, first_index):
                    key = None if keys is None else keys[position]
                    slots[position] = RecordFuture(
                        batch, index, timestamp, size_of(key), size_of(values[position])
                    )
            self._futures = [future for future in slots if future is not None]
        return self._futures


def _call_when_done(batch: ProducerBatch, first_index: int, count: int, callback: OnBatch) -> None:
    """Call back with the outcome of some records of a batch, or of the parts that it was split into."""
    if batch.when_done(lambda: _call_when_done(batch, first_index, count, callback)):
        return
    end_index = first_index + count
    if batch.parts:
        ends = [*batch.part_starts[1:], batch.record_count]
        for part, start, end in zip(batch.parts, batch.part_starts, ends, strict=True):
            low, high = max(start, first_index), min(end, end_index)
            if low < high:
                _call_when_done(part, low - start, high - low, callback)
    elif batch.record_errors is None:
        batch.note_seen()
        callback(count, batch.error)
    else:
        batch.note_seen()
        for index in range(first_index, end_index):
            callback(1, batch.error_of(index))


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def size_of(data: bytes | None) -> int:
    """The size in RecordMetadata: -1 for None."""
    return -1 if data is None else len(data)
