"""At-least-once: when what a handler returned is acknowledged, its record is finished, and its offset is committed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any

from ottla.app.declarations.listener_spec import AckMode, ListenerSpec, RawRecord
from ottla.app.delivery.ack_schedule import AckSchedule
from ottla.app.delivery.unit import Unit
from ottla.app.delivery.window import PartitionWindow
from ottla.app.instruments import Instruments
from ottla.app.listening.clients import Clients, RawConsumer
from ottla.app.listening.listener_health import ListenerCounters
from ottla.app.listening.metadata_limit import metadata_error
from ottla.client.model import OffsetAndMetadata
from ottla.client.send.delivery import RecordFuture
from ottla.errors import ErrorCode, KafkaError, WakeupError
from ottla.model import TopicPartition

log = logging.getLogger("ottla.app")

NotDelivered = Callable[[PartitionWindow, Sequence[RawRecord], Unit, Exception], None]


class OffsetCommits:
    """Sends units with the app's producer, and commits what is finished, between two polls of the consumer."""

    collects_sends = False

    def __init__(
        self,
        spec: ListenerSpec,
        *,
        clients: Clients,
        windows: Mapping[TopicPartition, PartitionWindow],
        instruments: Instruments,
        counters: ListenerCounters,
        wake_pump: Callable[[], None],
        not_delivered: NotDelivered,
        offer: Callable[[PartitionWindow], None],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._spec = spec
        self._clients = clients
        self._windows = windows
        self._instruments = instruments
        self._counters = counters
        self._wake_pump = wake_pump
        self._not_delivered = not_delivered
        self._offer = offer
        self._on_fatal = on_fatal
        self._loop = asyncio.get_running_loop()
        self._schedule = AckSchedule(spec.ack, self._loop.time())
        self._is_manual = spec.ack.mode is AckMode.MANUAL
        self._waits_for_commit = spec.ack.mode is AckMode.RECORD
        self._is_committing = False
        self._committed = asyncio.Event()
        self._settled = asyncio.Event()
        self.last_error: Exception | None = None
        """Why the last commit failed; None after one that succeeded."""

    async def start(self) -> None:
        """Nothing to prepare."""

    async def close(self) -> None:
        """Nothing to end: the producer belongs to the app."""

    # Units

    def handled(
        self, window: PartitionWindow, records: Sequence[RawRecord], unit: Unit
    ) -> Coroutine[Any, Any, None] | None:
        """Finish the records, after what the handler returned is acknowledged."""
        if unit.outgoing:
            return self._send(window, records, unit)
        if not isinstance(unit.acknowledge, _ManualAcknowledgement):
            self._finish(window, records)
        return self._commit_of(window, records) if self._waits_for_commit else None

    async def _send(
        self, window: PartitionWindow, records: Sequence[RawRecord], unit: Unit
    ) -> None:
        producer = self._clients.producer
        acks = _Acknowledgements(len(unit.outgoing))
        by_hand = unit.acknowledge
        if isinstance(by_hand, _ManualAcknowledgement):
            by_hand.is_sent = False

        def acknowledged() -> None:
            if window.is_closed:
                return
            if acks.error is not None:
                self._not_delivered(window, records, unit, acks.error)
            elif isinstance(by_hand, _ManualAcknowledgement):
                by_hand.sent()
            else:
                self._finish(window, records)
            self._settled.set()

        acks.then = acknowledged
        for each in unit.outgoing:
            try:
                sent = await producer.send(
                    each.topic,
                    each.value,
                    each.key,
                    partition=each.partition,
                    headers=each.headers,
                    timestamp_ms=each.timestamp_ms,
                )
            except Exception as error:
                acks.failed(error)
            else:
                sent.add_done_callback(acks.one)
        if self._waits_for_commit:
            await self._commit_of(window, records)

    def acknowledgement(
        self, window: PartitionWindow, records: Sequence[RawRecord]
    ) -> Callable[[], None]:
        """What a handler with manual acknowledgement calls."""

        def finish() -> None:
            if not window.is_closed:
                self._finish(window, records)

        return _ManualAcknowledgement(self._loop, finish)

    def is_acknowledged(self, unit: Unit) -> bool:
        """Whether the handler has acknowledged its records; if not, it cannot any more, since it has failed."""
        by_hand = unit.acknowledge
        if not isinstance(by_hand, _ManualAcknowledgement):
            return False
        if not by_hand.is_over:
            by_hand.is_over = True
            return False
        return True

    def _finish(self, window: PartitionWindow, records: Sequence[RawRecord]) -> None:
        for record in records:
            window.finish(record)
        self.finished(window, len(records))

    def finished(self, window: PartitionWindow, count: int) -> None:
        """So many records of the window were finished: a commit may be due, or there is room for more records."""
        if window.is_blocked:
            self._offer(window)
        is_due = self._schedule.finished(count)
        if window.has_finished_batch():
            is_due = self._schedule.finished_batch() or is_due
        if is_due or (window.is_fetch_paused and window.has_room):
            self._wake_pump()

    # Commits

    async def _commit_of(self, window: PartitionWindow, records: Sequence[RawRecord]) -> None:
        """Wait until a commit covers these records, or the window is given up."""
        last = records[-1].offset
        while not window.is_closed and not window.is_closing:
            committed = window.committed
            done = window.progress.commit_offset
            if committed is not None and committed.offset > last:
                return
            if done is not None and done <= last and not self._is_committing:
                return  # earlier records are unfinished: theirs is the next commit
            self._committed.clear()
            await self._committed.wait()

    def closing(self) -> None:
        """Partitions are being given up: workers must not wait for the next commit, which comes after them."""
        self._committed.set()

    def began(self) -> None:
        """A partition has begun without a committed offset: where is committed at once."""
        self._schedule.hurry()

    def commit_due(self, consumer: RawConsumer) -> None:
        """Send a commit if one is due; called by the pump between polls."""
        now = self._loop.time()
        if self._is_committing or not self._schedule.is_due(now):
            return
        offsets = self._to_commit(self._windows.values())
        self._schedule.committing(now)
        if not offsets:
            return
        self._is_committing = True

        def committed(_: object, error: Exception | None) -> None:
            self._is_committing = False
            if error is None:
                self._succeeded(offsets, self._loop.time() - now)
            else:
                self._failed(error)
            self._committed.set()
            self._settled.set()
            self._wake_pump()

        consumer.commit_async(_by_partition(offsets), committed)

    async def flush(
        self, consumer: RawConsumer, windows: Collection[PartitionWindow], seconds: float
    ) -> None:
        """Wait for acknowledgements of what these windows have sent, and commit what is finished."""
        deadline = self._loop.time() + seconds
        while any(window.started_count > 0 for window in windows) and not self._is_manual:
            self._settled.clear()
            left = deadline - self._loop.time()
            if left <= 0:
                break
            try:
                async with asyncio.timeout(left):
                    await self._settled.wait()
            except TimeoutError:
                break
        began = self._loop.time()
        offsets = self._to_commit(windows)
        while offsets:
            try:
                await consumer.commit(
                    _by_partition(offsets), max(1.0, deadline - self._loop.time())
                )
            except WakeupError:
                continue
            except KafkaError as error:
                self._failed(error)
            else:
                self._succeeded(offsets, self._loop.time() - began)
            break
        self._committed.set()

    def _to_commit(
        self, windows: Collection[PartitionWindow]
    ) -> dict[PartitionWindow, OffsetAndMetadata]:
        found: dict[PartitionWindow, OffsetAndMetadata] = {}
        for window in windows:
            offset = window.to_commit()
            if offset is not None:
                found[window] = offset
        return found

    def _succeeded(
        self, offsets: Mapping[PartitionWindow, OffsetAndMetadata], seconds: float
    ) -> None:
        self.last_error = None
        self._counters.commits += 1
        records = sum(window.was_committed(offset) for window, offset in offsets.items())
        self._instruments.committed(self._spec, records, seconds)

    def _failed(self, error: Exception) -> None:
        if isinstance(error, KafkaError) and error.code is ErrorCode.OFFSET_METADATA_TOO_LARGE:
            self._on_fatal(metadata_error(self._spec, error))
        # Nothing is lost: the next commit has these offsets too, or the partition belongs to another member.
        self.last_error = error
        log.warning("%s: offsets were not committed: %s", self._spec.name, error)

    @property
    def is_settled(self) -> bool:
        """Whether everything that is finished is committed."""
        return not self._is_committing and not self._to_commit(self._windows.values())


def _by_partition(
    offsets: Mapping[PartitionWindow, OffsetAndMetadata],
) -> dict[TopicPartition, int | OffsetAndMetadata]:
    return {window.partition: offset for window, offset in offsets.items()}


class _ManualAcknowledgement:
    """Finishes records when their handler says so, on any thread, and what it returned is acknowledged."""

    __slots__ = ("_finish", "_is_called", "_loop", "is_over", "is_sent")

    def __init__(self, loop: asyncio.AbstractEventLoop, finish: Callable[[], None]) -> None:
        self._loop = loop
        self._finish = finish
        self._is_called = self.is_over = False
        self.is_sent = True

    def __call__(self) -> None:
        self._loop.call_soon_threadsafe(self._called)

    def _called(self) -> None:
        self._is_called = True
        self._look()

    def sent(self) -> None:
        """What the handler returned is acknowledged."""
        self.is_sent = True
        self._look()

    def _look(self) -> None:
        if self._is_called and self.is_sent and not self.is_over:
            self.is_over = True
            self._finish()


class _Acknowledgements:
    """Counts the acknowledgements of a unit's records."""

    __slots__ = ("_left", "error", "then")

    def __init__(self, count: int) -> None:
        self._left = count
        self.error: Exception | None = None
        self.then: Callable[[], None]

    def one(self, sent: RecordFuture) -> None:
        error = sent.exception()
        self.failed(error) if error is not None else self._count()

    def failed(self, error: Exception) -> None:
        self.error = self.error or error
        self._count()

    def _count(self) -> None:
        self._left -= 1
        if not self._left:
            self.then()
