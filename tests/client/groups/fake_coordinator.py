"""A coordinator of KIP-848 that gives the targets that a test says, and remembers every heartbeat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from tests.client.consumer.scripted import TOPIC_ID, Cluster, Log, ScriptedBroker
from tests.client.network.fake_broker import QUICK, REQUESTS, running

from ottla.client.aio.consumer.consumer import Consumer
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.declare import info_of
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
)
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

for _request in (ConsumerGroupHeartbeatRequest, OffsetCommitRequest, OffsetFetchRequest):
    REQUESTS[info_of(_request).api_key] = _request

HEARTBEAT_API = info_of(ConsumerGroupHeartbeatRequest).api_key
POLL_SECONDS = 0.02
WAIT_SECONDS = 10.0


class Told:
    """A listener that writes down what it is told, and what else happens."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> Any:
        self.calls.append(("revoked", [each.partition for each in partitions]))

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append(("assigned", [each.partition for each in partitions]))

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append(("lost", [each.partition for each in partitions]))


class FakeGroup:
    """A cluster of one broker that coordinates a group of one member."""

    def __init__(self, partitions: int = 4) -> None:
        self.cluster = Cluster()
        self.cluster.logs = {TopicPartition("t", number): Log() for number in range(partitions)}
        self.broker: ScriptedBroker = self.cluster.nodes[0]
        self.epoch = 0
        self.interval_ms = 20
        self.target: dict[UUID, list[int]] = {TOPIC_ID: list(range(partitions))}
        self.refusals: list[tuple[ErrorCode, str | None]] = []
        self.commit_refusals: list[ErrorCode] = []
        self.fetch_refusals: list[ErrorCode] = []
        self.offsets: dict[tuple[UUID, int], int] = {}
        self.open = asyncio.Event()
        """While it is not set, heartbeats are not answered."""
        self.open.set()
        self._told: dict[UUID, list[int]] | None = None
        self._name_topic = self.broker.answers[MetadataRequest]
        self.broker.answers |= {
            MetadataRequest: self._metadata,
            ConsumerGroupHeartbeatRequest: self._heartbeat,
            OffsetCommitRequest: self._commit,
            OffsetFetchRequest: self._fetch,
        }

    # What the test says

    def give(self, *numbers: int, topic_id: UUID = TOPIC_ID) -> None:
        """A new target, in the next epoch."""
        self.target = {topic_id: list(numbers)}
        self.epoch += 1

    def refuse(self, code: ErrorCode, message: str | None = None) -> None:
        """Answer the next heartbeat with an error."""
        self.refusals.append((code, message))

    # What the test sees

    @property
    def heartbeats(self) -> list[ConsumerGroupHeartbeatRequest]:
        return [each.request for each in self.broker.asked_for(ConsumerGroupHeartbeatRequest)]

    @property
    def joins(self) -> list[ConsumerGroupHeartbeatRequest]:
        return [each for each in self.heartbeats if each.member_epoch == 0]

    @property
    def reported(self) -> list[list[int]]:
        """The partitions that heartbeats after the first one reported."""
        return [
            [number for topic in each.topic_partitions for number in topic.partitions]
            for each in self.heartbeats
            if each.topic_partitions is not None and each.member_epoch > 0
        ]

    @property
    def commits(self) -> list[OffsetCommitRequest]:
        return [each.request for each in self.broker.asked_for(OffsetCommitRequest)]

    def order(self, *requests: type[Any]) -> list[Any]:
        """These requests in the order in which they came."""
        return [each.request for each in self.broker.asked if isinstance(each.request, requests)]

    # Answers

    async def _heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, version: int
    ) -> ConsumerGroupHeartbeatResponse:
        await self.open.wait()
        if self.refusals:
            code, message = self.refusals.pop(0)
            self._told = None
            return ConsumerGroupHeartbeatResponse(
                error_code=code, error_message=message, member_epoch=0, heartbeat_interval_ms=0
            )
        if request.member_epoch < 0:
            self._told = None
            return ConsumerGroupHeartbeatResponse(
                error_code=0, member_epoch=request.member_epoch, heartbeat_interval_ms=0
            )
        if request.member_epoch == 0:
            self.epoch += 1
            self._told = None
        assignment = None
        if self._told != self.target:
            self._told = self.target
            assignment = Assignment(
                topic_partitions=[
                    TopicPartitions(topic_id=topic_id, partitions=numbers)
                    for topic_id, numbers in self.target.items()
                ]
            )
        return ConsumerGroupHeartbeatResponse(
            error_code=0,
            member_id=request.member_id,
            member_epoch=self.epoch,
            heartbeat_interval_ms=self.interval_ms,
            assignment=assignment,
        )

    def _metadata(self, request: MetadataRequest, version: int) -> MetadataResponse:
        names = {topic_id: name for name, topic_id in self.cluster.ids.items()}
        unknown = []
        for topic in request.topics or ():
            if topic.name is None:
                topic.name = names.get(topic.topic_id)
                if topic.name is None:
                    unknown.append(topic.topic_id)
        asked = request.topics
        request.topics = None if asked is None else [each for each in asked if each.name]
        response: MetadataResponse = self._name_topic(request, version)
        response.topics += [
            MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=each, partitions=[]
            )
            for each in unknown
        ]
        return response

    def _commit(self, request: OffsetCommitRequest, version: int) -> OffsetCommitResponse:
        code = self.commit_refusals.pop(0) if self.commit_refusals else ErrorCode.NONE
        for topic in request.topics:
            for each in topic.partitions:
                if not code:
                    self.offsets[topic.topic_id, each.partition_index] = each.committed_offset
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        OffsetCommitResponsePartition(
                            partition_index=each.partition_index, error_code=code
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _fetch(self, request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
        (group,) = request.groups
        code = self.fetch_refusals.pop(0) if self.fetch_refusals else ErrorCode.NONE
        topics = [
            OffsetFetchResponseTopics(
                topic_id=topic.topic_id,
                partitions=[
                    OffsetFetchResponsePartitions(
                        partition_index=number,
                        committed_offset=self.offsets.get((topic.topic_id, number), -1),
                        metadata="",
                        error_code=0,
                    )
                    for number in topic.partition_indexes
                ],
            )
            for topic in group.topics or ()
        ]
        answer = OffsetFetchResponseGroup(
            group_id=group.group_id, topics=[] if code else topics, error_code=code
        )
        return OffsetFetchResponse(groups=[answer])

    # Consumers

    @asynccontextmanager
    async def consumer(self, **options: Any) -> AsyncIterator[Consumer]:
        """A consumer of the group, with the broker running."""
        given: dict[str, Any] = {
            "group.id": "g",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "fetch.max.wait.ms": 20,
            **QUICK,
        }
        given |= {name.replace("_", "."): value for name, value in options.items()}
        async with running(self.broker):
            servers = {"bootstrap.servers": self.broker.address}
            async with Consumer({**servers, **given}) as consumer:
                yield consumer


async def poll_until(consumer: Consumer, condition: Callable[[], object]) -> list[Any]:
    """Poll until the condition holds; the records."""
    found: list[Any] = []
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():
            found += await consumer.poll(POLL_SECONDS)
    return found


async def read(consumer: Consumer, count: int) -> list[Any]:
    """Poll until there are so many records, and not one more."""
    found: list[Any] = []
    async with asyncio.timeout(WAIT_SECONDS):
        while len(found) < count:
            found += await consumer.poll(POLL_SECONDS)
    assert len(found) == count
    return found


async def until(condition: Callable[[], object]) -> None:
    """Let the loop go on without polling until the condition holds."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():
            await asyncio.sleep(0.002)


def assigned(consumer: Consumer) -> list[int]:
    return sorted(each.partition for each in consumer.assignment())
