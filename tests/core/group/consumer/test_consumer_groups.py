"""Groups of the new protocol (KIP-848): joining, reconciliation, epochs, static members, patterns, sessions."""

from __future__ import annotations

import pytest
from tests.core.group.consumer.consumers import (
    REBALANCE_MS,
    SESSION_MS,
    Consumer,
    ConsumerGroups,
    error_of,
    settle,
)

from ottla.core.group.consumer.events import TargetEpochSaved
from ottla.core.group.consumer.group import ConsumerState
from ottla.core.group.requests import (
    CommitSender,
    ConsumerGroupConfig,
    ConsumerHeartbeat,
    NewOffsets,
)
from ottla.core.outcomes import Refused
from ottla.core.turn import ProducerIdentity
from ottla.errors import ErrorCode


@pytest.fixture
def groups() -> ConsumerGroups:
    return ConsumerGroups()


def joined(groups: ConsumerGroups, *names: str) -> list[Consumer]:
    """Members that have all they are to have."""
    members = [Consumer(groups, name) for name in names]
    for member in members:
        assert isinstance(member.join(), ConsumerHeartbeat)
    settle(*members)
    return members


# Joining and reconciling.


def test_the_first_member_gets_all_partitions_with_its_join(groups: ConsumerGroups) -> None:
    a = Consumer(groups, "a")
    answer = a.join()
    assert isinstance(answer, ConsumerHeartbeat)
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("a", 2, 5000)
    assert a.count == 4
    assert groups.consumer_group().state is ConsumerState.STABLE


def test_a_partition_goes_to_the_next_member_only_when_its_owner_has_given_it_up(
    groups: ConsumerGroups,
) -> None:
    (a,) = joined(groups, "a")
    b = Consumer(groups, "b")
    b.join()
    assert (b.epoch, b.count) == (3, 0)
    # The member learns what it keeps, and still owns the rest in the eyes of the group.
    before = dict(a.owned)
    answer = a.beat(tells_owned=False)
    assert isinstance(answer, ConsumerHeartbeat)
    assert (answer.member_epoch, a.count) == (2, 2)
    b.beat()
    assert b.count == 0
    # It has not told yet that it gave them up.
    a.owned, kept = before, a.owned
    a.beat()
    b.beat()
    assert b.count == 0
    a.owned = kept
    a.beat()
    assert a.epoch == 3
    b.beat()
    assert (b.epoch, b.count) == (3, 2)
    assert len(groups.owners()) == 4


def test_a_heartbeat_without_news_writes_nothing(groups: ConsumerGroups) -> None:
    (a,) = joined(groups, "a")
    written = len(groups.log)
    answer = a.beat(tells_owned=False)
    assert answer == ConsumerHeartbeat("a", 2, 5000, None)
    assert len(groups.log) == written


def test_members_share_what_a_member_that_leaves_had(groups: ConsumerGroups) -> None:
    a, b = joined(groups, "a", "b")
    assert b.leave() == ConsumerHeartbeat("b", -1)
    assert groups.consumer_group().state is ConsumerState.ASSIGNING
    settle(a)
    assert (a.epoch, a.count) == (4, 4)
    assert error_of(b.beat()) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_group_stays_with_its_epoch_when_the_last_member_has_left(
    groups: ConsumerGroups,
) -> None:
    (a,) = joined(groups, "a")
    a.leave()
    assert groups.consumer_group().state is ConsumerState.EMPTY
    a.join()
    assert (a.epoch, a.count) == (4, 4)


def test_fifty_members_share_evenly_and_keep_what_they_have(groups: ConsumerGroups) -> None:
    groups.topics.create("many", 100)
    members = [Consumer(groups, f"m{n}", frozenset({"many"})) for n in range(50)]
    for member in members:
        member.join()
    groups.pass_ms(1000)
    settle(*members)
    assert {member.count for member in members} == {2}
    before = {member.member_id: member.owned for member in members}
    members[7].leave()
    groups.pass_ms(1000)
    rest = members[:7] + members[8:]
    settle(*rest)
    assert sum(member.count for member in rest) == 100
    for member in rest:
        for topic_id, partitions in before[member.member_id].items():
            assert partitions <= member.owned[topic_id]


