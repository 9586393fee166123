"""A state machine over the log of an internal partition: Kafka's coordinators run in here.

A turn takes the requests from the queue, lets the machine decide and apply in memory, appends its events, then releases
the responses. A response is released when all events before it are durable, so that no client learns of a decision that
a crash could still undo. When an append fails, the coordinator ends, and the next request makes another one
that replays the log: there is no rollback code.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, TypeVar

from ottla.broker import crashpoints
from ottla.broker.coordination.machine_log import (
    EventCodec,
    Machine,
    WrongChecksumError,
    apply_marker,
    batches_of,
    replay_log,
)
from ottla.broker.loop.pause_aware_clock import Uptime
from ottla.broker.partitions.shard import Appended, Marker, MarkerOutcome, Shard, is_durable
from ottla.broker.requests.delivered_response import (
    DeliveredResponse,
    PlacedRequest,
    ResponseReceiver,
)
from ottla.broker.requests.gather_responses import NowOrLater
from ottla.core.outcomes import Refused
from ottla.core.turn import Ticket, Turn
from ottla.errors import ErrorCode
from ottla.events import EventLog
from ottla.ports import Clock, DamagedError, StorageError
from ottla.records.errors import CorruptRecordsError

logger = EventLog(__name__)

# The records that are replayed before the loop serves other requests (a few milliseconds). The first slice is part of
# the request that loads the coordinator, and most partitions need no other.
SLICE_RECORDS: Final = 500

M = TypeVar("M", bound=Machine)
T = TypeVar("T")
R = TypeVar("R")


class When(Enum):
    """When a request has its turn."""

    SOON = "together with all requests of this turn of the loop; refused while the log is replayed"
    NOW = "in a turn that is taken at once, after the queue; refused while the log is replayed"
    LOADED = "as SOON, after the replay if that is not over"


class Parked(Enum):
    """Returned by a decision whose machine keeps the ticket, and answers it in a later turn."""

    PARKED = "parked"


PARKED: Final = Parked.PARKED


GONE: Final = Refused(ErrorCode.NOT_COORDINATOR)
LOADING: Final = Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def unchanged(result: T) -> T:
    """Responds with the result itself."""
    return result


class Settings(NamedTuple):
    """The settings and the callbacks of a coordinator."""

    codec: EventCodec
    clock: Clock
    uptime: Uptime
    read_bytes: int
    write_timeout_ms: int
    # How often each event was logged by decisions.
    event_counts: Counter[str]
    # Performs an effect of a turn once the turn is durable.
    perform: Callable[[Coordinator[Any], Any], None]
    # Called when another attempt would fail, too, for some time: the log cannot be read, or there is no room.
    rest: Callable[[Coordinator[Any]], None] = lambda coordinator: None
    # Called when every attempt would fail: the log contains a record that is not of this coordinator.
    give_up: Callable[[Coordinator[Any]], None] = lambda coordinator: None
    # Whether it may decide now what no request asks for: not while another coordinator may do so.
    may_decide: Callable[[], bool] = lambda: True
    # Called when the log is damaged.
    take_offline: Callable[[Coordinator[Any], DamagedError], None] = lambda coordinator, error: None


class Request(DeliveredResponse[Any]):
    """A request without a response yet: the ticket that machines keep, and the future of its response."""

    __slots__ = ("respond",)

    respond: Callable[[Any], Any]

    def answer(self, result: Any) -> ResponseReceiver | None:
        """Gives the response to who waits for it; a connection is returned, because it has yet to send it."""
        # The connection may have gone in the meantime.
        if self.done():
            return None
        receiver = self.receiver
        try:
            response = self.respond(result)
        except Exception as error:
            self.set_exception(error)  # closes this connection only
            if receiver is not None:
                self.exception()  # asyncio would log it as one that was never looked at
                receiver.take_failure(error)
            return receiver
        self.set_result(response)
        if receiver is not None:
            receiver.take_response(self.place, response)
        return receiver


AnyRequest = Request | PlacedRequest


class Unsettled(NamedTuple):
    """Results that wait until their events are durable."""

    settled: asyncio.Future[None] | None
    answers: list[tuple[Ticket, Any]]
    effects: list[Any]
    timeout: asyncio.TimerHandle


class Coordinator(Generic[M]):
    """One internal partition at work; it waits on its shard to learn when the partition is led elsewhere."""

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
        self._queue: list[tuple[AnyRequest, Callable[[M, Turn, Ticket], Any]]] = []
        self._drains_soon = False
        # Every request without a response; a dict for its order.
        self._waiting: dict[AnyRequest, None] = {}
        self._unsettled: deque[Unsettled] = deque()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms: int | None = None
        self._loading: Iterator[int | asyncio.Future[None]] | None = replay_log(
            shard, machine, settings.codec, settings.read_bytes
        )
        shard.waiters[self] = None
        self._load_slice()

    @property
    def epoch(self) -> int:
        """The epoch of the coordinator is that of its partition's leader."""
        return self.shard.partition.leader_epoch

    @property
    def answers_at_once(self) -> bool:
        """Whether a question would be answered by the call that asks it: nothing before it waits to be durable."""
        return self.is_loaded and not self.is_gone and not self._unsettled

    # Requests.

    def ask(
        self,
        decide: Callable[[M, Turn, Ticket], T | Refused | Parked],
        respond: Callable[[T | Refused], R],
        when: When = When.SOON,
    ) -> NowOrLater[R]:
        """Lets the machine decide in a turn, and responds to the result, or to a `Refused` if there is none."""
        if self.is_gone:
            return respond(GONE)
        if not self.is_loaded and when is not When.LOADED:
            return respond(LOADING)
        request = Request(loop=self._loop)
        request.respond = respond
        if when is When.NOW and not self._queue:
            alone: NowOrLater[R] = self._ask_alone(request, decide)
            return alone
        self._waiting[request] = None
        self._queue.append((request, decide))
        if when is When.NOW:
            self._take_turn()
            return request.result() if request.done() else request
        self._drain_soon()
        return request

    def ask_placed(self, decide: Callable[[M, Turn, Ticket], Any], place: PlacedRequest) -> None:
        """As `ask`, for a plain request: it is answered in the next turn, or refused at once."""
        if self.is_gone or not self.is_loaded:
            place.answer(GONE if self.is_gone else LOADING)
            return
        self._waiting[place] = None
        self._queue.append((place, decide))
        self._drain_soon()

    def _drain_soon(self) -> None:
        if not self._drains_soon:
            self._drains_soon = True
            self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        self._drains_soon = False
        # A request that was asked now may have taken the turn.
        if self._queue and self.is_loaded and not self.is_gone:
            self._take_turn()

    def _ask_alone(self, request: Request, decide: Callable[[M, Turn, Ticket], Any]) -> Any:
        """The response to a request that has a turn of its own, or its future."""
        turn = self._new_turn()
        try:
            result = decide(self.machine, turn, request)
        except Exception as error:
            self._fail_turn(error, [request])
            return request
        if result is not PARKED and turn.is_without_effect and not self._unsettled:
            # A question: most of what leaders of partitions ask about transactions.
            return request.respond(result)
        self._waiting[request] = None
        if result is not PARKED:
            turn.answer(request, result)
        try:
            self._complete_turn(turn)
        except Exception as error:
            self._fail_turn(error, [request])
        return request.result() if request.done() else request

    def _new_turn(self) -> Turn:
        return Turn(self._settings.clock.now_ms(), self._settings.uptime.now_ms())

    def _take_turn(self, start: Callable[[Turn], None] | None = None) -> None:
        """Decides the requests in the queue and applies the decisions, then appends their events."""
        queue, self._queue = self._queue, []
        machine = self.machine
        turn = self._new_turn()
        # The requests that fail if something is wrong: the one that is decided, then all that may be the cause.
        at_fault: list[AnyRequest] = []
        try:
            if start is not None:
                start(turn)
            for request, decide in queue:
                at_fault = [request]
                result = decide(machine, turn, request)
                if result is not PARKED:
                    turn.answer(request, result)
            at_fault = [request for request, _ in queue]
            self._complete_turn(turn)
        except Exception as error:
            self._fail_turn(error, at_fault)

    def _complete_turn(self, turn: Turn) -> None:
        """Does what is due besides the requests, and appends the events of all."""
        self.machine.wake(turn)
        for message in turn.log_messages:
            self._settings.event_counts[message.event] += 1
            logger.info(message.event, message.text, **message.fields)
        self._finish(turn, list(batches_of(turn, self._settings.codec)))

    def _fail_turn(self, error: Exception, at_fault: Sequence[AnyRequest]) -> None:
        """Ends: half a decision may have been applied, or an event cannot be encoded. The log has the state."""
        self._log_bug("decision_failed", error)
        failed = Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
        self._release([(request, failed) for request in at_fault], [])
        # The other requests did nothing wrong: their clients look for the coordinator again.
        self._end(Refused(ErrorCode.NOT_COORDINATOR))

    def _finish(self, turn: Turn, batches: list[bytes]) -> None:
        settled: asyncio.Future[None] | None = None
        codec = self._settings.codec
        if crashpoints.listener is not None:
            for written in turn.written:
                crashpoints.reach(codec.crash_points(written.event)[0])
        for data in batches:
            appended = self.shard.append_own(data, turn.now_ms)
            if self.is_gone:
                return  # the shard failed, and has called `gone`
            if not isinstance(appended, Appended):
                self._settings.rest(self)
                self._end(Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
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

    # Responses.

    def _release(self, answers: list[tuple[Ticket, Any]], effects: list[Any]) -> None:
        waiting = self._waiting
        # Each is called once, however many of its requests are answered; a dict for its order.
        receivers: dict[ResponseReceiver, None] = {}
        for request, result in answers:
            waiting.pop(request, None)
            receiver = request.answer(result)
            if receiver is not None:
                receivers[receiver] = None
        if effects:
            # Markers are written first. Else a client that has read that its transaction ends could ask for the next
            # one before this one has ended, and would be put off.
            self._loop.call_soon(_send_all, receivers)
        else:
            _send_all(receivers)
        if self.is_gone:
            return  # the next coordinator begins again with effects that are left
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
        """Releases durable results, even if the coordinator has ended: they are in the log."""
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
        """Fails all results that are not durable: their writes may be lost."""
        unsettled, self._unsettled = self._unsettled, deque()
        for one in unsettled:
            one.timeout.cancel()
            lost = Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            self._release([(request, lost) for request, _ in one.answers], [])
        self._end(Refused(ErrorCode.NOT_COORDINATOR))

    def _time_out(self, answers: list[tuple[Ticket, Any]]) -> None:
        """The disk is too slow: whether the events were written is unknown, and the client may ask again."""
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

    def append_markers(self, markers: Sequence[Marker]) -> list[MarkerOutcome]:
        """Ends transactions on this partition: in the log, and for the events that are pending in it."""
        outcomes = self.shard.append_markers(markers, self._settings.clock.now_ms())
        settled: asyncio.Future[None] | None = None
        for marker, appended in zip(markers, outcomes, strict=True):
            # A replay that is not over will find it.
            if isinstance(appended, Appended) and self.is_loaded and not self.is_gone:
                apply_marker(self.machine, marker.type, marker.producer_id)
                settled = appended.settled
        if settled is not None:
            self._release_later(settled, [], [])
        return outcomes

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

    def wake(self) -> None:
        """Takes a turn now for what is due; for a clock that was moved, which timers do not notice."""
        if self._alarm is not None:
            self._alarm.cancel()
        if self.is_loaded:
            self._wake()

    def _wake(self) -> None:
        self._alarm = self._alarm_ms = None
        if not self.is_gone and self._settings.may_decide():
            self._take_turn()

    # Loading.

    def _load_slice(self) -> None:
        """Replays SLICE_RECORDS; the rest follows when the loop has served other requests."""
        if self.is_gone or self._loading is None:
            return
        done = 0
        try:
            for record_count in self._loading:
                if not isinstance(record_count, int):
                    record_count.add_done_callback(lambda _: self._load_slice())
                    return
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

    def _flush_replayed(self) -> asyncio.Future[None] | None:
        """The future that responses have to wait for, if the end of the replayed log is not durable yet.

        That is so when the last coordinator ended, because the disk was full, with appends on their way.
        """
        partition = self.shard.partition
        if partition.high_watermark >= partition.end_offset:
            return None
        return self.shard.log.flush()

    def _fail_loading(self, error: Exception) -> None:
        """Ends; the shard stays open if it can: a new claim would find the same log, and end its readers' fetches."""
        if not self.shard.log.is_open:
            self._settings.rest(self)
            self.shard.fail(error)
            return
        if isinstance(error, WrongChecksumError):
            self._end(Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
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
                self._log_bug("replay_failed", error)
            logger.error(
                "coordinator_failed",
                "coordinator of %(topic)s-%(partition)d cannot be loaded, which is not tried again before the "
                "partition is opened anew: %(reason)s",
                topic=ref.topic,
                partition=ref.partition,
                reason=str(error),
            )
            self._settings.give_up(self)
        self._end(Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    # The end.

    def grown(self, shard: Shard, size_bytes: int) -> None:
        """Implements Waiter: the coordinator itself wrote the records."""

    def gone(self) -> None:
        """Implements Waiter: the partition is no longer led here."""
        self._end(Refused(ErrorCode.NOT_COORDINATOR))

    def _end(self, refused: Refused) -> None:
        """Refuses every request, so that clients look for the coordinator again."""
        if self.is_gone:
            return
        self.is_gone = True
        self.shard.waiters.pop(self, None)
        if self._alarm is not None:
            self._alarm.cancel()
        self._queue.clear()
        self._discard(self)
        # Results that only wait to become durable are released when they are: after an error clients would do things
        # twice.
        settling = {request: None for one in self._unsettled for request, _ in one.answers}
        waiting = [request for request in self._waiting if request not in settling]
        self._release([(request, refused) for request in waiting], [])

    def _log_bug(self, event: str, error: BaseException) -> None:
        ref = self.shard.log.ref
        text = "coordinator of %(topic)s-%(partition)d failed: this is a bug"
        logger.bug(event, text, error, topic=ref.topic, partition=ref.partition)


def _send_all(receivers: Iterable[ResponseReceiver]) -> None:
    for receiver in receivers:
        receiver.send_responses()
