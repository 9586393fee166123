"""Brokers with logs in memory that a test can make say anything: leaders, sessions, followers, errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tests.client.network.fake_broker import QUICK, REQUESTS, Asked, FakeBroker, running

from ottla.client.aio.consumer.consumer import Consumer
from ottla.errors import ErrorCode
from ottla.model import NO_TOPIC_ID, TopicPartition
from ottla.records.batch import build_batch, read_header
from ottla.records.record import Record
from ottla.wire.declare import info_of
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

for _request in (FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest):
    REQUESTS[info_of(_request).api_key] = _request

FETCH, LIST_OFFSETS, METADATA, EPOCHS = 1, 2, 3, 23
T = TopicPartition("t", 0)
TOPIC_ID = UUID(int=77)

Script = Callable[[FetchPartition], PartitionData | None]
"""What to answer for a partition in place of its records; None to leave it as it is."""


@dataclass
class Log:
    """A partition: its batches, who leads it, and where its epochs end."""

    leader: int = 0
    epoch: int = 0
    batches: list[bytes] = field(default_factory=list)
    start: int = 0
    end: int = 0
    epoch_ends: dict[int, int] = field(default_factory=dict)

    def append(self, *values: bytes) -> None:
        """One batch of all values."""
        records = [Record(self.end + n, 1000 + n, None, value) for n, value in enumerate(values)]
        self.batches.append(build_batch(records, base_offset=self.end, leader_epoch=self.epoch))
        self.end += len(values)

    def read(self, offset: int, max_bytes: int) -> bytes:
        found: list[bytes] = []
        size = 0
        for batch in self.batches:
            if read_header(batch, 0).last_offset >= offset:
                if found and size + len(batch) > max_bytes:
                    break
                found.append(batch)
                size += len(batch)
        return b"".join(found)


class Cluster:
    """What all brokers agree on."""

    def __init__(self, nodes: int = 1) -> None:
        self.logs: dict[TopicPartition, Log] = {T: Log()}
        self.ids = {"t": TOPIC_ID}
        self.replicas: tuple[int, ...] = tuple(range(nodes))
        self.errors: dict[str, ErrorCode] = {}
        self.metadata_is_stale = False
        self.nodes = [ScriptedBroker(self, node_id) for node_id in range(nodes)]

    @property
    def log(self) -> Log:
        return self.logs[T]

    def asked_for(self, request_class: type[Any]) -> list[Asked]:
        return [each for node in self.nodes for each in node.asked_for(request_class)]

    def lead(self, leader: int) -> None:
        """Another leader, in the next epoch."""
        self.log.epoch_ends[self.log.epoch] = self.log.end
        self.log.leader = leader
        self.log.epoch += 1

    @asynccontextmanager
    async def consumer(self, **options: Any) -> AsyncIterator[Consumer]:
        """A consumer of all partitions, with the brokers running."""
        given = {"auto.offset.reset": "earliest", "fetch.max.wait.ms": 20, **QUICK}
        given |= {name.replace("_", "."): value for name, value in options.items()}
        async with running(*self.nodes):
            servers = ",".join(node.address for node in self.nodes)
            async with Consumer({"bootstrap.servers": servers, **given}) as consumer:
                consumer.assign(list(self.logs))
                yield consumer


class ScriptedBroker(FakeBroker):
    """One node; every answer can be replaced."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        super().__init__(node_id=node_id)
        self.cluster = cluster
        self.script: Script = lambda asked: None
        self.fetch_answers: list[FetchResponse] = []
        """Sent in place of what the fetches ask for, one each."""
        self.with_sessions = True
        self.max_in_flight = 0
        self.throttle_ms = 0
        self._fetching = 0
        self._session_id = 0
        self._epoch = 0
        self._session: dict[tuple[str, int], FetchPartition] = {}
        self.answers |= {
            MetadataRequest: self._tell_metadata,
            FetchRequest: self._fetch,
            ListOffsetsRequest: self._list,
            OffsetForLeaderEpochRequest: self._epochs,
        }

    def forget_session(self) -> None:
        self._session_id += 1

    def _tell_metadata(self, request: MetadataRequest, version: int) -> MetadataResponse:
        cluster = self.cluster
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=n.node_id, host="127.0.0.1", port=n.port)
                for n in cluster.nodes
            ],
            controller_id=0,
            topics=[self._tell_topic(each.name or "") for each in request.topics or ()],
        )

    def _tell_topic(self, name: str) -> MetadataResponseTopic:
        cluster = self.cluster
        if name in cluster.errors:
            return MetadataResponseTopic(error_code=cluster.errors[name], name=name, partitions=[])
        return MetadataResponseTopic(
            error_code=0,
            name=name,
            topic_id=cluster.ids.get(name, NO_TOPIC_ID),
            partitions=[
                MetadataResponsePartition(
                    error_code=0,
                    partition_index=partition.partition,
                    leader_id=0 if cluster.metadata_is_stale else log.leader,
                    leader_epoch=0 if cluster.metadata_is_stale else log.epoch,
                    replica_nodes=list(cluster.replicas),
                    isr_nodes=list(cluster.replicas),
                )
                for partition, log in cluster.logs.items()
                if partition.topic == name
            ],
        )

    # Fetches

    async def _fetch(self, request: FetchRequest, version: int) -> FetchResponse:
        self._fetching += 1
        self.max_in_flight = max(self.max_in_flight, self._fetching)
        try:
            if self.fetch_answers:
                return self.fetch_answers.pop(0)
            error = self._enter(request, version)
            if error:
                return FetchResponse(error_code=error, responses=[])
            deadline = asyncio.get_running_loop().time() + request.max_wait_ms / 1000
            while True:
                found = self._find(request)
                if found or asyncio.get_running_loop().time() >= deadline:
                    break
                await asyncio.sleep(0.002)
            return self._answer(request, version, found)
        finally:
            self._fetching -= 1

    def _name(self, topic: Any, version: int) -> str:
        if version < 13:
            return str(topic.topic)
        names = {topic_id: name for name, topic_id in self.cluster.ids.items()}
        return names[topic.topic_id]

    def _enter(self, request: FetchRequest, version: int) -> ErrorCode | None:
        """What a broker does with a session."""
        if request.session_epoch in (0, -1):
            self._session = {}
            self._session_id += 1
            self._epoch = 0
        elif request.session_id != self._session_id:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        elif request.session_epoch != self._epoch + 1:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        else:
            self._epoch = request.session_epoch
        for forgotten in request.forgotten_topics_data:
            for number in forgotten.partitions:
                del self._session[self._name(forgotten, version), number]
        for topic in request.topics:
            for asked in topic.partitions:
                self._session[self._name(topic, version), asked.partition] = asked
        return None

    def _find(self, request: FetchRequest) -> dict[TopicPartition, PartitionData]:
        found = {}
        for (topic, number), asked in self._session.items():
            partition = TopicPartition(topic, number)
            data = self.script(asked) or self._read(partition, asked)
            if data.error_code or data.records or data.preferred_read_replica >= 0:
                found[partition] = data
        return found

    def _read(self, partition: TopicPartition, asked: FetchPartition) -> PartitionData:
        log = self.cluster.logs[partition]
        error = ErrorCode.NONE
        if log.leader != self.node_id and not self.is_follower_of(log):
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif 0 <= asked.current_leader_epoch < log.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        elif asked.current_leader_epoch > log.epoch:
            error = ErrorCode.UNKNOWN_LEADER_EPOCH
        elif not log.start <= asked.fetch_offset <= log.end:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        records = b"" if error else log.read(asked.fetch_offset, asked.partition_max_bytes)
        return data_of(asked, log, error=error, records=records)

    serves_as_follower = False

    def is_follower_of(self, log: Log) -> bool:
        return self.serves_as_follower and self.node_id in self.cluster.replicas

    def _answer(
        self, request: FetchRequest, version: int, found: dict[TopicPartition, PartitionData]
    ) -> FetchResponse:
        if request.session_epoch == 0:
            for (topic, number), asked in self._session.items():
                partition = TopicPartition(topic, number)
                found.setdefault(partition, data_of(asked, self.cluster.logs[partition]))
        return FetchResponse(
            throttle_time_ms=self.throttle_ms,
            session_id=self._session_id if self.with_sessions else 0,
            responses=[
                FetchableTopicResponse(
                    topic=topic,
                    topic_id=self.cluster.ids.get(topic, NO_TOPIC_ID),
                    partitions=[data],
                )
                for (topic, _), data in found.items()
            ],
            node_endpoints=[
                NodeEndpoint(node_id=n.node_id, host="127.0.0.1", port=n.port)
                for n in self.cluster.nodes
            ],
        )

    # Offsets

    def _list(self, request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        self._list_partition(TopicPartition(topic.name, p.partition_index), p)
                        for p in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _list_partition(
        self, partition: TopicPartition, asked: Any
    ) -> ListOffsetsPartitionResponse:
        log = self.cluster.logs[partition]
        if log.leader != self.node_id:
            return ListOffsetsPartitionResponse(
                partition_index=partition.partition, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
        return ListOffsetsPartitionResponse(
            partition_index=partition.partition,
            error_code=0,
            offset=log.start if asked.timestamp == -2 else log.end,
            leader_epoch=log.epoch,
        )

    def _epochs(
        self, request: OffsetForLeaderEpochRequest, version: int
    ) -> OffsetForLeaderEpochResponse:
        results = []
        for topic in request.topics:
            for asked in topic.partitions:
                log = self.cluster.logs[TopicPartition(topic.topic, asked.partition)]
                known = [epoch for epoch in log.epoch_ends if epoch <= asked.leader_epoch]
                epoch, end = -1, -1
                if asked.leader_epoch == log.epoch:
                    epoch, end = log.epoch, log.end
                elif known:
                    epoch, end = max(known), log.epoch_ends[max(known)]
                results.append(
                    OffsetForLeaderTopicResult(
                        topic=topic.topic,
                        partitions=[
                            EpochEndOffset(
                                error_code=0,
                                partition=asked.partition,
                                leader_epoch=epoch,
                                end_offset=end,
                            )
                        ],
                    )
                )
        return OffsetForLeaderEpochResponse(topics=results)


def data_of(
    asked: FetchPartition,
    log: Log | None = None,
    *,
    error: ErrorCode = ErrorCode.NONE,
    records: bytes = b"",
    replica: int = -1,
    leader: tuple[int, int] = (-1, -1),
) -> PartitionData:
    """An answer for a partition."""
    end = -1 if log is None or error else log.end
    return PartitionData(
        partition_index=asked.partition,
        error_code=error,
        high_watermark=end,
        last_stable_offset=end,
        log_start_offset=-1 if log is None or error else log.start,
        aborted_transactions=None,
        preferred_read_replica=replica,
        current_leader=LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1]),
        records=memoryview(records),
    )


async def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)
