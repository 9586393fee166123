"""Workers: they take records out of the windows, run the handler, and carry out what the error rules decide."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, Final, Protocol

from ottla.app.declarations.listener_spec import AckMode, ListenerSpec, Order, RawRecord
from ottla.app.delivery.error_rules import (
    BuryRecord,
    Decision,
    Hop,
    IgnoreRecord,
    RetryInPlace,
    StopListener,
    backoff_ms,
    decide,
)
from ottla.app.delivery.unit import CURRENT_UNIT, OutgoingRecord, Unit
from ottla.app.delivery.window import PartitionWindow
from ottla.app.errors import (
    BatchItemError,
    HandlerCancelledError,
    HandlerTimeoutError,
    UnreadableRecordError,
)
from ottla.app.instruments import Instruments, NoInstruments
from ottla.app.letters.history import original_record, read_history
from ottla.app.letters.letter_records import is_of_group
from ottla.app.listening.app_clock import AppClock
from ottla.app.listening.letter_writer import LetterWriter
from ottla.app.listening.listener_health import ListenerCounters

log = logging.getLogger("ottla.app")

# How many records of a partition a worker takes at a time, and how long it stays with them while others wait.
_RUN_RECORDS: Final = 256
_SLICE_SECONDS: Final = 0.005
_NO_LIMIT: Final = 2**62
_ENDED: Final = "its handler has ended"

_DONE: Final = "done"
_FILTERED: Final = "filtered"
_RETRY: Final = "retry"
_DEAD_LETTER: Final = "dead-letter"
_IGNORED: Final = "ignored"
_STOPPED: Final = "stopped"
# The counters for the outcomes that `Instruments.finished` names.
_COUNTERS: Final[dict[str, str | None]] = {
    _DONE: "done",
    _FILTERED: "filtered",
    _RETRY: "retried",
    _DEAD_LETTER: "dead_letters",
    _IGNORED: "ignored",
    _STOPPED: None,
}


class Finisher(Protocol):
    """Brings what handlers have done to its end: acknowledged and committed, or in a transaction."""

    collects_sends: bool
    """Whether what a handler sends with the template belongs to its unit."""

    def handled(
        self, window: PartitionWindow, records: Sequence[RawRecord], unit: Unit
    ) -> Coroutine[Any, Any, None] | None:
        """The records are done once the unit is delivered; the worker awaits the result before it goes on."""

    def finished(self, window: PartitionWindow, count: int) -> None:
        """So many records of the window were finished without a unit."""

    def acknowledgement(
        self, window: PartitionWindow, records: Sequence[RawRecord]
    ) -> Callable[[], None]:
        """What marks these records as finished, with manual acknowledgement."""

    def is_acknowledged(self, unit: Unit) -> bool:
        """Whether a handler that has failed had acknowledged its records before."""


class HandlerRun:
    """A run of the handler that is under way."""

    __slots__ = ("is_overdue", "record", "unit", "window")

    def __init__(self, window: PartitionWindow, record: RawRecord, unit: Unit) -> None:
        self.window = window
        self.record = record
        self.unit = unit
        self.is_overdue = False


class Workers:
    """Runs the handler of one listener, `spec.workers` at the same time at most."""

    def __init__(
        self,
        spec: ListenerSpec,
        *,
        letters: LetterWriter,
        instruments: Instruments,
        clock: AppClock,
        counters: ListenerCounters,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._spec = spec
        self._letters = letters
        self._instruments = instruments
        self._clock = clock
        self._counters = counters
        self._on_fatal = on_fatal
        self._loop = asyncio.get_running_loop()
        self._ready: deque[PartitionWindow] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._windows: Collection[PartitionWindow] = ()
        self._changed = asyncio.Event()
        self._retracting: set[asyncio.Task[None]] = set()
        self._seen: dict[HandlerRun, tuple[RawRecord | None, float]] = {}
        self.runs: dict[HandlerRun, None] = {}
        """The handlers that are running."""
        self.is_paused = False
        self.is_stopping = False
        self.finisher: Finisher
        handler = spec.handler
        if handler.is_batch:
            self._limit = spec.max_batch_records
        else:
            self._limit = _RUN_RECORDS if spec.order is Order.PARTITION else 1
        self._runs_in_thread = bool(getattr(handler, "runs_in_thread", False))

    def use(self, finisher: Finisher, windows: Collection[PartitionWindow]) -> None:
        """Where finished records go, and the windows that have records; called once, before the first record."""
        self.finisher = finisher
        self._windows = windows
        spec = self._spec
        self._is_plain = (
            not spec.handler.is_batch
            and spec.order is Order.PARTITION
            and not finisher.collects_sends
            and spec.accepts is None
            and spec.handler_timeout_seconds is None
            and spec.ack.mode not in (AckMode.MANUAL, AckMode.RECORD)
            and type(self._instruments) is NoInstruments
        )

    # Work comes

    def offer(self, window: PartitionWindow) -> None:
        """This window may have work."""
        self._queue(window)
        self.kick()

    def _queue(self, window: PartitionWindow) -> None:
        if not window.is_queued and not window.is_closed and len(window.queue):
            window.is_queued = True
            self._ready.append(window)

    def kick(self) -> None:
        """Wake a worker, or start one, if there may be work."""
        if not self._ready or self.is_stopping or self.is_paused:
            return
        while self._idle:
            waiting = self._idle.pop()
            if not waiting.done():
                waiting.set_result(None)
                return
        if len(self._tasks) < self._spec.workers:
            task = self._loop.create_task(self._work(), name=f"ottla-{self._spec.name}-worker")
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_fatal(error)

    async def _work(self) -> None:
        until = self._loop.time() + _SLICE_SECONDS
        while not self.is_stopping:
            window, records = self._next()
            if window is None:
                self._arm_timer()
                waiting = self._loop.create_future()
                self._idle.append(waiting)
                await waiting
                until = self._loop.time() + _SLICE_SECONDS
                continue
            if self._ready:
                self.kick()  # another worker for what is left
            await self._work_on(window, records)
            if self._loop.time() >= until:
                # Handlers that wait for nothing would keep the loop. A record that was put back behind a refused one
                # would be taken again and again, and the task that puts the refused one back would never run.
                await asyncio.sleep(0)
                until = self._loop.time() + _SLICE_SECONDS

    def _next(self) -> tuple[PartitionWindow | None, list[RawRecord]]:
        if self.is_stopping or self.is_paused:
            return None, []
        ready = self._ready
        now_ms = self._clock.now_ms()
        while ready:
            window = ready.popleft()
            records = self._start(window, now_ms)
            if not records:
                window.is_queued = False
                if window.next_due_ms is not None:
                    self._arm_timer()  # workers that other windows keep busy would never look again
                continue
            if self._spec.order is Order.PARTITION:
                window.is_queued = False  # until these are done
            else:
                ready.append(window)
            return window, records
        return None, []

    def _start(self, window: PartitionWindow, now_ms: int) -> list[RawRecord]:
        wait_seconds = self._spec.max_batch_wait_seconds
        if wait_seconds and self._spec.handler.is_batch:
            return window.start_batch(self._limit, now_ms, round(wait_seconds * 1000))
        return window.start(self._limit, now_ms)

    def _arm_timer(self) -> None:
        """Look again when the next record becomes due."""
        due = [each for window in self._windows if (each := window.next_due_ms) is not None]
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due:
            delay = max(0.0, (min(due) - self._clock.now_ms()) / 1000)
            self._timer = self._loop.call_later(delay + 0.001, self.look_at_due)

    def look_at_due(self) -> None:
        """Records may have become due."""
        for window in self._windows:
            if window.next_due_ms is not None:
                self.offer(window)

    # Work is done

    async def _work_on(self, window: PartitionWindow, records: list[RawRecord]) -> None:
        left = _Leftover(records)
        window.worker_count += 1
        try:
            if self._spec.handler.is_batch:
                await self._run_batch(window, left)
            elif self._is_plain and not window.is_retry_topic and not window.failing_count:
                await self._run_plain(window, left)
            else:
                await self._run_one_by_one(window, left)
        finally:
            window.worker_count -= 1
            window.settle(records, left.again, left.due_ms)
            self._changed.set()
            if left.due_ms:
                self._arm_timer()
            self._queue(window)  # this worker looks at it next

    async def _run_plain(self, window: PartitionWindow, left: _Leftover) -> None:
        """Nothing but calls of the handler, as quick as can be."""
        handler, finish, clock = self._spec.handler, window.finish, self._loop.time
        records = left.again
        unit = self._new_unit()
        run = HandlerRun(window, records[0], unit)
        self.runs[run] = None
        until = clock() + _SLICE_SECONDS
        done = finished = 0
        failure: Exception | None = None
        try:
            for record in records:
                run.record = record
                try:
                    await handler((record,), unit)
                except asyncio.CancelledError as error:
                    failure = _handler_cancelled(error)
                    break
                except Exception as error:
                    failure = error
                    break
                if unit.outgoing:
                    await self._deliver(window, (record,), unit)
                    unit = run.unit = self._new_unit()
                else:
                    finish(record)
                    finished += 1
                done += 1
                if window.is_closing or clock() >= until or self._is_held:
                    break
        finally:
            unit.close(_ENDED)
            del self.runs[run]
            left.again = records[done:]
            self._count(_DONE, done)
            if finished:
                self.finisher.finished(window, finished)
        if failure is not None:
            await self._fail_first(window, left, failure)
        elif left.again:
            await asyncio.sleep(0)

    async def _run_one_by_one(self, window: PartitionWindow, left: _Leftover) -> None:
        until = self._loop.time() + _SLICE_SECONDS
        while left.again:
            failure = await self._handle(window, left.again[0])
            if failure is not None:
                await self._fail_first(window, left, failure)
                return
            left.again = left.again[1:]
            if window.is_closing or self._is_held:
                return
            if self._loop.time() >= until:
                await asyncio.sleep(0)
                return

    async def _fail_first(
        self, window: PartitionWindow, left: _Leftover, failure: Exception
    ) -> None:
        due_ms = await self._failed(window, left.again[0], failure)
        if due_ms is None:
            left.again = left.again[1:]
        else:
            left.due_ms = {left.again[0].offset: due_ms}

    @property
    def _is_held(self) -> bool:
        return self.is_stopping or self.is_paused

    async def _handle(self, window: PartitionWindow, record: RawRecord) -> Exception | None:
        """One attempt at one record; returns why it failed."""
        shown = self._shown(window, record)
        try:
            is_accepted = shown is not None and (
                self._spec.accepts is None or self._spec.accepts(shown)
            )
        except Exception as error:
            return error
        unit = self._new_unit()
        if not is_accepted or shown is None:
            await self._deliver(window, (record,), unit)
            self._count(_FILTERED, 1)
            return None
        failure = await self._call(window, (record,), (shown,), unit)
        if failure is None:
            await self._deliver(window, (record,), unit)
            self._count(_DONE, 1)
        return failure

    def _shown(self, window: PartitionWindow, record: RawRecord) -> RawRecord | None:
        """The record as the handler sees it; None for a record of a retry topic that another group has put there."""
        if not window.is_retry_topic:
            return record
        history = read_history(record)
        if history is None or not is_of_group(history, record.topic, self._spec.group):
            return None
        return original_record(record)

    async def _run_batch(self, window: PartitionWindow, left: _Leftover) -> None:
        pending = await self._accepted(window, left)
        while pending:
            unit = self._new_unit()
            shown = [each for record in pending if (each := self._shown(window, record))]
            failure = await self._call(window, pending, shown, unit)
            if failure is None:
                await self._deliver(window, pending, unit)
                left.drop(pending)
                self._count(_DONE, len(pending))
                return
            index = failed_index(failure, len(pending))
            failed = pending if index is None else [pending[index]]
            for record in failed:
                await self._fail_of_batch(window, left, record, failure)
            pending = self._without(pending, failed, left)

    async def _accepted(self, window: PartitionWindow, left: _Leftover) -> list[RawRecord]:
        """The records of a batch that its handler wants."""
        accepted: list[RawRecord] = []
        filtered: list[RawRecord] = []
        blocked: list[RawRecord] = []
        for record in list(left.again):
            shown = self._shown(window, record)
            try:
                is_accepted = shown is not None and (
                    self._spec.accepts is None or self._spec.accepts(shown)
                )
            except Exception as error:
                await self._fail_of_batch(window, left, record, error)
                blocked.append(record)
                continue
            (accepted if is_accepted else filtered).append(record)
        if filtered:
            await self._deliver(window, filtered, self._new_unit())
            left.drop(filtered)
            self._count(_FILTERED, len(filtered))
        return self._without(accepted, blocked, left)

    async def _fail_of_batch(
        self, window: PartitionWindow, left: _Leftover, record: RawRecord, error: Exception
    ) -> None:
        due_ms = await self._failed(window, record, error)
        if due_ms is None:
            left.drop([record])
        else:
            left.due_ms[record.offset] = due_ms

    def _without(
        self, records: Sequence[RawRecord], failed: Sequence[RawRecord], left: _Leftover
    ) -> list[RawRecord]:
        """The records that may run now: not those that failed, and none that has to stay behind one that waits."""
        failed_offsets = {record.offset for record in failed}
        waiting = [record for record in failed if record.offset in left.due_ms]
        rest = [record for record in records if record.offset not in failed_offsets]
        if self._spec.order is Order.PARTITION and waiting:
            return [record for record in rest if record.offset < waiting[0].offset]
        if self._spec.order is Order.KEY:
            first: dict[bytes | None, int] = {
                each.key: each.offset for each in reversed(waiting) if each.key is not None
            }
            return [
                record
                for record in rest
                if record.offset < first.get(record.key, record.offset + 1)
            ]
        return rest

    async def _call(
        self,
        window: PartitionWindow,
        records: Sequence[RawRecord],
        shown: Sequence[RawRecord],
        unit: Unit,
    ) -> Exception | None:
        """Run the handler; returns what it raised."""
        spec, timeout = self._spec, self._spec.handler_timeout_seconds
        run = HandlerRun(window, records[0], unit)
        self.runs[run] = None
        if self.finisher.collects_sends:
            CURRENT_UNIT.set(unit)
        if spec.ack.mode is AckMode.MANUAL:
            unit.acknowledge = self.finisher.acknowledgement(window, records)
        try:
            with self._instruments.handling(
                spec, shown, self._failed_count(window, records[0]) + 1
            ):
                if timeout is None:
                    await spec.handler(shown, unit)
                elif self._runs_in_thread:
                    await self._call_thread(run, shown, timeout)
                else:
                    await self._call_until(run, shown, timeout)
        except asyncio.CancelledError as error:
            return _handler_cancelled(error)
        except Exception as error:
            if unit.acknowledge is not None and self.finisher.is_acknowledged(unit):
                log.error(
                    "%s: the handler failed after it had acknowledged %s",
                    spec.name,
                    place_of(records[0]),
                    exc_info=error,
                )
                return None
            return error
        finally:
            unit.close(_ENDED)
            if self.finisher.collects_sends:
                CURRENT_UNIT.set(None)
            del self.runs[run]
        return None

    async def _call_until(
        self, run: HandlerRun, shown: Sequence[RawRecord], timeout: float
    ) -> None:
        try:
            async with asyncio.timeout(timeout) as limit:
                await self._spec.handler(shown, run.unit)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise self._timed_out(timeout) from error

    async def _call_thread(
        self, run: HandlerRun, shown: Sequence[RawRecord], timeout: float
    ) -> None:
        """A thread cannot be cancelled: its partition or key waits for it, and its unit takes nothing more."""

        def expire() -> None:
            run.is_overdue = True
            run.unit.close(f"its handler has run longer than {timeout:g} s")
            log.error(
                "%s: the handler has worked on %s for %g s; a thread cannot be cancelled, so the records behind "
                "it wait until it returns",
                self._spec.name,
                place_of(run.record),
                timeout,
            )

        timer = self._loop.call_later(timeout, expire)
        try:
            await self._spec.handler(shown, run.unit)
        except Exception as error:
            # Its unit takes no result any more: that is an effect of the timeout.
            if run.is_overdue:
                raise self._timed_out(timeout) from error
            raise
        finally:
            timer.cancel()
        if run.is_overdue:
            raise self._timed_out(timeout)

    def _timed_out(self, timeout: float) -> HandlerTimeoutError:
        return HandlerTimeoutError(f"the handler ran longer than its limit of {timeout:g} s")

    async def _deliver(
        self, window: PartitionWindow, records: Sequence[RawRecord], unit: Unit
    ) -> None:
        unit.close(_ENDED)
        if window.is_closed:
            return  # another member has the records by now
        waiting = self.finisher.handled(window, records, unit)
        if waiting is not None:
            await waiting

    # Failures

    def _failed_count(self, window: PartitionWindow, record: RawRecord) -> int:
        """How many attempts at a record have failed, here and before it came into this topic."""
        failures = window.failures_of(record)
        if failures is not None:
            return failures.count
        history = read_history(record) if window.is_retry_topic else None
        return 0 if history is None else history.attempts

    async def _failed(
        self, window: PartitionWindow, record: RawRecord, error: Exception
    ) -> int | None:
        """Carry out what the rules say; returns when the record has to be tried again in place, if it has."""
        failed_count = self._failed_count(window, record) + 1
        decision = decide(self._spec, error, failed_count)
        now_ms = self._clock.now_ms()
        self._log_failure(record, error, failed_count, decision)
        if isinstance(decision, RetryInPlace):
            due_ms = now_ms + decision.delay_ms
            reason = None if decision.is_planned else f"{type(error).__name__}: {error}"
            window.note_failure(record, failed_count, due_ms, now_ms, reason)
            self.finisher.finished(window, 0)  # the metadata tells of the failure
            self._count(_RETRY, 1)
            return due_ms
        if isinstance(decision, StopListener):
            self._count(_STOPPED, 1)
            self._on_fatal(error)
            return now_ms
        unit = self._new_unit()
        outcome = _IGNORED
        if isinstance(decision, Hop):
            outcome = _RETRY
            letter = self._letters.hop(
                record,
                error,
                failed_count=failed_count,
                due_ms=now_ms + decision.delay_ms,
                now_ms=now_ms,
            )
            unit = _letter_unit(letter)
        elif isinstance(decision, BuryRecord):
            outcome = _DEAD_LETTER
            failures = window.failures_of(record)
            letter = self._letters.dead_letter(
                record,
                error,
                failed_count=failed_count,
                first_failed_ms=None if failures is None else failures.first_ms,
                now_ms=now_ms,
            )
            unit = _letter_unit(letter)
        await self._deliver(window, (record,), unit)
        self._count(outcome, 1)
        return None

    def _log_failure(
        self, record: RawRecord, error: Exception, failed_count: int, decision: Decision
    ) -> None:
        what = {
            RetryInPlace: "it is tried again in place",
            Hop: "it goes to its retry topic",
            BuryRecord: "it becomes a dead letter",
            StopListener: "the listener stops",
            IgnoreRecord: "it is ignored, as the listener's rules say",
        }[type(decision)]
        if isinstance(decision, RetryInPlace | Hop):
            what += f" in {decision.delay_ms / 1000:g} s"
        is_quiet = isinstance(decision, IgnoreRecord | Hop) or (
            isinstance(decision, RetryInPlace) and decision.is_planned
        )
        log.log(
            logging.WARNING if is_quiet else logging.ERROR,
            "%s: attempt %d at %s failed, %s: %s: %s",
            self._spec.name,
            failed_count,
            place_of(record),
            what,
            type(error).__name__,
            error,
            exc_info=None if is_quiet else error,
        )

    def not_delivered(
        self, window: PartitionWindow, records: Sequence[RawRecord], unit: Unit, error: Exception
    ) -> None:
        """What a handler sent, or a letter, was refused: the attempt has failed after all."""
        if window.is_closed:
            return
        task = self._loop.create_task(self._retract(window, records, unit, error))
        self._retracting.add(task)
        task.add_done_callback(self._retracted)

    def _retracted(self, task: asyncio.Task[None]) -> None:
        self._retracting.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_fatal(error)

    async def _retract(
        self, window: PartitionWindow, records: Sequence[RawRecord], unit: Unit, error: Exception
    ) -> None:
        for record in records:
            due_ms: int | None
            if unit.is_letter:
                count = self._failed_count(window, record) + 1
                now_ms = self._clock.now_ms()
                due_ms = now_ms + backoff_ms(count)
                reason = f"its letter could not be written: {error}"
                window.note_failure(record, count, due_ms, now_ms, reason)
                log.error(
                    "%s: the letter of %s could not be written, it is tried again: %s",
                    self._spec.name,
                    place_of(record),
                    error,
                )
            else:
                due_ms = await self._failed(window, record, error)
            if due_ms is not None and not window.is_closed:
                window.requeue(record, due_ms)
        self._arm_timer()
        self.offer(window)

    def _new_unit(self) -> Unit:
        spec = self._spec
        return Unit(max_records=spec.max_unit_records, max_bytes=spec.max_unit_bytes)

    def _count(self, outcome: str, records: int) -> None:
        if records:
            counters = self._counters
            name = _COUNTERS[outcome]
            if name is not None:
                setattr(counters, name, getattr(counters, name) + records)
            self._instruments.finished(self._spec, outcome, records)

    # Pauses and the end

    def note_slow_runs(self) -> None:
        """Remember what handlers are at; called now and then, so that a quick handler costs nothing."""
        now = self._loop.time()
        self._seen = {
            run: self._seen.get(run, (None, now))
            if self._seen.get(run, (None, now))[0] is run.record
            else (run.record, now)
            for run in self.runs
        }

    def working_since(self, run: HandlerRun) -> float | None:
        """Since when a handler has been at its record, about; None if that is not long."""
        record, since = self._seen.get(run, (None, 0.0))
        return since if record is run.record else None

    async def wait_idle(self, windows: Collection[PartitionWindow], seconds: float) -> bool:
        """Wait until no worker is busy with these windows; False if some still are after the time."""
        deadline = self._loop.time() + seconds
        while any(window.worker_count for window in windows):
            self._changed.clear()
            left = deadline - self._loop.time()
            if left <= 0:
                return False
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                return False
        return True

    def close_units(self, windows: Collection[PartitionWindow], because: str) -> None:
        """What handlers of these windows still want to send is refused."""
        for run in self.runs:
            if run.window in windows:
                run.unit.close(because)

    async def stop(self) -> None:
        """End the workers; handlers that still run are cancelled."""
        self.is_stopping = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = [*self._tasks, *self._retracting]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Leftover:
    """What a worker took and has not brought to an end, in the order of the log."""

    __slots__ = ("again", "due_ms")

    def __init__(self, records: list[RawRecord]) -> None:
        self.again = records
        self.due_ms: dict[int, int] = {}

    def drop(self, records: Sequence[RawRecord]) -> None:
        """These are through."""
        offsets = {record.offset for record in records}
        self.again = [record for record in self.again if record.offset not in offsets]


def _handler_cancelled(error: asyncio.CancelledError) -> HandlerCancelledError:
    """A failure of the handler; raises the error again if the worker itself is cancelled."""
    task = asyncio.current_task()
    if task is None or task.cancelling():
        raise error
    return HandlerCancelledError(f"the handler was cancelled: {error}")


def place_of(record: RawRecord) -> str:
    """Where a record is, for people."""
    return f"{record.topic}-{record.partition} offset {record.offset}"


def failed_index(error: Exception, count: int) -> int | None:
    """Which record of a batch an error is about; None if it is about the batch, or about no record of it."""
    if isinstance(error, BatchItemError | UnreadableRecordError) and 0 <= error.index < count:
        return error.index
    return None


def _letter_unit(letter: OutgoingRecord) -> Unit:
    unit = Unit(max_records=1, max_bytes=_NO_LIMIT)
    unit.is_letter = True
    unit.collect(letter)
    return unit