def test_members_that_name_different_topics_get_only_theirs(groups: ConsumerGroups) -> None:
    other = groups.topics.create("other", 2)
    a, b = Consumer(groups, "a"), Consumer(groups, "b", frozenset({"other"}))
    a.join()
    b.join()
    settle(a, b)
    assert other not in a.owned
    assert b.owned == {other: frozenset({0, 1})}


def test_a_member_that_ends_a_subscription_loses_the_topic_before_the_next_target() -> None:
    groups = ConsumerGroups(ConsumerGroupConfig(assignment_interval_ms=30_000))
    other = groups.topics.create("other", 2)
    a = Consumer(groups, "a", frozenset({"orders", "other"}))
    a.join()
    assert other in a.owned
    a.subscribe("orders")
    assert other not in a.owned
    a.beat()
    assert groups.consumer_group().target_epoch == 2, "too early for the next target"
    groups.pass_ms(30_000)
    settle(a)
    assert a.epoch == 3


def test_targets_are_not_computed_more_often_than_the_interval_allows() -> None:
    groups = ConsumerGroups(ConsumerGroupConfig(assignment_interval_ms=1000))
    (a,) = joined(groups, "a")
    b = Consumer(groups, "b")
    b.join()
    assert (groups.consumer_group().epoch, groups.consumer_group().target_epoch) == (3, 2)
    groups.pass_ms(1000)
    settle(a, b)
    assert (a.count, b.count) == (2, 2)


def test_many_members_that_join_at_once_have_their_targets_computed_a_few_times(
    groups: ConsumerGroups,
) -> None:
    groups.topics.create("many", 500)
    members = [Consumer(groups, f"m{n}", frozenset({"many"})) for n in range(500)]
    for member in members:
        member.join()
    computed = sum(isinstance(event, TargetEpochSaved) for event in groups.events)
    assert computed <= 25, "no time has passed"
    groups.pass_ms(1000)
    settle(*members)
    assert {member.count for member in members} == {1}


def test_a_member_that_waits_for_partitions_of_others_asks_again_soon(
    groups: ConsumerGroups,
) -> None:
    (a,) = joined(groups, "a")
    b = Consumer(groups, "b")
    waits = b.join()
    assert isinstance(waits, ConsumerHeartbeat)
    assert waits.heartbeat_interval_ms == 500
    a.beat(tells_owned=False)
    a.beat()
    has_all = b.beat()
    assert isinstance(has_all, ConsumerHeartbeat)
    assert (b.count, has_all.heartbeat_interval_ms) == (2, 5000)


def test_an_assignor_that_is_only_in_kafkas_log_is_replaced_by_the_default(
    groups: ConsumerGroups,
) -> None:
    a = Consumer(groups, "a", assignor="com.example.Mine")
    a.join()
    assert a.count == 4


# Topics.


def test_new_partitions_reach_the_group_with_the_next_heartbeat(groups: ConsumerGroups) -> None:
    (a,) = joined(groups, "a")
    groups.topics.grow("orders", 6)
    a.beat()
    assert (a.epoch, a.count) == (3, 6)


def test_a_topic_that_is_created_later_is_assigned(groups: ConsumerGroups) -> None:
    a = Consumer(groups, "a", frozenset({"later"}))
    a.join()
    assert a.count == 0
    groups.topics.create("later", 3)
    a.beat()
    assert a.count == 3


def test_a_deleted_topic_is_taken_away_and_its_successor_is_another(groups: ConsumerGroups) -> None:
    (a,) = joined(groups, "a")
    (old,) = a.owned
    groups.topics.delete("orders")
    a.beat()
    assert a.count == 0
    new = groups.topics.create("orders", 1)
    settle(a)
    assert a.owned == {new: frozenset({0})}
    assert old != new


# Epochs.


