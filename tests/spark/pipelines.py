"""Pipelines for tests: topics, drivers in processes of their own, and what has to be true of the output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.clients.transactions_seen import AT_REST, wait_for

import ottla
from ottla.admin import NewTopic
from ottla.model import TopicPartition
from ottla.spark.sink.progress import Marker, marker_group, transactional_id

WAIT_SECONDS = 60.0
# Without Spark's plans the interpreter starts quickly.
_ENVIRONMENT = {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}


@dataclass
class Pipe:
    """A pipeline from one topic to another of the same cluster."""

    servers: str
    name: str
    folder: Path
    count: int = 0
    options: dict[str, str] = field(default_factory=dict)

    @property
    def source(self) -> str:
        return f"{self.name}-in"

    @property
    def sink(self) -> str:
        return f"{self.name}-out"

    def create(self) -> None:
        with ottla.Admin(bootstrap_servers=self.servers) as admin:
            admin.create_topics([NewTopic(self.source, 2), NewTopic(self.sink, 2)])

    def feed(self, count: int) -> None:
        """More records at the source; some of an aborted transaction, which leave gaps."""
        with ottla.Producer(
            bootstrap_servers=self.servers, transactional_id=f"{self.name}-feed"
        ) as producer:
            producer.init_transactions()
            for is_kept in (True, False):
                producer.begin_transaction()
                for number in range(self.count, self.count + count):
                    producer.send(self.source, b"%d" % number, partition=number % 2)
                producer.flush()
                if is_kept:
                    producer.commit_transaction()
                else:
                    producer.abort_transaction()
        self.count += count

    def start(
        self, at: Sequence[Any] | None = None, checkpoint: str = "checkpoint", **more: Any
    ) -> subprocess.Popen[str]:
        """A driver in a process of its own; `at` is (step, visit, die or stop)."""
        settings = {
            "servers": self.servers,
            "pipeline": self.name,
            "source": self.source,
            "sink": self.sink,
            "checkpoint": str(self.folder / checkpoint),
            "at": at,
            "options": self.options,
            **more,
        }
        return subprocess.Popen(
            [sys.executable, "-m", "tests.spark.driver", json.dumps(settings)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **_ENVIRONMENT},
        )

    def run(self, **more: Any) -> tuple[int, str]:
        """A driver until it ends: its exit code and what it said."""
        process = self.start(**more)
        said, trouble = process.communicate(timeout=WAIT_SECONDS)
        assert process.returncode in (0, -9, 3, 4), trouble
        return process.returncode, said

    # What is true

    def output(self) -> list[bytes]:
        """What a reader with read_committed sees: nothing behind an open transaction."""
        return committed_values(self.servers, self.sink)

    def marker(self) -> Marker | None:
        group = marker_group(self.name)
        with ottla.Admin(bootstrap_servers=self.servers) as admin:
            found = admin.list_consumer_group_offsets([group])
        kept = found[group].get(TopicPartition(self.sink, 0))
        return None if kept is None else Marker.from_offset(kept, group)

    def group_offsets(self) -> dict[int, int]:
        with ottla.Admin(bootstrap_servers=self.servers) as admin:
            found = admin.list_consumer_group_offsets([self.name])
        return {each.partition: at.offset for each, at in found[self.name].items() if at}

    def plan(self, number: int, checkpoint: str = "checkpoint") -> Any:
        return json.loads((self.folder / checkpoint / "offsets" / str(number)).read_text())

    def check_whole(self) -> None:
        """The output is what the committed offsets say: whole micro-batches up to the marker, each once."""
        marker, offsets = self.marker(), self.group_offsets()
        values = self.output()
        batches = {int(value.split()[0]) for value in values}
        if marker is None:
            assert values == []
            assert offsets == {}
            return
        assert offsets == {int(each): at for each, at in self.plan(marker.batch)["end"].items()}, (
            "offsets and marker agree"
        )
        assert max(batches, default=-1) <= marker.batch
        seen = Counter(int(value.split()[1]) for value in values)
        expected = Counter(self.inputs_before(offsets))
        assert seen == expected, "the output is the input up to the committed offsets, each once"

    def inputs_before(self, offsets: dict[int, int]) -> list[int]:
        with ottla.Consumer(
            {"bootstrap.servers": self.servers, "isolation.level": "read_committed"}
        ) as consumer:
            return [
                int(record.value)
                for record in records_of(consumer, self.source)
                if record.offset < offsets.get(record.partition, 0)
            ]

    def check_done(self) -> None:
        """Everything went through, once; no driver is at work."""
        self._settle()
        self.check_whole()
        assert Counter(int(value.split()[1]) for value in self.output()) == Counter(
            range(self.count)
        )

    def _settle(self) -> None:
        """Until a commit that was answered has come to all partitions (KIP-98: markers follow the answer)."""
        with ottla.Admin(bootstrap_servers=self.servers) as admin:
            wait_for(
                f"{self.name} is at rest",
                lambda: admin.list_transactions()[transactional_id(self.name)].state in AT_REST,
            )


def records_of(consumer: ottla.Consumer, topic: str) -> list[Any]:
    """All that there is now in a topic."""
    partitions = [TopicPartition(topic, each.partition) for each in consumer.partitions_for(topic)]
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    ends = consumer.end_offsets(partitions)
    found = []
    while any(consumer.position(each) < at for each, at in ends.items()):
        found += list(consumer.poll(5.0))
    return found


def committed_values(servers: str, topic: str) -> list[bytes]:
    with ottla.Consumer(
        {"bootstrap.servers": servers, "isolation.level": "read_committed"}
    ) as consumer:
        return [record.value for record in records_of(consumer, topic)]
