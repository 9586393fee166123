"""The group member of a consumer without group.id."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import nullcontext
from typing import NoReturn

from ottla.client.aio.consumer.wakeup import Interruptible
from ottla.client.aio.group.group import GroupMember, OnCommit
from ottla.client.model import ConsumerGroupMetadata, OffsetAndMetadata
from ottla.client.state.group.group_offsets import Offsets
from ottla.errors import ConfigError
from ottla.model import TopicPartition


class Ungrouped(GroupMember):
    """Refuses what needs a group, and does nothing otherwise."""

    @property
    def group_id(self) -> None:
        """None."""
        return

    @property
    def has_coordinator(self) -> bool:
        """False."""
        return False

    @property
    def last_heartbeat_ms(self) -> None:
        """None."""
        return

    @property
    def fencing(self) -> None:
        """None."""
        return

    async def poll(self) -> None:
        """Do nothing."""

    def subscription_changed(self) -> None:
        """Refuse: a subscription shares partitions in a group."""
        self._refuse("subscribe")

    async def commit(
        self,
        offsets: Offsets | None = None,
        timeout_ms: float | None = None,
        interruptible: Interruptible = nullcontext,
    ) -> None:
        """Refuse: offsets are committed for a group."""
        self._refuse("commit")

    def commit_async(
        self, offsets: Offsets | None = None, on_commit: OnCommit | None = None
    ) -> None:
        """Refuse: offsets are committed for a group."""
        self._refuse("commit_async")

    async def committed(
        self, partitions: Collection[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Refuse: offsets are committed for a group."""
        self._refuse("committed")

    def commit_before_assign(self) -> None:
        """Do nothing."""

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Refuse: the metadata describes a member."""
        self._refuse("group_metadata")

    def request_rejoin(self, reason: str) -> None:
        """Refuse: only groups rebalance."""
        self._refuse("rejoining")

    async def unsubscribe(self) -> None:
        """Do nothing."""

    def leave(self) -> None:
        """Do nothing."""

    def stop_auto_commit(self) -> None:
        """Do nothing."""

    async def close(self, timeout_ms: float, patience_ms: float | None = None) -> None:
        """Do nothing."""

    def _refuse(self, what: str) -> NoReturn:
        raise ConfigError(f"{what} needs a group: set group.id, or use assign() and seek()")
