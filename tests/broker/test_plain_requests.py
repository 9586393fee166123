"""Produce requests that arrive together: one write for those of a partition, and answers in their order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.broker.requests import batch_of, produce_request
from tests.fuzz.plain import Client
from tests.lasting import LASTING

from ottla.access import Operation, PatternType, Permission, ResourceType
from ottla.broker.handlers import produce as produce_handler
from ottla.broker.runtime import BrokerSettings, Instruments, RunningBroker, start_broker
from ottla.broker.security.standard_authorizer import StandardAuthorizer
from ottla.config.broker import BrokerConfig
from ottla.doors.door import Door
from ottla.errors import ErrorCode
from ottla.model import Endpoint
from ottla.records.batch import BatchFlag, build_batch
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.storage.local.log.segment import Segment
from ottla.testing.clock import MovableClock
from ottla.testing.disk_faults import faulty_store
from ottla.testing.faults import Faults
from ottla.wire.compile import decode_message
from ottla.wire.framing import SIZE_BYTES, frame_request, read_size
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

VERSION = 12
HEADER_BYTES = 5
TRANSACTIONAL_ID = "pipeline"


class Served:
    """A broker, and a client of it without a network."""

    def __init__(self, running: RunningBroker, faults: Faults) -> None:
        self.running = running
        self.faults = faults
        self.client = Client(running, answers_plain=True)

    async def create(self, topic: str, **config: str) -> None:
        wanted = CreatableTopic(
            name=topic,
            num_partitions=2,
            replication_factor=1,
            assignments=[],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in config.items()],
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=1000)
        await self.client.receive(frame_request(request, 5, 1, None))
        # The first request opens the partition.
        await self.produce(produce(topic, 0))

    async def produce(self, *frames: bytes) -> list[tuple[int, PartitionProduceResponse]]:
        """Correlation ids and responses of requests that arrive together."""
        data = await self.client.receive(b"".join(frames))
        found = []
        while data:
            end = SIZE_BYTES + read_size(data)[0]
            response = decode_message(ProduceResponse, VERSION, data, SIZE_BYTES + HEADER_BYTES)
            number = int.from_bytes(data[SIZE_BYTES : SIZE_BYTES + 4], "big")
            found.append((number, response.responses[0].partition_responses[0]))
            data = data[end:]
        return found

    def end_offset(self, topic: str, partition: int = 0) -> int:
        shard = self.running.node.partitions.open_shard(topic, partition)
        assert shard is not None
        return shard.partition.end_offset


def produce(
    topic: str, number: int, *, acks: int = -1, records: bytes | None = None, partition: int = 0
) -> bytes:
    data = batch_of(b"value") if records is None else records
    request = produce_request(topic, data, partition=partition, acks=acks)
    return frame_request(request, VERSION, number, "client")


def produce_to_both(topic: str, number: int, records: bytes) -> bytes:
    """A request with the same batch for both partitions."""
    data = [PartitionProduceData(index=partition, records=records) for partition in range(2)]
    request = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, partition_data=data)],
    )
    return frame_request(request, VERSION, number, "client")


def sequenced(sequence: int, count: int = 1, *, value: bytes = b"v") -> bytes:
    records = [Record(n, 1_750_000_000_000, None, value) for n in range(count)]
    return build_batch(records, producer_id=1, producer_epoch=0, base_sequence=sequence)


def serve(
    folder: Path,
    scenario: Callable[[Served], Coroutine[Any, Any, None]],
    options: Mapping[str, object] | None = None,
    **settings: Any,
) -> None:
    async def run() -> None:
        faults = Faults(range(1, 2))
        clock = MovableClock()
        instruments = Instruments(clock=clock, wrap_store=faulty_store(faults, clock))
        config = BrokerConfig.read(
            {**LASTING, "listeners": "PLAINTEXT://127.0.0.1:0", **(options or {})}
        )
        running = await start_broker(BrokerSettings(config, str(folder), **settings), instruments)
        try:
            await scenario(Served(running, faults))
        finally:
            await running.stop()

    asyncio.run(run())


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of batches of each write to a segment."""
    found: list[int] = []
    append = Segment.append

    def counted(self: Segment, data: Any, extents: Any, interval_bytes: int) -> None:
        found.append(len(extents))
        append(self, data, extents, interval_bytes)

    monkeypatch.setattr(Segment, "append", counted)
    return found


