"""Since when groups with a lag have committed nothing: what a stuck consumer looks like from outside."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from ottla.client.admin_model.groups import GroupDescription, GroupState
from ottla.console.cluster.poller import ClusterPoller
from ottla.console.cluster.snapshot import ClusterSnapshot, GroupSnapshot
from ottla.console.groups.descriptions import GroupDescriptions
from ottla.events import EventLog
from ottla.model import TopicPartition

logger = EventLog(__name__)

TICK_SECONDS: Final = 0.5
# Members that read commit every five seconds by default; a batch job may take longer.
STUCK_MS: Final = 60_000
# The marker behind a group's last record counts in its lag; so few offsets of a partition may be markers alone.
MARKERS_LAG: Final = 2
# Groups that may be stuck are asked what they read: those with the largest lags, now and then.
MAX_ASKED: Final = 50
ASK_SECONDS: Final = 15.0
# They are asked before they are called stuck.
ASK_EARLIER_MS: Final = 20_000
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


def readable_lag(
    group: GroupSnapshot, snapshot: ClusterSnapshot, read_topics: Collection[str] | None = None
) -> int:
    """The offsets that the group could read now: not those behind a last stable offset, and no lone markers.

    Topics that no member reads any more do not count where `read_topics` are known. Topics of tools never count: a
    schema registry has a group to choose its leader, which reads nothing.
    """
    total = 0
    for key, offset in (group.committed or {}).items():
        place = snapshot.partition(*key)
        if place is None or place.end_offset is None or key.topic.startswith(TOOLS_PREFIX):
            continue
        if read_topics is not None and key.topic not in read_topics:
            continue
        end = place.end_offset
        if place.last_stable_offset is not None:
            end = min(end, place.last_stable_offset)
        lag = end - max(offset, place.start_offset or 0)
        if lag > MARKERS_LAG:
            total += lag
    return total


def is_held_up(
    group: GroupSnapshot,
    standing: StandingGroup | None,
    snapshot: ClusterSnapshot,
    read_topics: Collection[str] | None = None,
) -> bool:
    """Whether a group stands that has read all it may: its lag is behind last stable offsets."""
    if not is_stuck(group, standing, snapshot.at_ms):
        return False
    places = [snapshot.partition(*key) for key in group.committed or {}]
    is_held = any(each is not None and each.unstable_count for each in places)
    return is_held and readable_lag(group, snapshot, read_topics) == 0


def topics_read_by(group: GroupDescription) -> frozenset[str]:
    """The topics that its members subscribe to, or have partitions of."""
    return frozenset(
        {topic for member in group.members for topic in member.subscribed_topics}
        | {topic for member in group.members for topic, _ in member.assignment}
    )


class GroupWatch:
    """Compares each snapshot with the one before."""

    def __init__(self, poller: ClusterPoller, descriptions: GroupDescriptions) -> None:
        self._poller = poller
        self._descriptions = descriptions
        self._task: asyncio.Task[None] | None = None
        self._seen_version = 0
        self._standing: dict[str, StandingGroup] = {}
        self._read_topics: dict[str, frozenset[str]] = {}
        self._asked_at = -ASK_SECONDS

    @property
    def standing(self) -> Mapping[str, StandingGroup]:
        """The groups that have a lag and do not move."""
        return self._standing

    @property
    def read_topics(self) -> Mapping[str, frozenset[str]]:
        """What the groups that may be stuck read now."""
        return self._read_topics

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
                    await self._ask(snapshot)
                except Exception as error:
                    logger.bug("group_watch_failed", "groups cannot be watched: a bug", error)
            await asyncio.sleep(TICK_SECONDS)

    async def _ask(self, snapshot: ClusterSnapshot) -> None:
        """Ask coordinators what groups read that may be stuck: they may have left behind a topic with a lag."""
        if time.monotonic() - self._asked_at < ASK_SECONDS:
            return
        lags = {
            name: readable_lag(snapshot.groups[name], snapshot)
            for name, standing in self._standing.items()
            if is_stuck(snapshot.groups[name], standing, snapshot.at_ms + ASK_EARLIER_MS)
        }
        largest = sorted((name for name in lags if lags[name]), key=lambda name: -lags[name])
        described = await self._descriptions.of(largest[:MAX_ASKED])
        self._read_topics = {name: topics_read_by(each) for name, each in described.items()}
        self._asked_at = time.monotonic()
