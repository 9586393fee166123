"""Producers with transactions that cost little: encoded requests whose changing fields are written in place.

A producer is a generator that yields the requests it sends and is given their answers, so that one thread serves many
of them, each with one request in flight as the clients of applications have between transactions.
"""

from __future__ import annotations

import heapq
import select
import struct
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from benchmarks.frames import (
    CLIENT_ID,
    FLEXIBLE_HEADER_BYTES,
    TIMESTAMP_MS,
    TRANSACTION_KEY,
    TRY_LIMIT,
    TRY_SECONDS,
    RefusedError,
    coordinator,
    end_offsets,
    partitions_by_leader,
)

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.records.batch import BatchFlag, build_batch
from ottla.records.crc import crc32c
from ottla.records.record import Record
from ottla.wire.compile import decode_message
from ottla.wire.framing import SIZE_BYTES, frame_request, read_size
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

INIT_VERSION = 4
ADD_PARTITIONS_VERSION = 3
TRANSACTION_TIMEOUT_MS = 60_000
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
RECEIVE_BYTES = 1 << 18
ANSWER_SECONDS = 30.0
VISIBLE_SECONDS = 10.0
# So soon that the broker is measured and not the wait; clients wait 20 ms and more.
BACK_OFF_SECONDS = 0.001

# The transaction before is not complete; Produce says it in the second way (KIP-890).
NOT_YET = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS)
# A broker that has just made its internal topic refuses these for a moment.
NOT_READY = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)

CRC_AT = 17
CHECKED_FROM = 21
_IDENTITY = struct.Struct(">qhi")
_IDENTITY_AT = 43  # of a batch: producer id, epoch, base sequence
_CRC = struct.Struct(">I")

_id_numbers = count()


@dataclass(frozen=True)
class Protocol:
    """How clients of a transaction version speak: the older ones register partitions before they write."""

    name: str
    produce_version: int
    end_version: int
    registers_partitions: bool


VERSION_1 = Protocol("version 1", 11, 4, registers_partitions=True)
VERSION_2 = Protocol("version 2", 12, 5, registers_partitions=False)


class ProduceFrame:
    """A Produce request with one batch for each of some partitions, whose producer can be changed."""

    def __init__(
        self,
        topic: str,
        partitions: Sequence[int],
        records_per_batch: int,
        value_bytes: int,
        version: int,
        transactional_id: str | None,
    ) -> None:
        self.version = version
        self.records_per_batch = records_per_batch
        value = b"x" * value_bytes
        flags = BatchFlag.NONE if transactional_id is None else BatchFlag.TRANSACTIONAL
        batch = build_batch(
            [Record(i, TIMESTAMP_MS + i, None, value) for i in range(records_per_batch)],
            flags=flags,
        )
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[
                TopicProduceData(
                    name=topic,
                    partition_data=[
                        PartitionProduceData(index=index, records=batch) for index in partitions
                    ],
                )
            ],
        )
        self.data = bytearray(frame_request(request, version, 1, CLIENT_ID))
        self._batch_bytes = len(batch)
        self._positions: list[int] = []
        for _ in partitions:
            after = self._positions[-1] + 1 if self._positions else 0
            self._positions.append(self.data.index(batch, after))

    def stamp(self, producer_id: int, epoch: int, sequence: int) -> bytearray:
        """The request as this producer sends it; the same buffer each time."""
        position = self._positions[0]
        # All batches have the same records, hence the same checksum.
        _IDENTITY.pack_into(self.data, position + _IDENTITY_AT, producer_id, epoch, sequence)
        end = position + self._batch_bytes
        crc = crc32c(memoryview(self.data)[position + CHECKED_FROM : end])
        for position in self._positions:
            _IDENTITY.pack_into(self.data, position + _IDENTITY_AT, producer_id, epoch, sequence)
            _CRC.pack_into(self.data, position + CRC_AT, crc)
        return self.data

    def error(self, answer: bytes) -> ErrorCode:
        """The first error of an answer, or NONE."""
        response = decode_message(ProduceResponse, self.version, answer, FLEXIBLE_HEADER_BYTES)
        for partition in response.responses[0].partition_responses:
            if partition.error_code != ErrorCode.NONE:
                return ErrorCode(partition.error_code)
        return ErrorCode.NONE


class Ask(NamedTuple):
    """A request on a connection, and how its answer says an error."""

    connection: RawConnection
    request: bytes | bytearray
    error_of: Callable[[bytes], ErrorCode]


class Leader(NamedTuple):
    """A connection to a leader, and the request with a batch for each of its partitions."""

    connection: RawConnection
    partitions: Sequence[int]
    frame: ProduceFrame


# What a producer yields are requests that are in flight together, one for a connection, or how many seconds it waits.
Steps = Generator[Sequence[Ask] | float, list[bytes], None]


