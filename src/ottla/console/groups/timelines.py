"""The timelines of all groups, from the records of `__consumer_offsets`, in bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from ottla.console.cluster.log_tail import AnyRecord
from ottla.console.groups.timeline import GroupTimeline, Rebalance
from ottla.core.group.events import Event, OffsetCommitted, OffsetDeleted
from ottla.core.group.records import OFFSET_KEY_VERSIONS, decode
from ottla.wire.compile import stored_version
from ottla.wire.types import MalformedMessageError

MAX_GROUPS: Final = 10_000
# All groups together: some 50 MB.
MAX_STINTS: Final = 100_000


def is_of_rebalances(record: AnyRecord) -> bool:
    """Whether a record of `__consumer_offsets` may tell of members; most are committed offsets."""
    key = record.key
    if key is None:
        return False
    try:
        return stored_version(key) not in OFFSET_KEY_VERSIONS
    except MalformedMessageError:
        return False


def group_event(record: AnyRecord) -> Event | None:
    """The event of a record; None where it is of a kind or a version that is not known."""
    try:
        return decode(record.key, record.value)
    except MalformedMessageError:
        return None


class Timelines:
    """Those of the groups that changed last."""

    def __init__(self) -> None:
        self._by_group: OrderedDict[str, GroupTimeline] = OrderedDict()
        self._stint_count = 0

    def of(self, group_id: str) -> GroupTimeline | None:
        """The timeline of a group; None if no record of its members was seen."""
        return self._by_group.get(group_id)

    def take(self, record: AnyRecord) -> tuple[GroupTimeline, Rebalance] | None:
        """Add a record; what it tells of a rebalance."""
        event = group_event(record)
        if event is None or isinstance(event, OffsetCommitted | OffsetDeleted):
            return None
        timeline = self._by_group.get(event.group_id)
        if timeline is None:
            if record.value is None:
                # What is deleted was not known.
                return None
            timeline = self._by_group[event.group_id] = GroupTimeline(event.group_id)
        before = timeline.stint_count
        told = timeline.take(event, max(0, record.timestamp))
        self._by_group.move_to_end(event.group_id)
        self._stint_count += timeline.stint_count - before
        self._make_room()
        return None if told is None else (timeline, told)

    def _make_room(self) -> None:
        while len(self._by_group) > MAX_GROUPS:
            _, oldest = self._by_group.popitem(last=False)
            self._stint_count -= oldest.stint_count
        if self._stint_count <= MAX_STINTS:
            return
        # Of the group that has most.
        largest = max(self._by_group.values(), key=lambda each: each.stint_count)
        before = largest.stint_count
        largest.forget_older_half()
        self._stint_count -= before - largest.stint_count
        if before == largest.stint_count:
            del self._by_group[largest.group_id]
            self._stint_count -= before

    def add_earlier(self, group_id: str, records: Iterable[AnyRecord], *, is_to_end: bool) -> None:
        """Records of a group from before those that were taken; nothing if some of its were taken since.

        Where they were not read up to those (`is_to_end`), they do not tell what the group is like now.
        """
        if group_id in self._by_group:
            return
        timeline = GroupTimeline(group_id)
        for record in records:
            event = group_event(record)
            if event is not None and event.group_id == group_id:
                timeline.take(event, max(0, record.timestamp))
        if not is_to_end:
            timeline.break_off()
        if timeline.stint_count or timeline.rebalances:
            self._by_group[group_id] = timeline
            self._stint_count += timeline.stint_count
            self._make_room()

    def break_off(self) -> None:
        """Records were skipped."""
        for timeline in self._by_group.values():
            timeline.break_off()
