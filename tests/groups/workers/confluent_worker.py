"""A member of a group with confluent-kafka (librdkafka)."""

from __future__ import annotations

import struct
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from tests.clients.confluent_kafka.closing import close_member
from tests.groups.workers.reporting import (
    BATCH_RECORDS,
    POLL_SECONDS,
    Identity,
    Place,
    Reporter,
)

PREFIX = b"CGMDv2:"


class Worker:
    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        self.is_closing = False
        self.fatal = ""
        options = reporter.options
        settings: dict[str, object] = {
            "bootstrap.servers": options["bootstrap.servers"],
            "group.id": options["group.id"],
            "client.id": options["client.id"],
            "max.poll.interval.ms": reporter.number("max.poll.interval.ms"),
            "topic.metadata.refresh.interval.ms": reporter.number("metadata.max.age.ms"),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
            "fetch.error.backoff.ms": 50,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            # A topic of the pattern may come and go.
            "allow.auto.create.topics": False,
            "log_level": 2,
            "error_cb": self.on_error,
        }
        if options["group.protocol"] == "consumer":
            settings["group.protocol"] = "consumer"
            settings["group.remote.assignor"] = options["assignor"]
        else:
            settings["partition.assignment.strategy"] = options["assignor"]
            for name in ("session.timeout.ms", "heartbeat.interval.ms"):
                settings[name] = reporter.number(name)
        if "group.instance.id" in options:
            settings["group.instance.id"] = options["group.instance.id"]
        self.consumer = Consumer(settings)
        # With the new protocol it is the broker that looks for all patterns.
        pattern = options.get("pattern", options.get("broker.pattern"))
        wanted = [f"^{pattern}"] if pattern is not None else reporter.topics
        self.consumer.subscribe(
            wanted, on_assign=self.on_assign, on_revoke=self.on_revoke, on_lost=self.on_lost
        )

    @property
    def identity(self) -> Identity:
        """Generation and member id, from what the client gives to transactional producers."""
        data: bytes = self.consumer.consumer_group_metadata()
        assert data.startswith(PREFIX), data
        (generation,) = struct.unpack_from("=i", data, len(PREFIX))
        member_id = data[len(PREFIX) + 4 :].split(b"\0")[1]
        return Identity(generation, member_id.decode(errors="replace"))

    def on_error(self, error: KafkaError) -> None:
        """A fatal one comes once, as whatever is asked first: a callback, a message, a commit."""
        if error.code() == KafkaError._FATAL:
            self.fatal = error.str()

    def on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        # close() may still be told of a rebalance that was under way.
        if not self.is_closing:
            self.reporter.assigned(_places(partitions), self.identity)

    def on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        if not self.is_closing:
            self.commit()
            self.reporter.revoked(_places(partitions), self.identity)

    def on_lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        if not self.is_closing:
            self.reporter.lost(_places(partitions), self.identity)

    def commit(self) -> None:
        offsets = dict(self.reporter.pending)
        if not offsets:
            return
        who, began = self.identity, time.monotonic()
        asked = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        try:
            answer = self.consumer.commit(offsets=asked, asynchronous=False)
            errors = [one.error.name() for one in answer if one.error is not None]
        except KafkaException as failure:
            self.on_error(failure.args[0])
            errors = [failure.args[0].name()]
        if errors:
            error = ",".join(sorted(set(errors)))
            self.reporter.commit_failed(offsets, who, began, error, self.identity)
        else:
            self.reporter.committed(offsets, who, began)

    def process(self, message: Message) -> int:
        """How many records it is: one, or an error and none."""
        error = message.error()
        if error is not None:
            self.on_error(error)
            return 0
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        self.reporter.record((topic, partition), offset, message.value() or b"", self.identity)
        return 1

    def run(self) -> None:
        processed = 0
        while not self.reporter.is_leaving:
            if self.fatal:
                raise SystemExit(self.fatal)
            # What is there is processed, then committed.
            message = self.consumer.poll(0.0 if processed else POLL_SECONDS)
            if message is not None:
                processed += self.process(message)
            if message is None or processed >= BATCH_RECORDS:
                time.sleep(self.reporter.commit_delay_seconds)
                self.commit()
                processed = 0
        self.commit()
        self.reporter.revoked(set(self.reporter.owned), self.identity)
        self.is_closing = True
        if "group.instance.id" in self.reporter.options:
            # A static member is not to leave.
            self.consumer.close()
        else:
            close_member(self.consumer)
        self.reporter.left()


def _places(partitions: list[TopicPartition]) -> list[Place]:
    return [(one.topic, one.partition) for one in partitions]


if __name__ == "__main__":
    Worker(Reporter()).run()
