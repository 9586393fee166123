"""The rebalances of a group over time, as `__consumer_offsets` and an Ottla broker's own log tell them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final
from uuid import UUID

from ottla.console.access.visible import Visible
from ottla.console.api.groups import REBALANCING, GroupQuery
from ottla.console.console import Console
from ottla.console.groups.broker_notes import BEGINS
from ottla.console.groups.timeline import (
    GroupProtocol,
    GroupTimeline,
    Ranges,
    Rebalance,
    RebalanceKind,
    RebalanceNote,
    Stint,
    TimelineMember,
    Topic,
)
from ottla.console.http.errors import not_found
from ottla.console.http.routes import Call, Route

MAX_LANES: Final = 200
MAX_SHOWN_STINTS: Final = 2_000
MAX_NAMED: Final = 20
MAX_NOTES_OF_REBALANCE: Final = 20
MAX_STINT_TOPICS: Final = 20
# The broker's clock and the times of records are of the same machine, but not of the same moment.
NOTE_SLACK_MS: Final = 50


@dataclass(frozen=True)
class RebalanceJournalView:
    """How rebalances are seen."""

    source: str
    """log: all of them, from `__consumer_offsets`; none: see `problem`."""
    since_ms: int
    """When the console began; the newest records before that were read, too."""
    skipped_count: int
    problem: str | None
    has_notes: bool
    """Whether the broker tells why members left and when a rebalance began: only Ottla does."""
    notes_problem: str | None


@dataclass(frozen=True)
class RebalanceMember:
    """A member in a timeline; `client_id` is None if its record was not seen."""

    lane: str
    member_id: str
    instance_id: str | None
    client_id: str | None
    host: str | None


@dataclass(frozen=True)
class RebalanceNoteRow:
    """What the broker's own log said."""

    at_ms: int
    name: str
    sentence: str


@dataclass(frozen=True)
class RebalanceRow:
    """A generation of the classic protocol, or an epoch of the new one. What is None is not known."""

    number: int
    protocol: str
    kind: str
    """rebalanced, emptied, restarted (a static member came back), converted (to the other protocol), or deleted."""
    began_at_ms: int | None
    ended_at_ms: int | None
    """None while not all members have what they are to have."""
    duration_ms: int | None
    assigning_ms: int | None
    """How long the leader took to assign, where the broker stores it: Apache Kafka does."""
    is_overtaken: bool
    is_first: bool
    """Whether nothing is known of what was before."""
    why: list[str]
    """What is known of the reasons, in sentences."""
    joined: list[RebalanceMember]
    joined_count: int
    left: list[RebalanceMember]
    left_count: int
    member_count: int
    moved_count: int | None
    """The partitions that went from one member to another."""
    assignor: str | None
    leader: str | None
    notes: list[RebalanceNoteRow]


@dataclass(frozen=True)
class StintTopic:
    """Partitions of a topic as ranges of numbers, first and last."""

    topic: str
    ranges: list[list[int]]


@dataclass(frozen=True)
class StintRow:
    """For how long a member had the same partitions in the same generation."""

    member_id: str
    number: int
    began_at_ms: int
    ended_at_ms: int | None
    partition_count: int
    state: str
    """stable, revoking, waiting, or away."""
    topics: list[StintTopic]


@dataclass(frozen=True)
class LaneRow:
    """A client over time: it keeps its lane when it comes back under another member id."""

    lane: str
    member_id: str
    """The newest."""
    instance_id: str | None
    client_id: str | None
    host: str | None
    is_present: bool
    stints: list[StintRow]


@dataclass(frozen=True)
class RebalanceTimeline:
    """The newest rebalances first, and the lanes of the members."""

    at_ms: int
    group_id: str
    is_rebalancing: bool
    rebalances: list[RebalanceRow]
    lanes: list[LaneRow]
    left_out_lanes: int
    journal: RebalanceJournalView


async def rebalances(call: Call[GroupQuery, None]) -> RebalanceTimeline:
    """The rebalances of a group that the console knows of."""
    name, console = call.query.id, call.console
    visible = await call.visible()
    journal = console.rebalances
    seen = visible.snapshot.groups.get(name)
    if not visible.sees_group(name) or (seen is None and journal.timelines.of(name) is None):
        raise not_found(f"there is no group {name!r}", "or the console has not seen it yet")
    await journal.look_back(name)
    await journal.notes.look()
    timeline = journal.timelines.of(name)
    names = _topic_names(visible)
    lanes = [] if timeline is None else _lanes(timeline, names, visible)
    return RebalanceTimeline(
        at_ms=int(time.time() * 1000),
        group_id=name,
        is_rebalancing=seen is not None and seen.state in REBALANCING,
        rebalances=[] if timeline is None else _rows(timeline),
        lanes=lanes[:MAX_LANES],
        left_out_lanes=max(0, len(lanes) - MAX_LANES),
        journal=_journal(console),
    )


