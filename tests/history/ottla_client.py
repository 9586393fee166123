"""Our own client's transactions and consumer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.history.client import TRANSACTION_TIMEOUT_MS, Client, FailedError, Offsets, OnSent, Then
from tests.history.consuming import GiveUp, GroupConsumer, NotNowError, Polled, Take
from tests.history.digest import Place

import ottla

# Short times, so that there is much to go wrong in a run of seconds.
NETWORK: dict[str, object] = {
    "request.timeout.ms": 2_500,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 200,
    "metadata.max.age.ms": 2_000,
}
MAX_BLOCK_MS = 4_000
MAX_POLL_RECORDS = 20


class OttlaClient(Client):
    """A producer of ours."""

    def __init__(
        self,
        bootstrap_servers: str,
        transactional_id: str,
        group_metadata: Callable[[], Any] | None = None,
    ) -> None:
        self._group_metadata = group_metadata
        self._producer = ottla.Producer(
            {
                **NETWORK,
                "bootstrap.servers": bootstrap_servers,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "delivery.timeout.ms": 6_000,
                "max.block.ms": MAX_BLOCK_MS,
                "linger.ms": 2,
            }
        )
        for _ in range(7):
            try:
                return self._call(self._producer.init_transactions)
            except FailedError as error:
                if error.then is not Then.CALL_AGAIN:
                    raise
        raise FailedError(Then.END, "init_transactions did not succeed")

    def _call(self, work: Callable[..., object], *arguments: object) -> None:
        try:
            work(*arguments)
        except ottla.RetriableError as error:
            raise FailedError(Then.CALL_AGAIN, str(error)) from error
        except ottla.AbortableError as error:
            raise FailedError(Then.ABORT, str(error)) from error
        except ottla.OttlaError as error:
            raise FailedError(Then.END, repr(error)) from error

    def begin(self) -> None:
        self._call(self._producer.begin_transaction)

    def send(self, place: Place, value: str, on_sent: OnSent) -> None:
        def report(metadata: ottla.RecordMetadata | None, error: Exception | None) -> None:
            on_sent(None if metadata is None or error else metadata.offset, str(error))

        self._call(
            lambda: self._producer.send(
                place.topic, value=value.encode(), partition=place.partition, on_delivery=report
            )
        )

    def send_offsets(self, offsets: Offsets) -> None:
        assert self._group_metadata is not None
        positions = {
            ottla.TopicPartition(*place): ottla.OffsetAndMetadata(offset)
            for place, offset in offsets.items()
        }
        self._call(self._producer.send_offsets_to_transaction, positions, self._group_metadata())

    def commit(self) -> None:
        self._call(self._producer.commit_transaction)

    def abort(self) -> None:
        self._call(self._producer.abort_transaction)


class OttlaConsumer(GroupConsumer):
    """A consumer of ours."""

    def __init__(self, bootstrap_servers: str, group: str, isolation: str) -> None:
        self._consumer = ottla.Consumer(
            {
                **NETWORK,
                "bootstrap.servers": bootstrap_servers,
                "group.id": group,
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 3_000,
                "heartbeat.interval.ms": 500,
                "fetch.max.wait.ms": 100,
                "max.poll.records": MAX_POLL_RECORDS,
                "default.api.timeout.ms": 4_000,
            }
        )

    def subscribe(self, topic: str, take: Take, give_up: GiveUp) -> None:
        class Listener:
            def on_partitions_assigned(self, partitions: Sequence[ottla.TopicPartition]) -> None:
                take([Place(*one) for one in partitions])

            def on_partitions_revoked(self, partitions: Sequence[ottla.TopicPartition]) -> None:
                give_up()

        self._consumer.subscribe([topic], listener=Listener())

    def begin(self, offsets: dict[Place, int]) -> None:
        if not self._consumer.subscription():
            self._consumer.assign([ottla.TopicPartition(*place) for place in offsets])
        self.seek(offsets)

    def poll(self, wait_seconds: float) -> list[Polled]:
        try:
            records = self._consumer.poll(wait_seconds)
        except ottla.RetriableError:
            return []
        return [
            Polled(Place(record.topic, record.partition), record.offset, record.value.decode())
            for record in records
        ]

    def committed(self, places: Sequence[Place], seconds: float) -> dict[Place, int]:
        try:
            found = self._consumer.committed([ottla.TopicPartition(*place) for place in places])
        except ottla.KafkaError as error:
            raise NotNowError from error
        offsets = {place: found.get(ottla.TopicPartition(*place)) for place in places}
        return {place: -1 if at is None else at.offset for place, at in offsets.items()}

    def seek(self, offsets: dict[Place, int]) -> None:
        for place, offset in offsets.items():
            self._consumer.seek(ottla.TopicPartition(*place), offset)

    def assignment(self) -> list[Place]:
        return [Place(*one) for one in self._consumer.assignment()]

    def group_metadata(self) -> Any:
        return self._consumer.group_metadata()

    def close(self) -> None:
        self._consumer.close()
