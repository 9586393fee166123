"""Topics are deleted and made again while groups commit offsets for them: a new topic knows nothing of the old one."""

from __future__ import annotations

import asyncio
import uuid

from tests.sim.clients import Client
from tests.sim.group_clients import GroupClient
from tests.sim.groups import BAD_DISK, check_replays
from tests.sim.nodes import trouble
from tests.sim.weather import Weather
from tests.sim.world import World, every

from ottla.core.catalog import GROUPS_TOPIC
from ottla.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.offset_commit import OffsetCommitRequest

TOPIC = "doomed"
PARTITIONS = 2
BAD_NETWORK = Weather(slow=0.03, lost=0.01, broken=0.01)
FORGOTTEN_WITHIN_SECONDS = 15.0
FIRST_COMMIT_VERSION_WITH_TOPIC_IDS = 10


class Committer(GroupClient):
    """Commits offsets, and remembers of which topic each of them was."""

    def __init__(self, world: World, name: str, group_id: str) -> None:
        super().__init__(world, name, group_id)
        # A commit that names its topic may as well be about the next one of that name.
        self.first_versions = {OffsetCommitRequest: FIRST_COMMIT_VERSION_WITH_TOPIC_IDS}
        self.topics: dict[int, uuid.UUID] = {}  # by offset
        self.acknowledged: dict[tuple[uuid.UUID, int], int] = {}

    @property
    def topic_now(self) -> uuid.UUID | None:
        found = self.world.nodes.cluster.catalog.topics.get(TOPIC)
        return None if found is None else found.topic_id

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self.rng.uniform(0.1, 1))
            await self.commit()
            if self.rng.random() < 0.5:
                await self.check_kept()

    async def check_kept(self) -> None:
        """What was acknowledged for the topic that is there is kept, whatever becomes of older ones."""
        topic_id, acknowledged = self.topic_now, list(self.acknowledged)
        offsets = await self.offsets() if topic_id is not None else []
        for partition, offset in enumerate(offsets):
            self.world.check(
                offset >= 0
                or (topic_id, partition) not in acknowledged
                or topic_id != self.topic_now,
                "{} has lost what was acknowledged for partition {}",
                self.group_id,
                partition,
            )

    async def commit(self) -> None:
        if self.coordinator is None:
            await self.find_coordinator()
        topic_id = self.topic_now
        if self.coordinator is None or topic_id is None:
            return
        partition, offset = self.rng.randrange(PARTITIONS), self.world.next_number()
        self.topics[offset] = topic_id
        answer = await self.ask_coordinator(self.commit_request({(TOPIC, partition): offset}))
        if answer is None:
            return
        error = ErrorCode(answer.topics[0].partitions[0].error_code)
        if error is ErrorCode.NONE:
            self.acknowledged[topic_id, partition] = offset
        elif error is not ErrorCode.UNKNOWN_TOPIC_ID:
            self.coordinator = None

    async def offsets(self) -> list[int]:
        """What is kept for each partition."""
        while self.topic_now is not None:
            if self.coordinator is None:
                await self.find_coordinator()
                continue
            request = self.fetch_request([(TOPIC, number) for number in range(PARTITIONS)])
            answer = await self.ask_coordinator(request)
            if answer is None:
                continue
            if self.fetch_error(answer) is ErrorCode.NONE:
                found = answer.groups[0] if answer.groups else answer
                partitions = found.topics[0].partitions
                return [partition.committed_offset for partition in partitions]
            self.coordinator = None
            await self.back_off()
        return []


class Admin(Client):
    """Makes the topic and deletes it, again and again."""

    async def run(self) -> None:
        while True:
            await self.make()
            await asyncio.sleep(self.rng.uniform(1, 8))
            await self._delete()
            await asyncio.sleep(self.rng.choice([0, 0.1, 1]))

    async def make(self) -> None:
        topic = CreatableTopic(
            name=TOPIC,
            num_partitions=PARTITIONS,
            replication_factor=-1,
            assignments=[],
            configs=[],
        )
        done = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        while True:
            answer = await self.ask_any(CreateTopicsRequest(topics=[topic]))
            if answer.topics[0].error_code in done:
                return
            await self.back_off()

    async def _delete(self) -> None:
        request = DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=1000)
        if self.version_of(DeleteTopicsRequest) >= 6:
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)], timeout_ms=1000)
        done = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        while True:
            answer = await self.ask_any(request)
            if answer.responses[0].error_code in done:
                return
            await self.back_off()


async def deleting(world: World) -> None:
    """The scenario: bad times, then good ones after which only offsets of the topic that is there are left."""
    rng = world.random("scenario")
    world.nodes.start_all()
    admin = Admin(world, "admin")
    committers = [
        Committer(world, f"committer-{number}", f"g{number}") for number in range(rng.randint(1, 3))
    ]
    world.start(every(5.0, lambda: check_replays(world)))
    background = [
        world.start(admin.run()),
        *(world.start(committer.run()) for committer in committers),
    ]
    world.network.weather, world.nodes.store.weather = BAD_NETWORK, BAD_DISK
    await trouble(world.nodes, world.random("trouble"), rng.uniform(10, 40), [GROUPS_TOPIC])
    world.calm_down()
    for task in background:
        task.cancel()
    # Until the last request has arrived that is on its way.
    await asyncio.sleep(2 * BAD_NETWORK.slow_seconds[1])
    await admin.make()
    await asyncio.sleep(FORGOTTEN_WITHIN_SECONDS)
    for committer in committers:
        await _check(world, committer)


async def _check(world: World, committer: Committer) -> None:
    await committer.check_kept()
    for offset in await committer.offsets():
        world.check(
            offset < 0 or committer.topics[offset] == committer.topic_now,
            "{} has offset {} of a topic that was deleted",
            committer.group_id,
            offset,
        )
