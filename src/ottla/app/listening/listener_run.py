"""A listener that runs: a consumer in its group, workers, and commits."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from inspect import isawaitable
from typing import Any, Final, TypeVar

from ottla.app.declarations.listener_spec import Delivery, ListenerSpec
from ottla.app.delivery.gaps import NO_GAPS, Gaps, decode_gaps
from ottla.app.delivery.window import PartitionWindow, WindowLimits
from ottla.app.instruments import Instruments, NoInstruments
from ottla.app.letters.history import read_history
from ottla.app.listening.app_clock import AppClock
from ottla.app.listening.clients import Clients, RawConsumer
from ottla.app.listening.letter_writer import LetterWriter
from ottla.app.listening.listener_health import (
    ListenerCounters,
    ListenerHealth,
    ListenerStatus,
    PartitionHealth,
)
from ottla.app.listening.metadata_limit import read_metadata_limit
from ottla.app.listening.offset_commits import OffsetCommits
from ottla.app.listening.transaction_committer import TransactionCommitter
from ottla.app.listening.workers import Workers, place_of
from ottla.client.admin_model.offsets import IsolationLevel, OffsetSpec
from ottla.client.model import (
    ConsumerGroupMetadata,
    ConsumerRecords,
    OffsetAndMetadata,
    OffsetAndTimestamp,
)
from ottla.errors import ConfigError, IllegalStateError, RetriableError, TimedOutError, WakeupError
from ottla.model import TopicPartition

log = logging.getLogger("ottla.app")

T = TypeVar("T")

Start = int | str | datetime | timedelta
"""Where to start in a partition: an offset, "beginning", "end", a time, or a duration before now."""

_POLL_SECONDS: Final = 0.5
_FIRST_BACKOFF_SECONDS: Final = 0.1
_MAX_BACKOFF_SECONDS: Final = 5.0
# Of max.poll.interval.ms, how long a revocation waits for handlers, and then for commits.
_HANDLER_SHARE: Final = 0.4
_COMMIT_SHARE: Final = 0.1
_SLOW_HANDLER_SECONDS: Final = 60.0
_MAX_REASONS: Final = 3
_CLAIM_SECONDS: Final = 15.0
# All windows together may hold as much as so many full ones.
_TOTAL_SHARE: Final = 4


class ListenerRun:
    """Runs one listener. All methods belong to the loop on which it was started."""

    def __init__(
        self,
        spec: ListenerSpec,
        clients: Clients,
        *,
        instruments: Instruments | None = None,
        clock: AppClock | None = None,
    ) -> None:
        self.spec = spec
        self.counters = ListenerCounters()
        self._clients = clients
        self._instruments: Instruments = NoInstruments() if instruments is None else instruments
        self._clock = AppClock() if clock is None else clock
        self._limits = WindowLimits(spec.max_window_records, spec.max_window_bytes)
        self._status = ListenerStatus.STARTING
        self._failure: BaseException | None = None
        self._windows: dict[TopicPartition, PartitionWindow] = {}
        self._unclaimed: dict[TopicPartition, None] = {}
        self._commands: deque[tuple[Callable[[], Awaitable[None]], asyncio.Future[Any]]] = deque()
        self._is_polling = False
        self._is_user_paused = spec.starts_paused
        self._is_stopping = False
        self._was_assigned = False
        self._idle_received = -1
        self._idle_since = 0.0
        self._consumer: RawConsumer | None = None
        self._pump_task: asyncio.Task[None] | None = None
        self._group_metadata: ConsumerGroupMetadata | None = None
        self._letters = LetterWriter(spec)

    # Start and end

    async def start(self) -> None:
        """Join the group; returns when the consumer is subscribed."""
        if self._pump_task is not None:
            raise IllegalStateError(f"listener {self.spec.name} was started already")
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        """Done when the listener has ended, by `stop` or by a failure, which it raises."""
        self.ended.add_done_callback(_retrieve_exception)
        self._workers = Workers(
            self.spec,
            letters=self._letters,
            instruments=self._instruments,
            clock=self._clock,
            counters=self.counters,
            on_fatal=self.fail,
        )
        self._finisher = self._create_finisher()
        self._workers.use(self._finisher, self._windows.values())
        self._workers.is_paused = self._is_user_paused
        self._clock.on_advance.append(self._workers.look_at_due)
        if not isinstance(self.spec.topics, re.Pattern):
            await self._letters.create_topics(self._clients.admin, self.spec.topics)
        self._limits = replace(
            self._limits, metadata_bytes=await read_metadata_limit(self._clients.admin)
        )
        config = self._clients.consumer_config(self._consumer_options())
        await self._finisher.start()
        try:
            self._consumer = self._clients.consumer(self._consumer_options())
            self._consumer.subscribe(self._letters.subscription(), _RebalanceCalls(self))
        except BaseException:
            await self._finisher.close()
            if self._consumer is not None:
                await self._consumer.close()
            raise
        self._max_poll_seconds = config.max_poll_interval_ms / 1000
        self._isolation_level = (
            IsolationLevel.READ_COMMITTED
            if config.reads_committed
            else IsolationLevel.READ_UNCOMMITTED
        )
        self._status = ListenerStatus.RUNNING
        self._pump_task = self._loop.create_task(self._run(), name=f"ottla-{self.spec.name}")

    def _create_finisher(self) -> OffsetCommits | TransactionCommitter:
        if self.spec.delivery is Delivery.AT_LEAST_ONCE:
            return OffsetCommits(
                self.spec,
                clients=self._clients,
                windows=self._windows,
                instruments=self._instruments,
                counters=self.counters,
                wake_pump=self._wake,
                not_delivered=self._workers.not_delivered,
                offer=self._workers.offer,
                on_fatal=self.fail,
            )
        return TransactionCommitter(
            self.spec,
            clients=self._clients,
            windows=self._windows,
            instruments=self._instruments,
            counters=self.counters,
            group_metadata=lambda: self._group_metadata,
            not_delivered=self._workers.not_delivered,
            offer=self._workers.offer,
            wake_pump=self._wake,
            claim_again=self._claim_again,
            on_fatal=self.fail,
        )

    def _consumer_options(self) -> dict[str, object]:
        options: dict[str, object] = {"client.id": self.spec.name, **self.spec.consumer_options}
        options["group.id"] = self.spec.group
        options["enable.auto.commit"] = False
        if self.spec.delivery is Delivery.EXACTLY_ONCE:
            options["isolation.level"] = "read_committed"
        return options

    async def drain(self, timeout: float | None = None) -> None:
        """Finish the records in hand, commit, and leave the group; after `timeout` seconds handlers are cancelled."""
        if self._pump_task is None or self._is_stopping:
            await self._ended_quietly()
            return
        self._status = ListenerStatus.DRAINING
        self._workers.is_paused = True
        limit = self._max_poll_seconds * _HANDLER_SHARE if timeout is None else timeout
        if not await self._workers.wait_idle(self._windows.values(), limit):
            for run in self._workers.runs:
                log.warning(
                    "%s: the handler did not finish %s within %g s; the record will be delivered again",
                    self.spec.name,
                    place_of(run.record),
                    limit,
                )
        await self.stop()

    async def stop(self) -> None:
        """Cancel the handlers that run, commit what is finished, and leave the group."""
        if self._pump_task is None:
            self._status = ListenerStatus.STOPPED
            return
        self._is_stopping = True
        self._workers.close_units(self._windows.values(), "its listener has stopped")
        await self._workers.stop()
        self._wake()
        await self._ended_quietly()

    async def _ended_quietly(self) -> None:
        if self._pump_task is not None:
            await asyncio.wait([self._pump_task])

    def fail(self, error: BaseException) -> None:
        """Stop for good, because of this error; nothing beyond the record that failed is committed."""
        if self._failure is None:
            self._failure = error
            log.error("%s stops: %s: %s", self.spec.name, type(error).__name__, error)
        self._is_stopping = True
        self._workers.is_paused = True
        self._wake()

    # The pump

    async def _run(self) -> None:
        """Poll until the end; then finish, commit and close."""
        failures = 0
        try:
            while not self._is_stopping:
                try:
                    await self._turn()
                    failures = 0
                except RetriableError as error:
                    failures += 1
                    delay = _backoff_seconds(failures)
                    log.warning("%s: %s; again in %.1f s", self.spec.name, error, delay)
                    await asyncio.sleep(delay)
        except Exception as error:
            self.fail(error)
        finally:
            await self._close()

    async def _turn(self) -> None:
        consumer = self._consumer
        assert consumer is not None
        self._is_polling = True
        try:
            records: ConsumerRecords[bytes | None, bytes | None] | None
            records = await consumer.poll(self._poll_seconds)
        except WakeupError:
            records = None
        finally:
            self._is_polling = False
        self._group_metadata = consumer.group_metadata()
        if self._unclaimed:
            await self._claim_new(consumer)
        if records is not None and records.next_offsets:
            self._take(records)
        while self._commands:
            await self._commands.popleft()[0]()
        self._pause_and_resume(consumer)
        self._finisher.commit_due(consumer)
        self._workers.note_slow_runs()
        await self._tell_idle()

    async def _tell_idle(self) -> None:
        """Call on_idle when no record has come for its time, and again after every such time."""
        after = self.spec.idle_after_seconds
        now = self._loop.time()
        if after is None or self.spec.on_idle is None:
            return
        is_busy = self._workers.runs or any(
            window.progress.unfinished_count for window in self._windows.values()
        )
        if is_busy or not self._windows or self.counters.received != self._idle_received:
            self._idle_received = self.counters.received
            self._idle_since = now
        elif now - self._idle_since >= after:
            self._idle_since = now
            told = self.spec.on_idle()
            if isawaitable(told):
                await told

    @property
    def _poll_seconds(self) -> float:
        after = self.spec.idle_after_seconds
        return _POLL_SECONDS if after is None else min(_POLL_SECONDS, max(0.01, after / 2))

    def _wake(self) -> None:
        """Let the pump look at what has changed; if it polls, the poll ends."""
        if self._is_polling and self._consumer is not None:
            self._is_polling = False
            self._consumer.wakeup()

    def _take(self, records: ConsumerRecords[bytes | None, bytes | None]) -> None:
        now_ms = self._clock.now_ms()
        for partition, next_offset in records.next_offsets.items():
            window = self._windows.get(partition)
            if window is None:
                continue
            found = records.records(partition)
            first_offset = found[0].offset if found else next_offset.offset
            if window.is_closed:
                window.passed_by(first_offset)
                continue
            position = window.progress.position
            if position is not None and first_offset < position:
                window = self._begin_again(window, first_offset)
            due_ms: dict[int, int] = {}
            if window.is_retry_topic:
                for record in found:
                    history = read_history(record)
                    if history is not None and history.due_ms is not None:
                        due_ms[record.offset] = history.due_ms
            self.counters.skipped += window.take(found, next_offset, due_ms, now_ms)
            self.counters.received += len(found)
            if found:
                self._workers.offer(window)
            else:
                self._finisher.finished(
                    window, 0
                )  # the position has passed offsets without records

    def _pause_and_resume(self, consumer: RawConsumer) -> None:
        windows, limits = self._windows.values(), self._limits
        holds_all = self._is_user_paused or (
            len(windows) > _TOTAL_SHARE
            and (
                sum(map(len, windows)) >= _TOTAL_SHARE * limits.records
                or sum(each.waiting_bytes for each in windows) >= _TOTAL_SHARE * limits.record_bytes
            )
        )
        full = [
            window.partition
            for window in windows
            if not window.is_fetch_paused and (holds_all or window.is_full)
        ]
        free = [
            window.partition
            for window in windows
            if window.is_fetch_paused and not holds_all and window.has_room
        ]
        for partition in full:
            self._windows[partition].is_fetch_paused = True
        for partition in free:
            self._windows[partition].is_fetch_paused = False
        if full:
            consumer.pause(full)
        if free:
            consumer.resume(free)

    async def _close(self) -> None:
        consumer = self._consumer
        assert consumer is not None
        if self._failure is not None:
            await self._workers.wait_idle(
                self._windows.values(), self._max_poll_seconds * _HANDLER_SHARE
            )
        self._workers.close_units(self._windows.values(), "its listener has stopped")
        await self._workers.stop()
        try:
            # It calls `revoked`, which commits.
            await consumer.close()
        except Exception as error:
            self._failure = self._failure or error
            log.error("%s: the consumer could not be closed: %s", self.spec.name, error)
        await self._finisher.close()
        for _, done in self._commands:
            if not done.done():
                done.set_exception(IllegalStateError(f"listener {self.spec.name} has stopped"))
        with suppress(ValueError):
            self._clock.on_advance.remove(self._workers.look_at_due)
        self._status = ListenerStatus.STOPPED if self._failure is None else ListenerStatus.FAILED
        if not self.ended.done():
            if self._failure is None:
                self.ended.set_result(None)
            else:
                self.ended.set_exception(self._failure)

    # Rebalances, called in the pump's polls

    async def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """The group has given us these partitions."""
        consumer = self._consumer
        assert consumer is not None
        self.counters.rebalances += 1
        self._group_metadata = consumer.group_metadata()
        # Until there are windows: without any it would seem to be settled.
        self._was_assigned = not partitions
        # Nothing is read before the committed offsets and their gaps are known.
        self._unclaimed |= dict.fromkeys(partitions)
        if partitions:
            consumer.pause(partitions)
            await self._claim_new(consumer)

    async def _claim_new(self, consumer: RawConsumer) -> None:
        """Claim the partitions that were assigned; if the cluster does not answer, the next turn tries again."""
        partitions = list(self._unclaimed)
        try:
            await self._letters.create_topics(
                self._clients.admin, {partition.topic for partition in partitions}
            )
            committed = await self._uninterrupted(
                lambda: consumer.committed(partitions, _CLAIM_SECONDS)
            )
        except RetriableError as error:
            log.warning("%s: its partitions cannot be claimed yet: %s", self.spec.name, error)
            return
        self._unclaimed.clear()
        for partition in partitions:
            self._claim(consumer, partition, committed[partition])
            self._windows[partition].is_fetch_paused = self._is_user_paused
        if not self._is_user_paused:
            consumer.resume(partitions)
        if self.spec.start_positions is not None:
            await self._seek_to(consumer, await self.spec.start_positions(partitions))
        self._was_assigned = True
        await _call(self.spec.on_assigned, partitions)

    def _claim(
        self, consumer: RawConsumer, partition: TopicPartition, found: OffsetAndMetadata | None
    ) -> None:
        """Begin with a partition where its last owner has stopped, or where we began before."""
        before = self._windows.get(partition)
        start_offset = None if before is None else before.restart_offset(found)
        gaps = NO_GAPS
        if start_offset is not None:
            consumer.seek(partition, start_offset)
        elif found is not None:
            gaps = decode_gaps(found.metadata, found.offset)
            # The consumer looks the offset up once more; the gaps must belong to the one that it uses.
            consumer.seek(partition, OffsetAndMetadata(found.offset, "", found.leader_epoch))
        self._open(partition, found, gaps, start_offset)

    def _open(
        self,
        partition: TopicPartition,
        committed: OffsetAndMetadata | None,
        gaps: Gaps,
        start_offset: int | None,
    ) -> PartitionWindow:
        before = self._windows.get(partition)
        window = PartitionWindow(
            partition,
            self.spec.order,
            self._limits,
            committed,
            gaps,
            start_offset=start_offset,
            is_retry_topic=self._letters.is_own_retry_topic(partition.topic),
        )
        # The consumer's partition is still paused.
        window.is_fetch_paused = before is not None and before.is_fetch_paused
        self._windows[partition] = window
        return window

    def _begin_again(self, before: PartitionWindow, offset: int) -> PartitionWindow:
        """The topic was made again, or its end was cut off: what is known is about other records."""
        log.warning("%s: %s begins again at offset %d", self.spec.name, before.partition, offset)
        self._workers.close_units([before], "its partition has begun again")
        before.close()
        return self._open(before.partition, before.committed, NO_GAPS, offset)

    async def _claim_again(self) -> None:
        """The committer dropped everything: go back to the committed offsets."""
        self._workers.close_units(
            self._windows.values(), "its transaction failed, and it runs again"
        )
        while not self._is_stopping:
            try:
                await self._on_pump(self._claim_all)
                return
            except RetriableError as error:
                log.warning("%s: its partitions cannot be claimed yet: %s", self.spec.name, error)

    async def _claim_all(self, consumer: RawConsumer) -> None:
        # A handler that still runs must not meet the same record a second time.
        await self._workers.wait_idle(
            list(self._windows.values()), self._max_poll_seconds * _HANDLER_SHARE
        )
        # Not those that the group has given us since: they began at their committed offsets.
        partitions = [each for each, window in self._windows.items() if window.is_closed]
        if partitions:
            committed = await self._uninterrupted(
                lambda: consumer.committed(partitions, _CLAIM_SECONDS)
            )
            for partition in partitions:
                self._claim(consumer, partition, committed[partition])

    async def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """We give these partitions up: finish what is in hand, and commit."""
        consumer = self._consumer
        assert consumer is not None
        # Until the rebalance is over: without partitions it would seem to be settled.
        self._was_assigned = False
        # A cooperative rebalance revokes in the new generation, which the offsets have to name.
        self._group_metadata = consumer.group_metadata()
        self._forget_unclaimed(partitions)
        windows = [self._windows[each] for each in partitions if each in self._windows]
        for window in windows:
            window.is_closing = True
        self._finisher.closing()
        if not await self._workers.wait_idle(windows, self._max_poll_seconds * _HANDLER_SHARE):
            log.warning(
                "%s: partitions are given up while their handlers run; another member will run them again",
                self.spec.name,
            )
        await self._finisher.flush(consumer, windows, self._max_poll_seconds * _COMMIT_SHARE)
        self._give_up(windows, "its partition was given to another member of the group")
        await _call(self.spec.on_revoked, partitions)

    async def lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Other members have these partitions already."""
        self._was_assigned = False
        self._forget_unclaimed(partitions)
        windows = [self._windows[each] for each in partitions if each in self._windows]
        self._give_up(windows, "its partition belongs to another member of the group")
        await _call(self.spec.on_revoked, partitions)

    def _forget_unclaimed(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._unclaimed.pop(partition, None)

    def _give_up(self, windows: Collection[PartitionWindow], because: str) -> None:
        self._workers.close_units(windows, because)
        for window in windows:
            window.close()
            self._windows.pop(window.partition, None)

    async def _uninterrupted(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """A call of the consumer that a wakeup, which was meant for a poll, must not end."""
        while True:
            try:
                return await call()
            except WakeupError:
                continue

    # What users may ask for

    def pause(self) -> None:
        """Start no more handlers until `resume`; the listener stays in its group."""
        self._is_user_paused = True
        self._workers.is_paused = True
        self._wake()

    def resume(self) -> None:
        """Go on after `pause`."""
        self._is_user_paused = False
        self._workers.is_paused = False
        for window in self._windows.values():
            self._workers.offer(window)
        self._wake()

    @property
    def is_paused(self) -> bool:
        """Whether `pause` was called last."""
        return self._is_user_paused

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that the listener has now."""
        return list(self._windows)

    async def seek(self, positions: Mapping[tuple[str, int], Start]) -> None:
        """Go on at these positions in partitions that the listener has now."""
        await self._on_pump(lambda consumer: self._seek_to(consumer, positions))

    async def _seek_to(
        self, consumer: RawConsumer, positions: Mapping[tuple[str, int], Start]
    ) -> None:
        times: dict[TopicPartition, int] = {}
        for key, start in positions.items():
            partition = TopicPartition(*key)
            if partition not in self._windows:
                raise IllegalStateError(f"listener {self.spec.name} does not have {partition} now")
            if isinstance(start, datetime):
                times[partition] = round(start.timestamp() * 1000)
            elif isinstance(start, timedelta):
                times[partition] = self._clock.now_ms() - round(start.total_seconds() * 1000)
        found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        if times:
            found = await self._uninterrupted(lambda: consumer.offsets_for_times(dict(times)))
        ends = await self._ends(consumer, positions, found)
        for partition, offset in ends.items():
            before = self._windows[partition]
            self._workers.close_units([before], "its listener was moved to another position")
            before.close()
            consumer.seek(partition, offset)
            self._open(partition, before.committed, NO_GAPS, offset)

    async def _ends(
        self,
        consumer: RawConsumer,
        positions: Mapping[tuple[str, int], Start],
        found: Mapping[TopicPartition, OffsetAndTimestamp | None],
    ) -> dict[TopicPartition, int]:
        """The offsets that positions stand for; a time after the last record stands for the end."""
        offsets: dict[TopicPartition, int] = {}
        first: list[TopicPartition] = []
        last: list[TopicPartition] = []
        for key, start in positions.items():
            partition = TopicPartition(*key)
            at = found.get(partition)
            if at is not None:
                offsets[partition] = at.offset
            elif start == "beginning":
                first.append(partition)
            elif start == "end" or partition in found:
                last.append(partition)
            elif isinstance(start, int) and not isinstance(start, bool) and start >= 0:
                offsets[partition] = start
            else:
                raise ConfigError(
                    f'{start!r} is no position: write an offset, "beginning", "end", a time or a timedelta'
                )
        if first:
            offsets |= await self._uninterrupted(lambda: consumer.beginning_offsets(first))
        if last:
            offsets |= await self._uninterrupted(lambda: consumer.end_offsets(last))
        return offsets

    async def _on_pump(self, call: Callable[[RawConsumer], Coroutine[Any, Any, T]]) -> T:
        """Run a call that uses the consumer, between two polls."""
        if self._consumer is None or self._is_stopping:
            raise IllegalStateError(f"listener {self.spec.name} does not run")
        consumer = self._consumer
        done: asyncio.Future[T] = self._loop.create_future()

        async def run() -> None:
            try:
                result = await call(consumer)
            except Exception as error:
                if not done.done():
                    done.set_exception(error)
            else:
                if not done.done():
                    done.set_result(result)

        self._commands.append((run, done))
        self._wake()
        return await done

    # How it fares

    async def is_settled(self) -> bool:
        """Whether every record up to the present ends of its partitions is finished and committed."""
        if not self._was_assigned or self._unclaimed:
            return False
        # Not by the consumer, whose connection waits for the answer of a fetch.
        ends = await self._clients.admin.list_offsets(
            dict.fromkeys(self._windows, OffsetSpec.LATEST), isolation_level=self._isolation_level
        )
        for partition, listed in ends.items():
            window = self._windows.get(partition)
            if window is None or window.progress.unfinished_count:
                return False
            done = window.progress.commit_offset
            if done is None:
                # No record has come: the consumer may have started at the end.
                done = await self._on_pump(partial(_position, partition=partition))
            if done < listed.offset:
                return False
        return self._finisher.is_settled

    def health(self) -> ListenerHealth:
        """The status, and why it is stalled, if it is."""
        if self._failure is not None:
            reason = f"it failed: {type(self._failure).__name__}: {self._failure}"
            return ListenerHealth(self.spec.name, ListenerStatus.FAILED, (reason,))
        if self._consumer is None or self._status is ListenerStatus.STOPPED:
            return ListenerHealth(self.spec.name, self._status)
        consumer = self._consumer.health()
        reasons = [*self._stalls(), *consumer.reasons]
        status = self._status
        if status is ListenerStatus.RUNNING:
            if reasons:
                status = ListenerStatus.STALLED
            elif self._is_user_paused:
                status = ListenerStatus.PAUSED
        partitions = tuple(_health_of(window) for window in self._windows.values())
        return ListenerHealth(self.spec.name, status, tuple(reasons), consumer, partitions)

    def _stalls(self) -> list[str]:
        reasons = [
            f"the handler has worked on {place_of(run.record)} longer than its handler_timeout, "
            "and a thread cannot be cancelled"
            for run in self._workers.runs
            if run.is_overdue
        ]
        now_ms = self._clock.now_ms()
        for window in self._windows.values():
            reasons += [
                f"{window.partition} offset {offset} has failed {each.count} times and has nowhere to go, it is tried "
                f"again in {max(0, each.due_ms - now_ms) / 1000:.0f} s: {each.stall_reason}"
                for offset, each in window.stalls()[:_MAX_REASONS]
            ]
        reasons += self._slow_handlers()
        if self._finisher.last_error is not None:
            reasons.append(f"offsets are not committed: {self._finisher.last_error}")
        return reasons

    def _slow_handlers(self) -> list[str]:
        now = self._loop.time()
        return [
            f"the handler has worked on {place_of(run.record)} for {now - since:.0f} s"
            for run in self._workers.runs
            if (since := self._workers.working_since(run)) is not None
            and now - since >= _SLOW_HANDLER_SECONDS
            and not run.is_overdue
        ]


def _backoff_seconds(failures: int) -> float:
    return min(_MAX_BACKOFF_SECONDS, _FIRST_BACKOFF_SECONDS * (1 << min(failures, 16)))


def _health_of(window: PartitionWindow) -> PartitionHealth:
    unfinished = window.progress.unfinished_count
    return PartitionHealth(
        window.partition,
        unfinished=unfinished,
        first_unfinished=window.progress.commit_offset if unfinished else None,
        is_full=window.is_fetch_paused,
        retry_due_ms=None if window.is_retry_topic else window.queue.next_due_ms,
    )


class _RebalanceCalls:
    """The consumer's rebalance listener."""

    def __init__(self, run: ListenerRun) -> None:
        self._run = run

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        await self._run.assigned(partitions)

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        await self._run.revoked(partitions)

    async def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        await self._run.lost(partitions)


async def _position(consumer: RawConsumer, partition: TopicPartition) -> int:
    try:
        return await consumer.position(partition, _POLL_SECONDS)
    except (WakeupError, TimedOutError, IllegalStateError):
        return -1


async def _call(
    callback: Callable[[Sequence[tuple[str, int]]], Awaitable[None] | None] | None,
    partitions: Sequence[TopicPartition],
) -> None:
    result = None if callback is None else callback(partitions)
    if isawaitable(result):
        await result


def _retrieve_exception(future: asyncio.Future[None]) -> None:
    """Nobody has to await it."""
    if not future.cancelled():
        future.exception()
