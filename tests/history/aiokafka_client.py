"""aiokafka's transactions, on an event loop in a thread of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import TimeoutError as LateError
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from tests.history.client import (
    TRANSACTION_TIMEOUT_MS,
    Client,
    FailedError,
    Offsets,
    OnSent,
    Then,
)
from tests.history.digest import Place

INIT_SECONDS, CALL_SECONDS = 30.0, 12.0


class AiokafkaClient(Client):
    """A producer of aiokafka."""

    def __init__(self, bootstrap_servers: str, transactional_id: str, group: str) -> None:
        self._group = group
        self._failures = 0  # of records of the transaction
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._call(self._start(bootstrap_servers, transactional_id), Then.END, INIT_SECONDS)

    async def _start(self, bootstrap_servers: str, transactional_id: str) -> None:
        self._producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap_servers,
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            request_timeout_ms=2_500,
            retry_backoff_ms=50,
            metadata_max_age_ms=2_000,
        )
        await self._producer.start()

    def _call(
        self, work: Coroutine[Any, Any, object], then: Then, seconds: float = CALL_SECONDS
    ) -> Any:
        """Calls; a call that takes too long leaves a client that is of no use."""
        called = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return called.result(seconds)
        except LateError as error:
            raise FailedError(Then.END, "no end") from error
        except KafkaError as error:
            raise FailedError(then, repr(error)) from error

    def begin(self) -> None:
        self._failures = 0
        self._call(self._producer.begin_transaction(), Then.END)

    def send(self, place: Place, value: str, on_sent: OnSent) -> None:
        def report(done: asyncio.Future[Any]) -> None:
            error = "cancelled" if done.cancelled() else done.exception()
            self._failures += error is not None
            on_sent(None if error is not None else done.result().offset, repr(error))

        async def send() -> None:
            sent = await self._producer.send(place.topic, value.encode(), partition=place.partition)
            sent.add_done_callback(report)

        self._call(send(), Then.ABORT)

    def send_offsets(self, offsets: Offsets) -> None:
        positions = {TopicPartition(*place): offset for place, offset in offsets.items()}
        self._call(self._producer.send_offsets_to_transaction(positions, self._group), Then.ABORT)

    def commit(self) -> None:
        # It commits without a record that it gave up, so one has to look whether there is one. The sequence numbers of
        # such a record are missing from then on: this producer is of no use any more.
        self._call(self._producer.flush(), Then.END)
        if self._failures:
            raise FailedError(Then.END, "a record could not be sent")
        # Whatever goes wrong: the outcome is not known, and the client cannot be asked again.
        self._call(self._producer.commit_transaction(), Then.END)

    def abort(self) -> None:
        self._call(self._producer.abort_transaction(), Then.END)
