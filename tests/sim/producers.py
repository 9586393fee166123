"""Idempotent producers and a reader while leaders move and nodes crash: nothing acknowledged is lost or doubled."""

from __future__ import annotations

import asyncio

from tests.sim.clients import Client
from tests.sim.disk import DiskWeather
from tests.sim.nodes import trouble
from tests.sim.weather import Weather
from tests.sim.world import World

from ottla.errors import ErrorCode
from ottla.records.batch import build_batch, read_batch, split_batches
from ottla.records.record import Record
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TOPIC = "orders"
LAST_VERSION_WITH_NAMES = 12
BAD_NETWORK = Weather(slow=0.05, lost=0.01, broken=0.01, doubled=0.05)
BAD_DISK = DiskWeather(
    refused=0.02,
    full=0.02,
    written=0.02,
    late=0.3,
    late_failed=0.05,
    claim_failed=0.05,
    catalog_failed=0.1,
)


class LeaderClient(Client):
    """A client that finds the leaders of partitions."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.leaders: dict[int, int] = {}

    async def refresh(self) -> None:
        answer = await self.ask_any(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]))
        self.leaders = {
            partition.partition_index: partition.leader_id
            for partition in answer.topics[0].partitions
            if partition.leader_id >= 0
        }

    async def leader(self, partition: int) -> int:
        while partition not in self.leaders:
            await self.refresh()
            if partition not in self.leaders:
                await self.back_off()
        return self.leaders[partition]


class Producer(LeaderClient):
    """Sends numbered values to a partition, each until it is acknowledged."""

    def __init__(self, world: World, name: str, partition: int) -> None:
        super().__init__(world, name)
        self.partition = partition
        self.acknowledged: list[tuple[int, int]] = []  # (number, offset)
        self.next_number = 0
        self._versions[ProduceRequest] = self.rng.randint(3, LAST_VERSION_WITH_NAMES)

    async def run(self) -> None:
        producer_id = await self._init()
        while True:
            count = self.rng.randint(1, 3)
            numbers = range(self.next_number, self.next_number + count)
            self.next_number += count
            records = [
                Record(
                    delta, self.world.client_clock.now_ms(), None, f"{self.name} {number}".encode()
                )
                for delta, number in enumerate(numbers)
            ]
            batch = build_batch(
                records, producer_id=producer_id, producer_epoch=0, base_sequence=numbers[0]
            )
            offset = await self._send(batch)
            self.acknowledged += [(number, offset + delta) for delta, number in enumerate(numbers)]
            await asyncio.sleep(self.rng.uniform(0, 0.5))

    async def _init(self) -> int:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        while True:
            answer = await self.ask_any(request)
            if answer.error_code == ErrorCode.NONE:
                return int(answer.producer_id)
            await self.back_off()

    async def _send(self, batch: bytes) -> int:
        """Sends a batch until it is acknowledged; answers its offset."""
        request = ProduceRequest(
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(
                    name=TOPIC,
                    partition_data=[PartitionProduceData(index=self.partition, records=batch)],
                )
            ],
        )
        while True:
            answer = await self.ask(await self.leader(self.partition), request)
            if answer is None:
                self.leaders.clear()
                continue
            result = answer.responses[0].partition_responses[0]
            if result.error_code == ErrorCode.NONE:
                return int(result.base_offset)
            error = ErrorCode(result.error_code)
            self.world.check(error.retriable, "{} is told {}", self.name, error.name)
            self.leaders.clear()
            await self.back_off()


class Reader(LeaderClient):
    """Reads a partition from its beginning: what it has seen at an offset stays there."""

    def __init__(self, world: World, name: str, partition: int) -> None:
        super().__init__(world, name)
        self.partition = partition
        self.values: dict[int, bytes | None] = {}
        self.offset = 0
        self._versions[FetchRequest] = self.rng.randint(4, LAST_VERSION_WITH_NAMES)

    async def run(self) -> None:
        while True:
            await self.read()
            if self.rng.random() < 0.02:
                self.offset = 0

    async def read(self) -> int:
        """Fetches once; says how many new records there were, or -1 if it did not work."""
        request = FetchRequest(
            max_wait_ms=self.rng.choice([0, 500, 2000]),
            min_bytes=1,
            topics=[
                FetchTopic(
                    topic=TOPIC,
                    partitions=[
                        FetchPartition(
                            partition=self.partition,
                            fetch_offset=self.offset,
                            partition_max_bytes=self.rng.choice([1, 1000, 100_000]),
                        )
                    ],
                )
            ],
        )
        answer = await self.ask(await self.leader(self.partition), request)
        if answer is None or answer.error_code != ErrorCode.NONE:
            self.leaders.clear()
            return -1
        data = answer.responses[0].partitions[0]
        if data.error_code != ErrorCode.NONE:
            error = ErrorCode(data.error_code)
            self.world.check(error.retriable, "{} is told {}", self.name, error.name)
            self.leaders.clear()
            await self.back_off()
            return -1
        return self._take(bytes(data.records or b""))

    def _take(self, raw: bytes) -> int:
        count = 0
        for position, _ in split_batches(raw):
            for record in read_batch(raw, position):
                if record.offset < self.offset:
                    continue
                self.world.check(
                    record.offset == self.offset,
                    "{} reads offset {} after {}",
                    self.name,
                    record.offset,
                    self.offset - 1,
                )
                known = self.values.setdefault(record.offset, record.value)
                self.world.check(
                    known == record.value,
                    "{} has seen {} at offset {}, and now {}",
                    self.name,
                    known,
                    record.offset,
                    record.value,
                )
                self.offset += 1
                count += 1
        return count


def check_log(world: World, producers: list[Producer], reader: Reader) -> None:
    """What a reader found in the end is what was acknowledged, in order, once."""
    numbers: dict[str, list[int]] = {producer.name: [] for producer in producers}
    for offset in range(reader.offset):
        name, _, text = (reader.values[offset] or b"").decode().partition(" ")
        numbers[name].append(int(text))
    for producer in producers:
        found = numbers[producer.name]
        world.check(found == list(range(len(found))), "{} wrote {}", producer.name, found)
        for number, offset in producer.acknowledged:
            world.check(
                reader.values.get(offset) == f"{producer.name} {number}".encode(),
                "{} was acknowledged number {} at {}",
                producer.name,
                number,
                offset,
            )


async def create_topic(world: World, partition_count: int) -> None:
    client = Client(world, "creator")
    topic = CreatableTopic(
        name=TOPIC,
        num_partitions=partition_count,
        replication_factor=-1,
        assignments=[],
        configs=[],
    )
    answer = await client.ask_any(CreateTopicsRequest(topics=[topic]))
    assert answer.topics[0].error_code == ErrorCode.NONE, answer


async def producing(world: World) -> None:
    """The scenario: some producers and readers per partition, bad times, then good ones."""
    rng = world.random("scenario")
    partition_count = rng.randint(1, 3)
    world.nodes.start_all()
    await create_topic(world, partition_count)
    producers = [
        Producer(world, f"producer-{number}", number % partition_count)
        for number in range(rng.randint(1, 4))
    ]
    readers = [
        Reader(world, f"reader-{partition}", partition) for partition in range(partition_count)
    ]
    world.network.weather, world.nodes.store.weather = BAD_NETWORK, BAD_DISK
    work = [
        *(world.start(one.run()) for one in producers),
        *(world.start(one.run()) for one in readers),
    ]
    await trouble(world.nodes, rng, rng.uniform(10, 40), [TOPIC])
    world.calm_down()
    # A node may still stand still; then a client waits for a connection to one that has crashed.
    await asyncio.sleep(world.nodes.seconds_frozen() + 15)
    sent_before = [len(producer.acknowledged) for producer in producers]
    await asyncio.sleep(5)
    for producer, before in zip(producers, sent_before, strict=True):
        world.check(len(producer.acknowledged) > before, "{} is stuck", producer.name)
    for task in work:
        task.cancel()
    for reader in readers:
        reader.offset = 0
        while await reader.read() != 0:
            pass
        check_log(world, [one for one in producers if one.partition == reader.partition], reader)
