"""What a consumer asks of its group, whatever protocol the group speaks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from ottla.client.model import ConsumerGroupMetadata, OffsetAndMetadata
from ottla.model import TopicPartition

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
OnCommit = Callable[[Offsets, Exception | None], Any]
"""Called with the offsets of an asynchronous commit and with what went wrong; may be a coroutine function."""

Wake = Callable[[], None]
"""Called on the loop when `GroupMember.poll` has something to do: the consumer's poll waits for it."""


class RebalanceListener(Protocol):
    """What a program wants to know about its partitions: every method may be missing, or asynchronous."""

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """The member gives these partitions up, and may still commit for them."""

    def on_partitions_assigned(
        self, partitions: Sequence[TopicPartition]
    ) -> Awaitable[None] | None:
        """These partitions are new; what the member kept is not named."""

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These partitions belong to others already; without this method, they count as revoked."""


class Subscriptions(Protocol):
    """What a group member needs of the consumer's subscription state."""

    @property
    def uses_group(self) -> bool:
        """Whether topics or a pattern are subscribed: the group assigns the partitions."""

    @property
    def has_pattern(self) -> bool:
        """Whether the topics follow from a pattern."""

    @property
    def listener(self) -> RebalanceListener | None:
        """Who is told about the partitions."""

    def subscription(self) -> Collection[str]:
        """The subscribed topics: of a pattern, those that match now."""

    def matches_pattern(self, topic: str) -> bool:
        """Whether a topic belongs to the pattern."""

    def subscribe_from_pattern(self, topics: Collection[str]) -> bool:
        """Set what matches; says whether that is something else than before."""

    def matches_subscription(self, partitions: Collection[TopicPartition]) -> bool:
        """Whether the topics of all these partitions are subscribed."""

    def group_subscribe(self, topics: Collection[str]) -> bool:
        """The leader watches the topics of the whole group; says whether some are not its own."""

    def reset_group_subscription(self) -> None:
        """The topics of others need no watching any more."""

    def metadata_topics(self) -> Collection[str]:
        """The topics whose metadata is needed: its own, and those of the group that it leads."""

    def assigned(self) -> Collection[TopicPartition]:
        """The partitions that the member has."""

    def assign_from_group(self, partitions: Collection[TopicPartition]) -> None:
        """Set what the member has; partitions that stay keep their positions."""

    def mark_pending_revocation(self, partitions: Collection[TopicPartition]) -> None:
        """Neither fetch these partitions nor hand out what was fetched of them (eager protocol)."""

    def all_consumed(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """The positions of the assigned partitions that have one, behind what poll returned."""


class GroupMember(Protocol):
    """A consumer's membership: joins, heartbeats, offsets.

    `poll` is to be called at the beginning of every round of the consumer's poll, before records are taken out of
    the fetcher (automatic commits take the positions as they are then); it never waits for the network.
    """

    @property
    @abstractmethod
    def group_id(self) -> str | None:
        """The group; none for a consumer that has none."""

    @abstractmethod
    async def poll(self) -> None:
        """Do what there is to do now: callbacks of commits, rejoining, listeners, automatic commits.

        Raises what a listener, an assignor or the group's coordinator failed with, and the failure of a heartbeat.
        """

    @abstractmethod
    def subscription_changed(self) -> None:
        """Topics or a pattern were subscribed: want their metadata, and see what matches."""

    @abstractmethod
    async def commit(self, offsets: Offsets | None = None, timeout_ms: float | None = None) -> None:
        """Commit these offsets, or all that was consumed; retries until `default.api.timeout.ms`."""

    @abstractmethod
    async def commit_async(
        self, offsets: Offsets | None = None, on_commit: OnCommit | None = None
    ) -> None:
        """Send the commit and return; `on_commit` is called in a later poll, commit or close."""

    @abstractmethod
    async def committed(
        self, partitions: Collection[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets; None for a partition without one."""

    @abstractmethod
    async def commit_before_assign(self) -> None:
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
    async def close(self, timeout_ms: float) -> None:
        """Commit automatically if that is on, give the partitions up, leave the group."""