def test_a_member_that_missed_an_answer_may_use_its_last_epoch(groups: ConsumerGroups) -> None:
    (a,) = joined(groups, "a")
    groups.topics.grow("orders", 6)
    owned = dict(a.owned)
    a.beat()
    a.owned = owned
    answer = a.beat(epoch=2)
    assert isinstance(answer, ConsumerHeartbeat)
    assert answer.member_epoch == 3


@pytest.mark.parametrize(("epoch", "relation"), [(1, "smaller"), (9, "greater")])
def test_a_member_in_another_epoch_is_fenced(
    groups: ConsumerGroups, epoch: int, relation: str
) -> None:
    (a,) = joined(groups, "a")
    answer = a.beat(epoch=epoch)
    assert isinstance(answer, Refused)
    assert answer.error is ErrorCode.FENCED_MEMBER_EPOCH
    assert f"{relation} member epoch ({epoch})" in answer.text


def test_a_fenced_member_joins_again_with_its_id(groups: ConsumerGroups) -> None:
    (a,) = joined(groups, "a")
    a.beat(epoch=9)
    a.join()
    assert a.count == 4


def test_who_is_not_a_member_hears_it(groups: ConsumerGroups) -> None:
    stranger = Consumer(groups, "s", epoch=5)
    assert error_of(stranger.beat()) is ErrorCode.GROUP_ID_NOT_FOUND
    joined(groups, "a")
    assert error_of(stranger.beat()) is ErrorCode.UNKNOWN_MEMBER_ID
    assert error_of(stranger.leave()) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_refuses_members() -> None:
    groups = ConsumerGroups(ConsumerGroupConfig(max_size=1, assignment_interval_ms=0))
    (a,) = joined(groups, "a")
    assert error_of(Consumer(groups, "b").join()) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert error_of(a.beat()) is ErrorCode.NONE


# Time.


