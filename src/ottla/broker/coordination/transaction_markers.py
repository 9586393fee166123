"""Sending transaction markers from the coordinator to the leaders of a transaction's partitions."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from ottla.broker.cluster import Cluster
from ottla.broker.coordination.coordinator import Coordinator, When, unchanged
from ottla.broker.coordination.peers import UnreachableError
from ottla.broker.crashpoints import CrashPoint, reach
from ottla.core.txn.machine import TransactionMachine
from ottla.core.txn.requests import SendMarkers
from ottla.core.txn.states import Result
from ottla.errors import ErrorCode
from ottla.events import EventLog
from ottla.model import NO_LEADER, TopicPartition
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

logger = EventLog(__name__)

VERSION: Final = 2
# A marker that a leader cannot write now is sent again after this time; the others do not wait for it.
FIRST_RETRY_SECONDS: Final = 0.02
LAST_RETRY_SECONDS: Final = 1.0
# The markers that are sent in one turn of the loop: if this node is the leader, sending one appends it.
MARKERS_PER_TURN: Final = 128
# Another coordinator has the transaction, or it is over: its markers must not be sent any more.
GIVE_UP: Final = (ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


class Errand(NamedTuple):
    """Some of a transaction's partitions that need their markers."""

    coordinator: Coordinator[TransactionMachine]
    wanted: SendMarkers
    partitions: tuple[TopicPartition, ...]
    wait_seconds: float


