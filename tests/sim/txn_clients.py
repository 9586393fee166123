"""Clients of transactions: they find leaders and coordinators, and write and read as the Java client does."""

from __future__ import annotations

from typing import Any

from tests.sim.clients import Client
from tests.sim.txn_history import Place, TxnHistory
from tests.sim.world import World

from ottla.core.partition import READ_COMMITTED
from ottla.errors import ErrorCode
from ottla.records.batch import build_batch, read_batch, split_batches
from ottla.records.control import MarkerType, parse_marker
from ottla.records.record import Record
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

GROUP, TRANSACTION = 0, 1
# Less than what a slow request takes: those who ask again have their first request come later.
TIMEOUT_SECONDS = 1.5
LAST_FETCH_WITH_NAMES = 12
LAST_PRODUCE_WITH_NAMES = 12
# A reader that is told that there is more, and gets nothing, this many times is stuck.
MAX_EMPTY_FETCHES = 50


class TxnClient(Client):
    """A client that finds the leaders of partitions and the coordinators of ids."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.leaders: dict[Place, int] = {}
        self.coordinators: dict[tuple[int, str], int] = {}
        self.first_versions[FindCoordinatorRequest] = 1

    async def ask(
        self, node_id: int, request: Any, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> Any | None:
        return await super().ask(node_id, request, timeout_seconds)

    async def leader(self, place: Place) -> int:
        """The node to ask about a partition; any, if nobody knows."""
        if place not in self.leaders:
            topic = MetadataRequestTopic(name=place[0])
            answer = await self.ask_any(MetadataRequest(topics=[topic]))
            for partition in answer.topics[0].partitions:
                if partition.leader_id >= 0:
                    self.leaders[place[0], partition.partition_index] = partition.leader_id
        return self.leaders.get(place) or self.rng.choice(list(self.world.nodes.configs))

    async def coordinator(self, kind: int, key: str) -> int:
        while (kind, key) not in self.coordinators:
            request = FindCoordinatorRequest(key=key, key_type=kind)
            if self.version_of(FindCoordinatorRequest) >= 4:
                request = FindCoordinatorRequest(coordinator_keys=[key], key_type=kind)
            answer = await self.ask_any(request)
            found = answer.coordinators[0] if answer.coordinators else answer
            if found.error_code == ErrorCode.NONE:
                self.coordinators[kind, key] = found.node_id
            else:
                await self.back_off()
        return self.coordinators[kind, key]

    async def ask_coordinator(self, kind: int, key: str, request: Any) -> Any | None:
        """The answer; without one the coordinator has to be found again."""
        answer = await self.ask(await self.coordinator(kind, key), request)
        if answer is None:
            self.coordinators.pop((kind, key), None)
        return answer

    async def look_again(self, kind: int, key: str) -> None:
        self.coordinators.pop((kind, key), None)
        await self.back_off()

    async def produce(
        self,
        place: Place,
        batch: bytes,
        transactional_id: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> ErrorCode | None:
        """Sends a batch once; None if there was no answer."""
        topic = self.world.nodes.cluster.catalog.topics.get(place[0])
        data = TopicProduceData(
            name=place[0],
            partition_data=[PartitionProduceData(index=place[1], records=batch)],
        )
        if self.version_of(ProduceRequest) > LAST_PRODUCE_WITH_NAMES:
            if topic is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
            data.name, data.topic_id = "", topic.topic_id
        request = ProduceRequest(
            transactional_id=transactional_id, acks=-1, timeout_ms=1000, topic_data=[data]
        )
        answer = await self.ask(await self.leader(place), request, timeout_seconds)
        if answer is None:
            self.leaders.pop(place, None)
            return None
        error = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        if error is not ErrorCode.NONE:
            self.leaders.pop(place, None)
        return error

    def record(self, delta: int, value: str) -> Record:
        return Record(delta, self.world.client_clock.now_ms(), None, value.encode())


class PlainProducer(TxnClient):
    """Writes outside of transactions, to the same partitions."""

    def __init__(self, world: World, name: str, history: TxnHistory, places: list[Place]) -> None:
        super().__init__(world, name)
        self.history = history
        self.places = places

    async def run(self) -> None:
        while True:
            place = self.rng.choice(self.places)
            value = f"plain:{self.world.next_number()}"
            error = await self.produce(place, build_batch([self.record(0, value)]))
            if error is ErrorCode.NONE:
                self.history.plain[value] = None
            await self.wait_between(0.2, 2.0)


class TxnReader(TxnClient):
    """Reads a partition; with read_committed it leaves out what was aborted, by the list that it is given."""

    def __init__(self, world: World, name: str, place: Place, isolation_level: int) -> None:
        super().__init__(world, name)
        self.place = place
        self.isolation_level = isolation_level
        self.position = 0
        self.seen: dict[int, str] = {}
        self.high_watermark = -1
        self._versions[FetchRequest] = self.rng.randint(4, LAST_FETCH_WITH_NAMES)

    async def run(self) -> None:
        while True:
            await self.read()
            await self.wait_between(0.2, 3.0)
            if self.rng.random() < 0.05:
                self.position = 0

    async def read_all(self) -> None:
        """Reads until it has everything that there is; everything has to become readable."""
        empty = 0
        while self.position != self.high_watermark:
            before = self.position
            await self.read()
            empty = 0 if self.position > before else empty + 1
            self.world.check(
                empty < MAX_EMPTY_FETCHES,
                "{} comes to {} of {}",
                self.name,
                self.position,
                self.high_watermark,
            )

    async def read(self) -> None:
        """Fetches once."""
        topic, number = self.place
        partition = FetchPartition(
            partition=number,
            fetch_offset=self.position,
            partition_max_bytes=self.rng.choice([1, 300, 100_000]),
        )
        request = FetchRequest(
            max_wait_ms=self.rng.choice([0, 500]),
            min_bytes=1,
            isolation_level=self.isolation_level,
            topics=[FetchTopic(topic=topic, partitions=[partition])],
        )
        answer = await self.ask(await self.leader(self.place), request)
        data = None if answer is None or not answer.responses else answer.responses[0].partitions[0]
        if data is None or data.error_code != ErrorCode.NONE:
            if data is not None:
                error = ErrorCode(data.error_code)
                self.world.check(error.retriable, "{} is told {}", self.name, error.name)
            self.leaders.pop(self.place, None)
            await self.back_off()
            return
        self.high_watermark = data.high_watermark
        self.world.check(
            data.last_stable_offset <= data.high_watermark,
            "{} is told a last stable offset above {}",
            self.name,
            data.high_watermark,
        )
        self._take(bytes(data.records or b""), data.aborted_transactions or [])

    def _take(self, raw: bytes, aborted: list[Any]) -> None:
        committed_only = self.isolation_level == READ_COMMITTED
        listed = sorted(aborted, key=lambda one: one.first_offset)
        dropped: dict[int, None] = {}
        for position, header in split_batches(raw):
            while committed_only and listed and listed[0].first_offset <= header.last_offset:
                dropped[listed.pop(0).producer_id] = None
            records = read_batch(raw, position)
            if header.is_control:
                marker = parse_marker(records[0]) if records else None
                if marker is not None and marker.type is MarkerType.ABORT:
                    dropped.pop(header.producer_id, None)
            elif not (header.is_transactional and header.producer_id in dropped):
                self._deliver(records)
            self.position = max(self.position, header.last_offset + 1)

    def _deliver(self, records: list[Record]) -> None:
        for record in records:
            if record.offset >= self.position:
                value = (record.value or b"").decode()
                known = self.seen.setdefault(record.offset, value)
                self.world.check(
                    known == value,
                    "{} has seen {} at {}, and now {}",
                    self.name,
                    known,
                    record.offset,
                    value,
                )
