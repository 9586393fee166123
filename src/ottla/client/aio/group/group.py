"""What a consumer asks of its group, whatever protocol the group speaks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Collection
from contextlib import nullcontext
from typing import Any, Protocol, TypeAlias

from ottla.client.aio.consumer.wakeup import Waiting
from ottla.client.aio.group.commits import OnCommit
from ottla.client.model import ConsumerGroupMetadata, OffsetAndMetadata
from ottla.client.state.group.group_offsets import Offsets
from ottla.errors import KafkaError
from ottla.model import TopicPartition

Wake = Callable[[], None]
"""Called on the loop when `GroupMember.poll` has something to do: the consumer's poll waits for it."""


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
"""Any object with one of the methods of RebalanceListener, or several."""

_LISTENER_METHODS = ("on_partitions_revoked", "on_partitions_assigned", "on_partitions_lost")


def check_listener(listener: object) -> None:
    """Refuse what would never be called."""
    if listener is not None and not any(hasattr(listener, name) for name in _LISTENER_METHODS):
        raise TypeError(
            f"{listener!r} is no listener: it has none of the methods {', '.join(_LISTENER_METHODS)}"
        )


class RebalanceListener:
    """What a program wants to know about its partitions: override what you need.

    Methods may be coroutine functions. Any other object will do as well; methods that it lacks are not called, but one
    without `on_partitions_lost` has `on_partitions_revoked` called in its place.
    """

    def on_partitions_revoked(self, partitions: list[TopicPartition], /) -> Awaitable[None] | None:
        """The member gives these partitions up, and may still commit for them."""

    def on_partitions_assigned(self, partitions: list[TopicPartition], /) -> Awaitable[None] | None:
        """These partitions are new; what the member kept is not named."""

    def on_partitions_lost(self, partitions: list[TopicPartition], /) -> Awaitable[None] | None:
        """These partitions belong to others already, so that a commit for them fails.

        Unless you override this, it calls `on_partitions_revoked`: do so if that commits.
        """
        return self.on_partitions_revoked(partitions)


class GroupMember(Protocol):
    """A consumer's membership: joins, heartbeats, offsets.

    `poll` is to be called at the beginning of every round of the consumer's poll, before records are taken out of
    the fetcher (automatic commits take the positions as they are then); it never waits for the network.
    """

    @property
    @abstractmethod
    def group_id(self) -> str | None:
        """The group; none for a consumer that has none."""

    @property
    @abstractmethod
    def has_coordinator(self) -> bool:
        """Whether the group's coordinator is known and connected."""

    @property
    @abstractmethod
    def last_heartbeat_ms(self) -> float | None:
        """When the coordinator last answered a heartbeat, by the loop's clock; None if it never did."""

    @property
    @abstractmethod
    def fencing(self) -> KafkaError | None:
        """Why the group takes this member for good no more: another has its group.instance.id."""

    @abstractmethod
    async def poll(self) -> None:
        """Do what there is to do now: callbacks of commits, rejoining, listeners, automatic commits.

        Raises what a listener, an assignor or the group's coordinator failed with, and the failure of a heartbeat.
        """

    @abstractmethod
    def subscription_changed(self) -> None:
        """Topics or a pattern were subscribed: want their metadata, and see what matches."""

    @abstractmethod
    async def commit(
        self,
        offsets: Offsets | None = None,
        timeout_ms: float | None = None,
        waiting: Waiting = nullcontext,
    ) -> None:
        """Commit these offsets, or all that was consumed; retries until `default.api.timeout.ms`.

        A wakeup may end what is `waiting`.
        """

    @abstractmethod
    def commit_async(
        self, offsets: Offsets | None = None, on_commit: OnCommit | None = None
    ) -> None:
        """Send the commit and return; `on_commit` is called in a later poll, commit or close."""

    @abstractmethod
    async def committed(
        self, partitions: Collection[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets; None for a partition without one."""

    @abstractmethod
    def commit_before_assign(self) -> None:
        """Send the automatic commit that is due, before a manual assignment replaces another."""

    @abstractmethod
    def group_metadata(self) -> ConsumerGroupMetadata:
        """What a transactional producer sends along with offsets (KIP-447)."""

    @abstractmethod
    def request_rejoin(self, reason: str) -> None:
        """Join again in the next poll."""

    @abstractmethod
    async def unsubscribe(self) -> None:
        """Give the partitions up and leave the group; call it before the subscription is cleared."""

    @abstractmethod
    def leave(self) -> None:
        """Leave the group without telling the listener; call it before the subscription is cleared."""

    @abstractmethod
    def stop_auto_commit(self) -> None:
        """Commit nothing without being asked any more: what was read last may not have been worked on."""

    @abstractmethod
    async def close(self, timeout_ms: float, patience_ms: float | None = None) -> None:
        """Commit automatically if that is on, give the partitions up, leave the group.

        A coordinator that cannot be reached is looked for as long as `patience_ms`, or the whole time.
        """
