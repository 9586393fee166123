"""Exactly-once: finished units and the offsets of their records, in transactions (ADR 0040).

A handler never runs inside a transaction. The committer takes the units that are finished: begin, send, offsets with
their gaps, commit. Two rules make a repetition safe:

- Units are sent again only if commit_transaction() was not called for them: the transaction is aborted then.
- Once it was called and did not succeed, nothing is sent again. The committed offsets say what became of it: they are
  part of the transaction. The producer starts over, which ends its last transaction, and the partitions are claimed
  again at their committed offsets.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.app.declarations.listener_spec import ListenerSpec, Order, RawRecord
from ottla.app.delivery.unit import Unit
from ottla.app.delivery.window import PartitionWindow
from ottla.app.instruments import Instruments
from ottla.app.listening.clients import Clients, RawConsumer
from ottla.app.listening.listener_health import ListenerCounters
from ottla.app.listening.metadata_limit import metadata_error
from ottla.app.listening.offset_commits import NotDelivered
from ottla.app.listening.output_topics import OutputTopics
from ottla.client.aio.producer.producer import Producer
from ottla.client.model import ConsumerGroupMetadata, OffsetAndMetadata
from ottla.client.send.delivery import RecordFuture
from ottla.errors import ErrorCode, FatalError, IllegalStateError, KafkaError, TimedOutError
from ottla.model import TopicPartition

log = logging.getLogger("ottla.app")

COMMIT_INTERVAL_SECONDS: Final = 0.05
COMMIT_BYTES: Final = 4 * 1024 * 1024
MAX_WAITING_BYTES: Final = 64 * 1024 * 1024
"""Of finished units that no transaction has: workers wait beyond that."""
# A transaction only has sends in it. If the process dies, others wait that long for its offsets.
TRANSACTION_TIMEOUT_MS: Final = 10_000
_FIRST_BACKOFF_SECONDS: Final = 0.05
_MAX_BACKOFF_SECONDS: Final = 2.0
_CLOSE_SECONDS: Final = 10.0
# Errors of one record or its topic, which another attempt will not cure.
_REFUSED_RECORDS: Final = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
# The group has moved on: with the same member and generation its offsets are refused for ever.
_MOVED_ON: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)


class FinishedUnit(NamedTuple):
    """The records of one run of the handler, and what it wants to send."""

    window: PartitionWindow
    records: Sequence[RawRecord]
    unit: Unit


class UnknownOutcomeError(Exception):
    """commit_transaction() was called, and did not succeed."""


class _RefusedError(Exception):
    """Units that the cluster will never take as they are."""

    def __init__(self, refused: Mapping[int, Exception]) -> None:
        super().__init__(f"{len(refused)} units were refused")
        self.refused = refused


class TransactionCommitter:
    """Commits the units of one listener, one transaction after the other."""

    collects_sends = True

    def __init__(
        self,
        spec: ListenerSpec,
        *,
        clients: Clients,
        windows: Mapping[TopicPartition, PartitionWindow],
        instruments: Instruments,
        counters: ListenerCounters,
        group_metadata: Callable[[], ConsumerGroupMetadata | None],
        not_delivered: NotDelivered,
        offer: Callable[[PartitionWindow], None],
        wake_pump: Callable[[], None],
        claim_again: Callable[[], Awaitable[None]],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._spec = spec
        self._clients = clients
        self._windows = windows
        self._instruments = instruments
        self._counters = counters
        self._group_metadata = group_metadata
        self._not_delivered = not_delivered
        self._offer = offer
        self._wake_pump = wake_pump
        self._claim_again = claim_again
        self._on_fatal = on_fatal
        self._loop = asyncio.get_running_loop()
        # Of this process alone: members of the group are fenced by their generation (KIP-447), not by this id.
        self._transactional_id = f"{spec.group}-{spec.name}-{uuid.uuid4().hex}"
        self._producer: Producer | None = None
        self._units: deque[FinishedUnit] = deque()
        self._waiting_bytes = 0
        # The first record of each key, or partition, whose unit was refused: later ones wait until it is handled again.
        self._held: dict[tuple[PartitionWindow, bytes | None], int] = {}
        self._output_topics = OutputTopics(clients, _is_refusal)
        self._in_transaction: Sequence[FinishedUnit] = ()
        self._has_work = asyncio.Event()
        self._is_hurried = asyncio.Event()
        self._committed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._refused_group: ConsumerGroupMetadata | None = None
        self.last_error: Exception | None = None
        """Why the last transaction did not succeed; None after one that did."""

    async def start(self) -> None:
        """Get a producer id; raises if the cluster refuses it."""
        self._producer = await self._new_producer()
        self._task = self._loop.create_task(self._run(), name=f"ottla-{self._spec.name}-committer")

    async def _new_producer(self) -> Producer:
        producer = self._clients.transactional_producer(
            {
                "client.id": self._spec.name,
                "transactional.id": self._transactional_id,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            }
        )
        try:
            await self._until_definite(producer.init_transactions)
        except BaseException:
            await producer.close(0)
            raise
        return producer

    # Units

    def handled(
        self, window: PartitionWindow, records: Sequence[RawRecord], unit: Unit
    ) -> Coroutine[Any, Any, None] | None:
        """Take a finished unit for the next transaction."""
        finished = FinishedUnit(window, records, unit)
        if self._held:
            if self._is_held(finished):
                self._give_back(finished)
                return None
            self._release(finished)
        self._units.append(finished)
        self._waiting_bytes += unit.size_bytes
        self._has_work.set()
        if window.is_fetch_paused:
            self._is_hurried.set()
        if self._waiting_bytes >= COMMIT_BYTES:
            self._is_hurried.set()
            if self._waiting_bytes >= MAX_WAITING_BYTES:
                return self._wait_for_room()
        return None

    async def _wait_for_room(self) -> None:
        while self._waiting_bytes >= MAX_WAITING_BYTES:
            self._committed.clear()
            await self._committed.wait()

    def finished(self, window: PartitionWindow, count: int) -> None:
        """The position has passed offsets without records: the next transaction commits it."""
        self._has_work.set()

    def acknowledgement(
        self, window: PartitionWindow, records: Sequence[RawRecord]
    ) -> Callable[[], None]:
        """Exactly-once has no manual acknowledgement."""
        raise IllegalStateError(
            f'listener {self._spec.name}: ack="manual" and delivery="exactly-once" exclude each other'
        )

    def is_acknowledged(self, unit: Unit) -> bool:
        """Never by hand."""
        return False

    def closing(self) -> None:
        """Partitions are being given up: no worker waits for the pump."""

    def began(self) -> None:
        """A partition has begun without a committed offset: the next transaction commits where."""
        self._has_work.set()

    def commit_due(self, consumer: RawConsumer) -> None:
        """Nothing to do between polls: transactions have a producer of their own."""

    @property
    def is_settled(self) -> bool:
        """Whether everything that is finished is committed."""
        return (
            not self._units
            and not self._in_transaction
            and all(window.to_commit() is None for window in self._windows.values())
        )

    async def flush(
        self, consumer: RawConsumer, windows: Collection[PartitionWindow], seconds: float
    ) -> None:
        """Commit the finished units of these windows now."""
        deadline = self._loop.time() + seconds
        while (
            self._has_units_of(windows)
            and self._task is not None
            and not self._task.done()
            and (self._refused_group is None or self._refused_group != self._group_metadata())
        ):
            self._is_hurried.set()
            self._has_work.set()
            self._committed.clear()
            left = deadline - self._loop.time()
            try:
                async with asyncio.timeout(left):
                    await self._committed.wait()
            except TimeoutError:
                log.warning(
                    "%s: units of partitions that are given up are not committed: %s",
                    self._spec.name,
                    self.last_error or "the cluster does not answer",
                )
                return

    def _has_units_of(self, windows: Collection[PartitionWindow]) -> bool:
        return any(
            each.window in windows for some in (self._units, self._in_transaction) for each in some
        )

    # Transactions

    async def _run(self) -> None:
        failures = 0
        try:
            while True:
                await self._wait_for_work()
                try:
                    await self._commit(self._take_units())
                    failures = 0
                except (UnknownOutcomeError, FatalError) as error:
                    failures += 1
                    await self._start_over(error, failures)
                except KafkaError as error:
                    failures += 1
                    self._output_topics.forget()
                    self._note(error)
                    self._units.extendleft(reversed(self._in_transaction))
                    self._waiting_bytes += sum(
                        each.unit.size_bytes for each in self._in_transaction
                    )
                    self._has_work.set()
                    await asyncio.sleep(_backoff_seconds(failures))
                finally:
                    self._in_transaction = ()
                    self._committed.set()
        except Exception as error:
            self._on_fatal(error)

    async def _wait_for_work(self) -> None:
        """Until there are units, and some more have come, or enough."""
        await self._has_work.wait()
        try:
            async with asyncio.timeout(COMMIT_INTERVAL_SECONDS):
                await self._is_hurried.wait()
        except TimeoutError:
            pass
        self._has_work.clear()
        self._is_hurried.clear()

    def _take_units(self) -> list[FinishedUnit]:
        units = [each for each in self._units if not self._is_given_up(each.window)]
        self._held = {
            place: offset for place, offset in self._held.items() if not self._is_given_up(place[0])
        }
        self._units.clear()
        self._waiting_bytes = 0
        self._in_transaction = units
        return units

    async def _commit(self, units: list[FinishedUnit]) -> None:
        """Commit these units; KafkaError if they are to be sent again."""
        try:
            await self._transaction(units)
        except _RefusedError as error:
            if len(units) == 1:
                self._refuse(units[0], error.refused[0])
                return
            # A batch is refused as a whole, whichever of its records is to blame: find out, in order.
            rest = deque(units)
            while rest:
                self._in_transaction = tuple(rest)
                each = rest.popleft()
                if self._is_given_up(each.window):
                    continue  # its outputs would go without its offsets
                await self._commit([each])
                # At once: the hold ends when the refused one is handled again.
                rest = self._without_held(rest)

    def _refuse(self, finished: FinishedUnit, error: Exception) -> None:
        self._in_transaction = ()
        for record in finished.records:
            place = self._place(finished.window, record)
            if place is not None:
                self._held[place] = min(record.offset, self._held.get(place, record.offset))
        self._units = self._without_held(self._units)
        self._waiting_bytes = sum(each.unit.size_bytes for each in self._units)
        self._not_delivered(finished.window, finished.records, finished.unit, error)

    def _place(
        self, window: PartitionWindow, record: RawRecord
    ) -> tuple[PartitionWindow, bytes | None] | None:
        """What keeps records in order; None if nothing does."""
        if self._spec.order is Order.PARTITION:
            return window, None
        if self._spec.order is Order.KEY and record.key is not None:
            return window, record.key
        return None

    def _is_held(self, finished: FinishedUnit) -> bool:
        """Whether a record has to stay behind one whose unit was refused."""
        if not self._held:
            return False
        first: dict[tuple[PartitionWindow, bytes | None], int] = {}
        for record in finished.records:
            place = self._place(finished.window, record)
            if place is not None:
                first.setdefault(
                    place, record.offset
                )  # records of a unit are in the order of the log
        return any(offset > self._held.get(place, offset) for place, offset in first.items())

    def _without_held(self, units: Sequence[FinishedUnit]) -> deque[FinishedUnit]:
        """Those that may go; the others are given back."""
        free: deque[FinishedUnit] = deque()
        for each in units:
            self._give_back(each) if self._is_held(each) else free.append(each)
        return free

    def _release(self, finished: FinishedUnit) -> None:
        """The records are handled again, or letters: what follows them may follow."""
        for record in finished.records:
            place = self._place(finished.window, record)
            if place is not None:
                self._held.pop(place, None)

    def _give_back(self, finished: FinishedUnit) -> None:
        """Drop the unit; its records are handled again, behind the one that was refused."""
        window = finished.window
        if window.is_closed:
            return
        for record in finished.records:
            window.requeue(record, 0)
        self._offer(window)

    def _is_given_up(self, window: PartitionWindow) -> bool:
        return window.is_closed or self._windows.get(window.partition) is not window

    async def _transaction(self, units: list[FinishedUnit]) -> None:
        began = self._loop.time()
        offsets = self._offsets_of(units)
        group = self._group_metadata()
        if not offsets or group is None:
            return
        producer = self._producer
        assert producer is not None
        refused = await self._output_topics.missing_of(producer, [each.unit for each in units])
        if refused:
            raise _RefusedError(refused)
        producer.begin_transaction()
        try:
            await self._send(producer, units)
            await producer.send_offsets_to_transaction(
                {window.partition: offset for window, offset in offsets.items()}, group
            )
        except (FatalError, asyncio.CancelledError):
            raise  # closing the producer aborts
        except Exception as error:
            if isinstance(error, KafkaError):
                if error.code is ErrorCode.OFFSET_METADATA_TOO_LARGE:
                    self._on_fatal(metadata_error(self._spec, error))
                if error.code in _MOVED_ON:
                    self._refused_group = group
            await self._abort(producer)
            raise
        try:
            await self._until_definite(producer.commit_transaction)
        except FatalError:
            raise
        except KafkaError as error:
            raise UnknownOutcomeError(str(error)) from error
        self._succeeded(units, offsets, self._loop.time() - began)

    async def _abort(self, producer: Producer) -> None:
        """Abort; the units may be sent again only if that succeeds."""
        self._counters.transactions_aborted += 1
        try:
            await self._until_definite(producer.abort_transaction)
        except FatalError:
            raise
        except KafkaError as error:
            raise UnknownOutcomeError(str(error)) from error

    async def _send(self, producer: Producer, units: list[FinishedUnit]) -> None:
        """Send the units and wait for the acknowledgements; what cannot be sent raises."""
        sent: list[tuple[int, RecordFuture]] = []
        refused: dict[int, Exception] = {}
        for place, (_, _, unit) in enumerate(units):
            for each in unit.outgoing:
                try:
                    future = await producer.send(
                        each.topic,
                        each.value,
                        each.key,
                        partition=each.partition,
                        headers=each.headers,
                        timestamp_ms=each.timestamp_ms,
                    )
                except Exception as error:
                    if _is_refusal(error):
                        raise _RefusedError({place: error}) from error
                    raise
                sent.append((place, future))
        if not sent:
            return
        await producer.flush()
        failure: Exception | None = None
        for place, future in sent:
            reason = future.exception(0)
            if reason is not None:
                failure = failure or reason
                if _is_refusal(reason):
                    refused[place] = reason
        if refused:
            raise _RefusedError(refused)
        if failure is not None:
            raise failure

    def _offsets_of(self, units: list[FinishedUnit]) -> dict[PartitionWindow, OffsetAndMetadata]:
        """What to commit when these units are finished, and positions that have passed offsets without records."""
        finished: dict[PartitionWindow, list[RawRecord]] = {}
        for window, records, _ in units:
            finished.setdefault(window, []).extend(records)
        offsets: dict[PartitionWindow, OffsetAndMetadata] = {}
        for window in self._windows.values():
            if window.is_closed:
                continue
            progress = window.progress
            if window in finished:
                progress = progress.copy()
                for record in finished[window]:
                    progress.finish(record.offset)
            offset = window.to_commit(progress)
            if offset is not None:
                offsets[window] = offset
            elif window in finished:
                # Outputs never go without the offsets of their records. Only a limit that was lowered leads here.
                raise IllegalStateError(
                    f"listener {self._spec.name}: what is finished in {window.partition} does not fit into the "
                    "metadata of its offset any more: raise offset.metadata.max.bytes to what it was"
                )
        return offsets

    def _succeeded(
        self,
        units: list[FinishedUnit],
        offsets: Mapping[PartitionWindow, OffsetAndMetadata],
        seconds: float,
    ) -> None:
        self.last_error = None
        self._counters.commits += 1
        count = 0
        touched: dict[PartitionWindow, None] = {}
        for window, records, _ in units:
            count += len(records)
            touched[window] = None
            for record in records:
                window.finish(record)
        for window, offset in offsets.items():
            window.was_committed(offset)
        self._instruments.committed(self._spec, count, seconds)
        for window in touched:
            window.has_finished_batch()  # forgets the ends of polls; transactions do not follow them
            if window.is_blocked:
                self._offer(window)
            if window.is_fetch_paused and window.has_room:
                self._wake_pump()

    async def _until_definite(self, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Call until the outcome is known: a call that timed out goes on where the last one stopped."""
        while True:
            try:
                return await call()
            except TimedOutError as error:
                self._note(error)

    def _note(self, error: Exception) -> None:
        self.last_error = error
        log.warning("%s: the transaction did not succeed yet: %s", self._spec.name, error)

    async def _start_over(self, error: Exception, failures: int) -> None:
        """Drop everything, end the last transaction with a new epoch, and claim the partitions again."""
        self.last_error = error
        log.warning(
            "%s: the producer starts over, and unfinished records are handled again: %s",
            self._spec.name,
            error,
        )
        self._counters.transactions_aborted += 1
        self._units.clear()
        self._waiting_bytes = 0
        for window in self._windows.values():
            window.close()
        self._in_transaction = ()
        self._committed.set()
        self._output_topics.forget()
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.close(0)
        await asyncio.sleep(_backoff_seconds(failures))
        self._producer = await self._new_producer()
        await self._claim_again()

    async def close(self) -> None:
        """End; an open transaction is aborted."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._units or self._in_transaction:
            log.warning(
                "%s: %d units were not committed; their records will be handled again",
                self._spec.name,
                len(self._units) + len(self._in_transaction),
            )
        if self._producer is not None:
            await self._producer.close(_CLOSE_SECONDS)


def _is_refusal(error: Exception) -> bool:
    """Whether the record itself is at fault."""
    if isinstance(error, KafkaError):
        return error.code in _REFUSED_RECORDS
    return not isinstance(error, IllegalStateError)


def _backoff_seconds(failures: int) -> float:
    return min(_MAX_BACKOFF_SECONDS, _FIRST_BACKOFF_SECONDS * (1 << min(failures - 1, 16)))
