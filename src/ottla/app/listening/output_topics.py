"""Whether the topics exist that units go to: a transaction would wait for a missing one until it times out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from ottla.app.delivery.unit import Unit
from ottla.app.listening.clients import Clients
from ottla.client.aio.producer.producer import Producer
from ottla.errors import AbortableError, ErrorCode, KafkaError, PartialFailureError

# How long a topic may take to appear in the metadata, and for how long it then counts as missing.
_APPEAR_SECONDS: Final = 3.0
_MISSING_SECONDS: Final = 10.0
_ABSENT: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class OutputTopics:
    """Knows how many partitions topics have."""

    def __init__(self, clients: Clients, is_refusal: Callable[[Exception], bool]) -> None:
        self._clients = clients
        self._is_refusal = is_refusal
        self._counts: dict[str, int] = {}
        self._missing_until: dict[str, float] = {}

    def forget(self) -> None:
        """A transaction failed: topics may have been deleted."""
        self._counts.clear()

    async def missing_of(self, producer: Producer, units: Sequence[Unit]) -> dict[int, Exception]:
        """The units, by their place, that have a record for a topic or partition that the cluster does not have."""
        found: dict[int, Exception] = {}
        for place, unit in enumerate(units):
            for each in unit.outgoing:
                count = self._counts.get(each.topic)
                if count is None or (each.partition or 0) >= count:
                    try:
                        count = await self._look_up(producer, each.topic)
                    except KafkaError as error:
                        if not self._is_refusal(error):
                            raise
                        found[place] = error
                        break
                if (each.partition or 0) >= count:
                    name = (
                        each.topic if each.partition is None else f"{each.topic}-{each.partition}"
                    )
                    found[place] = AbortableError(
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        f"{name} does not exist.",
                        {"topic": each.topic},
                    )
                    break
        return found

    async def _look_up(self, producer: Producer, topic: str) -> int:
        """How many partitions it has; 0 if the cluster says that it does not exist."""
        now = asyncio.get_running_loop().time()
        if now < self._missing_until.get(topic, now):
            return 0
        try:
            async with asyncio.timeout(_APPEAR_SECONDS):
                count = len(await producer.partitions_for(topic))
        except TimeoutError:
            # An outage, or a missing topic: only an answer of the cluster tells.
            count = await self._describe(topic)
        if not count:
            self._missing_until[topic] = now + _MISSING_SECONDS
        self._counts[topic] = count
        return count

    async def _describe(self, topic: str) -> int:
        try:
            described = await self._clients.admin.describe_topics([topic])
        except PartialFailureError as error:
            if all(each.code in _ABSENT for each in error.errors.values()):
                return 0
            raise
        except KafkaError as error:
            if error.code in _ABSENT:
                return 0
            raise
        return len(described[topic].partitions)
