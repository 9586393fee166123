"""What does the test kit cost a request: the log of requests and the place where faults would be?

Run: python -m benchmarks.bench_test_kit
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time

from benchmarks.load import Burst, Target, drive

import ottla
from ottla.client.raw import RawConnection
from ottla.records.batch import build_batch
from ottla.records.record import Record
from ottla.testing import Broker
from ottla.wire.framing import frame_request
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

TOPIC = "orders"
PARTITIONS = 50
REQUESTS = 20_000
ROUNDS = 7
BURST = 20
STARTS = 15


def requests() -> dict[str, bytes]:
    """Frames by what they are."""
    batch = build_batch([Record(0, 1, None, b"v" * 100)])

    def produce(partitions: int) -> bytes:
        data = [PartitionProduceData(index=index, records=batch) for index in range(partitions)]
        topics = [TopicProduceData(name=TOPIC, partition_data=data)]
        return frame_request(
            ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics), 9, 1, "bench"
        )

    asked = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    return {
        "produce to 1 partition": produce(1),
        f"produce to {PARTITIONS} partitions": produce(PARTITIONS),
        f"metadata of {PARTITIONS} partitions": frame_request(asked, 12, 1, "bench"),
    }


def cpu_us(broker: ottla.Broker, frame: bytes) -> float:
    """Microseconds of the processor per request, of this process: the load is the same for every broker."""
    with RawConnection(broker.bootstrap_servers) as connection:
        connection.socket.sendall(frame)
        answer_bytes = 4 + len(connection.receive_frame())
    burst = Burst(frame * BURST, BURST, answer_bytes * BURST)
    target = Target(broker.bootstrap_servers, [burst])
    began = time.process_time()
    sent = drive([target], seconds=REQUESTS / 40_000, bursts_in_flight=2)
    return (time.process_time() - began) / sent.requests * 1e6


def create(broker: ottla.Broker) -> None:
    topic = CreatableTopic(
        name=TOPIC, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[]
    )
    with RawConnection(broker.bootstrap_servers) as connection:
        connection.call(
            CreateTopicsRequest(topics=[topic], timeout_ms=5000, validate_only=False),
            CreateTopicsResponse,
            7,
        )


def main() -> int:
    # The kit's broker keeps its data in a folder too.
    with (
        tempfile.TemporaryDirectory() as folder,
        ottla.Broker(data_dir=folder) as plain,
        Broker() as kit,
    ):
        for broker in (plain, kit):
            create(broker)
        for name, frame in requests().items():
            rounds = [(cpu_us(plain, frame), cpu_us(kit, frame)) for _ in range(ROUNDS)]
            without, with_kit = (statistics.median(each) for each in zip(*rounds, strict=True))
            print(f"{name}: {without:.1f} us without the kit, {with_kit:.1f} us with it")
    took = []
    for _ in range(STARTS):
        wall, processor = time.perf_counter(), time.process_time()
        Broker().start().stop()
        took.append((time.perf_counter() - wall, time.process_time() - processor))
    wall, processor = (statistics.median(each) * 1000 for each in zip(*took, strict=True))
    print(f"start and stop: {wall:.0f} ms, {processor:.0f} ms of the processor")
    return 0


if __name__ == "__main__":
    sys.exit(main())
