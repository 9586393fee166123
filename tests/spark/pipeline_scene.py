"""Topics of a pipeline in this process's Spark session, and what is in them afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.clients.transactions_seen import wait_until_stable
from tests.spark.sessions import spark_session

import ottla
from ottla.admin import NewTopic
from ottla.client.raw import RawConnection
from ottla.records.batch import split_batches
from ottla.spark.pipeline.pipeline import Pipeline
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

WAIT_SECONDS = 100.0
PARTS = ("in", "out", "dead")


class PipelineScene:
    """Topics and pipelines of a test."""

    def __init__(self, servers: str, name: str, folder: Path) -> None:
        self.servers, self.name, self.folder = servers, name, folder
        with ottla.Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(self.topic(part), 1) for part in PARTS])

    def topic(self, part: str) -> str:
        return f"{self.name}-{part}"

    def feed(self, *records: tuple[bytes, bytes | None], headers: Any = ()) -> None:
        with ottla.Producer(bootstrap_servers=self.servers) as producer:
            for key, value in records:
                producer.send(self.topic("in"), value, key=key, headers=headers).result(
                    WAIT_SECONDS
                )

    def pipeline(self, **options: Any) -> Pipeline:
        spark_session()
        chosen = {"trigger": "available-now", **options}
        return Pipeline(
            self.name,
            source=self.topic("in"),
            sink=self.topic("out"),
            bootstrap_servers=self.servers,
            checkpoint=str(self.folder / "checkpoint"),
            **chosen,
        )

    def records(self, part: str) -> list[Any]:
        """All that was written, when no pipeline runs any more."""
        place = ottla.TopicPartition(self.topic(part), 0)
        wait_until_stable(self.servers, place)
        options = {"bootstrap.servers": self.servers, "isolation.level": "read_committed"}
        with ottla.Consumer(options) as consumer:
            end = consumer.end_offsets([place])[place]
            consumer.assign([place])
            consumer.seek_to_beginning()
            found: list[Any] = []
            while consumer.position(place) < end:
                found += consumer.poll(5.0)
        return found

    def transactions(self, part: str) -> set[tuple[int, int]]:
        """The producer ids and epochs in a topic; each transaction has an epoch of its own."""
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topic = FetchTopic(topic=self.topic(part), partitions=[partition])
        with RawConnection(self.servers) as connection:
            request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[topic])
            answer = connection.call(request, FetchResponse, 12)
        data = answer.responses[0].partitions[0].records
        return {
            (header.producer_id, header.producer_epoch)
            for _, header in split_batches(data)
            if not header.is_control
        }
