"""Rebalances of one group over time, made from its records of `__consumer_offsets`: pure, and within limits.

What the log tells: which members a generation or an epoch has, what each of them is assigned, and when. Who joined and
who left is the difference to what was before, so of the first generation that is seen it is not known. What requests
say (why a member joined or left) is not in the log; a broker that tells its events adds notes.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

from ottla.core.assignors.protocol import decode_assignment
from ottla.core.group.consumer.events import (
    ConsumerGroupEvent,
    CurrentAssignment,
    CurrentDeleted,
    CurrentSaved,
    GroupEpochDeleted,
    GroupEpochSaved,
    MemberDeleted,
    MemberSaved,
    MemberState,
    MemberSubscription,
    TargetEpochSaved,
)
from ottla.core.group.events import Event, GroupDeleted, GroupSaved, SavedMember
from ottla.wire.stored.consumer_protocol import subscribed_topics
from ottla.wire.types import MalformedMessageError

MAX_REBALANCES: Final = 200
MAX_STINTS: Final = 5_000
MAX_NOTES: Final = 500
MAX_RANGES: Final = 200
# An epoch from which on the members of a new group are known: brokers begin with 1 or 2.
_FIRST_EPOCH: Final = 2
# A time of a state that is further back belongs to another rebalance.
_MAX_ASSIGNING_MS: Final = 600_000

Topic = str | UUID
"""Groups of the new protocol store ids of topics."""
Partitions = Mapping[Topic, Iterable[int]]
Ranges = tuple[tuple[Topic, tuple[tuple[int, int], ...]], ...]
"""Partitions as ranges of numbers, first and last."""


class GroupProtocol(StrEnum):
    """By which protocol a group rebalanced."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class RebalanceKind(StrEnum):
    """What happened."""

    REBALANCED = "rebalanced"
    """The members have other partitions, or the same ones again."""
    EMPTIED = "emptied"
    """The last member has left."""
    RESTARTED = "restarted"
    """A static member came back under another member id, and took its partitions again."""
    CONVERTED = "converted"
    """The group follows the other protocol from now on."""
    DELETED = "deleted"


class TimelineMember(NamedTuple):
    """Who has a lane: a static member keeps it when it restarts."""

    lane: str
    member_id: str
    instance_id: str | None
    client_id: str | None
    """None if the record of the member was not seen."""
    host: str | None


@dataclass(slots=True)
class Rebalance:
    """A generation, or an epoch; times are those of the records."""

    number: int
    protocol: GroupProtocol
    kind: RebalanceKind
    began_at_ms: int | None
    """When the epoch began; of the classic protocol only where the broker tells it."""
    ended_at_ms: int | None
    """When all members had what they were to have; None if they have not."""
    assigning_ms: int | None = None
    """Of the classic protocol: how long the leader took to assign, where brokers store when it began."""
    is_overtaken: bool = False
    """Whether the next one began before all members had reached it."""
    is_first: bool = False
    """Whether nothing is known of what was before."""
    joined: tuple[TimelineMember, ...] = ()
    left: tuple[TimelineMember, ...] = ()
    changed: tuple[TimelineMember, ...] = ()
    """Those that subscribe to other topics than before."""
    topics_changed: bool = False
    """Whether the subscribed topics have other partitions; only of the new protocol."""
    member_count: int = 0
    moved_count: int | None = None
    """The partitions that went from one member to another."""
    assignor: str | None = None
    leader: str | None = None


@dataclass(slots=True)
class Stint:
    """For how long a member had the same partitions in the same generation or epoch."""

    lane: str
    member_id: str
    number: int
    began_at_ms: int
    ended_at_ms: int | None
    partition_count: int
    ranges: Ranges
    state: str
    """stable, revoking (it has to give up partitions first), waiting (for partitions of others), or away."""


class RebalanceNote(NamedTuple):
    """What the broker's own log said about the group."""

    at_ms: int
    name: str
    sentence: str


@dataclass(slots=True)
class _Classic:
    members: dict[str, SavedMember]
    owners: dict[tuple[Topic, int], str]