def test_a_member_that_is_not_heard_of_loses_its_partitions(groups: ConsumerGroups) -> None:
    a, b = joined(groups, "a", "b")
    groups.pass_ms(SESSION_MS - 1)
    b.beat()
    groups.pass_ms(1)
    settle(b)
    assert b.count == 4
    assert error_of(a.beat()) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_keeps_what_it_has_to_give_up_is_removed(groups: ConsumerGroups) -> None:
    (a,) = joined(groups, "a")
    b = Consumer(groups, "b")
    b.join()
    a.beat(tells_owned=False)
    for _ in range(3):
        groups.pass_ms(REBALANCE_MS // 3)
        a.beat(tells_owned=False)
        b.beat()
    assert error_of(a.beat()) is ErrorCode.UNKNOWN_MEMBER_ID
    settle(b)
    assert b.count == 4


def test_a_restart_gives_every_member_a_new_session(groups: ConsumerGroups) -> None:
    a, b = joined(groups, "a", "b")
    groups.pass_ms(SESSION_MS - 1)
    groups.restart()
    groups.pass_ms(SESSION_MS - 1)
    assert error_of(a.beat()) is ErrorCode.NONE
    groups.pass_ms(1)
    assert error_of(b.beat()) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_restart_in_the_middle_of_a_rebalance_goes_on(groups: ConsumerGroups) -> None:
    (a,) = joined(groups, "a")
    b = Consumer(groups, "b")
    b.join()
    groups.restart()
    a.beat(tells_owned=False)
    groups.restart()
    settle(a, b)
    assert (a.count, b.count) == (2, 2)


# Static members.


def test_a_static_member_that_comes_back_gets_what_it_had(groups: ConsumerGroups) -> None:
    a, b = Consumer(groups, "a", instance="i"), Consumer(groups, "b")
    a.join()
    b.join()
    settle(a, b)
    had, epoch = a.owned, groups.consumer_group().epoch
    assert a.leave(for_a_while=True) == ConsumerHeartbeat("a", -2)
    b.beat()
    assert b.count == 2
    again = Consumer(groups, "a2", instance="i")
    again.join()
    assert again.owned == had
    assert groups.consumer_group().epoch == epoch
    assert error_of(a.beat()) is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_stays_away_is_removed(groups: ConsumerGroups) -> None:
    a, b = Consumer(groups, "a", instance="i"), Consumer(groups, "b")
    a.join()
    b.join()
    settle(a, b)
    a.leave(for_a_while=True)
    groups.pass_ms(SESSION_MS // 2)
    b.beat()
    groups.pass_ms(SESSION_MS // 2)
    settle(b)
    assert b.count == 4


def test_a_member_that_takes_another_instance_id_gives_the_first_one_free(
    groups: ConsumerGroups,
) -> None:
    for instance in ("i", "j", "k"):
        Consumer(groups, "a", instance=instance).join()
    assert groups.consumer_group().static_ids == {"k": "a"}
    assert error_of(Consumer(groups, "b", instance="i").join()) is ErrorCode.NONE


def test_an_instance_id_in_use_is_not_given_away(groups: ConsumerGroups) -> None:
    Consumer(groups, "a", instance="i").join()
    refused = Consumer(groups, "b", instance="i").join()
    assert error_of(refused) is ErrorCode.UNRELEASED_INSTANCE_ID


def test_an_unknown_instance_id_is_no_member(groups: ConsumerGroups) -> None:
    joined(groups, "a")
    unknown = Consumer(groups, "a", instance="i", epoch=2)
    assert error_of(unknown.beat()) is ErrorCode.UNKNOWN_MEMBER_ID


# Patterns.


def test_a_pattern_is_resolved_and_new_topics_that_match_follow(groups: ConsumerGroups) -> None:
    a = Consumer(groups, "a", topics=None, pattern="ord")
    a.join()
    assert (a.count, [effect.patterns for effect in groups.effects]) == (0, [frozenset({"ord"})])
    groups.resolve()
    a.beat()
    assert a.count == 4
    groups.topics.create("ordinary", 2)
    groups.pass_ms(2000)
    a.beat()
    groups.resolve()
    a.beat()
    assert a.count == 6


def test_a_restart_looks_for_matching_topics_again(groups: ConsumerGroups) -> None:
    a = Consumer(groups, "a", topics=None, pattern="ord")
    a.join()
    groups.resolve()
    groups.restart()
    groups.topics.topics_version = groups.topics.created_version = 0  # a broker counts anew
    groups.topics.create("ordinary", 2)
    groups.pass_ms(2000)
    a.beat()
    groups.resolve()
    a.beat()
    assert a.count == 6


def test_topics_that_a_pattern_matched_go_to_others_when_a_member_gives_it_up_for_one_that_matches_none(
    groups: ConsumerGroups,
) -> None:
    a = Consumer(groups, "a", topics=None, pattern="ord")
    a.join()
    groups.resolve()
    b = Consumer(groups, "b")
    b.join()
    for _ in range(4):
        a.beat()
        b.beat()
    assert a.count + b.count == 4
    assert a.count > 0
    a.pattern = "nothing"
    a.join()
    groups.resolve()
    for _ in range(4):
        a.beat()
        b.beat()
    assert (a.count, b.count) == (0, 4)


def test_an_invalid_pattern_is_refused_and_leaves_nothing_behind(groups: ConsumerGroups) -> None:
    refused = Consumer(groups, "a", topics=None, pattern="(").join()
    assert error_of(refused) is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert not groups.log
    assert not groups.machine.list_groups()


def test_the_partitions_of_a_member_go_to_others_when_its_next_pattern_matches_nothing(
    groups: ConsumerGroups,
) -> None:
    a = Consumer(groups, "a", topics=None, pattern="ord")
    b = Consumer(groups, "b", topics=None, pattern="ord")
    a.join()
    groups.resolve()
    b.join()
    settle(a, b)
    assert (a.count, b.count) == (2, 2)
    a.subscribe_to_pattern("nothing")
    groups.resolve()
    settle(a, b)
    assert (a.count, b.count) == (0, 4)


def test_a_pattern_without_subscribers_is_forgotten(groups: ConsumerGroups) -> None:
    a = Consumer(groups, "a", topics=None, pattern="ord")
    a.join()
    groups.resolve()
    joined(groups, "b")
    a.leave()
    assert not groups.consumer_group().patterns
    groups.restart()


# Offsets.


def commit(groups: ConsumerGroups, member: Consumer, epoch: int, partition: int) -> ErrorCode:
    assert member.topics is not None
    (topic,) = member.topics
    topic_id = groups.topics.topics[topic].topic_id
    sender = CommitSender("g", epoch, member.member_id)
    new = NewOffsets(topic, [partition], [7], [-1], [""], topic_id=topic_id)
    outcome = groups._do(lambda turn: groups.machine.commit(turn, sender, [new]))
    if isinstance(outcome, Refused):
        return outcome.error
    return ErrorCode.NONE if outcome[0] is None else outcome[0].error


def test_a_member_commits_with_its_epoch(groups: ConsumerGroups) -> None:
    (a,) = joined(groups, "a")
    assert commit(groups, a, a.epoch, 0) is ErrorCode.NONE
    assert commit(groups, a, a.epoch + 1, 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(groups, Consumer(groups, "x"), 2, 0) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_late_member_commits_what_it_has_had_since_then_and_nothing_else(
    groups: ConsumerGroups,
) -> None:
    a, b = joined(groups, "a", "b")
    (kept,) = a.owned.values()
    (given,) = b.owned.values()
    first, others = min(kept), min(given)
    assert commit(groups, a, 2, first) is ErrorCode.NONE
    assert commit(groups, a, 2, others) is ErrorCode.STALE_MEMBER_EPOCH
    b.leave()
    settle(a)
    assert a.epoch == 4
    assert commit(groups, a, 3, others) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(groups, a, 4, others) is ErrorCode.NONE


def test_a_late_member_commits_all_or_nothing_in_a_transaction(groups: ConsumerGroups) -> None:
    a, b = joined(groups, "a", "b")
    topic_id = groups.topics.topics["orders"].topic_id
    (kept,), (given,) = a.owned.values(), b.owned.values()
    offsets = [
        NewOffsets("orders", [partition], [7], [-1], [""], topic_id=topic_id)
        for partition in (min(kept), min(given))
    ]
    written = len(groups.log)

    def commit_both(count: int) -> object:
        return groups._do(
            lambda turn: groups.machine.commit_in_transaction(
                turn, CommitSender("g", 2, "a"), ProducerIdentity(1, 0), offsets[:count]
            )
        )

    refused = commit_both(2)
    assert isinstance(refused, Refused)
    assert len(groups.log) == written
    assert commit_both(1) == [None]


def test_members_fetch_offsets_with_their_epoch(groups: ConsumerGroups) -> None:
    joined(groups, "a")
    machine = groups.machine
    assert machine.check_fetch("g", "a", 2) is None
    assert machine.check_fetch("g", None, -1) is None
    stale, unknown = machine.check_fetch("g", "a", 1), machine.check_fetch("g", "x", 2)
    assert (stale and stale.error) is ErrorCode.STALE_MEMBER_EPOCH
    assert (unknown and unknown.error) is ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_stay_when_an_empty_classic_group_is_joined_with_the_new_protocol(
    groups: ConsumerGroups,
) -> None:
    outcome = groups._do(
        lambda turn: groups.machine.commit(
            turn, CommitSender("g"), [NewOffsets("orders", [0], [5], [-1], [""])]
        )
    )
    assert outcome == [None]
    joined(groups, "a")
    assert groups.machine.fetch("g", "orders", 0).offset == 5
    assert [each.group_type for each in groups.machine.list_groups()] == ["consumer"]


def test_a_group_is_deleted_without_members_only(groups: ConsumerGroups) -> None:
    (a,) = joined(groups, "a")

    def delete() -> Refused | None:
        return groups._do(lambda turn: groups.machine.delete(turn, "g"))

    refused = delete()
    assert refused is not None
    assert refused.error is ErrorCode.NON_EMPTY_GROUP
    a.leave()
    assert delete() is None
    assert not groups.machine.list_groups()
    groups.restart()
    assert not groups.machine.consumers.groups
