"""`ottla demo broker`: produces while the broker is killed again and again, then counts the records.

The broker runs in a process of its own, so that kill -9 is real. The producer is idempotent and sends again
what was not acknowledged; the verdict comes from reading everything back.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass, field

from ottla.cli.commands.syntax import Arguments
from ottla.cli.demo.broker_process import BrokerProcess
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode, OttlaError
from ottla.records.batch import build_batch, read_batch, split_batches
from ottla.records.record import Record
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

TOPIC = "orders"
BATCH_RECORDS = 500
IN_FLIGHT = 5
PRODUCE_VERSION, FETCH_VERSION, CREATE_VERSION, INIT_VERSION = 9, 12, 7, 4


@dataclass
class _Progress:
    acknowledged: dict[int, int] = field(
        default_factory=dict
    )  # sequence of a batch's first record -> its offset
    resent: int = 0


class _Producer:
    """An idempotent producer with five requests in flight that survives the loss of its broker."""

    def __init__(self, address: str, record_count: int) -> None:
        self._address = address
        self._record_count = record_count
        self._progress = _Progress()
        with RawConnection(address) as connection:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            answer = connection.call(request, InitProducerIdResponse, INIT_VERSION)
        self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
        self._next = 0  # the first record that is not acknowledged
        self._sent_up_to = 0

    @property
    def acknowledged(self) -> int:
        return self._next

    @property
    def is_done(self) -> bool:
        return self._next >= self._record_count

    @property
    def resent(self) -> int:
        return self._progress.resent

    def produce_until(self, record: int) -> None:
        """Send until the record is acknowledged, and leave requests in flight unanswered."""
        with RawConnection(self._address) as connection:
            pending: list[int] = []
            position = self._next
            while self._next < record:
                while len(pending) < IN_FLIGHT and position < self._record_count:
                    connection.send(self._request(position), PRODUCE_VERSION)
                    self._progress.resent += position < self._sent_up_to
                    pending.append(position)
                    position += BATCH_RECORDS
                    self._sent_up_to = max(self._sent_up_to, position)
                self._take(connection.receive(ProduceResponse, PRODUCE_VERSION), pending.pop(0))

    def _take(self, answer: ProduceResponse, position: int) -> None:
        partition = answer.responses[0].partition_responses[0]
        if partition.error_code != ErrorCode.NONE:
            raise OttlaError(f"the broker refused records: {ErrorCode(partition.error_code).name}")
        self._progress.acknowledged[position] = partition.base_offset
        self._next = min(position + BATCH_RECORDS, self._record_count)

    def _request(self, position: int) -> ProduceRequest:
        numbers = range(position, min(position + BATCH_RECORDS, self._record_count))
        now_ms = time.time_ns() // 1_000_000
        batch = build_batch(
            [
                Record(index, now_ms, b"customer-%d" % (n % 100), b"order-%d" % n)
                for index, n in enumerate(numbers)
            ],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=position,
        )
        data = TopicProduceData(
            name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)]
        )
        return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])


@dataclass
class LossReport:
    """The result of reading everything back."""

    produced: int
    found: int
    lost: int
    duplicated: int
    out_of_order: int

    @property
    def is_good(self) -> bool:
        return self.found == self.produced and not (
            self.lost or self.duplicated or self.out_of_order
        )


def judge(values: list[bytes], produced: int) -> LossReport:
    """Compare the records that were read with the orders that were produced."""
    times: dict[bytes, int] = {}
    out_of_order = 0
    last = -1
    for value in values:
        times[value] = times.get(value, 0) + 1
        number = int(value.removeprefix(b"order-"))
        out_of_order += number < last
        last = number
    lost = sum(b"order-%d" % number not in times for number in range(produced))
    return LossReport(produced, len(values), lost, len(values) - len(times), out_of_order)


def _read_back(address: str) -> list[bytes]:
    values: list[bytes] = []
    with RawConnection(address) as connection:
        while True:
            partition = FetchPartition(
                partition=0, fetch_offset=len(values), partition_max_bytes=4 << 20
            )
            request = FetchRequest(
                max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=[partition])]
            )
            answer = connection.call(request, FetchResponse, FETCH_VERSION)
            data = answer.responses[0].partitions[0]
            if data.error_code != ErrorCode.NONE:
                raise OttlaError(
                    f"the broker refused to be read: {ErrorCode(data.error_code).name}"
                )
            if not data.records:
                return values
            for position, _ in split_batches(data.records):
                values += [record.value or b"" for record in read_batch(data.records, position)]


def _create_topic(address: str) -> None:
    topic = CreatableTopic(
        name=TOPIC, num_partitions=1, replication_factor=-1, assignments=[], configs=[]
    )
    with RawConnection(address) as connection:
        connection.call(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, CREATE_VERSION)


def run(arguments: Arguments) -> int:
    """`ottla demo`: kill the pipeline or the broker, and report what is left."""
    kills = arguments.kills
    if arguments.what == "broker":
        return broker_demo(arguments.records or 200_000, 5 if kills is None else kills)
    if arguments.what == "cluster":
        from ottla.cli.demo.cluster_demo import cluster_demo

        return cluster_demo(arguments.records or 50_000, 2 if kills is None else kills)
    from ottla.cli.demo.pipeline_demo import demo  # Spark may be missing

    return demo(arguments.records or 100_000, 1 if kills is None else kills)


def broker_demo(record_count: int, kill_count: int) -> int:
    """Run the demo; 0 only if nothing was lost, duplicated or reordered."""
    folder = tempfile.mkdtemp(prefix="ottla-demo-")
    broker = BrokerProcess(folder)
    try:
        return _run(broker, record_count, kill_count)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(broker: BrokerProcess, record_count: int, kill_count: int) -> int:
    print(f"broker     started in {broker.start():.2f} s on {broker.address}")
    try:
        _create_topic(broker.address)
        producer = _Producer(broker.address, record_count)
        for kill in range(1, kill_count + 1):
            producer.produce_until(record_count * kill // (kill_count + 1))
            broker.kill()
            seconds = broker.start()
            print(
                f"kill -9    at {producer.acknowledged:>9,} acknowledged records; back in {seconds:.2f} s"
            )
        while not producer.is_done:
            producer.produce_until(record_count)
        print(f"produced   {record_count:,} records; {producer.resent} batches were sent twice")
        verdict = judge(_read_back(broker.address), record_count)
    finally:
        code = broker.stop()
    print(f"read back  {verdict.found:,} records")
    print(f"lost       {verdict.lost:,}")
    print(f"duplicated {verdict.duplicated:,}")
    print(f"reordered  {verdict.out_of_order:,}")
    good = verdict.is_good and code == 0
    print("verdict    exactly once" if good else "verdict    FAILED")
    return 0 if good else 1