class Connections:
    """The connections of one client, one for every broker that it talks to."""

    def __init__(self) -> None:
        self._by_address: dict[str, RawConnection] = {}

    def to(self, address: str) -> RawConnection:
        if address not in self._by_address:
            self._by_address[address] = RawConnection(address)
        return self._by_address[address]

    def all(self) -> list[RawConnection]:
        return list(self._by_address.values())

    def close(self) -> None:
        for connection in self.all():
            connection.close()


@dataclass
class Producer:
    """One transactional producer; `protocol` says which transaction version it speaks."""

    bootstrap_server: str
    protocol: Protocol
    topic: str
    partitions: Sequence[int]
    records_per_batch: int = 1
    value_bytes: int = 100
    transactional_id: str = field(default_factory=lambda: f"bench-{next(_id_numbers)}")
    sequence: int = 0
    committed: int = 0
    # How often it was told to come again, because its last transaction is not complete yet.
    put_off: int = 0

    def __post_init__(self) -> None:
        self.connections = Connections()
        by_leader = partitions_by_leader(self.bootstrap_server, self.topic, self.partitions)
        self.leaders = [
            Leader(self.connections.to(address), partitions, self._frame(partitions))
            for address, partitions in by_leader.items()
        ]
        self.coordinator = self._init()

    def _frame(self, partitions: Sequence[int]) -> ProduceFrame:
        return ProduceFrame(
            self.topic,
            partitions,
            self.records_per_batch,
            self.value_bytes,
            self.protocol.produce_version,
            self.transactional_id,
        )

    def _init(self) -> RawConnection:
        """Finds the coordinator, which makes an internal topic the first time, and becomes a producer."""
        init = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        for _ in range(TRY_LIMIT):
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            address = coordinator(self.bootstrap_server, self.transactional_id, TRANSACTION_KEY)
            if address is not None:
                connection = self.connections.to(address)
                answer = connection.call(init, InitProducerIdResponse, INIT_VERSION)
                error = ErrorCode(answer.error_code)
            if error is ErrorCode.NONE:
                self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
                return connection
            if error not in NOT_READY:
                break
            time.sleep(TRY_SECONDS)
        raise RefusedError(f"{self.transactional_id} got no producer id: error {error}")

    def transaction(self) -> Steps:
        """One transaction: a batch for every partition, then the commit."""
        yield from self.write()
        yield from self.end()

    def write(self) -> Steps:
        """Begins a transaction with the first batch for every partition."""
        if self.protocol.registers_partitions:
            yield from self._until_taken(
                [Ask(self.coordinator, self._add_partitions(), _registered)]
            )
        asks = []
        for leader in self.leaders:
            request = leader.frame.stamp(self.producer_id, self.epoch, self.sequence)
            asks.append(Ask(leader.connection, request, leader.frame.error))
        yield from self._until_taken(asks)
        self.sequence += self.records_per_batch

    def _until_taken(self, asks: Sequence[Ask]) -> Steps:
        while asks:
            answers = yield asks
            errors = [ask.error_of(answer) for ask, answer in zip(asks, answers, strict=True)]
            for error in errors:
                if error is not ErrorCode.NONE and error not in NOT_YET:
                    raise RefusedError(f"{self.transactional_id} was answered {error.name}")
            asks = [
                ask for ask, error in zip(asks, errors, strict=True) if error is not ErrorCode.NONE
            ]
            if asks:
                self.put_off += 1
                yield BACK_OFF_SECONDS

    def _add_partitions(self) -> bytes:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=self.topic, partitions=list(self.partitions))
            ],
        )
        return frame_request(request, ADD_PARTITIONS_VERSION, 1, CLIENT_ID)

    def end_frame(self) -> bytes:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=True,
        )
        return frame_request(request, self.protocol.end_version, 1, CLIENT_ID)

    def end(self) -> Steps:
        """Commits; with version 2 the producer goes on under another epoch."""
        (answer,) = yield [Ask(self.coordinator, self.end_frame(), _never_refused)]
        self.ended(answer)

    def ended(self, answer: bytes) -> None:
        """What follows from the answer to a commit."""
        response = decode_message(
            EndTxnResponse, self.protocol.end_version, answer, FLEXIBLE_HEADER_BYTES
        )
        if response.error_code != ErrorCode.NONE:
            raise RefusedError(f"a commit was answered with error {response.error_code}")
        if response.producer_id >= 0:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            self.sequence = 0
        self.committed += 1

    def run(self, steps: Steps) -> None:
        """Does all steps, waiting for each answer."""
        answers: list[bytes] | None = None
        try:
            while True:
                step = steps.send(answers)  # type: ignore[arg-type]  # None begins
                if isinstance(step, float):
                    time.sleep(step)
                    answers = None
                else:
                    for ask in step:
                        ask.connection.socket.sendall(ask.request)
                    answers = [ask.connection.receive_frame() for ask in step]
        except StopIteration:
            return

    def close(self) -> None:
        self.connections.close()


