"""Brokers that misbehave at random while a program reads, seeks and pauses: nothing is lost, doubled or moved."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from tests.client.consumer.conftest import run
from tests.client.consumer.scripted import Cluster, Log, Script, ScriptedBroker, data_of

from ottla.client.aio.consumer.consumer import Consumer
from ottla.client.model import ConsumerRecords
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.messages.fetch import FetchPartition, FetchResponse, PartitionData

PARTITIONS = 4
RECORDS = 150
STEPS = 120
PASSING = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_SERVER_ERROR,
]
SESSION_ERRORS = [
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
]


class Trouble:
    """One fault at a time."""

    def __init__(self, cluster: Cluster, rng: random.Random) -> None:
        self.cluster = cluster
        self.rng = rng
        self.failing = 0
        for node in cluster.nodes:
            node.serves_as_follower = True
            node.script = self.script_of(node)

    def script_of(self, node: ScriptedBroker) -> Script:
        def answer(asked: FetchPartition) -> PartitionData | None:
            if self.failing and self.rng.random() < 0.5:
                self.failing -= 1
                return data_of(asked, error=self.rng.choice(PASSING))
            log = self.cluster.logs[TopicPartition("t", asked.partition)]
            # Followers are advised now and then; who is neither one is told who leads.
            if log.leader == node.node_id and self.rng.random() < 0.1:
                return data_of(asked, log, replica=self.rng.randrange(len(self.cluster.nodes)))
            return None

        return answer

    def make(self) -> None:
        node = self.rng.choice(self.cluster.nodes)
        match self.rng.randrange(7):
            case 0:
                node.drop_connections()
            case 1:
                node.forget_session()
            case 2:
                error = self.rng.choice(SESSION_ERRORS)
                node.fetch_answers.append(FetchResponse(error_code=error, responses=[]))
            case 3:
                self.failing = 3
            case 4:
                log = self.rng.choice(list(self.cluster.logs.values()))
                log.epoch_ends[log.epoch] = log.end
                log.leader = self.rng.randrange(len(self.cluster.nodes))
                log.epoch += 1
            case 5:
                node.throttle_ms = self.rng.choice([0, 0, 5])
            case 6:
                for each in self.cluster.nodes:
                    each.drop_connections()


class Reader:
    """Follows what the consumer should give next in each partition."""

    def __init__(self, consumer: Consumer, rng: random.Random) -> None:
        self.consumer = consumer
        self.rng = rng
        self.next = dict.fromkeys(range(PARTITIONS), 0)

    async def step(self) -> None:
        partition = self.rng.randrange(PARTITIONS)
        match self.rng.randrange(12):
            case 0:
                self.next[partition] = self.rng.randrange(RECORDS)
                self.consumer.seek(("t", partition), self.next[partition])
            case 1:
                self.consumer.pause([("t", partition)])
            case 2:
                self.consumer.resume()
            case 3:
                position = await self.consumer.position(("t", partition))
                assert position == self.next[partition]
            case 4:
                polling = asyncio.create_task(self.consumer.poll(1))
                for _ in range(self.rng.randrange(20)):
                    await asyncio.sleep(0)
                if not polling.done():
                    polling.cancel()
                done = (await asyncio.gather(polling, return_exceptions=True))[0]
                if not isinstance(done, BaseException):
                    self.check(done)
            case _:
                self.check(await self.consumer.poll(0.01))

    def check(self, records: ConsumerRecords) -> None:
        paused = {partition.partition for partition in self.consumer.paused()}
        for record in records:
            assert record.partition not in paused
            assert record.offset == self.next[record.partition], record
            assert record.value == b"%d" % record.offset
            self.next[record.partition] += 1


@pytest.mark.parametrize("seed", range(4))
def test_reading_survives_everything_in_order(seed: int) -> None:
    async def test() -> None:
        rng = random.Random(seed)
        cluster = Cluster(nodes=3)
        for n in range(1, PARTITIONS):
            cluster.logs[TopicPartition("t", n)] = Log(leader=n % 3)
        for log in cluster.logs.values():
            while log.end < RECORDS:
                size = min(rng.randrange(1, 8), RECORDS - log.end)
                log.append(*(b"%d" % (log.end + i) for i in range(size)))
        trouble = Trouble(cluster, rng)
        options: dict[str, Any] = {
            "max_partition_fetch_bytes": 400,
            "max_poll_records": 7,
            "fetch_max_wait_ms": 5,
        }
        async with cluster.consumer(**options) as consumer:
            reader = Reader(consumer, rng)
            for step in range(STEPS):
                if step % 4 == 0:
                    trouble.make()
                await reader.step()
            consumer.resume()
            trouble.failing = 0
            async with asyncio.timeout(20):
                while any(offset < RECORDS for offset in reader.next.values()):
                    reader.check(await consumer.poll(0.1))

    run(test)
