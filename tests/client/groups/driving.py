"""Group members without a consumer around them: what polls them, and what they tell."""

from __future__ import annotations

import asyncio
import contextlib
import re
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ottla.client.aio.group.classic.member import ClassicMember
from ottla.client.aio.group.group import MemberParts
from ottla.client.aio.network.network import Network
from ottla.client.metrics.kafka_metrics import Metrics
from ottla.client.state.consumer.positions import RESET_EARLIEST, FetchPosition
from ottla.client.state.consumer.subscriptions import SubscriptionState
from ottla.client.state.group.membership import MemberState
from ottla.config.client import read_client_config
from ottla.config.consumer import ConsumerConfig
from ottla.core.assignors.model import Assignor
from ottla.core.assignors.registry import ASSIGNORS
from ottla.model import TopicPartition
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

WAIT_S = 20.0


class Told:
    """A rebalance listener, and an interceptor of commits, that writes down what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[int, ...]]] = []
        self.committed: list[Any] = []

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append(("revoked", numbers(partitions)))

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append(("assigned", numbers(partitions)))

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append(("lost", numbers(partitions)))

    def on_commit(self, offsets: Any) -> None:
        self.committed.append(offsets)


def numbers(partitions: Sequence[TopicPartition]) -> tuple[int, ...]:
    return tuple(partition.partition for partition in partitions)


class Driver:
    """A member that is polled while somebody waits for something, or all the time."""

    def __init__(
        self,
        servers: str,
        group_id: str,
        *,
        assignors: Sequence[Assignor | str] = ("range",),
        **options: Any,
    ) -> None:
        self.config = read_client_config(
            ConsumerConfig,
            {"bootstrap.servers": servers, "group.id": group_id},
            {"heartbeat_interval_ms": 100, "session_timeout_ms": 10_000, **options},
        )
        self.network = Network(self.config)
        self.subscriptions = SubscriptionState(RESET_EARLIEST)
        self.told = Told()
        self.metrics = Metrics()
        self.woken = asyncio.Event()
        chosen = [ASSIGNORS[each]() if isinstance(each, str) else each for each in assignors]
        self.member = ClassicMember(
            MemberParts(
                network=self.network,
                config=self.config,
                subscriptions=self.subscriptions,
                assignors=chosen,
                interceptors=self.told,
                metrics=self.metrics,
                wake=self.woken.set,
            )
        )
        self._polling: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Driver:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.stop_polling()
        await self.member.close(2000)
        await self.network.close()

    def subscribe(self, *topics: str, listener: Any = None) -> None:
        self.subscriptions.subscribe_topics(topics, self.told if listener is None else listener)
        self.member.subscription_changed()

    def subscribe_pattern(self, pattern: str) -> None:
        self.subscriptions.subscribe_pattern(re.compile(pattern), self.told)
        self.member.subscription_changed()

    async def poll_until(self, condition: Callable[[], bool], timeout_s: float = WAIT_S) -> None:
        """Poll as a consumer does that waits for records."""
        async with asyncio.timeout(timeout_s):
            while not condition():
                await self.step()

    async def step(self) -> None:
        self.woken.clear()
        await self.member.poll()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await self.woken.wait()

    def start_polling(self) -> asyncio.Task[None]:
        async def poll() -> None:
            while True:
                await self.step()

        self._polling = asyncio.get_running_loop().create_task(poll())
        return self._polling

    async def stop_polling(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)
            self._polling = None

    @property
    def is_stable(self) -> bool:
        return self.member.state is MemberState.STABLE and not self.member._rebalance.is_joining

    @property
    def assigned(self) -> tuple[TopicPartition, ...]:
        return tuple(sorted(self.subscriptions.assigned()))

    def has(self, count: int) -> bool:
        return self.is_stable and len(self.assigned) == count

    async def join(self) -> None:
        await self.poll_until(lambda: self.is_stable)

    async def join_new(self, topic: str, partitions: int) -> None:
        """Join for a topic that is created first."""
        await create_topic(self.network, topic, partitions)
        self.subscribe(topic)
        await self.join()

    async def assign_new(self, topic: str) -> TopicPartition:
        """Take the only partition of a topic that is created first, without a group's doing."""
        await create_topic(self.network, topic, 1)
        partition = TopicPartition(topic, 0)
        self.subscriptions.assign_from_user([partition])
        return partition

    def consume_to(self, offset: int) -> None:
        """As if all records below the offset had been returned by poll."""
        for partition in self.subscriptions.assigned():
            state = self.subscriptions.state(partition)
            state.seek(FetchPosition(offset))


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run a test on a loop of its own; tasks that are left over are an error of the test."""

    async def checked() -> None:
        await test()
        # What was cancelled has its turn.
        await asyncio.sleep(0.01)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left

    asyncio.run(checked())


def new_group() -> str:
    return f"group-{uuid.uuid4().hex[:12]}"


async def create_topic(network: Network, name: str, partitions: int) -> None:
    topic = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=-1, assignments=[], configs=[]
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
    response = await network.call(await network.controller(), request)
    assert response.topics[0].error_code == 0, response
    # Kafka answers before its brokers know the topic.
    look = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    async with asyncio.timeout(WAIT_S):
        while True:
            found = (await network.call(await network.any_node(), look)).topics[0]
            if len(found.partitions) == partitions and all(
                p.leader_id >= 0 for p in found.partitions
            ):
                return
            await asyncio.sleep(0.01)


async def add_partitions(network: Network, name: str, partitions: int) -> None:
    topic = CreatePartitionsTopic(name=name, count=partitions, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=5000, validate_only=False)
    response = await network.call(await network.controller(), request)
    assert response.results[0].error_code == 0, response


async def until(condition: Callable[[], bool], timeout_s: float = WAIT_S) -> None:
    """Wait for something that others bring about."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.01)