def _never_refused(_: bytes) -> ErrorCode:
    """An answer that its producer looks at by itself."""
    return ErrorCode.NONE


def _registered(answer: bytes) -> ErrorCode:
    response = decode_message(
        AddPartitionsToTxnResponse, ADD_PARTITIONS_VERSION, answer, FLEXIBLE_HEADER_BYTES
    )
    for partition in response.results_by_topic_v3_and_below[0].results_by_partition:
        if partition.partition_error_code != ErrorCode.NONE:
            return ErrorCode(partition.partition_error_code)
    return ErrorCode.NONE


class _Turn:
    """A producer that does one transaction after the other, and what has arrived of the answers it waits for."""

    def __init__(self, producer: Producer, until: float) -> None:
        self.producer = producer
        self._steps = self._transactions(until)
        self._asked: Sequence[Ask] = ()
        self._received: dict[int, bytearray] = {}
        self._answers: dict[int, bytes] = {}

    def _transactions(self, until: float) -> Steps:
        while time.perf_counter() < until:
            yield from self.producer.transaction()

    def go_on(self, answers: list[bytes] | None) -> float | None:
        """Sends the next requests, or says how long to wait; raises StopIteration at the end."""
        step = self._steps.send(answers)  # type: ignore[arg-type]  # None begins
        if isinstance(step, float):
            return step
        self._asked = step
        for ask in step:
            ask.connection.socket.sendall(ask.request)
        return None

    def receive(self, descriptor: int, connection: RawConnection) -> list[bytes] | None:
        """Reads what has arrived on a connection; all answers, once the last of them is whole."""
        data = connection.socket.recv(RECEIVE_BYTES)
        if not data:
            raise ConnectionResetError("the broker closed the connection")
        received = self._received.setdefault(descriptor, bytearray())
        received += data
        if len(received) < SIZE_BYTES:
            return None
        end = SIZE_BYTES + read_size(received)[0]
        if len(received) < end:
            return None
        self._answers[id(connection)] = bytes(received[SIZE_BYTES:end])
        del received[:end]
        if len(self._answers) < len(self._asked):
            return None
        answers = [self._answers[id(ask.connection)] for ask in self._asked]
        self._answers.clear()
        return answers


def commit_for(producers: Sequence[Producer], seconds: float) -> float:
    """Every producer does one transaction after the other for a while; how many seconds until the last is committed."""
    poll = select.epoll()
    started = time.perf_counter()
    turns = [_Turn(producer, started + seconds) for producer in producers]
    by_descriptor: dict[int, tuple[_Turn, RawConnection]] = {}
    for turn in turns:
        for connection in turn.producer.connections.all():
            by_descriptor[connection.socket.fileno()] = turn, connection
            poll.register(connection.socket.fileno(), select.EPOLLIN)
    busy = len(turns)
    numbers = count()
    waiting: list[tuple[float, int, _Turn]] = []

    def go_on(turn: _Turn, answers: list[bytes] | None) -> None:
        nonlocal busy
        try:
            wait = turn.go_on(answers)
        except StopIteration:
            busy -= 1
            return
        if wait is not None:
            heapq.heappush(waiting, (time.perf_counter() + wait, next(numbers), turn))

    try:
        for turn in turns:
            go_on(turn, None)
        while busy:
            now = time.perf_counter()
            while waiting and waiting[0][0] <= now:
                go_on(heapq.heappop(waiting)[2], None)
            wait = max(0.0, waiting[0][0] - now) if waiting else ANSWER_SECONDS
            ready = poll.poll(wait)
            if not ready and not waiting and busy:
                raise TimeoutError(f"no answer within {ANSWER_SECONDS:.0f} s")
            for descriptor, _ in ready:
                turn, connection = by_descriptor[descriptor]
                answers = turn.receive(descriptor, connection)
                if answers is not None:
                    go_on(turn, answers)
    finally:
        poll.close()
    return time.perf_counter() - started


def await_stable(bootstrap_server: str, topic: str, partition_count: int) -> list[int]:
    """The end offsets once every transaction is over: until its markers are there, a reader sees less."""
    deadline = time.perf_counter() + VISIBLE_SECONDS
    while True:
        stable, end = (
            end_offsets(bootstrap_server, topic, partition_count, isolation)
            for isolation in (READ_COMMITTED, READ_UNCOMMITTED)
        )
        if stable == end:
            return end
        if time.perf_counter() > deadline:
            raise RefusedError(f"{topic} is stable up to {stable} and ends at {end}")
        time.sleep(TRY_SECONDS)
