"""A topic, what is in it, and readers of it that need no Spark session."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from tests.waiting import in_time

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.spark.source.stream_offsets import SourceOffset
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)


class SourceStage:
    """Writes to one topic and makes readers of it."""

    def __init__(self, servers: str, topic: str) -> None:
        self.servers = servers
        self.topic = topic
        self.admin = ottla.Admin(bootstrap_servers=servers)
        self.producer = ottla.Producer(bootstrap_servers=servers)
        self._streams: list[Any] = []

    def close(self) -> None:
        for stream in self._streams:
            stream.stop()
        self.producer.close()
        self.admin.close()

    def create(self, partitions: int, topic: str | None = None) -> None:
        name = topic or self.topic
        self.admin.create_topics([ottla.admin.NewTopic(name, num_partitions=partitions)])
        self._wait(name, partitions, lambda errors: errors == {ErrorCode.NONE})

    def delete(self, topic: str | None = None) -> None:
        name = topic or self.topic
        partitions = len(self.admin.describe_topics([name])[name].partitions)
        self.admin.delete_topics([name])
        self._wait(name, partitions, lambda errors: ErrorCode.NONE not in errors)

    def _wait(self, topic: str, partitions: int, is_done: Callable[[set[int]], bool]) -> None:
        """Until the leader knows: Kafka's controller answers before its brokers have heard of it."""
        asked = [ListOffsetsPartition(partition_index=i, timestamp=-1) for i in range(partitions)]
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=asked)]
        )
        deadline = time.monotonic() + 30
        with RawConnection(self.servers) as leader:
            while True:
                (found,) = leader.call(request, ListOffsetsResponse, 7).topics
                errors = {each.error_code for each in found.partitions}
                if is_done(errors):
                    return
                in_time(deadline, f"{topic}: {errors}")
                time.sleep(0.01)

    def at(self, partition: int) -> TopicPartition:
        return TopicPartition(self.topic, partition)

    def fill(self, *counts: int, topic: str | None = None, **options: Any) -> None:
        """So many records for each partition; values say where they are."""
        for partition, count in enumerate(counts):
            for number in range(count):
                value = b"%d:%d" % (partition, number)
                self.producer.send(topic or self.topic, value, partition=partition, **options)
        self.producer.flush()

    def transaction(self, *values: bytes, partition: int = 0) -> ottla.Producer:
        """An open transaction with records."""
        writer = ottla.Producer(
            bootstrap_servers=self.servers, transactional_id=f"writer-of-{self.topic}"
        )
        writer.init_transactions()
        writer.begin_transaction()
        for value in values:
            writer.send(self.topic, value, partition=partition)
        writer.flush()
        return writer

    def options(self, **more: Any) -> dict[str, str]:
        given = {"kafka.bootstrap.servers": self.servers, "subscribe": self.topic}
        if more.keys() & {"assign", "subscribePattern"}:
            del given["subscribe"]
        quick = {"fetchOffset.retryIntervalMs": "10"}
        return {**given, **quick, **{name: str(value) for name, value in more.items()}}

    def stream(self, **more: Any) -> Any:
        from ottla.spark.datasource import OttlaDataSource

        source = OttlaDataSource(self.options(**more))
        self._streams.append(source.streamReader(source.schema()))
        return self._streams[-1]

    def batch(self, **more: Any) -> Any:
        from ottla.spark.datasource import OttlaDataSource

        source = OttlaDataSource(self.options(**more))
        return source.reader(source.schema())


def rows(reader: Any, partitions: Iterable[Any]) -> list[dict[str, Any]]:
    """Everything that the tasks read."""
    return [row for part in partitions for batch in reader.read(part) for row in batch.to_pylist()]


def values(reader: Any, partitions: Iterable[Any]) -> list[bytes]:
    """The values that the tasks read."""
    return [row["value"] for row in rows(reader, partitions)]


def everything() -> Any:
    """No limit."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    return ReadAllAvailable()


def most(count: int) -> Any:
    """A limit."""
    from pyspark.sql.streaming.datasource import ReadMaxRows

    return ReadMaxRows(count)


def offsets(stage: SourceStage, position: dict[str, Any]) -> list[int]:
    """The offsets of a position, in the order of the topic's partitions."""
    found = SourceOffset.from_json(position).offsets
    return [found[stage.at(number)] for number in range(len(found))]


def moved(reader: Any, start: dict[str, Any]) -> dict[str, Any]:
    """The next position; Kafka ends transactions before their markers are written."""
    deadline = time.monotonic() + 20
    while (end := reader.latestOffset(start, everything())) == start:
        in_time(deadline)
    return dict(end)