class MarkerSender:
    """Sends markers for the coordinators of a node; those for one leader share a request."""

    def __init__(self, node_id: int, cluster: Cluster) -> None:
        self._node_id = node_id
        self._cluster = cluster
        self._queue: deque[Errand] = deque()
        self._sends_soon = False

    def send(self, coordinator: Coordinator[TransactionMachine], wanted: SendMarkers) -> None:
        """Begins to send; the coordinator learns of each partition whose marker was written."""
        self._add(Errand(coordinator, wanted, wanted.partitions, FIRST_RETRY_SECONDS))

    def _add(self, errand: Errand) -> None:
        partitions = errand.partitions
        if len(partitions) <= MARKERS_PER_TURN:
            self._queue.append(errand)
        else:
            for first in range(0, len(partitions), MARKERS_PER_TURN):
                piece = partitions[first : first + MARKERS_PER_TURN]
                self._queue.append(errand._replace(partitions=piece))
        self._send_soon()

    def _send_soon(self) -> None:
        if not self._sends_soon:
            self._sends_soon = True
            asyncio.get_running_loop().call_soon(self._send_queued)

    def _send_queued(self) -> None:
        """Sends the queued markers, grouped by leader; many of them in several turns of the loop."""
        self._sends_soon = False
        by_leader: dict[int, list[Errand]] = {}
        # Transactions that end together have partitions in common.
        known: dict[TopicPartition, int | None] = {}
        for errand in self._next_errands():
            if errand.coordinator.is_gone:
                continue  # the next coordinator begins again
            for leader, partitions in self._leaders(errand, known).items():
                part = errand._replace(partitions=tuple(partitions))
                by_leader.setdefault(leader, []).append(part)
        if self._queue:
            self._send_soon()
        for leader, parts in by_leader.items():
            if leader == NO_LEADER:
                self._retry(parts)
            else:
                self._call(leader, parts)

    def _next_errands(self) -> list[Errand]:
        errands: list[Errand] = []
        marker_count = 0
        while self._queue:
            marker_count += len(self._queue[0].partitions)
            if errands and marker_count > MARKERS_PER_TURN:
                break
            errands.append(self._queue.popleft())
        return errands

    def _leaders(
        self, errand: Errand, known: dict[TopicPartition, int | None]
    ) -> dict[int, list[TopicPartition]]:
        """The partitions by their leaders; `known` has leaders that were looked up, None for deleted partitions."""
        found: dict[int, list[TopicPartition]] = {}
        gone = []
        for partition in errand.partitions:
            try:
                leader = known[partition]
            except KeyError:
                leader = known[partition] = self._leader_of(partition)
            if leader is None:
                gone.append(partition)
            elif leader in found:
                found[leader].append(partition)
            else:
                found[leader] = [partition]
        if gone:
            # The topic was deleted, and the open transaction in it as well. That is certain: this catalog had the
            # topic when the partition was added (`refuse_partitions`), or is a later one, and never goes back. A
            # leader that answers UNKNOWN_TOPIC_OR_PARTITION proves nothing: it may not know a new topic yet.
            self._done(errand, gone)
        return found

    def _leader_of(self, partition: TopicPartition) -> int | None:
        """The leader of a partition, or NO_LEADER; None if the partition was deleted."""
        topic = self._cluster.catalog.topics.get(partition.topic)
        if topic is None or partition.partition >= topic.partition_count:
            return None
        return self._cluster.leader_of(topic, partition.partition)

    def _call(self, leader: int, errands: list[Errand]) -> None:
        request = WriteTxnMarkersRequest(markers=[_marker(errand) for errand in errands])
        reach(CrashPoint.BEFORE_MARKERS_SENT)
        answer = self._cluster.peers.call(self._node_id, leader, request, VERSION)
        reach(CrashPoint.AFTER_MARKERS_SENT)
        if isinstance(answer, asyncio.Future):
            answer.add_done_callback(partial(self._answered_later, errands))
        else:
            self._answered(errands, answer)

    def _answered_later(self, errands: list[Errand], answer: asyncio.Future[Any]) -> None:
        failed = answer.cancelled() or answer.exception() is not None
        self._answered(errands, UnreachableError() if failed else answer.result())

    def _answered(
        self, errands: list[Errand], answer: WriteTxnMarkersResponse | UnreachableError
    ) -> None:
        if isinstance(answer, UnreachableError):
            self._retry(errands)
            return
        reach(CrashPoint.AFTER_MARKERS_ANSWERED)
        for errand, result in zip(errands, answer.markers, strict=True):
            if _are_all_written(errand, result):
                self._done(errand, errand.partitions)
                continue
            errors = {
                TopicPartition(topic.name, partition.partition_index): partition.error_code
                for topic in result.topics
                for partition in topic.partitions
            }
            self._handle_errors(errand, errors)

    def _handle_errors(self, errand: Errand, errors: dict[TopicPartition, int]) -> None:
        done, again = [], []
        for partition in errand.partitions:
            error = errors.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)
            if error == ErrorCode.NONE:
                done.append(partition)
            elif error in GIVE_UP:
                logger.warning(
                    "marker_refused",
                    "the marker of transactional id %(transactional_id)s for partition "
                    "%(topic)s-%(partition)d was refused with %(error)s",
                    transactional_id=errand.wanted.transactional_id,
                    topic=partition.topic,
                    partition=partition.partition,
                    error=ErrorCode(error).name,
                )
            else:
                again.append(partition)
        if done:
            self._done(errand, done)
        if again:
            self._retry([errand._replace(partitions=tuple(again))])

    def _done(self, errand: Errand, partitions: Sequence[TopicPartition]) -> None:
        wanted = errand.wanted
        if not errand.coordinator.is_gone:
            errand.coordinator.ask(
                lambda machine, turn, _: machine.marked(
                    turn, wanted.transactional_id, wanted.producer, partitions
                ),
                unchanged,
                When.LOADED,
            )

    def _retry(self, errands: list[Errand]) -> None:
        loop = asyncio.get_running_loop()
        for errand in errands:
            longer = min(2 * errand.wait_seconds, LAST_RETRY_SECONDS)
            loop.call_later(errand.wait_seconds, self._add, errand._replace(wait_seconds=longer))


def _are_all_written(errand: Errand, result: WritableTxnMarkerResult) -> bool:
    """Whether every partition has its marker, which is the usual answer."""
    written = 0
    for topic in result.topics:
        for partition in topic.partitions:
            if partition.error_code != ErrorCode.NONE:
                return False
        written += len(topic.partitions)
    return written == len(errand.partitions)


def _marker(errand: Errand) -> WritableTxnMarker:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in errand.partitions:
        by_topic.setdefault(topic, []).append(partition)
    wanted = errand.wanted
    return WritableTxnMarker(
        producer_id=wanted.producer.producer_id,
        producer_epoch=wanted.producer.producer_epoch,
        transaction_result=wanted.result is Result.COMMIT,
        topics=[
            WritableTxnMarkerTopic(name=topic, partition_indexes=partitions)
            for topic, partitions in by_topic.items()
        ],
        coordinator_epoch=errand.coordinator.epoch,
        transaction_version=wanted.version,
    )
