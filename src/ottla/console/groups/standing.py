"""Since when groups with a lag have committed nothing: what a stuck consumer looks like from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.client.admin_model.groups import GroupState
from ottla.console.cluster.poller import ClusterPoller
from ottla.console.cluster.snapshot import ClusterSnapshot, GroupSnapshot
from ottla.events import EventLog
from ottla.model import TopicPartition

logger = EventLog(__name__)

TICK_SECONDS: Final = 0.5
# Members that read commit every five seconds by default; a batch job may take longer.
STUCK_MS: Final = 60_000
WITHOUT_MEMBERS: Final = (GroupState.EMPTY, GroupState.DEAD)
# Topics of brokers and of tools, by custom: __consumer_offsets, _schemas. Their readers need not commit: a schema
# registry is a group of _schemas only to be elected.
TOOLS_PREFIX: Final = "_"


class StandingGroup(NamedTuple):
    """A group that has a lag, and whose committed offsets have been the same since a time."""

    since_ms: int
    committed: Mapping[TopicPartition, int]


def standing_groups(
    before: Mapping[str, StandingGroup], snapshot: ClusterSnapshot
) -> dict[str, StandingGroup]:
    """The groups that stand in this snapshot, and since when."""
    found = {}
    for name, group in snapshot.groups.items():
        if not group.lag or group.committed is None:
            continue
        last = before.get(name)
        is_same = last is not None and (
            last.committed is group.committed or last.committed == group.committed
        )
        found[name] = (
            last if last is not None and is_same else StandingGroup(snapshot.at_ms, group.committed)
        )
    return found


def is_stuck(group: GroupSnapshot, standing: StandingGroup | None, at_ms: int) -> bool:
    """Whether members have records to read, and have committed nothing for a while."""
    return (
        standing is not None
        and group.state not in WITHOUT_MEMBERS
        and at_ms - standing.since_ms >= STUCK_MS
        and any(lag for topic, lag in group.lags.items() if not topic.startswith(TOOLS_PREFIX))
    )


class GroupWatch:
    """Compares each snapshot with the one before."""

    def __init__(self, poller: ClusterPoller) -> None:
        self._poller = poller
        self._task: asyncio.Task[None] | None = None
        self._seen_version = 0
        self._standing: dict[str, StandingGroup] = {}

    @property
    def standing(self) -> Mapping[str, StandingGroup]:
        """The groups that have a lag and do not move."""
        return self._standing

    def start(self) -> None:
        """Begin to watch."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            snapshot = self._poller.snapshot
            if snapshot is not None and snapshot.version != self._seen_version:
                self._seen_version = snapshot.version
                try:
                    self._standing = standing_groups(self._standing, snapshot)
                except Exception as error:
                    logger.bug("group_watch_failed", "groups cannot be watched: a bug", error)
            await asyncio.sleep(TICK_SECONDS)