def _journal(console: Console) -> RebalanceJournalView:
    state, notes = console.rebalances.state, console.rebalances.notes
    return RebalanceJournalView(
        source=str(state.source),
        since_ms=state.since_ms,
        skipped_count=state.skipped_count,
        problem=state.problem,
        has_notes=notes.is_offered,
        notes_problem=notes.problem,
    )


# Rows


def _rows(timeline: GroupTimeline) -> list[RebalanceRow]:
    """The newest first, each with what the broker said since the one before."""
    notes = sorted(timeline.notes, key=lambda note: note.at_ms)
    names = _member_names(timeline)
    every = list(timeline.rebalances)
    found = []
    before_ms = 0
    for each, following in zip_longest(every, every[1:]):
        until_ms = _told_until_ms(each, following)
        mine = [note for note in notes if before_ms < note.at_ms <= until_ms]
        found.append(_rebalance(each, _with_names(mine, names)))
        before_ms = until_ms
    return found[::-1]


def _told_until_ms(each: Rebalance, following: Rebalance | None) -> int:
    """Until when what the broker says belongs to a rebalance."""
    if following is not None and following.began_at_ms is not None:
        # What made the next epoch begin is said just before it begins.
        return following.began_at_ms - NOTE_SLACK_MS // 10
    if each.ended_at_ms is None or (following is None and each.began_at_ms is not None):
        return 1 << 62
    return each.ended_at_ms + NOTE_SLACK_MS


def _member_names(timeline: GroupTimeline) -> dict[str, str]:
    """What people call the members, by their ids."""
    members = timeline.lanes()
    for each in timeline.rebalances:
        members += [*each.joined, *each.left]
    return {each.member_id: _name_of(each) for each in members}


def _with_names(notes: list[RebalanceNote], names: Mapping[str, str]) -> list[RebalanceNote]:
    """The notes without what the reason of the rebalance says again."""
    begun = [note.sentence for note in notes if note.name == BEGINS]
    found = []
    for note in notes:
        who = note.sentence.partition(" ")[0]
        if note.name == "member_left" and any(f"{who} left" in each for each in begun):
            continue
        sentence = " ".join(names.get(word, word) for word in note.sentence.split(" "))
        found.append(note._replace(sentence=sentence))
    return found


def _rebalance(each: Rebalance, notes: list[RebalanceNote]) -> RebalanceRow:
    began_at_ms = each.began_at_ms
    if began_at_ms is None:
        began_at_ms = next((note.at_ms for note in notes if note.name == BEGINS), None)
    duration_ms = None
    if began_at_ms is not None and each.ended_at_ms is not None:
        duration_ms = max(0, each.ended_at_ms - began_at_ms)
    return RebalanceRow(
        number=each.number,
        protocol=str(each.protocol),
        kind=str(each.kind),
        began_at_ms=began_at_ms,
        ended_at_ms=each.ended_at_ms,
        duration_ms=duration_ms,
        assigning_ms=each.assigning_ms,
        is_overtaken=each.is_overtaken,
        is_first=each.is_first,
        why=_why(each),
        joined=[_named(member) for member in each.joined[:MAX_NAMED]],
        joined_count=len(each.joined),
        left=[_named(member) for member in each.left[:MAX_NAMED]],
        left_count=len(each.left),
        member_count=each.member_count,
        moved_count=each.moved_count,
        assignor=each.assignor,
        leader=each.leader,
        notes=[RebalanceNoteRow(*note) for note in notes[-MAX_NOTES_OF_REBALANCE:]],
    )


def _named(member: TimelineMember) -> RebalanceMember:
    return RebalanceMember(*member)


def _why(each: Rebalance) -> list[str]:
    """Only what the records show."""
    match each.kind:
        case RebalanceKind.DELETED:
            return ["The group was deleted."]
        case RebalanceKind.CONVERTED:
            other = "new protocol (KIP-848)"
            return [
                "The group follows the "
                + (other if each.protocol is GroupProtocol.CONSUMER else "classic protocol")
                + " from now on."
            ]
        case RebalanceKind.RESTARTED:
            return [
                f"{_names(each.joined)} came back under another member id within its session: as a static "
                "member it took its partitions again, without a rebalance."
            ]
        case _:
            pass
    if each.is_first:
        return [
            "The first one that the console knows of: what was before is not in the log any more."
        ]
    again = _came_back(each.joined, each.left)
    joined = [member for member in each.joined if member not in again]
    left = [member for member in each.left if not any(_is_same(member, other) for other in again)]
    found = []
    if again:
        found.append(f"{_names(again)} came back under another member id.")
    if joined:
        found.append(f"{_names(joined)} joined.")
    if left:
        found.append(f"{_names(left)} left, or was removed.")
    if each.changed:
        found.append(f"{_names(each.changed)} subscribes to other topics.")
    if each.topics_changed:
        found.append("The subscribed topics have other partitions.")
    if not found and each.kind is RebalanceKind.REBALANCED:
        found.append("The members are the same: one of them joined again.")
    return found


