"""The timeline of a group from records of `__consumer_offsets`: what it says, and that no log breaks it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.console.groups.timeline import (
    GroupTimeline,
    RebalanceKind,
    RebalanceNote,
    Stint,
    ranges_of,
)
from ottla.core.assignors.model import Assignment, Subscription
from ottla.core.assignors.protocol import encode_assignment, encode_subscription
from ottla.core.group.consumer.events import (
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
from ottla.core.group.records import encode
from ottla.model import TopicPartition

GROUP = "readers"
TOPIC_ID = UUID(int=7)


def saved_member(
    member_id: str,
    *numbers: int,
    instance_id: str | None = None,
    topics: Sequence[str] = ("t",),
) -> SavedMember:
    assignment = encode_assignment(Assignment(tuple(TopicPartition("t", each) for each in numbers)))
    return SavedMember(
        member_id,
        instance_id,
        f"client-{member_id}",
        "/127.0.0.1",
        1000,
        1000,
        encode_subscription(Subscription(tuple(topics))),
        assignment,
    )


def generation(number: int, *members: SavedMember, state_at_ms: int = -1) -> GroupSaved:
    leader = members[0].member_id if members else None
    return GroupSaved(GROUP, "consumer", number, "range", leader, state_at_ms, members)


def joined_epoch(member_id: str, instance_id: str | None = None) -> MemberSaved:
    said = MemberSubscription(
        instance_id=instance_id, client_id=f"client-{member_id}", topics=frozenset({"t"})
    )
    return MemberSaved(GROUP, member_id, said)


def epoch(number: int, metadata_hash: int = 1) -> GroupEpochSaved:
    return GroupEpochSaved(GROUP, number, metadata_hash)


def targets(number: int) -> TargetEpochSaved:
    return TargetEpochSaved(GROUP, number, 0)


def current(
    member_id: str, number: int, *numbers: int, state: MemberState = MemberState.STABLE
) -> CurrentSaved:
    assigned = {TOPIC_ID: dict.fromkeys(numbers, number)}
    return CurrentSaved(GROUP, member_id, CurrentAssignment(number, number - 1, state, assigned))


def gone(member_id: str) -> list[Event]:
    return [CurrentDeleted(GROUP, member_id), MemberDeleted(GROUP, member_id)]


def timeline_of(events: Sequence[Any], step_ms: int = 100) -> GroupTimeline:
    """Each event a while after the one before."""
    timeline = GroupTimeline(GROUP)
    for number, event in enumerate(events):
        timeline.take(event, 1000 + number * step_ms)
    return timeline


def clients(members: Sequence[object]) -> list[str]:
    return [getattr(each, "client_id") for each in members]  # noqa: B009


# The classic protocol


def test_generations_say_who_joined_and_who_left_and_how_many_partitions_moved() -> None:
    timeline = timeline_of(
        [
            generation(1, saved_member("a", 0, 1, 2)),
            generation(2, saved_member("a", 0), saved_member("b", 1, 2)),
            generation(3, saved_member("b", 0, 1, 2)),
            generation(4),
        ]
    )
    first, second, third, last = timeline.rebalances
    assert (first.number, clients(first.joined), first.is_first) == (1, ["client-a"], False)
    assert (clients(second.joined), second.left, second.moved_count) == (["client-b"], (), 2)
    assert (clients(third.left), third.joined, third.moved_count) == (["client-a"], (), 1)
    assert (last.kind, clients(last.left)) == (RebalanceKind.EMPTIED, ["client-b"])
    assert [each.partition_count for each in timeline.stints() if each.lane == "member:b"] == [2, 3]
    assert not timeline.is_present("member:b")


def test_rebalances_since_a_time_are_those_in_which_members_got_partitions() -> None:
    timeline = timeline_of(
        [
            generation(1, saved_member("one-1", 0, instance_id="one")),
            generation(2, saved_member("one-1", 0, instance_id="one"), saved_member("b", 1)),
            generation(2, saved_member("one-2", 0, instance_id="one"), saved_member("b", 1)),
            generation(3, saved_member("b", 0, 1)),
            generation(4),
        ]
    )
    assert timeline.rebalanced_since(0) == [1300, 1100, 1000]
    assert timeline.rebalanced_since(1100) == [1300, 1100]


def test_of_a_generation_that_is_seen_first_nobody_knows_who_joined() -> None:
    (only,) = timeline_of([generation(17, saved_member("a", 0))]).rebalances
    assert (only.is_first, only.joined, only.moved_count) == (True, (), None)


def test_a_static_member_that_restarts_keeps_its_lane_and_is_no_rebalance() -> None:
    timeline = timeline_of(
        [
            generation(1, saved_member("one-1", 0, instance_id="one")),
            generation(1, saved_member("one-2", 0, instance_id="one")),
        ]
    )
    assert [each.kind for each in timeline.rebalances] == [
        RebalanceKind.REBALANCED,
        RebalanceKind.RESTARTED,
    ]
    assert [each.member_id for each in timeline.stints()] == ["one-1", "one-2"]
    (member,) = timeline.lanes()
    assert (member.lane, member.member_id) == ("instance:one", "one-2")


def test_a_member_that_subscribes_to_other_topics_is_named() -> None:
    timeline = timeline_of(
        [
            generation(1, saved_member("a", 0)),
            generation(2, saved_member("a", 0, topics=("t", "u"))),
        ]
    )
    assert clients(timeline.rebalances[-1].changed) == ["client-a"]


def test_the_time_that_the_leader_took_is_known_where_it_is_stored() -> None:
    timeline = GroupTimeline(GROUP)
    timeline.take(generation(1, saved_member("a", 0), state_at_ms=900), 1000)
    timeline.take(generation(2, saved_member("a", 0), state_at_ms=2000), 2000)
    assert [each.assigning_ms for each in timeline.rebalances] == [100, None]


def test_an_assignment_in_another_format_is_none() -> None:
    odd = saved_member("a", 0)._replace(assignment=b"\xff\xff\xff\xff", subscription=b"\x00")
    timeline = timeline_of([generation(1, odd)])
    assert [each.partition_count for each in timeline.stints()] == [0]


def test_a_new_group_without_members_is_no_event_and_a_deleted_one_is() -> None:
    assert not timeline_of([generation(0)]).rebalances
    timeline = timeline_of([generation(1, saved_member("a", 0)), GroupDeleted(GROUP)])
    assert [each.kind for each in timeline.rebalances][-1] is RebalanceKind.DELETED
    assert not timeline.is_present("member:a")


# The new protocol


def test_an_epoch_begins_and_ends_when_all_members_have_reached_it() -> None:
    events = [
        joined_epoch("a"),
        epoch(1),
        targets(1),
        current("a", 1, 0, 1),
        joined_epoch("b"),
        epoch(2),
        targets(2),
        current("a", 1, 0, state=MemberState.UNREVOKED_PARTITIONS),
        current("b", 2, state=MemberState.UNRELEASED_PARTITIONS),
        current("a", 2, 0),
    ]
    timeline = timeline_of(events)
    first, second = timeline.rebalances
    assert (first.began_at_ms, first.ended_at_ms) == (1100, 1300)
    assert (clients(second.joined), second.ended_at_ms) == (["client-b"], None)
    assert timeline.take(current("b", 2, 1), 5000) is second
    assert (second.began_at_ms, second.ended_at_ms, second.moved_count) == (1500, 5000, 1)
    states = [each.state for each in timeline.stints() if each.lane == "member:a"]
    assert states == ["stable", "revoking", "stable"]


def test_an_epoch_that_is_overtaken_is_marked() -> None:
    timeline = timeline_of(
        [joined_epoch("a"), epoch(1), joined_epoch("b"), epoch(2), targets(2), *gone("b"), epoch(3)]
    )
    assert [each.is_overtaken for each in timeline.rebalances] == [True, True, False]
    assert clients(timeline.rebalances[2].left) == ["client-b"]


def test_new_partitions_of_the_topics_are_told_from_new_members() -> None:
    timeline = timeline_of([joined_epoch("a"), epoch(1, 5), targets(1), epoch(2, 6)])
    assert [each.topics_changed for each in timeline.rebalances] == [False, True]


def test_a_static_member_of_the_new_protocol_that_comes_back_has_not_joined() -> None:
    timeline = timeline_of(
        [
            joined_epoch("a-1", "a"),
            epoch(1),
            targets(1),
            current("a-1", 1, 0),
            current("a-1", -2, 0),
            *gone("a-1"),
            joined_epoch("a-2", "a"),
            current("a-2", 1, 0),
            joined_epoch("b"),
            epoch(2),
        ]
    )
    last = timeline.rebalances[-1]
    assert (clients(last.joined), last.left) == (["client-b"], ())
    assert [each.state for each in timeline.stints()] == ["stable", "away", "stable"]


def test_a_group_that_changes_its_protocol_says_so() -> None:
    upgraded = timeline_of(
        [generation(1, saved_member("a", 0)), GroupDeleted(GROUP), joined_epoch("a"), epoch(2)], 0
    )
    assert [each.kind for each in upgraded.rebalances] == [
        RebalanceKind.REBALANCED,
        RebalanceKind.CONVERTED,
        RebalanceKind.REBALANCED,
    ]
    downgraded = timeline_of(
        [
            joined_epoch("a"),
            epoch(1),
            GroupEpochDeleted(GROUP),
            generation(2, saved_member("a", 0)),
        ],
        0,
    )
    assert RebalanceKind.CONVERTED in [each.kind for each in downgraded.rebalances]


def test_what_was_skipped_ends_all_lanes() -> None:
    timeline = timeline_of([generation(1, saved_member("a", 0))])
    timeline.break_off()
    assert not timeline.is_present("member:a")
    timeline.take(generation(5, saved_member("b", 0)), 9000)
    assert timeline.rebalances[-1].is_first


def test_the_same_note_is_kept_once() -> None:
    timeline = GroupTimeline(GROUP)
    for _ in range(2):
        timeline.note(RebalanceNote(1, "member_left", "a leaves"))
    assert len(timeline.notes) == 1


def test_partitions_are_stored_as_ranges() -> None:
    assert ranges_of({"t": [5, 0, 1, 2], "a": [9]}) == (
        (("a", ((9, 9),)), ("t", ((0, 2), (5, 5)))),
        5,
    )
    scattered, count = ranges_of({"t": range(0, 4000, 2)})
    assert count == 2000
    assert len(scattered[0][1]) == 200


# Any log

IDS = st.sampled_from(["a", "b", "c"])
INSTANCES = st.sampled_from([None, "i", "j"])
NUMBERS = st.integers(0, 6)


@st.composite
def saved_members(draw: st.DrawFn) -> SavedMember:
    name, instance = draw(IDS), draw(INSTANCES)
    return saved_member(name, *draw(st.sets(NUMBERS, max_size=3)), instance_id=instance)


@st.composite
def classic_events(draw: st.DrawFn) -> Event:
    if draw(st.integers(0, 9)) == 0:
        return GroupDeleted(GROUP)
    members = draw(st.lists(saved_members(), max_size=3, unique_by=lambda each: each.member_id))
    return generation(draw(NUMBERS), *members)


CONSUMER_EVENTS = st.one_of(
    st.builds(joined_epoch, IDS, INSTANCES),
    st.builds(epoch, NUMBERS, NUMBERS),
    st.builds(targets, NUMBERS),
    st.builds(current, IDS, st.integers(-2, 6), NUMBERS, state=st.sampled_from(MemberState)),
    st.builds(lambda name: CurrentDeleted(GROUP, name), IDS),
    st.builds(lambda name: MemberDeleted(GROUP, name), IDS),
    st.just(GroupEpochDeleted(GROUP)),
)
LOGS = st.lists(
    st.tuples(st.one_of(classic_events(), CONSUMER_EVENTS), st.integers(0, 2000)), max_size=40
)


def take_all(log: Sequence[tuple[Event, int]]) -> GroupTimeline:
    timeline = GroupTimeline(GROUP)
    for event, at_ms in log:
        timeline.take(event, at_ms)
    return timeline


def check(timeline: GroupTimeline) -> None:
    """What holds of every timeline."""
    lanes: dict[str, list[Stint]] = {}
    for stint in timeline.stints():
        lanes.setdefault(stint.lane, []).append(stint)
    assert lanes.keys() == {each.lane for each in timeline.lanes()}
    for lane, stints in lanes.items():
        ends = [each.ended_at_ms for each in stints]
        assert None not in ends[:-1], "only the newest is open"
        assert (ends[-1] is None) == timeline.is_present(lane)
        for one, other in pairwise(stints):
            assert one.ended_at_ms is not None
            assert one.began_at_ms <= one.ended_at_ms <= other.began_at_ms
    for rebalance in timeline.rebalances:
        if rebalance.began_at_ms is not None and rebalance.ended_at_ms is not None:
            assert rebalance.began_at_ms <= rebalance.ended_at_ms
        joined = {each.lane for each in rebalance.joined}
        assert not joined & {each.lane for each in rebalance.left}
    assert all(each.ended_at_ms is not None for each in list(timeline.rebalances)[:-1])


def compacted(log: Sequence[tuple[Event, int]]) -> list[tuple[Event, int]]:
    """The newest record of each key, as the cleaner leaves it."""
    newest = {encode(event)[0]: index for index, (event, _) in enumerate(log)}
    return [log[index] for index in sorted(newest.values())]


def present(timeline: GroupTimeline) -> dict[str, tuple[str, int, object]]:
    return {
        each.lane: (each.member_id, each.number, each.ranges)
        for each in timeline.stints()
        if each.ended_at_ms is None
    }


@settings(max_examples=150, deadline=None)
@given(LOGS, st.data())
def test_any_part_of_any_log_makes_a_timeline(
    log: list[tuple[Event, int]], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(log)))
    end = data.draw(st.integers(start, len(log)))
    check(take_all(log[start:end]))
    check(take_all(compacted(log)))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(classic_events(), st.integers(0, 2000)), min_size=1, max_size=30))
def test_a_compacted_log_ends_with_the_same_members(log: list[tuple[Event, int]]) -> None:
    assert present(take_all(compacted(log))) == present(take_all(log))
