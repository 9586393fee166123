"""kafka-python's transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka import KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata
from tests.history.client import (
    TRANSACTION_TIMEOUT_MS,
    Client,
    FailedError,
    Offsets,
    OnSent,
    Then,
)
from tests.history.digest import Place

FLUSH_SECONDS = 8.0


class KafkaPythonClient(Client):
    """A producer of kafka-python."""

    def __init__(self, bootstrap_servers: str, transactional_id: str, group: str) -> None:
        self._group = group
        self._sent: list[Any] = []
        self._producer = self._call(
            Then.END,
            KafkaProducer,
            bootstrap_servers=bootstrap_servers.split(","),
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            request_timeout_ms=2_500,
            delivery_timeout_ms=6_000,
            max_block_ms=6_000,
            retry_backoff_ms=50,
            reconnect_backoff_ms=20,
            metadata_max_age_ms=2_000,
            linger_ms=2,
        )
        self._call(Then.END, self._producer.init_transactions)

    def _call(self, then: Then, work: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        try:
            return work(*arguments, **options)
        except KafkaError as error:
            raise FailedError(then, repr(error)) from error

    def begin(self) -> None:
        self._sent = []
        self._call(Then.END, self._producer.begin_transaction)

    def send(self, place: Place, value: str, on_sent: OnSent) -> None:
        sent = self._call(
            Then.ABORT,
            self._producer.send,
            place.topic,
            value.encode(),
            partition=place.partition,
        )
        self._sent.append(sent)
        sent.add_callback(lambda metadata: on_sent(metadata.offset, ""))
        sent.add_errback(lambda error: on_sent(None, repr(error)))

    def send_offsets(self, offsets: Offsets) -> None:
        positions = {
            TopicPartition(*place): OffsetAndMetadata(offset, "", -1)
            for place, offset in offsets.items()
        }
        self._call(Then.ABORT, self._producer.send_offsets_to_transaction, positions, self._group)

    def commit(self) -> None:
        # It commits without a record that it gave up, so one has to look whether there is one.
        self._call(Then.ABORT, self._producer.flush, FLUSH_SECONDS)
        if any(sent.failed() for sent in self._sent):
            raise FailedError(Then.ABORT, "a record could not be sent")
        # Whatever goes wrong: the outcome is not known, and the next process finds out.
        self._call(Then.END, self._producer.commit_transaction)

    def abort(self) -> None:
        self._call(Then.END, self._producer.abort_transaction)
