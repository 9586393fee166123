"""Telling the user's rebalance listener about partitions."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ottla.client.aio.consumer.user_code import call_user
from ottla.client.metrics.group_metrics import GroupMetrics
from ottla.client.metrics.kafka_metrics import monotonic_ms
from ottla.client.state.consumer.subscriptions import SubscriptionState
from ottla.errors import WakeupError
from ottla.model import TopicPartition

log = logging.getLogger("ottla.client.group")


class ListenerCalls:
    """Calls the listener; what it raises is kept, so that all that has to happen happens first."""

    def __init__(self, subscriptions: SubscriptionState, metrics: GroupMetrics) -> None:
        self._subscriptions = subscriptions
        self._metrics = metrics
        self._first_error: Exception | None = None

    async def revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """The member gives these up and may still commit for them."""
        await self._call(("on_partitions_revoked",), partitions)

    async def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """These are new."""
        await self._call(("on_partitions_assigned",), partitions)

    async def lost(self, partitions: Iterable[TopicPartition]) -> None:
        """Others have these already; a listener that knows no such case takes them for revoked."""
        await self._call(("on_partitions_lost", "on_partitions_revoked"), partitions)

    def note(self, error: Exception) -> None:
        """Something else of the user's failed."""
        self._first_error = self._first_error or error

    def raise_first(self) -> None:
        """Raise what came first of what was kept."""
        error, self._first_error = self._first_error, None
        if error is not None:
            raise error

    async def _call(self, names: tuple[str, ...], partitions: Iterable[TopicPartition]) -> None:
        listener = self._subscriptions.listener
        methods = (getattr(listener, name, None) for name in names)
        method = next((found for found in methods if found is not None), None)
        ordered = sorted(partitions)
        log.info("%s: %s", names[0], ", ".join(map(str, ordered)) or "nothing")
        if method is None:
            return
        began_ms = monotonic_ms()
        try:
            await call_user(method, ordered)
            what = names[0].removeprefix("on_partitions_")
            self._metrics.listener_called(what, monotonic_ms() - began_ms)
        except WakeupError:
            raise
        except Exception as error:
            if self._first_error is not None:
                # Only the first comes out of the call that the program waits for.
                log.error("%s of the rebalance listener failed too", names[0], exc_info=error)
            self.note(error)
