"""The result of `send_arrow`: the outcome of batches, not of each row."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.send.delivery import RecordFuture

if TYPE_CHECKING:
    from ottla.client.state.producer.producer_batch import ProducerBatch


class WrittenRows(NamedTuple):
    """Rows that follow each other in a partition; `offset` is that of the first, -1 with acks=0."""

    topic: str
    partition: int
    offset: int
    row_count: int


class SentRows:
    """The rows of one `send_arrow`: `result()` blocks until all are written, `await` does not."""

    __slots__ = ("_batches", "_count")

    def __init__(self) -> None:
        # The future of each batch's first record, and how many records it has.
        self._batches: list[tuple[RecordFuture, int]] = []
        self._count = 0

    def add(self, first: RecordFuture, count: int) -> None:
        """A batch of `count` rows was accepted."""
        self._batches.append((first, count))
        self._count += count

    def __len__(self) -> int:
        """How many rows were accepted."""
        return self._count

    def done(self) -> bool:
        """Whether the outcome of all rows is known."""
        return all(batch.is_done for batch in self._ends())

    def result(self, timeout: float | None = None) -> list[WrittenRows]:
        """Where the rows were written; waits up to `timeout` seconds, and raises the first error of a batch."""
        deadline = None if timeout is None else time.monotonic() + timeout
        for first, _ in self._batches:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            first._wait(left)
        # A batch that was too large was split: its parts have outcomes of their own.
        for batch in self._ends():
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            RecordFuture(batch, 0, -1, -1, -1)._wait(left)
        return self._written()

    def __await__(self) -> Generator[Any, None, list[WrittenRows]]:
        while (pending := self._first_pending()) is not None:
            yield from pending.wait_async().__await__()
        return self._written()

    def add_batch_callback(self, callback: Callable[[int, Exception | None], object]) -> None:
        """Call it with the number of rows and the error of each batch when it ends, on the producer's thread."""
        for first, count in self._batches:
            _call_when_done(first._batch, count, callback)

    def _first_pending(self) -> ProducerBatch | None:
        return next((batch for batch in self._ends() if not batch.is_done), None)

    def _ends(self) -> Iterator[ProducerBatch]:
        """The batches, or the parts that they were split into."""
        for first, _ in self._batches:
            yield from _ends_of(first._batch)

    def _written(self) -> list[WrittenRows]:
        written = []
        for batch in self._ends():
            if batch.error is not None:
                batch.note_seen()
                raise batch.error
            written.append(
                WrittenRows(batch.topic, batch.partition, batch.offset_of(0), batch.record_count)
            )
        return written

    def __repr__(self) -> str:
        return f"<SentRows {self._count}>"

    def __str__(self) -> str:
        return f"{self._count} rows"

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        # An error that has it in its context may be pickled for another process, futures cannot.
        return str, (str(self),)


def _ends_of(batch: ProducerBatch) -> Iterator[ProducerBatch]:
    if not batch.parts:
        yield batch
    for part in batch.parts:
        yield from _ends_of(part)


def _call_when_done(
    batch: ProducerBatch, count: int, callback: Callable[[int, Exception | None], object]
) -> None:
    if batch.when_done(lambda: _call_when_done(batch, count, callback)):
        return
    if not batch.parts:
        batch.note_seen()
        callback(count, batch.error)
        return
    ends = [*batch.part_starts[1:], count]
    for part, start, end in zip(batch.parts, batch.part_starts, ends, strict=True):
        _call_when_done(part, end - start, callback)
