"""What takes the place of a group where a consumer has none."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import nullcontext
from typing import NoReturn

from ottla.client.aio.consumer.wakeup import Waiting
from ottla.client.aio.group.commits import OnCommit
from ottla.client.aio.group.group import GroupMember
from ottla.client.model import ConsumerGroupMetadata, OffsetAndMetadata
from ottla.client.state.group.group_offsets import Offsets
from ottla.errors import ConfigError
from ottla.model import TopicPartition


class Ungrouped(GroupMember):
    """Refuses what needs a group; the rest is nothing to do."""

    @property
    def group_id(self) -> None:
        """There is none."""
        return

    @property
    def has_coordinator(self) -> bool:
        """There is none."""
        return False

    @property
    def last_heartbeat_ms(self) -> None:
        """There are none."""
        return

    @property
    def fencing(self) -> None:
        """There is nobody to do it."""
        return

    async def poll(self) -> None:
        """Nothing to do."""

    def subscription_changed(self) -> None:
        """A subscription shares its topics' partitions in a group."""
        self._refuse("subscribe")

    async def commit(
        self,
        offsets: Offsets | None = None,
        timeout_ms: float | None = None,
        waiting: Waiting = nullcontext,
    ) -> None:
        """Offsets are a group's."""
        self._refuse("commit")

    def commit_async(
        self, offsets: Offsets | None = None, on_commit: OnCommit | None = None
    ) -> None:
        """Offsets are a group's."""
        self._refuse("commit_async")

    async def committed(
        self, partitions: Collection[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Offsets are a group's."""
        self._refuse("committed")

    def commit_before_assign(self) -> None:
        """Nothing to do."""

    def group_metadata(self) -> ConsumerGroupMetadata:
        """It describes a member."""
        self._refuse("group_metadata")

    def request_rejoin(self, reason: str) -> None:
        """There is nothing to join."""
        self._refuse("rejoining")

    async def unsubscribe(self) -> None:
        """Nothing to do."""

    def leave(self) -> None:
        """Nothing to do."""

    def stop_auto_commit(self) -> None:
        """Nothing to do."""

    async def close(self, timeout_ms: float, patience_ms: float | None = None) -> None:
        """Nothing to do."""

    def _refuse(self, what: str) -> NoReturn:
        raise ConfigError(f"{what} needs a group: set group.id, or use assign() and seek()")
