"""A producer of transaction version 2 (KIP-890), made of raw requests: no Python client speaks it yet.

Every transaction has an epoch of its own, and what it writes to is part of it without being announced.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, Final

from tests.history.client import (
    TRANSACTION_TIMEOUT_MS,
    Client,
    FailedError,
    Offsets,
    OnSent,
    Then,
)
from tests.history.digest import Place

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.records.batch import BatchFlag, build_batch
from ottla.records.record import Record
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

INIT_SECONDS, SEND_SECONDS, CALL_SECONDS, ANSWER_SECONDS = 30.0, 8.0, 4.0, 2.5
RETRY_SECONDS: Final = 0.05
IN_A_HURRY: Final = 0.4
GROUP_KEY, TRANSACTION_KEY = 0, 1
ACKS_ALL = -1

AGAIN = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_SERVER_ERROR,
}
# As the Java client: whether one is really fenced, the coordinator says when the transaction is to end.
ABORTABLE = {
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
}


class NotYetError(Exception):
    """An attempt came to nothing; there may be another."""


class RawClient(Client):
    """One request at a time; what has no answer is sent again."""

    def __init__(
        self, bootstrap_servers: str, transactional_id: str, group: str, seed: int
    ) -> None:
        self._random = random.Random(seed)
        self._bootstrap = bootstrap_servers.split(",")
        self._id = transactional_id
        self._group = group
        self._connections: dict[str, RawConnection] = {}
        self._leaders: dict[Place, str] = {}
        self._coordinators: dict[tuple[int, str], str] = {}
        self._next_sequence: dict[Place, int] = {}
        self._has_begun = False
        self._become()

    # Asking.

    def _ask(self, address: str, request: Any, response_class: type[Any], version: int) -> Any:
        try:
            connection = self._connections.get(address)
            if connection is None:
                connection = RawConnection(address, timeout_seconds=ANSWER_SECONDS)
                self._connections[address] = connection
            return connection.call(request, response_class, version)
        except OSError as error:
            broken = self._connections.pop(address, None)
            if broken is not None:
                broken.close()
            raise NotYetError(repr(error)) from error

    def _ask_any(self, request: Any, response_class: type[Any], version: int) -> Any:
        for address in self._bootstrap:
            try:
                return self._ask(address, request, response_class, version)
            except NotYetError:
                continue
        raise NotYetError("no broker answers")

    def _coordinator(self, key_type: int, key: str) -> str:
        known = self._coordinators.get((key_type, key))
        if known is not None:
            return known
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        (found,) = self._ask_any(request, FindCoordinatorResponse, 4).coordinators
        if found.error_code != ErrorCode.NONE:
            raise NotYetError(ErrorCode(found.error_code).name)
        address = f"{found.host}:{found.port}"
        self._coordinators[key_type, key] = address
        return address

    def _leader(self, place: Place) -> str:
        if place not in self._leaders:
            answer = self._ask_any(MetadataRequest(topics=None), MetadataResponse, 12)
            addresses = {one.node_id: f"{one.host}:{one.port}" for one in answer.brokers}
            self._leaders = {
                Place(topic.name, partition.partition_index): addresses[partition.leader_id]
                for topic in answer.topics
                for partition in topic.partitions
                if partition.leader_id in addresses
            }
        if place not in self._leaders:
            raise NotYetError(f"{place} has no leader")
        return self._leaders[place]

    def _until(self, seconds: float, late: Then, attempt: Callable[[], ErrorCode]) -> None:
        """Attempts until the broker has said what it thinks."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                error = attempt()
            except NotYetError as problem:
                text = str(problem)
            else:
                if error is ErrorCode.NONE:
                    return
                if error not in AGAIN:
                    raise FailedError(Then.ABORT if error in ABORTABLE else Then.END, error.name)
                text = error.name
            self._leaders.clear()
            self._coordinators.clear()
            if time.monotonic() > deadline:
                raise FailedError(late, f"{text} for {seconds} s")
            time.sleep(RETRY_SECONDS)

    # Transactions.

    def _become(self) -> None:
        def attempt() -> ErrorCode:
            request = InitProducerIdRequest(
                transactional_id=self._id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
            )
            address = self._coordinator(TRANSACTION_KEY, self._id)
            answer = self._ask(address, request, InitProducerIdResponse, 5)
            self._producer = (answer.producer_id, answer.producer_epoch)
            return ErrorCode(answer.error_code)

        self._until(INIT_SECONDS, Then.END, attempt)

    def begin(self) -> None:
        self._next_sequence = {}
        self._has_begun = False

    def send(self, place: Place, value: str, on_sent: OnSent) -> None:
        sequence = self._next_sequence.get(place, 0)
        self._has_begun = True
        request = self._produce_request(place, value, sequence)
        offsets: list[int] = []

        def attempt() -> ErrorCode:
            leader = self._leader(place)
            try:
                answer = self._ask(leader, request, ProduceResponse, 12)
            except NotYetError as error:
                # A program may abort at once; what it has sent is then on its way and will not be sent again.
                if self._random.random() < IN_A_HURRY:
                    raise FailedError(Then.ABORT, f"{error}, in a hurry") from error
                raise
            (partition,) = answer.responses[0].partition_responses
            offsets.append(partition.base_offset)
            return ErrorCode(partition.error_code)

        try:
            self._until(SEND_SECONDS, Then.ABORT, attempt)
        except FailedError as error:
            on_sent(None, str(error))
            raise
        self._next_sequence[place] = sequence + 1
        on_sent(offsets[-1], "")

    def _produce_request(self, place: Place, value: str, sequence: int) -> ProduceRequest:
        producer_id, epoch = self._producer
        batch = build_batch(
            [Record(0, int(time.time() * 1000), b"key", value.encode())],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            flags=BatchFlag.TRANSACTIONAL,
        )
        data = PartitionProduceData(index=place.partition, records=batch)
        return ProduceRequest(
            transactional_id=self._id,
            acks=ACKS_ALL,
            timeout_ms=2_000,
            topic_data=[TopicProduceData(name=place.topic, partition_data=[data])],
        )

    def send_offsets(self, offsets: Offsets) -> None:
        self._has_begun = True
        producer_id, epoch = self._producer
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=self._group,
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=place.topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=place.partition,
                            committed_offset=offset,
                            committed_metadata="",
                        )
                    ],
                )
                for place, offset in offsets.items()
            ],
        )

        def attempt() -> ErrorCode:
            address = self._coordinator(GROUP_KEY, self._group)
            answer = self._ask(address, request, TxnOffsetCommitResponse, 5)
            errors = {one.error_code for topic in answer.topics for one in topic.partitions}
            return ErrorCode(max(errors))

        self._until(CALL_SECONDS, Then.ABORT, attempt)

    def commit(self) -> None:
        self._end(self._end_request(committed=True))

    def abort(self) -> None:
        self._end(self._end_request(committed=False))

    def _end_request(self, *, committed: bool) -> EndTxnRequest:
        producer_id, epoch = self._producer
        return EndTxnRequest(
            transactional_id=self._id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=committed,
        )

    def _end(self, request: EndTxnRequest) -> None:
        if not self._has_begun:
            return

        def attempt() -> ErrorCode:
            address = self._coordinator(TRANSACTION_KEY, self._id)
            answer = self._ask(address, request, EndTxnResponse, 5)
            error = ErrorCode(answer.error_code)
            if error is ErrorCode.NONE:
                self._producer = (answer.producer_id, answer.producer_epoch)
            if error in ABORTABLE - {ErrorCode.TRANSACTION_ABORTABLE}:
                raise FailedError(Then.END, error.name)
            return error

        self._until(CALL_SECONDS, Then.CALL_AGAIN, attempt)