def test_requests_that_arrive_together_are_one_write(tmp_path: Path, writes: list[int]) -> None:
    async def scenario(served: Served) -> None:
        await served.create("t")
        writes.clear()
        answers = await served.produce(*(produce("t", number) for number in range(40)))
        assert [number for number, _ in answers] == list(range(40))
        assert [each.base_offset for _, each in answers] == list(range(1, 41))
        assert {each.error_code for _, each in answers} == {ErrorCode.NONE}
        assert writes == [40]

    serve(tmp_path, scenario)


def test_an_idempotent_producers_requests_are_one_write(tmp_path: Path, writes: list[int]) -> None:
    async def scenario(served: Served) -> None:
        await served.create("t")
        writes.clear()
        frames = [produce("t", n, records=sequenced(2 * n, 2)) for n in range(5)]
        answers = await served.produce(*frames)
        assert [each.base_offset for _, each in answers] == [1, 3, 5, 7, 9]
        assert writes == [5]
        # All of it again: nothing is appended, and each has the answer that it had.
        again = await served.produce(*frames)
        assert [(number, each.base_offset) for number, each in again] == [
            (number, each.base_offset) for number, each in answers
        ]
        assert writes == [5]

    serve(tmp_path, scenario)


def test_requests_with_large_batches_for_several_partitions_are_one_write_for_each(
    tmp_path: Path, writes: list[int]
) -> None:
    async def scenario(served: Served) -> None:
        await served.create("t")
        await served.produce(produce("t", 0, partition=1))
        writes.clear()
        frames = [
            produce_to_both("t", number, sequenced(number, value=bytes(30_000)))
            for number in range(3)
        ]
        answers = await served.produce(*frames)
        assert [each.base_offset for _, each in answers] == [1, 2, 3]
        assert [served.end_offset("t", partition) for partition in (0, 1)] == [4, 4]
        assert writes == [3, 3]

    serve(tmp_path, scenario)


def test_many_small_requests_are_not_answered_in_one_long_step(
    tmp_path: Path, writes: list[int]
) -> None:
    async def scenario(served: Served) -> None:
        await served.create("t")
        writes.clear()
        frame_bytes = len(produce("t", 0))
        answers = await served.produce(*(produce("t", number) for number in range(400)))
        assert [each.base_offset for _, each in answers] == list(range(1, 401))
        assert max(writes) <= (16 << 10) // frame_bytes + 1

    serve(tmp_path, scenario)


def test_a_large_batch_that_is_alone_is_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Any] = []
    append = Segment.append

    def noted(self: Segment, data: Any, extents: Any, interval_bytes: int) -> None:
        written.append(data)
        append(self, data, extents, interval_bytes)

    monkeypatch.setattr(Segment, "append", noted)

    async def scenario(served: Served) -> None:
        await served.create("t")
        await served.produce(produce("t", 0, partition=1))
        written.clear()
        records = sequenced(0, value=bytes(30_000))
        ((_, answer),) = await served.produce(produce_to_both("t", 1, records))
        assert answer.base_offset == 1
        buffer = served.running.server.receive_buffer
        assert [data.obj is buffer.obj for data in written] == [True, True]
        shard = served.running.node.partitions.open_shard("t", 0)
        assert shard is not None
        logged = bytes(shard.read(1, 1 << 20, 2))
        assert logged[12:] != records[12:], "the leader epoch is written"
        assert logged[16:] == records[16:]

    serve(tmp_path, scenario)


