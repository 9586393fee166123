"""A state machine over the log of an internal partition: Kafka's coordinators run in here.

Drain the queue, decide and apply in memory, append, then release the answers. An answer is released when all that
was written before it was decided is durable, so that nobody is told what a crash could still undo. When an append
fails, the coordinator is thrown away, and the next request has another one replay the log: there is no rollback code.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from ottla.broker import crashpoints
from ottla.broker.coordination.event_batches import Event, EventCodec, batches_of
from ottla.broker.loop.pause_aware_clock import Uptime
from ottla.broker.partitions.shard import AlreadyMarked, Appended, Shard, is_durable
from ottla.core.outcomes import Refused
from ottla.core.turn import ProducerIdentity, Ticket, Turn
from ottla.errors import ErrorCode
from ottla.events import EventLog
from ottla.ports import Clock, DamagedError, StorageError
from ottla.records.batch import BatchHeader, crc_matches, read_batch, split_batches
from ottla.records.control import MarkerType, parse_marker
from ottla.records.errors import CorruptRecordsError
from ottla.wire.types import MalformedMessageError

logger = EventLog(__name__)

# How much a replay does before others have their turn (a few milliseconds); the first slice is part of the request that
# caused it, and most partitions need no other.
SLICE_RECORDS: Final = 500

Decision = Callable[[Turn], None]


class Machine(Protocol):
    """What the runtime needs of a state machine; what it is asked is between the machine and the handlers."""

    def apply(self, event: Event, producer_id: int | None) -> None: ...

    def apply_commit_marker(self, producer_id: int) -> None: ...

    def apply_abort_marker(self, producer_id: int) -> None: ...

    def start(self, turn: Turn) -> None: ...

    def wake(self, turn: Turn) -> None: ...

    def next_wake_ms(self) -> int | None: ...


M = TypeVar("M", bound=Machine)


class Settings(NamedTuple):
    """What a coordinator is told besides its log."""

    codec: EventCodec
    clock: Clock
    uptime: Uptime
    read_bytes: int
    write_timeout_ms: int
    # Does what a turn wants done once it is durable.
    perform: Callable[[Coordinator[Any], Any], None]
    # Told when another try would fail as well for a while: the log cannot be read, or there is no room.
    rest: Callable[[Coordinator[Any]], None] = lambda coordinator: None
    # Told when every try would fail: the log has something in it that is no record of this coordinator.
    give_up: Callable[[Coordinator[Any]], None] = lambda coordinator: None
    # Told when the bytes of the log are not those that were written: nobody may build on them.
    take_offline: Callable[[Coordinator[Any], DamagedError], None] = lambda coordinator, error: None


class WrongChecksumError(DamagedError):
    """A batch of the log is not what was written."""


class Request:
    """Somebody who waits for an answer: the ticket that machines keep."""

    __slots__ = ("future", "respond")

    def __init__(self, future: asyncio.Future[Any], respond: Callable[[Any], Any]) -> None:
        self.future = future
        self.respond = respond

    def answer(self, result: Any) -> None:
        # The connection may have gone in the meantime.
        if self.future.done():
            return
        try:
            self.future.set_result(self.respond(result))
        except Exception as error:
            self.future.set_exception(error)  # it costs the connection, and nobody else's answer


class Unsettled(NamedTuple):
    """Answers that wait until what was written is durable."""

    settled: asyncio.Future[None] | None
    answers: list[tuple[Ticket, Any]]
    effects: list[Any]
    timeout: asyncio.TimerHandle


class Coordinator(Generic[M]):
    """One internal partition at work; waits on its shard to learn when that is no longer ours."""

    def __init__(
        self,
        shard: Shard,
        machine: M,
        settings: Settings,
        discard: Callable[[Coordinator[M]], None],
    ) -> None:
        self.shard = shard
        self.machine = machine
        self.is_loaded = False
        self._settings = settings
        self._discard = discard
        self._loop = asyncio.get_running_loop()
        self.is_gone = False
        self._queue: list[tuple[Request, Decision]] = []
        self._drains_soon = False
        # Everybody who has not been answered; a dict for its order.
        self._waiting: dict[Request, None] = {}
        self._unsettled: deque[Unsettled] = deque()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms: int | None = None
        self._loading: Iterator[int] | None = self._replay()
        shard.waiters[self] = None
        self._load_slice()

    @property
    def epoch(self) -> int:
        """The epoch of the coordinator is that of its partition's leader."""
        return self.shard.partition.leader_epoch

    # Being asked.

    def ask(
        self, decide: Callable[[M, Turn], Any], respond: Callable[[Any], Any]
    ) -> asyncio.Future[Any] | Any:
        """Has the machine decide; `respond` makes the response of the result, or of a `Refused` if there is none."""
        return self.park(
            lambda machine, turn, ticket: turn.answer(ticket, decide(machine, turn)), respond
        )

    def park(
        self, decide: Callable[[M, Turn, Ticket], None], respond: Callable[[Any], Any]
    ) -> asyncio.Future[Any] | Any:
        """As `ask`, for a decision that keeps the ticket and answers it when it sees fit."""
        if self.is_gone:
            return respond(Refused(ErrorCode.NOT_COORDINATOR))
        if not self.is_loaded:
            return respond(Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        return self._enqueue(decide, respond)

    def ask_when_loaded(self, decide: Callable[[M, Turn], Any]) -> asyncio.Future[Any]:
        """As `ask`, after the replay if that is not over; the result is what was decided, or a `Refused`."""
        return self._enqueue(
            lambda machine, turn, ticket: turn.answer(ticket, decide(machine, turn)),
            lambda result: result,
        )

    def ask_now(
        self, decide: Callable[[M, Turn], Any], respond: Callable[[Any], Any]
    ) -> asyncio.Future[Any] | Any:
        """As `ask`, in a turn that is taken now, after what is in the queue: the response, if all of it is durable."""
        if self.is_gone or not self.is_loaded:
            return self.ask(decide, respond)
        request = self._queue_up(
            lambda machine, turn, ticket: turn.answer(ticket, decide(machine, turn)), respond
        )
        self._take_turn()
        return request.future.result() if request.future.done() else request.future

    def _enqueue(
        self, decide: Callable[[M, Turn, Ticket], None], respond: Callable[[Any], Any]
    ) -> asyncio.Future[Any]:
        if self.is_gone:
            request = Request(self._loop.create_future(), respond)
            request.answer(Refused(ErrorCode.NOT_COORDINATOR))
            return request.future
        request = self._queue_up(decide, respond)
        if not self._drains_soon:
            self._drains_soon = True
            self._loop.call_soon(self._drain)
        return request.future

    def _queue_up(
        self, decide: Callable[[M, Turn, Ticket], None], respond: Callable[[Any], Any]
    ) -> Request:
        request = Request(self._loop.create_future(), respond)
        self._waiting[request] = None
        self._queue.append((request, lambda turn: decide(self.machine, turn, request)))
        return request

    def _drain(self) -> None:
        self._drains_soon = False
        # Somebody who could not wait may have taken the turn.
        if self._queue and self.is_loaded and not self.is_gone:
            self._take_turn()

    def _take_turn(self, *first: Decision) -> None:
        """Decides what is in the queue and applies it, then appends what was written."""
        queue, self._queue = self._queue, []
        turn = Turn(self._settings.clock.now_ms(), self._settings.uptime.now_ms())
        # Whose fault it is if something is wrong: whoever asked it, then everybody who may have.
        at_fault: list[Request] = []
        try:
            for decide in first:
                decide(turn)
            for request, decide in queue:
                at_fault = [request]
                decide(turn)
            at_fault = [request for request, _ in queue]
            self.machine.wake(turn)
            for message in turn.log_messages:
                logger.info(message.event, message.text, **message.fields)
            self._finish(turn, list(batches_of(turn, self._settings.codec)))
        except Exception as error:
            # Half a decision may have been applied, or what it wrote cannot be said in a record: only the log knows
            # what is true.
            self._tell_bug("decision_failed", error)
            failed = Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
            self._release([(request, failed) for request in at_fault], [])
            # The others did nothing wrong: their clients look for the coordinator again.
            self._give_up(Refused(ErrorCode.NOT_COORDINATOR))

    def _finish(self, turn: Turn, batches: list[bytes]) -> None:
        settled: asyncio.Future[None] | None = None
        codec = self._settings.codec
        if crashpoints.listener is not None:
            for written in turn.written:
                crashpoints.reach(codec.crash_points(written.event)[0])
        for data in batches:
            appended = self.shard.append_own(data, turn.now_ms)
            if self.is_gone:
                return  # the shard failed, and told us
            if not isinstance(appended, Appended):
                self._settings.rest(self)
                self._give_up(Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
                return
            settled = appended.settled or settled
        if crashpoints.listener is not None:
            for written in turn.written:
                crashpoints.reach(codec.crash_points(written.event)[1])
        if settled is None and not self._unsettled:
            self._release(turn.answers, turn.effects)
        elif settled is not None or turn.answers or turn.effects:
            self._release_later(settled, turn.answers, turn.effects)
        self._set_alarm()

    # Answering.

    def _release(self, answers: list[tuple[Ticket, Any]], effects: list[Any]) -> None:
        for request, result in answers:
            self._waiting.pop(request, None)
            request.answer(result)
        if self.is_gone:
            return  # whoever comes after us begins again with what is left to do
        for effect in effects:
            self._settings.perform(self, effect)

    def _release_later(
        self,
        settled: asyncio.Future[None] | None,
        answers: list[tuple[Ticket, Any]],
        effects: list[Any],
    ) -> None:
        timeout = self._loop.call_later(
            self._settings.write_timeout_ms / 1000, self._time_out, answers
        )
        self._unsettled.append(Unsettled(settled, answers, effects, timeout))
        if settled is not None:
            settled.add_done_callback(self._settle)

    def _settle(self, _: asyncio.Future[None]) -> None:
        """Releases what is durable, although the coordinator may be gone by then: it is in the log."""
        while self._unsettled:
            settled, answers, effects, timeout = self._unsettled[0]
            if settled is not None and not settled.done():
                return
            if not is_durable(settled):
                self._fail_unsettled()
                return
            self._unsettled.popleft()
            timeout.cancel()
            self._release(answers, effects)

    def _fail_unsettled(self) -> None:
        """What was written may be lost, and with it what was decided after it."""
        unsettled, self._unsettled = self._unsettled, deque()
        for one in unsettled:
            one.timeout.cancel()
            lost = Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            self._release([(request, lost) for request, _ in one.answers], [])
        self._give_up(Refused(ErrorCode.NOT_COORDINATOR))

    def _time_out(self, answers: list[tuple[Ticket, Any]]) -> None:
        """The disk is too slow: whether it was written is not known, and the client may ask again."""
        ref = self.shard.log.ref
        logger.warning(
            "coordinator_slow",
            "coordinator of %(topic)s-%(partition)d: a write took longer than offsets.commit.timeout.ms",
            topic=ref.topic,
            partition=ref.partition,
        )
        unknown = Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._release([(request, unknown) for request, _ in answers], [])

    # Markers.

    def append_marker(
        self,
        marker_type: MarkerType,
        producer: ProducerIdentity,
        coordinator_epoch: int,
        version: int,
    ) -> Appended | AlreadyMarked | Refused:
        """Ends a transaction on this partition: in the log, and for the machine what was pending in it."""
        appended = self.shard.append_marker(
            marker_type,
            producer.producer_id,
            producer.producer_epoch,
            coordinator_epoch,
            version,
            self._settings.clock.now_ms(),
        )
        # A replay that is not over will find it.
        if isinstance(appended, Appended) and self.is_loaded and not self.is_gone:
            self._apply_marker(marker_type, producer.producer_id)
            if appended.settled is not None:
                self._release_later(appended.settled, [], [])
        return appended

    def _apply_marker(self, marker_type: MarkerType, producer_id: int) -> None:
        if marker_type is MarkerType.COMMIT:
            self.machine.apply_commit_marker(producer_id)
        else:
            self.machine.apply_abort_marker(producer_id)

    # Time.

    def _set_alarm(self) -> None:
        due_ms = self.machine.next_wake_ms()
        if due_ms == self._alarm_ms:
            return
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._alarm_ms = due_ms
        if due_ms is not None:
            delay_ms = max(due_ms - self._settings.uptime.now_ms(), 0)
            self._alarm = self._loop.call_later(delay_ms / 1000, self._wake)

    def _wake(self) -> None:
        self._alarm = self._alarm_ms = None
        if not self.is_gone:
            self._take_turn()

    # Loading.

    def _load_slice(self) -> None:
        """Replays for a while; the rest comes when others have had their turn."""
        if self.is_gone or self._loading is None:
            return
        done = 0
        try:
            for record_count in self._loading:
                done += record_count
                if done >= SLICE_RECORDS:
                    self._loop.call_soon(self._load_slice)
                    return
            settled = self._flush_replayed()
        except Exception as error:
            self._fail_loading(error)
            return
        self._loading = None
        self.is_loaded = True
        if settled is not None:
            self._release_later(settled, [], [])
        self._take_turn(self.machine.start)

    def _fail_loading(self, error: Exception) -> None:
        """Leaves the shard as it is if that can be: a claim would find the same log, and end it for its readers."""
        if not self.shard.log.is_open:
            self._settings.rest(self)
            self.shard.fail(error)
            return
        if isinstance(error, WrongChecksumError):
            self._give_up(Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            self._settings.take_offline(self, error)
            return
        ref = self.shard.log.ref
        if isinstance(error, StorageError) and not isinstance(error, DamagedError):
            logger.warning(
                "coordinator_postponed",
                "coordinator of %(topic)s-%(partition)d: its log cannot be read now: %(reason)s",
                topic=ref.topic,
                partition=ref.partition,
                reason=str(error),
            )
            self._settings.rest(self)
        else:
            if not isinstance(error, DamagedError | CorruptRecordsError):
                self._tell_bug("replay_failed", error)
            logger.error(
                "coordinator_failed",
                "coordinator of %(topic)s-%(partition)d cannot be loaded, which is not tried again before the "
                "partition is opened anew: %(reason)s",
                topic=ref.topic,
                partition=ref.partition,
                reason=str(error),
            )
            self._settings.give_up(self)
        self._give_up(Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def _flush_replayed(self) -> asyncio.Future[None] | None:
        """What answers have to wait for, if what was replayed is not durable yet.

        A coordinator that gives up, because the disk is full, leaves the shard to the next one with what is on its way.
        """
        partition = self.shard.partition
        if partition.high_watermark >= partition.end_offset:
            return None
        return self.shard.log.flush()

    def _replay(self) -> Iterator[int]:
        """Applies the whole log, a batch at a time; yields how many records each has."""
        partition = self.shard.partition
        offset = partition.start_offset
        while offset < partition.end_offset:
            chunk = self.shard.read(offset, self._settings.read_bytes, partition.end_offset)
            if not chunk:
                return
            view = memoryview(chunk)
            for position, header in split_batches(view):
                self._replay_batch(header, view[position : position + header.size_bytes])
                yield header.record_count
            if header.last_offset < offset:
                raise DamagedError(f"the batches at offset {offset} are out of order")
            offset = header.last_offset + 1

    def _replay_batch(self, header: BatchHeader, batch: memoryview) -> None:
        # No client looks at these records: a flipped bit would be taken for a committed offset.
        if not crc_matches(batch, 0, header):
            raise WrongChecksumError(
                f"the batch at offset {header.base_offset} is damaged: the checksum is wrong. "
                "Put the segment back from a copy"
            )
        records = read_batch(batch, 0)
        if header.is_control:
            marker = parse_marker(records[0]) if records else None
            if marker is not None:
                self._apply_marker(marker.type, header.producer_id)
            return
        producer_id = header.producer_id if header.is_transactional else None
        decode = self._settings.codec.decode
        for record in records:
            try:
                event = decode(record.key, record.value)
            except MalformedMessageError as error:
                raise DamagedError(f"the record at offset {record.offset}: {error}") from error
            if event is not None:
                self.machine.apply(event, producer_id)

    # The end.

    def grown(self, shard: Shard, size_bytes: int) -> None:
        """Somebody who waits for records would read them now; a coordinator wrote them."""

    def gone(self) -> None:
        """The partition is no longer led here."""
        self._give_up(Refused(ErrorCode.NOT_COORDINATOR))

    def _give_up(self, refused: Refused) -> None:
        """Tells everybody who waits to look for the coordinator again."""
        if self.is_gone:
            return
        self.is_gone = True
        self.shard.waiters.pop(self, None)
        if self._alarm is not None:
            self._alarm.cancel()
        self._queue.clear()
        self._discard(self)
        # What only waits to become durable is answered when it is: an error for what is kept would make clients do
        # things twice.
        settling = {request: None for one in self._unsettled for request, _ in one.answers}
        waiting = [request for request in self._waiting if request not in settling]
        self._release([(request, refused) for request in waiting], [])

    def _tell_bug(self, event: str, error: BaseException) -> None:
        ref = self.shard.log.ref
        text = "coordinator of %(topic)s-%(partition)d failed: this is a bug"
        logger.bug(event, text, error, topic=ref.topic, partition=ref.partition)
