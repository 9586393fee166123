"""A consumer for tools, which also returns what other consumers skip."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.aio.consumer.consumer import Consumer
from ottla.client.aio.consumer.log_batches import LogBatches, fetch_batches
from ottla.model import TopicPartition


class InspectingConsumer(Consumer[Any, Any]):
    """Also returns control records, or those of aborted transactions, as MarkedRecord.

    Aborted transactions are only known with isolation.level=read_committed.
    """

    def __init__(
        self, config: Mapping[str, object], *, shows_control: bool, shows_aborted: bool
    ) -> None:
        super().__init__(config)
        self._fetcher.show_marked(shows_control=shows_control, shows_aborted=shows_aborted)

    async def batches(
        self, partition: TopicPartition, offset: int, *, max_bytes: int
    ) -> LogBatches:
        """The headers of the batches from the one with `offset` on; needs no assignment, and moves no position."""
        return await fetch_batches(
            self._network,
            partition,
            offset,
            max_bytes=max_bytes,
            timeout_ms=self._config.default_api_timeout_ms,
        )
