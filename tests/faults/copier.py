"""Copies a topic with confluent-kafka, output and offsets in one transaction; a thread, or a process to be killed.

python -m tests.faults.copier bootstrap.servers=… source=… target=… group.id=… transactional.id=…
"""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from tests.clients.confluent_kafka.closing import close_member

# What a test waits for is not the client's patience.
QUICK: dict[str, object] = {
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 200,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    # librdkafka 2.16 loses requests to the coordinator of a group when it begins anew (FINDINGS.md).
    "metadata.recovery.strategy": "none",
    "log_level": 0,
}
STEP_SECONDS = 10.0
POLL_SECONDS = 0.1


@dataclass
class Copier:
    """Starts its producer afresh after every failure, and after some turns."""

    bootstrap_servers: str
    source: str
    target: str
    group_id: str
    transactional_id: str
    turn_records: int = 10
    turns_per_producer: int = 3
    # How often a turn is sent and aborted before it is sent and committed.
    aborts_first: int = 0
    transaction_timeout_ms: int = 60_000
    session_timeout_ms: int = 6_000
    group_protocol: str = "classic"
    committed: int = 0
    aborted: int = 0
    failures: list[str] = field(default_factory=list)
    is_stopping: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": self.group_id,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 50,
                "fetch.error.backoff.ms": 20,
                "coordinator.query.interval.ms": 500,
                **self._membership(),
                **QUICK,
            }
        )
        consumer.subscribe([self.source])
        try:
            while not self.is_stopping.is_set():
                try:
                    self._copy_for_a_while(consumer)
                except KafkaException as error:
                    self.failures.append(error.args[0].str())
        finally:
            close_member(consumer)

    def _membership(self) -> dict[str, object]:
        """With the new protocol the broker sets timeouts."""
        if self.group_protocol == "consumer":
            return {"group.protocol": "consumer"}
        return {
            "session.timeout.ms": self.session_timeout_ms,
            "heartbeat.interval.ms": self.session_timeout_ms // 5,
        }

    def _copy_for_a_while(self, consumer: Consumer) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "transactional.id": self.transactional_id,
                "transaction.timeout.ms": self.transaction_timeout_ms,
                "message.timeout.ms": min(self.transaction_timeout_ms, 30_000),
                "linger.ms": 2,
                **QUICK,
            }
        )
        # It ends what the last one left, so that what is committed is known afterwards.
        producer.init_transactions(STEP_SECONDS)
        _rewind(consumer)
        for _ in range(self.turns_per_producer):
            messages: list[Message] = []
            while not messages:
                if self.is_stopping.is_set():
                    return
                messages = [
                    one
                    for one in consumer.consume(self.turn_records, timeout=POLL_SECONDS)
                    if one.error() is None
                ]
            for _ in range(self.aborts_first):
                self._send(producer, consumer, messages)
                producer.abort_transaction(STEP_SECONDS)
                self.aborted += 1
            self._send(producer, consumer, messages)
            producer.commit_transaction(STEP_SECONDS)
            self.committed += 1

    def _send(self, producer: Producer, consumer: Consumer, messages: list[Message]) -> None:
        producer.begin_transaction()
        offsets: dict[int, int] = {}
        for message in messages:
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            producer.produce(self.target, message.value(), partition=partition)
            offsets[partition] = offset + 1
        # So that an abort, or a kill from here on, leaves something to hide.
        producer.flush(STEP_SECONDS)
        places = [TopicPartition(self.source, *place) for place in offsets.items()]
        group = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction(places, group, STEP_SECONDS)


def _rewind(consumer: Consumer) -> None:
    """To what the group has committed: what was read and not committed comes again."""
    assigned = consumer.assignment()
    if assigned:
        for place in consumer.committed(assigned, timeout=STEP_SECONDS):
            if place.error is not None:
                raise KafkaException(place.error)
            place.offset = max(place.offset, 0)
            consumer.seek(place)


def main(arguments: list[str]) -> None:
    options = dict(argument.split("=", 1) for argument in arguments)
    copier = Copier(
        options["bootstrap.servers"],
        options["source"],
        options["target"],
        options["group.id"],
        options["transactional.id"],
        turn_records=int(options["turn.records"]),
        turns_per_producer=sys.maxsize,
        transaction_timeout_ms=int(options["transaction.timeout.ms"]),
        session_timeout_ms=int(options["session.timeout.ms"]),
        group_protocol=options["group.protocol"],
    )
    threading.Thread(target=_stop_with_input, args=(copier,), daemon=True).start()
    copier.run()


def _stop_with_input(copier: Copier) -> None:
    """The test closes our input when all is copied."""
    sys.stdin.read()
    copier.is_stopping.set()
    time.sleep(STEP_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1:])