@dataclass(slots=True)
class _Consumer:
    epoch: int | None = None
    metadata_hash: int | None = None
    target_epoch: int | None = None
    subscriptions: dict[str, MemberSubscription | None] = field(default_factory=dict)
    currents: dict[str, CurrentAssignment] = field(default_factory=dict)
    lanes: dict[str, str] = field(default_factory=dict)
    # What has changed since the last epoch, by lane.
    joined: dict[str, TimelineMember] = field(default_factory=dict)
    left: dict[str, TimelineMember] = field(default_factory=dict)
    changed: dict[str, TimelineMember] = field(default_factory=dict)
    owners_before: dict[tuple[Topic, int], str] = field(default_factory=dict)


class GroupTimeline:
    """Takes the events of one group in the order of the log."""

    def __init__(self, group_id: str) -> None:
        self.group_id: Final = group_id
        self.rebalances: Final[deque[Rebalance]] = deque(maxlen=MAX_REBALANCES)
        self.notes: Final[deque[RebalanceNote]] = deque(maxlen=MAX_NOTES)
        self._ended: deque[Stint] = deque(maxlen=MAX_STINTS)
        self._open: OrderedDict[str, Stint] = OrderedDict()
        self._lanes: OrderedDict[str, TimelineMember] = OrderedDict()
        self._number: int | None = None
        self._live: _Classic | _Consumer | None = None
        self._at_ms = 0

    @property
    def stint_count(self) -> int:
        """How much is remembered."""
        return len(self._ended) + len(self._open)

    @property
    def number(self) -> int | None:
        """The generation or epoch of now."""
        return self._number

    @property
    def latest(self) -> Rebalance | None:
        """The newest one."""
        return self.rebalances[-1] if self.rebalances else None

    def rebalanced_since(self, since_ms: int) -> list[int]:
        """When its members got other partitions, or the same ones again: the ends of rebalances, newest first."""
        found = []
        for each in reversed(self.rebalances):
            at_ms = each.ended_at_ms or each.began_at_ms or 0
            if at_ms < since_ms:
                break
            if each.kind is RebalanceKind.REBALANCED:
                found.append(at_ms)
        return found

    def stints(self) -> list[Stint]:
        """All, those that have ended first."""
        return [*self._ended, *self._open.values()]

    def lanes(self) -> list[TimelineMember]:
        """Those who have stints, in the order of their first ones."""
        used = {each.lane for each in self.stints()}
        return [each for lane, each in self._lanes.items() if lane in used]

    def is_present(self, lane: str) -> bool:
        """Whether a member is there now."""
        return lane in self._open

    def forget_older_half(self) -> None:
        """Make room."""
        for _ in range(len(self._ended) // 2 + 1):
            if self._ended:
                self._ended.popleft()
        self._drop_unused_lanes()

    def break_off(self) -> None:
        """Records of the log were skipped: what the group was like is not known any more."""
        for lane in list(self._open):
            self._close(lane, self._at_ms)
        self._live, self._number = None, None

    def note(self, note: RebalanceNote) -> None:
        """Remember what the broker said."""
        if note not in self.notes:
            self.notes.append(note)

    def take(self, event: Event, at_ms: int) -> Rebalance | None:
        """The rebalance that the record tells something new of; None if it tells nothing of rebalances."""
        # The clocks of coordinators differ.
        at_ms = self._at_ms = max(at_ms, self._at_ms)
        match event:
            case GroupSaved():
                return self._take_saved(event, at_ms)
            case GroupDeleted():
                if isinstance(self._live, _Classic):
                    return self._delete(GroupProtocol.CLASSIC, at_ms)
                return None
            case GroupEpochDeleted():
                if isinstance(self._live, _Consumer):
                    return self._delete(GroupProtocol.CONSUMER, at_ms)
                return None
            case _:
                return self._take_consumer(event, at_ms)

    def _add(self, rebalance: Rebalance) -> Rebalance:
        last = self.latest
        if last is not None and last.ended_at_ms is None:
            last.ended_at_ms = rebalance.began_at_ms or rebalance.ended_at_ms or self._at_ms
            last.is_overtaken = True
        self.rebalances.append(rebalance)
        return rebalance

    def _delete(self, protocol: GroupProtocol, at_ms: int) -> Rebalance:
        left = tuple(self._lanes[lane] for lane in self._open)
        for lane in list(self._open):
            self._close(lane, at_ms)
        number = self._number or 0
        self._live, self._number = None, None
        return self._add(
            Rebalance(number, protocol, RebalanceKind.DELETED, at_ms, at_ms, left=left)
        )

    def _convert(self, protocol: GroupProtocol, at_ms: int) -> None:
        """What came before belongs to the other protocol."""
        last = self.latest
        if (
            last is not None
            and last.kind is RebalanceKind.DELETED
            and last.protocol is not protocol
            and last.ended_at_ms == at_ms
        ):
            # The tombstone of the one protocol and the records of the other are one batch.
            self.rebalances.pop()
        elif self._live is None:
            return
        for lane in list(self._open):
            self._close(lane, at_ms)
        number = self._number or 0
        self._live, self._number = None, None
        self._add(Rebalance(number, protocol, RebalanceKind.CONVERTED, at_ms, at_ms))

    # Lanes

    def _open_stint(
        self, member: TimelineMember, number: int, at_ms: int, partitions: Partitions, state: str
    ) -> None:
        ranges, count = ranges_of(partitions)
        now = self._open.get(member.lane)
        if (
            now is not None
            and (now.member_id, now.number, now.state) == (member.member_id, number, state)
            and (now.partition_count, now.ranges) == (count, ranges)
        ):
            return
        if now is not None:
            self._close(member.lane, at_ms)
        self._lanes[member.lane] = member
        self._open[member.lane] = Stint(
            member.lane, member.member_id, number, at_ms, None, count, ranges, state
        )

    def _close(self, lane: str, at_ms: int) -> None:
        stint = self._open.pop(lane, None)
        if stint is None:
            return
        stint.ended_at_ms = max(at_ms, stint.began_at_ms)
        if len(self._ended) == MAX_STINTS:
            self._ended.popleft()
            self._drop_unused_lanes()
        self._ended.append(stint)

    def _drop_unused_lanes(self) -> None:
        if len(self._lanes) > 2 * (len(self._open) + 100):
            used = {each.lane for each in self.stints()}
            for lane in [each for each in self._lanes if each not in used]:
                del self._lanes[lane]

    # The classic protocol

    def _take_saved(self, event: GroupSaved, at_ms: int) -> Rebalance | None:
        if not isinstance(self._live, _Classic):
            self._convert(GroupProtocol.CLASSIC, at_ms)
        before = self._live if isinstance(self._live, _Classic) else None
        members = {each.member_id: each for each in event.members}
        owners = _classic_owners(event.members)
        is_same_generation = before is not None and event.generation == self._number
        self._number = event.generation
        self._live = _Classic(members, owners)
        known = {} if before is None else _by_lane(before.members.values())
        now = _by_lane(members.values())
        for lane in known.keys() - now.keys():
            self._close(lane, at_ms)
        for lane, saved in now.items():
            self._open_stint(
                _classic_member(lane, saved),
                event.generation,
                at_ms,
                _classic_partitions(saved),
                "stable",
            )
        if before is not None and is_same_generation:
            return self._restarted(event, before, at_ms)
        if not members:
            return self._emptied(event, before, at_ms)
        rebalance = Rebalance(
            event.generation,
            GroupProtocol.CLASSIC,
            RebalanceKind.REBALANCED,
            None,
            at_ms,
            assigning_ms=_assigning_ms(event, at_ms),
            is_first=before is None and event.generation > 1,
            member_count=len(members),
            assignor=event.protocol,
            leader=event.leader,
        )
        if not rebalance.is_first:
            rebalance.joined = _members(now, now.keys() - known.keys())
            rebalance.left = _members(known, known.keys() - now.keys())
            both = [lane for lane in now if lane in known]
            other = {lane for lane in both if _topics(now[lane]) != _topics(known[lane])}
            rebalance.changed = _members(now, other)
        if before is not None:
            rebalance.moved_count = _moved(before.owners, owners)
        return self._add(rebalance)

    def _restarted(self, event: GroupSaved, before: _Classic, at_ms: int) -> Rebalance | None:
        new = [each for each in event.members if each.member_id not in before.members]
        if not new:
            return None
        now = _by_lane(event.members)
        return self._add(
            Rebalance(
                event.generation,
                GroupProtocol.CLASSIC,
                RebalanceKind.RESTARTED,
                at_ms,
                at_ms,
                joined=_members(now, {_classic_lane(each) for each in new}),
                member_count=len(event.members),
                moved_count=0,
                assignor=event.protocol,
                leader=event.leader,
            )
        )

    def _emptied(self, event: GroupSaved, before: _Classic | None, at_ms: int) -> Rebalance | None:
        if (before is None and event.generation == 0) or (
            before is not None and not before.members
        ):
            return None
        known = {} if before is None else _by_lane(before.members.values())
        return self._add(
            Rebalance(
                event.generation,
                GroupProtocol.CLASSIC,
                RebalanceKind.EMPTIED,
                None,
                at_ms,
                is_first=before is None,
                left=_members(known, known.keys()),
            )
        )

    # The new protocol

    def _take_consumer(self, event: Event, at_ms: int) -> Rebalance | None:
        if not isinstance(event, ConsumerGroupEvent):
            return None
        live = self._live
        if not isinstance(live, _Consumer):
            if not isinstance(
                event, MemberSaved | GroupEpochSaved | TargetEpochSaved | CurrentSaved
            ):
                # What is deleted was not known.
                return None
            self._convert(GroupProtocol.CONSUMER, at_ms)
            live = self._live = _Consumer()
        match event:
            case MemberSaved():
                self._member_saved(live, event)
            case MemberDeleted():
                self._member_deleted(live, event, at_ms)
            case GroupEpochSaved():
                return self._epoch_saved(live, event, at_ms)
            case TargetEpochSaved():
                live.target_epoch = event.epoch
                return self._settle(live, at_ms)
            case CurrentSaved():
                self._current_saved(live, event, at_ms)
                return self._settle(live, at_ms)
            case CurrentDeleted():
                live.currents.pop(event.member_id, None)
                lane = live.lanes.get(event.member_id)
                if lane is not None:
                    self._close(lane, at_ms)
        return None

    def _consumer_member(self, live: _Consumer, member_id: str) -> TimelineMember:
        said = live.subscriptions.get(member_id)
        lane = live.lanes.get(member_id)
        if lane is None:
            lane = live.lanes[member_id] = _lane(member_id, said and said.instance_id)
        if said is None:
            return TimelineMember(lane, member_id, None, None, None)
        return TimelineMember(lane, member_id, said.instance_id, said.client_id, said.client_host)

    def _member_saved(self, live: _Consumer, event: MemberSaved) -> None:
        known = live.subscriptions.get(event.member_id)
        is_new = event.member_id not in live.subscriptions and event.member_id not in live.currents
        live.subscriptions[event.member_id] = event.subscription
        member = self._consumer_member(live, event.member_id)
        if member.lane in self._lanes:
            self._lanes[member.lane] = member
        if is_new and live.left.pop(member.lane, None) is None:
            live.joined[member.lane] = member
        elif known is not None and _subscribed(known) != _subscribed(event.subscription):
            live.changed[member.lane] = member

    def _member_deleted(self, live: _Consumer, event: MemberDeleted, at_ms: int) -> None:
        if event.member_id not in live.subscriptions and event.member_id not in live.currents:
            return
        member = self._consumer_member(live, event.member_id)
        live.subscriptions.pop(event.member_id, None)
        live.currents.pop(event.member_id, None)
        live.lanes.pop(event.member_id, None)
        live.changed.pop(member.lane, None)
        if live.joined.pop(member.lane, None) is None:
            live.left[member.lane] = member
        self._close(member.lane, at_ms)

    def _epoch_saved(self, live: _Consumer, event: GroupEpochSaved, at_ms: int) -> Rebalance | None:
        if event.epoch == live.epoch:
            return None
        is_first = live.epoch is None and event.epoch > _FIRST_EPOCH
        has_members = bool(live.subscriptions or live.currents)
        rebalance = Rebalance(
            event.epoch,
            GroupProtocol.CONSUMER,
            RebalanceKind.REBALANCED if has_members else RebalanceKind.EMPTIED,
            at_ms,
            None if has_members else at_ms,
            is_first=is_first,
            member_count=len(live.subscriptions.keys() | live.currents.keys()),
        )
        if not is_first:
            rebalance.joined = tuple(live.joined.values())
            rebalance.left = tuple(live.left.values())
            rebalance.changed = tuple(live.changed.values())
            rebalance.topics_changed = (
                live.metadata_hash is not None
                and not (live.joined or live.left or live.changed)
                and event.metadata_hash != live.metadata_hash
            )
        live.owners_before = _consumer_owners(live)
        live.epoch, live.metadata_hash = event.epoch, event.metadata_hash
        self._number = event.epoch
        live.joined, live.left, live.changed = {}, {}, {}
        return self._add(rebalance)

    def _current_saved(self, live: _Consumer, event: CurrentSaved, at_ms: int) -> None:
        current = event.current
        live.currents[event.member_id] = current
        member = self._consumer_member(live, event.member_id)
        self._open_stint(
            member,
            current.epoch,
            at_ms,
            {topic: tuple(numbers) for topic, numbers in current.assigned.items() if numbers},
            "away" if current.epoch < 0 else _STATES.get(current.state, "stable"),
        )

    def _settle(self, live: _Consumer, at_ms: int) -> Rebalance | None:
        """The rebalance ends when all members have reached the targets of its epoch."""
        last = self.latest
        if last is None or last.ended_at_ms is not None or last.number != live.epoch:
            return None
        here = live.subscriptions.keys() | live.currents.keys()
        if live.target_epoch != live.epoch or not all(
            member in live.currents
            and live.currents[member].epoch == live.epoch
            and live.currents[member].state is MemberState.STABLE
            for member in here
        ):
            return None
        last.ended_at_ms = at_ms
        last.member_count = len(here)
        last.moved_count = _moved(live.owners_before, _consumer_owners(live))
        live.owners_before = {}
        return last


_STATES: Final = {
    MemberState.UNREVOKED_PARTITIONS: "revoking",
    MemberState.UNRELEASED_PARTITIONS: "waiting",
}


def _lane(member_id: str, instance_id: str | None) -> str:
    return f"member:{member_id}" if instance_id is None else f"instance:{instance_id}"


def _classic_lane(member: SavedMember) -> str:
    return _lane(member.member_id, member.instance_id)


def _by_lane(members: Iterable[SavedMember]) -> dict[str, SavedMember]:
    return {_classic_lane(each): each for each in members}


def _classic_member(lane: str, saved: SavedMember) -> TimelineMember:
    return TimelineMember(
        lane, saved.member_id, saved.instance_id, saved.client_id, saved.client_host
    )


def _members(known: Mapping[str, SavedMember], lanes: Iterable[str]) -> tuple[TimelineMember, ...]:
    """Some of these members, in their order."""
    wanted = set(lanes)
    return tuple(_classic_member(lane, each) for lane, each in known.items() if lane in wanted)


def _classic_partitions(member: SavedMember) -> dict[Topic, list[int]]:
    """What the leader assigned; nothing if it is not in the format of consumers."""
    found: dict[Topic, list[int]] = {}
    if member.assignment:
        try:
            for topic, number in decode_assignment(member.assignment).partitions:
                found.setdefault(topic, []).append(number)
        except MalformedMessageError:
            return {}
    return found


def _classic_owners(members: Iterable[SavedMember]) -> dict[tuple[Topic, int], str]:
    return {
        (topic, number): _classic_lane(member)
        for member in members
        for topic, numbers in _classic_partitions(member).items()
        for number in numbers
    }


def _consumer_owners(live: _Consumer) -> dict[tuple[Topic, int], str]:
    return {
        (topic, number): live.lanes[member]
        for member, current in live.currents.items()
        for topic, numbers in current.assigned.items()
        for number in numbers
        if member in live.lanes
    }


def _moved(before: Mapping[tuple[Topic, int], str], now: Mapping[tuple[Topic, int], str]) -> int:
    return sum(1 for key, lane in now.items() if before.get(key, lane) != lane)


def _topics(member: SavedMember) -> object:
    try:
        return frozenset(subscribed_topics(member.subscription))
    except MalformedMessageError:
        return member.subscription


def _subscribed(said: MemberSubscription) -> object:
    return said.topics, said.pattern


def _assigning_ms(event: GroupSaved, at_ms: int) -> int | None:
    """Apache Kafka stores when the members had joined; ours when they were assigned."""
    took = at_ms - event.state_timestamp_ms
    return took if event.state_timestamp_ms > 0 and 0 < took < _MAX_ASSIGNING_MS else None


def ranges_of(partitions: Partitions) -> tuple[Ranges, int]:
    """The partitions as ranges, MAX_RANGES at most, and their number."""
    found = []
    count = 0
    left = MAX_RANGES
    for topic in sorted(partitions, key=str):
        ranges: list[tuple[int, int]] = []
        for number in sorted(partitions[topic]):
            count += 1
            if ranges and ranges[-1][1] == number - 1:
                ranges[-1] = (ranges[-1][0], number)
            elif len(ranges) < left:
                ranges.append((number, number))
        left -= len(ranges)
        if ranges:
            found.append((topic, tuple(ranges)))
    return tuple(found), count
