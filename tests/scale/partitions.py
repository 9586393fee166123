"""Many partitions on one broker: what they cost in memory, files and time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tests.broker.processes import ServeProcess
from tests.broker.requests import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    batch_of,
    create,
    fetch_request,
    values_in,
)

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

RETENTION_SECONDS = 1.5


@dataclass
class Measured:
    """One broker's numbers; memory in MB."""

    partitions: int
    create_s: float = 0
    first_produce_s: float = 0
    second_produce_s: float = 0
    fetch_s: float = 0
    metadata_ms: float = 0
    log_dirs_ms: float = 0
    resident_mb: float = 0
    open_files: int = 0
    stop_s: float = 0
    restart_s: float = 0
    restarted_metadata_ms: float = 0
    restarted_resident_mb: float = 0
    restarted_produce_s: float = 0
    longest_wait_in_retention_ms: float = 0

    def __str__(self) -> str:
        return ", ".join(f"{each.name} {getattr(self, each.name):.4g}" for each in fields(self))


def timed(work: Callable[[], Any]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


class ManyPartitions:
    """A broker with topics of many partitions each."""

    def __init__(self, folder: Path, topics: int, partitions: int) -> None:
        self.process = ServeProcess(folder)
        self.topics = [f"topic-{number}" for number in range(topics)]
        self.partitions = partitions

    def create(self, connection: RawConnection) -> None:
        for topic in self.topics:
            create(connection, topic, self.partitions)

    def produce(self, connection: RawConnection, value: bytes) -> None:
        """A record to every partition."""
        data = [
            PartitionProduceData(index=number, records=batch_of(value))
            for number in range(self.partitions)
        ]
        for topic in self.topics:
            request = ProduceRequest(
                acks=-1,
                timeout_ms=30_000,
                topic_data=[TopicProduceData(name=topic, partition_data=data)],
            )
            answer = connection.call(request, ProduceResponse, PRODUCE_VERSION)
            for result in answer.responses[0].partition_responses:
                assert result.error_code == ErrorCode.NONE, result

    def check(self, connection: RawConnection, *values: bytes) -> None:
        """Every partition has these values."""
        for topic in self.topics:
            asked = [
                FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1 << 20)
                for number in range(self.partitions)
            ]
            request = FetchRequest(
                max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=asked)]
            )
            answer = connection.call(request, FetchResponse, FETCH_VERSION)
            for data in answer.responses[0].partitions:
                assert values_in(data) == list(values), (topic, data.partition_index)

    def metadata(self, connection: RawConnection) -> None:
        answer = connection.call(MetadataRequest(topics=None), MetadataResponse, 12)
        assert sum(len(topic.partitions) for topic in answer.topics) == len(self.topics) * (
            self.partitions
        )

    def log_dirs(self, connection: RawConnection) -> None:
        (found,) = connection.call(
            DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, 4
        ).results
        assert sum(len(topic.partitions) for topic in found.topics) == len(self.topics) * (
            self.partitions
        )

    @property
    def resident_mb(self) -> float:
        return self.process.resident_bytes / 2**20

    @property
    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def run_scale(folder: Path, topics: int, partitions: int) -> Measured:
    """Creates, fills, stops, starts and measures."""
    many = ManyPartitions(folder, topics, partitions)
    found = Measured(topics * partitions)
    many.process.start()
    try:
        with RawConnection(many.process.address) as connection:
            found.create_s = timed(lambda: many.create(connection))
            found.first_produce_s = timed(lambda: many.produce(connection, b"first"))
            found.second_produce_s = timed(lambda: many.produce(connection, b"second"))
            found.fetch_s = timed(lambda: many.check(connection, b"first", b"second"))
            found.metadata_ms = timed(lambda: many.metadata(connection)) * 1000
            found.log_dirs_ms = timed(lambda: many.log_dirs(connection)) * 1000
            found.resident_mb, found.open_files = many.resident_mb, many.open_files
        found.stop_s = timed(lambda: check_stopped(many.process))
        found.restart_s = timed(lambda: restart(many))
        with RawConnection(many.process.address) as connection:
            found.restarted_metadata_ms = timed(lambda: many.metadata(connection)) * 1000
            found.restarted_resident_mb = many.resident_mb
            found.restarted_produce_s = timed(lambda: many.produce(connection, b"third"))
            many.check(connection, b"first", b"second", b"third")
        check_stopped(many.process)
        found.longest_wait_in_retention_ms = wait_in_retention(many) * 1000
        check_stopped(many.process)
    finally:
        many.process.kill()
    return found


def check_stopped(process: ServeProcess) -> None:
    assert process.stop() == 0, process.log[-4000:]
    assert "Traceback" not in process.log


def restart(many: ManyPartitions) -> None:
    """Starts and asks something of a partition."""
    many.process.start()
    with RawConnection(many.process.address) as connection:
        request = fetch_request(many.topics[-1], 0)
        connection.call(request, FetchResponse, FETCH_VERSION)


def wait_in_retention(many: ManyPartitions) -> float:
    """The longest that a client waits while the broker looks for what retention ends."""
    many.process.start("--set", "log.retention.check.interval.ms=300")
    longest = 0.0
    until = time.monotonic() + RETENTION_SECONDS
    with RawConnection(many.process.address) as connection:
        request = fetch_request(many.topics[0], 0)
        while time.monotonic() < until:
            longest = max(
                longest, timed(lambda: connection.call(request, FetchResponse, FETCH_VERSION))
            )
    return longest