def test_large_batches_that_need_a_closer_look_are_left_to_the_handler(
    tmp_path: Path, writes: list[int]
) -> None:
    async def scenario(served: Served) -> None:
        await served.create("t")
        writes.clear()
        record = Record(0, 1_750_000_000_000, None, random.Random(1).randbytes(30_000))
        compressed = build_batch([record], codec=Codec.GZIP)
        answers = await served.produce(*(produce("t", n, records=compressed) for n in range(3)))
        assert [each.base_offset for _, each in answers] == [1, 2, 3]
        assert writes == [1, 1, 1]

    serve(tmp_path, scenario)


def test_a_gap_in_the_sequence_is_refused_and_the_rest_appended(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        await served.create("t")
        sequences = [0, 1, 3, 2]
        frames = [produce("t", n, records=sequenced(s)) for n, s in enumerate(sequences)]
        answers = await served.produce(*frames)
        assert [each.error_code for _, each in answers] == [
            ErrorCode.NONE,
            ErrorCode.NONE,
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            ErrorCode.NONE,
        ]
        assert served.end_offset("t") == 4

    serve(tmp_path, scenario)


def test_small_segments_get_one_batch_after_the_other(tmp_path: Path, writes: list[int]) -> None:
    async def scenario(served: Served) -> None:
        await served.create("t", **{"segment.bytes": "200"})
        writes.clear()
        await served.produce(*(produce("t", number) for number in range(10)))
        assert writes == [1] * 10
        shard = served.running.node.partitions.open_shard("t", 0)
        assert shard is not None
        assert all(each.size_bytes <= 200 for each in shard.log.segments())

    serve(tmp_path, scenario)


def test_a_full_disk_refuses_all_of_a_write_and_changes_nothing(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        await served.create("t")
        frames = [produce("t", n, records=sequenced(n)) for n in range(3)]
        with served.faults.fill_disk():
            answers = await served.produce(*frames)
        assert [each.error_code for _, each in answers] == [ErrorCode.KAFKA_STORAGE_ERROR] * 3
        assert served.end_offset("t") == 1
        # The client tries again: the sequence goes on where it was.
        again = await served.produce(*frames)
        assert [(each.error_code, each.base_offset) for _, each in again] == [
            (0, 1),
            (0, 2),
            (0, 3),
        ]

    serve(tmp_path, scenario)


def test_a_full_disk_closes_the_connection_of_acks_0_after_the_answers_before(
    tmp_path: Path,
) -> None:
    async def scenario(served: Served) -> None:
        await served.create("t")
        with served.faults.fill_disk():
            answers = await served.produce(
                produce("t", 1), produce("t", 2, acks=0), produce("t", 3)
            )
        assert [number for number, _ in answers] == [1]
        assert served.client.closed

    serve(tmp_path, scenario)


def test_answers_wait_until_their_write_is_durable(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        await served.create("t", **{"flush.messages": "1"})
        connection = served.client.connection
        frames = b"".join(produce("t", number) for number in range(8))
        served.client.written.clear()
        connection.get_buffer(-1)[: len(frames)] = frames
        connection.buffer_updated(len(frames))
        # A thread syncs the file; its word comes in a later turn of the loop.
        assert not served.client.written
        answers = await served.produce(produce("t", 8))
        assert [number for number, _ in answers] == list(range(9))
        assert [each.base_offset for _, each in answers] == list(range(1, 10))

    serve(tmp_path, scenario)


def test_metrics_count_every_request(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        await served.create("t")
        (counts,) = (each for each in served.running.server.api_counts if each.name == "Produce")
        before = counts.received
        await served.produce(*(produce("t", n) for n in range(30)))
        with served.faults.fill_disk():
            await served.produce(*(produce("t", n) for n in range(3)))
        assert counts.received - before == 33
        assert counts.errors == {ErrorCode.KAFKA_STORAGE_ERROR: 3}
        assert counts.waiting == counts.failed == 0

    door = Door("metrics", Endpoint("127.0.0.1", 0))
    serve(tmp_path, scenario, metrics=door)


WITH_ACLS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


def test_acls_are_asked_for_every_request(tmp_path: Path, writes: list[int]) -> None:
    async def scenario(served: Served) -> None:
        await served.create("t")
        authorizer = served.running.node.authorizer
        assert isinstance(authorizer, StandardAuthorizer)
        writes.clear()
        allowed = authorizer.allowed_count
        answers = await served.produce(*(produce("t", number) for number in range(5)))
        assert {each.error_code for _, each in answers} == {ErrorCode.NONE}
        assert authorizer.allowed_count - allowed == 5
        assert writes == [5]
        await served.client.receive(frame_request(DENIAL, 3, 1, None))
        denied = authorizer.denied_count
        answers = await served.produce(*(produce("t", number) for number in range(3)))
        assert [each.error_code for _, each in answers] == [
            ErrorCode.TOPIC_AUTHORIZATION_FAILED
        ] * 3
        assert authorizer.denied_count - denied == 3
        assert served.end_offset("t") == 6

    serve(tmp_path, scenario, WITH_ACLS)


DENIAL = CreateAclsRequest(
    creations=[
        AclCreation(
            resource_type=ResourceType.TOPIC,
            resource_name="t",
            resource_pattern_type=PatternType.LITERAL,
            principal="User:ANONYMOUS",
            host="*",
            operation=Operation.WRITE,
            permission_type=Permission.DENY,
        )
    ]
)


class TransactionalProducer:
    """A producer that the coordinator knows, and its frames."""

    def __init__(self, served: Served) -> None:
        self._client = served.client
        self.identity = (-1, -1)

    async def become(self) -> None:
        """Asks until the coordinator's topic is there."""
        find = FindCoordinatorRequest(key=TRANSACTIONAL_ID, key_type=1)
        await self._client.receive(frame_request(find, 2, 1, None))
        init = InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=9000)
        answer = await self._ask(init, InitProducerIdResponse, 3)
        assert answer.error_code == ErrorCode.NONE
        self.identity = answer.producer_id, answer.producer_epoch

    async def _ask(self, request: Any, response: type[Any], version: int) -> Any:
        data = await self._client.receive(frame_request(request, version, 1, None))
        return decode_message(response, version, data, SIZE_BYTES + HEADER_BYTES)

    async def add(self, topic: str, *partitions: int) -> None:
        """As clients of version 1 do before they write."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TRANSACTIONAL_ID,
            v3_and_below_producer_id=self.identity[0],
            v3_and_below_producer_epoch=self.identity[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
        )
        answer = await self._ask(request, AddPartitionsToTxnResponse, 3)
        (found,) = answer.results_by_topic_v3_and_below
        assert {each.partition_error_code for each in found.results_by_partition} == {0}

    async def commit(self, version: int) -> None:
        request = EndTxnRequest(
            transactional_id=TRANSACTIONAL_ID,
            producer_id=self.identity[0],
            producer_epoch=self.identity[1],
            committed=True,
        )
        answer = await self._ask(request, EndTxnResponse, version)
        assert answer.error_code == ErrorCode.NONE
        if version >= 5:
            self.identity = answer.producer_id, answer.producer_epoch
        coordinator = self._client.running.node.transactions.loaded_for(TRANSACTIONAL_ID)
        assert coordinator is not None
        while coordinator.machine.is_ending(TRANSACTIONAL_ID):
            await asyncio.sleep(0)

    def frame(
        self, topic: str, number: int, sequence: int, version: int, *partitions: int
    ) -> bytes:
        data = build_batch(
            [Record(0, 1_750_000_000_000, None, b"v")],
            producer_id=self.identity[0],
            producer_epoch=self.identity[1],
            base_sequence=sequence,
            flags=BatchFlag.TRANSACTIONAL,
        )
        request = ProduceRequest(
            transactional_id=TRANSACTIONAL_ID,
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(
                    name=topic,
                    partition_data=[
                        PartitionProduceData(index=partition, records=data)
                        for partition in partitions
                    ],
                )
            ],
        )
        return frame_request(request, version, number, "client")


def responses_in(data: bytes, version: int) -> list[list[PartitionProduceResponse]]:
    """The responses about the partitions of each request."""
    found = []
    while data:
        end = SIZE_BYTES + read_size(data)[0]
        response = decode_message(ProduceResponse, version, data, SIZE_BYTES + HEADER_BYTES)
        found.append(response.responses[0].partition_responses)
        data = data[end:]
    return found


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One element for each request that the handler had to answer."""
    found: list[int] = []
    refuse = produce_handler.ProduceSteps.refuse_transaction

    def counted(self: Any, request: Any) -> Any:
        found.append(len(request.topic_data))
        return refuse(self, request)

    monkeypatch.setattr(produce_handler.ProduceSteps, "refuse_transaction", counted)
    return found


@pytest.mark.parametrize(("version", "end_version"), [(11, 4), (12, 5)])
def test_the_first_batches_of_a_transaction_are_one_write_for_each_partition(
    tmp_path: Path, writes: list[int], handled: list[int], version: int, end_version: int
) -> None:
    async def scenario(served: Served) -> None:
        await served.create("t")
        await served.produce(produce("t", 0, partition=1))
        producer = TransactionalProducer(served)
        await producer.become()
        for transaction in range(2):
            if version < 12:
                await producer.add("t", 0, 1)
            first = 3 * transaction if version < 12 else 0
            frames = [producer.frame("t", n, first + n, version, 0, 1) for n in range(3)]
            writes.clear()
            handled.clear()
            answers = responses_in(await served.client.receive(b"".join(frames)), version)
            offset = 1 + 4 * transaction
            assert [[each.base_offset for each in about] for about in answers] == [
                [offset + n] * 2 for n in range(3)
            ]
            assert not handled
            assert sorted(writes)[-2:] == [3, 3]
            await producer.commit(end_version)
            shard = served.running.node.partitions.open_shard("t", 1)
            assert shard is not None
            assert shard.partition.last_stable_offset == offset + 4

    serve(tmp_path, scenario)


def test_a_partition_that_is_not_in_the_transaction_is_refused_and_the_others_appended(
    tmp_path: Path, handled: list[int]
) -> None:
    async def scenario(served: Served) -> None:
        await served.create("t")
        await served.produce(produce("t", 0, partition=1))
        producer = TransactionalProducer(served)
        await producer.become()
        await producer.add("t", 1)
        handled.clear()
        frames = [producer.frame("t", 1, 0, 11, 1), producer.frame("t", 2, 0, 11, 0)]
        (inside,), (outside,) = responses_in(await served.client.receive(b"".join(frames)), 11)
        assert (inside.error_code, inside.base_offset) == (ErrorCode.NONE, 1)
        assert outside.error_code == ErrorCode.TRANSACTION_ABORTABLE
        assert (served.end_offset("t", 0), served.end_offset("t", 1)) == (1, 2)
        assert len(handled) == 1

    serve(tmp_path, scenario)


def test_a_fenced_producer_writes_nothing_although_its_epoch_is_the_newest_in_the_partition(
    tmp_path: Path,
) -> None:
    async def scenario(served: Served) -> None:
        await served.create("t")
        producer = TransactionalProducer(served)
        await producer.become()
        successor = TransactionalProducer(served)
        await successor.become()
        frame = producer.frame("t", 1, 0, 12, 0)
        ((answer,),) = responses_in(await served.client.receive(frame), 12)
        assert answer.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert served.end_offset("t") == 1

    serve(tmp_path, scenario)


def test_a_full_disk_leaves_no_transaction_open_on_the_partition(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        await served.create("t")
        producer = TransactionalProducer(served)
        await producer.become()
        await producer.add("t", 0)
        with served.faults.fill_disk():
            frame = producer.frame("t", 1, 0, 11, 0)
            ((answer,),) = responses_in(await served.client.receive(frame), 11)
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        shard = served.running.node.partitions.open_shard("t", 0)
        assert shard is not None
        assert not shard.partition.producers.has_open
        ((answer,),) = responses_in(await served.client.receive(frame), 11)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 1)

    serve(tmp_path, scenario)
