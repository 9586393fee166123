"""Clients of coordinators that are in no group: they find one, look at it, and commit without members."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from tests.sim.clients import TIMEOUT_SECONDS, Client
from tests.sim.world import World

from ottla.errors import ErrorCode
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

GONE_ID = 2**128 - 1


class GroupClient(Client):
    """A client that finds the coordinator of its group, and knows how each version names topics."""

    def __init__(self, world: World, name: str, group_id: str) -> None:
        super().__init__(world, name)
        self.group_id = group_id
        self.coordinator: int | None = None

    @property
    def has_coordinator(self) -> bool:
        return self.coordinator is not None

    async def find_coordinator(self) -> None:
        if self.version_of(FindCoordinatorRequest) < 4:
            request = FindCoordinatorRequest(key=self.group_id)
            found = await self.ask_any(request)
        else:
            request = FindCoordinatorRequest(coordinator_keys=[self.group_id])
            found = (await self.ask_any(request)).coordinators[0]
        if found.error_code == ErrorCode.NONE:
            self.coordinator = found.node_id
        else:
            self.expect(found.error_code, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            await self.back_off()

    async def ask_coordinator(
        self, request: Any, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> Any | None:
        """The answer; without one the coordinator has to be found again."""
        assert self.coordinator is not None
        answer = await self.ask(self.coordinator, request, timeout_seconds)
        if answer is None:
            self.coordinator = None
        return answer

    def expect(self, error_code: int, *expected: ErrorCode) -> None:
        """Whether a client is prepared for the error."""
        error = ErrorCode(error_code)
        self.world.check(error in expected, "{} is told {}", self.name, error.name)

    def topic_id(self, topic: str) -> UUID:
        """The id of a topic; one that nobody has if it is gone."""
        found = self.world.nodes.cluster.catalog.topics.get(topic)
        return UUID(int=GONE_ID) if found is None else found.topic_id

    def commit_request(self, offsets: Mapping[tuple[str, int], int]) -> OffsetCommitRequest:
        by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            by_topic.setdefault(topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offset,
                    committed_metadata=self.name,
                )
            )
        return OffsetCommitRequest(
            group_id=self.group_id,
            member_id="",
            topics=[
                OffsetCommitRequestTopic(name=name, topic_id=self.topic_id(name), partitions=found)
                for name, found in by_topic.items()
            ],
        )

    def fetch_error(self, answer: OffsetFetchResponse) -> ErrorCode:
        """What goes for the whole group; the oldest version says it of each partition."""
        if answer.groups:
            return ErrorCode(answer.groups[0].error_code)
        of_partitions = [one.error_code for topic in answer.topics for one in topic.partitions]
        return ErrorCode(answer.error_code or max(of_partitions, default=0))

    def fetch_all_request(self) -> OffsetFetchRequest:
        """A request for every offset that there is, where the version has one."""
        version = self.version_of(OffsetFetchRequest)
        if version >= 8:
            return OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group_id=self.group_id, topics=None)]
            )
        return OffsetFetchRequest(group_id=self.group_id, topics=None if version >= 2 else [])

    def fetch_request(self, partitions: Sequence[tuple[str, int]]) -> OffsetFetchRequest:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(partition)
        if self.version_of(OffsetFetchRequest) < 8:
            return OffsetFetchRequest(
                group_id=self.group_id,
                topics=[
                    OffsetFetchRequestTopic(name=name, partition_indexes=found)
                    for name, found in by_topic.items()
                ],
            )
        topics = [
            OffsetFetchRequestTopics(
                name=name, topic_id=self.topic_id(name), partition_indexes=found
            )
            for name, found in by_topic.items()
        ]
        return OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=self.group_id, topics=topics)]
        )


class SimpleConsumer(GroupClient):
    """Commits offsets without being in a group, deletes them at times, and looks at what is there."""

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self.rng.uniform(0.5, 6))
            if self.coordinator is None:
                await self.find_coordinator()
            if self.coordinator is not None:
                await self._act()

    async def _act(self) -> None:
        counts = self.world.partition_counts
        partitions = [(topic, number) for topic in counts for number in range(counts[topic])]
        some = self.rng.sample(partitions, self.rng.randint(1, len(partitions)))
        drawn = self.rng.random()
        request: Any
        if drawn < 0.5:
            request = self.commit_request({key: self.world.next_number() for key in some})
        elif drawn < 0.55:
            request = DeleteGroupsRequest(groups_names=[self.group_id])
        elif drawn < 0.62:
            request = OffsetDeleteRequest(
                group_id=self.group_id,
                topics=[
                    OffsetDeleteRequestTopic(
                        name=topic,
                        partitions=[OffsetDeleteRequestPartition(partition_index=number)],
                    )
                    for topic, number in some[:2]
                ],
            )
        else:
            request = self.fetch_request(partitions)
        if await self.ask_coordinator(request) is None or self.rng.random() < 0.2:
            self.coordinator = None


class Observer(GroupClient):
    """Looks at a group from outside."""

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self.rng.uniform(2, 8))
            await self.fetch_offsets()

    async def fetch_offsets(self) -> None:
        if self.coordinator is None:
            await self.find_coordinator()
        if self.coordinator is None:
            return
        counts = self.world.partition_counts
        partitions = [(topic, number) for topic in counts for number in range(counts[topic])]
        request = self.fetch_request(partitions)
        if self.rng.random() < 0.3:
            request = self.fetch_all_request()
        answer = await self.ask_coordinator(request)
        if answer is not None and self.fetch_error(answer) is not ErrorCode.NONE:
            self.coordinator = None

    async def describe(self) -> Any | None:
        if self.coordinator is None:
            await self.find_coordinator()
        if self.coordinator is None:
            return None
        answer = await self.ask_coordinator(DescribeGroupsRequest(groups=[self.group_id]))
        if answer is None:
            return None
        described = answer.groups[0]
        if described.error_code != ErrorCode.NONE:
            self.coordinator = None
        return described
