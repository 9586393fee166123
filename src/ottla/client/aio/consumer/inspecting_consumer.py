"""A consumer for tools, which also returns what other consumers skip."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.aio.consumer.consumer import Consumer


class InspectingConsumer(Consumer[Any, Any]):
    """Also returns control records, or those of aborted transactions, as MarkedRecord.

    Aborted transactions are only known with isolation.level=read_committed.
    """

    def __init__(
        self, config: Mapping[str, object], *, shows_control: bool, shows_aborted: bool
    ) -> None:
        super().__init__(config)
        self._fetcher.show_marked(shows_control=shows_control, shows_aborted=shows_aborted)
