"""Rebalance listeners: what programs may pass to `subscribe`, and how they are called."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable
from typing import Any, Protocol, TypeAlias

from ottla.client.aio.consumer.user_code import call_user
from ottla.client.metrics.group_metrics import GroupMetrics
from ottla.client.metrics.kafka_metrics import monotonic_ms
from ottla.client.state.consumer.subscriptions import SubscriptionState
from ottla.errors import WakeupError
from ottla.model import TopicPartition

log = logging.getLogger("ottla.client.group")


class RevokedListener(Protocol):
    """A listener that has this method."""

    def on_partitions_revoked(self, partitions: list[TopicPartition], /) -> Any: ...


class AssignedListener(Protocol):
    """A listener that has this method."""

    def on_partitions_assigned(self, partitions: list[TopicPartition], /) -> Any: ...


class LostListener(Protocol):
    """A listener that has this method."""

    def on_partitions_lost(self, partitions: list[TopicPartition], /) -> Any: ...


Listener: TypeAlias = RevokedListener | AssignedListener | LostListener
"""Any object with at least one of the methods of RebalanceListener."""

_LISTENER_METHODS = ("on_partitions_revoked", "on_partitions_assigned", "on_partitions_lost")


def check_listener(listener: object) -> None:
    """Raise if the object has none of the methods that would be called."""
    if listener is not None and not any(hasattr(listener, name) for name in _LISTENER_METHODS):
        raise TypeError(
            f"{listener!r} is no listener: it has none of the methods {', '.join(_LISTENER_METHODS)}"
        )


class RebalanceListener:
    """Tells a program about changes of its partitions: override the methods that you need.

    Methods may be coroutine functions. Any other object will do as well; methods that it lacks are not called, but one
    without `on_partitions_lost` has `on_partitions_revoked` called in its place.
    """

    def on_partitions_revoked(self, partitions: list[TopicPartition], /) -> Awaitable[None] | None:
        """The member gives these partitions up, and may still commit for them."""

    def on_partitions_assigned(self, partitions: list[TopicPartition], /) -> Awaitable[None] | None:
        """These partitions were added; partitions that the member keeps are not listed."""

    def on_partitions_lost(self, partitions: list[TopicPartition], /) -> Awaitable[None] | None:
        """These partitions belong to other members already, so that a commit for them fails.

        By default it calls `on_partitions_revoked`: override it if that commits.
        """
        return self.on_partitions_revoked(partitions)


class ListenerCalls:
    """Calls the listener. Its exceptions are stored until `raise_first`, so that the rebalance can go on."""

    def __init__(self, subscriptions: SubscriptionState, metrics: GroupMetrics) -> None:
        self._subscriptions = subscriptions
        self._metrics = metrics
        self._first_error: Exception | None = None

    async def revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """The member gives these partitions up, and may still commit for them."""
        await self._call(("on_partitions_revoked",), partitions)

    async def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions were added."""
        await self._call(("on_partitions_assigned",), partitions)

    async def lost(self, partitions: Iterable[TopicPartition]) -> None:
        """Other members have these partitions; a listener without this method sees them revoked."""
        await self._call(("on_partitions_lost", "on_partitions_revoked"), partitions)

    def keep_error(self, error: Exception) -> None:
        """Have `raise_first` raise an exception of other user code."""
        self._first_error = self._first_error or error

    def raise_first(self) -> None:
        """Raise the first stored exception, once."""
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
                # Only the first error is raised to the program.
                log.error("%s of the rebalance listener failed too", names[0], exc_info=error)
            self.keep_error(error)
