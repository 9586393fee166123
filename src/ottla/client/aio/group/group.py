"""The interface between a consumer and its group, whichever protocol the group uses."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.client.aio.consumer.wakeup import Interruptible
from ottla.client.aio.network.network import Network
from ottla.client.metrics.kafka_metrics import Metrics
from ottla.client.model import ConsumerGroupMetadata, OffsetAndMetadata
from ottla.client.state.consumer.subscriptions import SubscriptionState
from ottla.client.state.group.group_offsets import Offsets
from ottla.config.consumer import ConsumerConfig
from ottla.core.assignors.model import Assignor
from ottla.errors import KafkaError
from ottla.model import TopicPartition

Wake = Callable[[], None]
"""Called on the loop when `GroupMember.poll` has something to do: it wakes a waiting `Consumer.poll`."""

OnCommit = Callable[[Offsets, Exception | None], Any]
"""A callback with the offsets and the error of an asynchronous commit; may be a coroutine function."""


class CommitInterceptors(Protocol):
    """The interceptors of a consumer, as far as they observe commits."""

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """These offsets were committed."""


@dataclass(frozen=True)
class MemberParts:
    """The arguments of every implementation of `GroupMember`."""

    network: Network
    config: ConsumerConfig
    subscriptions: SubscriptionState
    assignors: Sequence[Assignor]
    interceptors: CommitInterceptors
    metrics: Metrics
    wake: Wake

    @property
    def group_id(self) -> str:
        """group.id, which a member always has."""
        assert self.config.group_id is not None
        return self.config.group_id


class GroupMember(Protocol):
    """A consumer's membership: rebalances, heartbeats, offsets.

    The consumer calls `poll` at the beginning of every round of its own poll, before it takes records out of the
    fetcher, because automatic commits take the positions as they are then. `poll` never waits for the network.
    """

    @property
    @abstractmethod
    def group_id(self) -> str | None:
        """group.id; None for a consumer without a group."""

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
        """The error that ended this membership for good, such as another member with its group.instance.id."""

    @abstractmethod
    async def poll(self) -> None:
        """Do what is due: callbacks of commits, rebalances, listeners, automatic commits.

        Raises errors of listeners, assignors, the coordinator and heartbeats.
        """

    @abstractmethod
    def subscription_changed(self) -> None:
        """The consumer has subscribed to other topics or another pattern."""

    @abstractmethod
    async def commit(
        self,
        offsets: Offsets | None = None,
        timeout_ms: float | None = None,
        interruptible: Interruptible = nullcontext,
    ) -> None:
        """Commit these offsets, or everything consumed; retries until the timeout or `default.api.timeout.ms`.

        A wakeup interrupts it in sections that `interruptible` opens.
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
        """Send an automatic commit that is due, before a manual assignment replaces another."""

    @abstractmethod
    def group_metadata(self) -> ConsumerGroupMetadata:
        """The group metadata that a transactional producer sends with offsets (KIP-447)."""

    @abstractmethod
    def request_rejoin(self, reason: str) -> None:
        """Rebalance in the next poll, if members can ask for that."""

    @abstractmethod
    async def unsubscribe(self) -> None:
        """Call the listener for the partitions, and leave the group; call this before the subscription is cleared."""

    @abstractmethod
    def leave(self) -> None:
        """Leave the group without calling the listener; call this before the subscription is cleared."""

    @abstractmethod
    def stop_auto_commit(self) -> None:
        """Turn automatic commits off: the program failed, and may not have processed the last records."""

    @abstractmethod
    async def close(self, timeout_ms: float, patience_ms: float | None = None) -> None:
        """Commit if automatic commits are on, call the listener, leave the group.

        The search for an unreachable coordinator ends after `patience_ms`; without it, after the timeout.
        """
