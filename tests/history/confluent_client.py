"""librdkafka's transactions, as confluent-kafka gives them; and its consumer, which all readers use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from tests.history.client import TRANSACTION_TIMEOUT_MS, Client, FailedError, Offsets, OnSent, Then
from tests.history.digest import Place

INIT_SECONDS, CALL_SECONDS = 30.0, 4.0
# Short times, so that there is much to go wrong in a run of seconds.
NETWORK: dict[str, object] = {
    "socket.timeout.ms": 2_500,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 200,
    "topic.metadata.refresh.interval.ms": 2_000,
    # To begin anew from the bootstrap servers loses calls in flight (librdkafka's issue 5511).
    "metadata.recovery.strategy": "none",
    "log_level": 0,
}


class ConfluentClient(Client):
    """A producer of confluent-kafka."""

    network: ClassVar[dict[str, object]] = NETWORK

    def __init__(
        self,
        bootstrap_servers: str,
        transactional_id: str,
        group_metadata: Callable[[], Any] | None = None,
    ) -> None:
        self._group_metadata = group_metadata
        self._producer = confluent_kafka.Producer(
            {
                **self.network,
                "bootstrap.servers": bootstrap_servers,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "request.timeout.ms": 2_500,
                "linger.ms": 2,
                "error_cb": lambda error: None,
            }
        )
        self._call(self._producer.init_transactions, INIT_SECONDS)

    def _call(self, work: Callable[..., object], *arguments: object) -> None:
        try:
            work(*arguments)
        except KafkaException as error:
            raise FailedError(_then(error.args[0]), str(error.args[0])) from error

    def begin(self) -> None:
        self._call(self._producer.begin_transaction)

    def send(self, place: Place, value: str, on_sent: OnSent) -> None:
        def report(error: KafkaError | None, message: Any) -> None:
            on_sent(None if error is not None else message.offset(), str(error))

        self._call(
            lambda: self._producer.produce(
                place.topic, value.encode(), partition=place.partition, on_delivery=report
            )
        )
        self._producer.poll(0)

    def send_offsets(self, offsets: Offsets) -> None:
        assert self._group_metadata is not None
        positions = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        self._call(
            self._producer.send_offsets_to_transaction,
            positions,
            self._group_metadata(),
            CALL_SECONDS,
        )

    def commit(self) -> None:
        self._call(self._producer.commit_transaction, CALL_SECONDS)

    def abort(self) -> None:
        self._call(self._producer.abort_transaction, CALL_SECONDS)


def _then(error: KafkaError) -> Then:
    if error.fatal():
        return Then.END
    if error.txn_requires_abort():
        return Then.ABORT
    return Then.CALL_AGAIN if error.retriable() else Then.END


def consumer_of(
    bootstrap_servers: str, group: str, isolation: str, **options: object
) -> confluent_kafka.Consumer:
    """A consumer that commits nothing by itself."""
    return confluent_kafka.Consumer(
        {
            **NETWORK,
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 3_000,
            "heartbeat.interval.ms": 500,
            "fetch.wait.max.ms": 100,
            "fetch.error.backoff.ms": 50,
            "error_cb": lambda error: None,
            **options,
        }
    )