def _came_back(
    joined: Iterable[TimelineMember], left: Iterable[TimelineMember]
) -> list[TimelineMember]:
    """Clients that left and joined in the same rebalance, which is what a program does that missed a deadline."""
    gone = list(left)
    found = []
    for member in joined:
        same = next((other for other in gone if _is_same(member, other)), None)
        if same is not None:
            gone.remove(same)
            found.append(member)
    return found


def _is_same(one: TimelineMember, other: TimelineMember) -> bool:
    return one.client_id is not None and (one.client_id, one.host) == (other.client_id, other.host)


def _names(members: Iterable[TimelineMember]) -> str:
    names = [_name_of(each) for each in members]
    counted = [
        name if count == 1 else f"{name} ({count} times)" for name, count in _counts(names).items()
    ]
    if len(counted) <= 3:
        return " and ".join([", ".join(counted[:-1]), counted[-1]] if counted[1:] else counted)
    return f"{', '.join(counted[:3])} and {len(counted) - 3} more"


def _name_of(member: TimelineMember) -> str:
    return member.instance_id or member.client_id or member.member_id


def _counts(names: Iterable[str]) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for name in names:
        found[name] = found.get(name, 0) + 1
    return found


# Lanes


def _topic_names(visible: Visible) -> dict[UUID, str]:
    return {
        each.topic_id: name
        for name, each in visible.snapshot.topics.items()
        if each.topic_id is not None
    }


def _lanes(timeline: GroupTimeline, names: Mapping[UUID, str], visible: Visible) -> list[LaneRow]:
    """Those who are there first, then those who were there last."""
    by_lane: dict[str, list[Stint]] = {}
    for stint in sorted(timeline.stints(), key=lambda each: each.began_at_ms)[-MAX_SHOWN_STINTS:]:
        by_lane.setdefault(stint.lane, []).append(stint)
    found = []
    for same in _same_clients(timeline, by_lane):
        stints = [stint for member in same for stint in by_lane[member.lane]]
        found.append(
            LaneRow(
                *same[-1],
                is_present=timeline.is_present(same[-1].lane),
                stints=[_stint(each, names, visible) for each in stints],
            )
        )
    present = [each for each in found if each.is_present]
    gone = [each for each in found if not each.is_present]
    gone.sort(key=lambda each: each.stints[-1].ended_at_ms or 0, reverse=True)
    return [*sorted(present, key=lambda each: (each.client_id or "", each.lane)), *gone]


def _same_clients(
    timeline: GroupTimeline, by_lane: Mapping[str, list[Stint]]
) -> list[list[TimelineMember]]:
    """Members that came one after the other with the same client id and host are one client, as far as one can tell."""
    members = [each for each in timeline.lanes() if each.lane in by_lane]
    members.sort(key=lambda each: by_lane[each.lane][0].began_at_ms)
    found: list[list[TimelineMember]] = []
    by_client: dict[tuple[str | None, str | None], list[list[TimelineMember]]] = {}
    for member in members:
        began_at_ms = by_lane[member.lane][0].began_at_ms
        lanes = by_client.setdefault((member.client_id, member.host), [])
        for lane in lanes if member.client_id and member.instance_id is None else ():
            ended_at_ms = by_lane[lane[-1].lane][-1].ended_at_ms
            if ended_at_ms is not None and ended_at_ms <= began_at_ms:
                lane.append(member)
                break
        else:
            lanes.append([member])
            found.append(lanes[-1])
    return found


def _stint(stint: Stint, names: Mapping[UUID, str], visible: Visible) -> StintRow:
    topics = _topics(stint.ranges, names, visible)
    count = stint.partition_count
    if not visible.is_everything:
        # What cannot be seen is not counted.
        count = sum(last - first + 1 for each in topics for first, last in each.ranges)
    return StintRow(
        member_id=stint.member_id,
        number=stint.number,
        began_at_ms=stint.began_at_ms,
        ended_at_ms=stint.ended_at_ms,
        partition_count=count,
        state=stint.state,
        topics=topics[:MAX_STINT_TOPICS],
    )


def _topics(ranges: Ranges, names: Mapping[UUID, str], visible: Visible) -> list[StintTopic]:
    found = []
    for topic, numbers in ranges:
        name = _name(topic, names, visible)
        if name is not None:
            found.append(StintTopic(name, [list(each) for each in numbers]))
    return found


def _name(topic: Topic, names: Mapping[UUID, str], visible: Visible) -> str | None:
    """The name of a topic that the user sees; the id of one that was deleted only for who sees everything."""
    if isinstance(topic, UUID):
        return names.get(topic, str(topic) if visible.is_everything else None)
    return topic if visible.sees_topic(topic) else None


ROUTES: Final[list[Route]] = [
    Route(
        "GET",
        "/api/group/rebalances",
        rebalances,
        "The rebalances of a group over time",
        query=GroupQuery,
    )
]
