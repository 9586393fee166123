"""Markers on their way to leaders: those of a wide transaction leave in several turns of the loop."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from ottla.broker.coordination.coordinator import When
from ottla.broker.coordination.transaction_markers import MARKERS_PER_TURN, MarkerSender
from ottla.core.turn import ProducerIdentity
from ottla.core.txn.requests import SendMarkers
from ottla.core.txn.states import Result
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

TOPIC = "wide"
WIDE = 10 * MARKERS_PER_TURN + 1
PARTITIONS = tuple(TopicPartition(TOPIC, number) for number in range(WIDE))


class Leaders:
    """A node that leads everything, and what it was asked; `refusals` are its first answers for a partition."""

    def __init__(self) -> None:
        self.calls: list[list[TopicPartition]] = []
        self.refusals: dict[TopicPartition, ErrorCode] = {}
        topic = SimpleNamespace(partition_count=WIDE)
        cluster = SimpleNamespace(
            catalog=SimpleNamespace(topics={TOPIC: topic}),
            leader_of=lambda topic, partition: 0,
            peers=self,
        )
        self.sender = MarkerSender(0, cast(Any, cluster))

    def call(
        self, sender_id: int, node_id: int, request: WriteTxnMarkersRequest, version: int
    ) -> Any:
        self.calls.append([])
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                self._write(TopicPartition(topic.name, partition))
                                for partition in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )

    def _write(self, partition: TopicPartition) -> WritableTxnMarkerPartitionResult:
        self.calls[-1].append(partition)
        error = self.refusals.pop(partition, ErrorCode.NONE)
        return WritableTxnMarkerPartitionResult(
            partition_index=partition.partition, error_code=error
        )


class Transaction:
    """A coordinator that is told which partitions are done."""

    def __init__(self) -> None:
        self.done: list[TopicPartition] = []
        self.is_gone = False
        self.epoch = 0

    def ask(self, decide: Any, respond: Any, when: When) -> None:
        assert when is When.LOADED
        decide(self, None, None)

    def marked(
        self,
        turn: Any,
        transactional_id: str,
        producer: ProducerIdentity,
        done: list[TopicPartition],
    ) -> None:
        self.done += done


def markers(*partitions: TopicPartition) -> SendMarkers:
    return SendMarkers("t", ProducerIdentity(1, 0), Result.COMMIT, partitions, 2)


def test_markers_of_a_wide_transaction_leave_in_several_turns() -> None:
    async def send() -> None:
        leaders, transaction = Leaders(), Transaction()
        leaders.sender.send(cast(Any, transaction), markers(*PARTITIONS))
        turns = 0
        while len(transaction.done) < WIDE:
            known = len(transaction.done)
            await asyncio.sleep(0)
            turns += 1
            assert len(transaction.done) <= known + MARKERS_PER_TURN
        assert turns == len(leaders.calls) == WIDE // MARKERS_PER_TURN + 1
        assert transaction.done == list(PARTITIONS)

    asyncio.run(asyncio.wait_for(send(), 10))


def test_markers_of_many_small_transactions_leave_together() -> None:
    async def send() -> None:
        leaders = Leaders()
        transactions = [Transaction() for _ in range(2 * MARKERS_PER_TURN)]
        for transaction in transactions:
            leaders.sender.send(cast(Any, transaction), markers(PARTITIONS[0]))
        await asyncio.sleep(0)
        assert len(leaders.calls) == 1
        await asyncio.sleep(0)
        assert [len(call) for call in leaders.calls] == [MARKERS_PER_TURN] * 2
        assert all(transaction.done == [PARTITIONS[0]] for transaction in transactions)

    asyncio.run(send())


def test_a_coordinator_that_goes_in_between_sends_no_more() -> None:
    async def send() -> None:
        leaders, transaction = Leaders(), Transaction()
        leaders.sender.send(cast(Any, transaction), markers(*PARTITIONS))
        await asyncio.sleep(0)
        transaction.is_gone = True
        for _ in range(WIDE):
            await asyncio.sleep(0)
        assert len(leaders.calls) == 1

    asyncio.run(send())


def test_only_what_was_refused_is_sent_again() -> None:
    async def send() -> None:
        leaders, transaction = Leaders(), Transaction()
        late = PARTITIONS[MARKERS_PER_TURN + 3]
        leaders.refusals[late] = ErrorCode.NOT_LEADER_OR_FOLLOWER
        leaders.sender.send(cast(Any, transaction), markers(*PARTITIONS))
        while len(transaction.done) < WIDE:
            await asyncio.sleep(0.001)
        assert leaders.calls[-1] == [late]
        assert transaction.done[-1] == late

    asyncio.run(asyncio.wait_for(send(), 10))
