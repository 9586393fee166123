"""What a consumer reads, and where it is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.model import ConsumerRecord, ConsumerRecords, OffsetAndMetadata
from ottla.client.state.consumer.iteration_queue import IterationQueue
from ottla.client.state.consumer.positions import (
    RESET_EARLIEST,
    RESET_LATEST,
    AssignedPartition,
    FetchPosition,
    FetchState,
    LeaderAndEpoch,
    Truncation,
    reset_timestamp_ms,
)
from ottla.client.state.consumer.subscriptions import SubscriptionState
from ottla.config.offset_reset import OffsetReset
from ottla.errors import IllegalStateError
from ottla.model import TopicPartition
from ottla.records.record import TimestampType

A = TopicPartition("a", 0)
B = TopicPartition("b", 0)
A1 = TopicPartition("a", 1)
NONE = OffsetReset.parse("none")
LEADER = LeaderAndEpoch(1, 5)
NEXT_LEADER = LeaderAndEpoch(2, 6)


def state_with(
    *partitions: TopicPartition, reset: OffsetReset = RESET_EARLIEST
) -> SubscriptionState:
    subscriptions = SubscriptionState(reset)
    subscriptions.assign_from_user(partitions)
    return subscriptions


def at(offset: int, epoch: int = -1, leader: LeaderAndEpoch = LEADER) -> AssignedPartition:
    state = AssignedPartition()
    state.seek_validated(FetchPosition(offset, epoch, leader))
    return state


# Subscribing and assigning


def test_topics_patterns_and_assignments_exclude_each_other() -> None:
    subscriptions = SubscriptionState(RESET_EARLIEST)
    subscriptions.subscribe_topics(["a"])
    with pytest.raises(IllegalStateError, match="exclude each other"):
        subscriptions.subscribe_pattern(re.compile("a.*"))
    with pytest.raises(IllegalStateError, match="exclude each other"):
        subscriptions.assign_from_user([A])
    subscriptions.unsubscribe()
    subscriptions.assign_from_user([A])
    with pytest.raises(IllegalStateError, match="unsubscribe"):
        subscriptions.subscribe_topics(["a"])


def test_a_refused_subscription_changes_nothing() -> None:
    subscriptions = SubscriptionState(RESET_EARLIEST)
    first, second = object(), object()
    subscriptions.subscribe_topics(["a"], first)
    with pytest.raises(IllegalStateError):
        subscriptions.subscribe_pattern(re.compile("b"), second)
    assert subscriptions.subscription() == ("a",)
    assert subscriptions.listener is first
    assert not subscriptions.has_pattern


def test_a_pattern_has_to_match_the_whole_name() -> None:
    subscriptions = SubscriptionState(RESET_EARLIEST)
    subscriptions.subscribe_pattern(re.compile("orders-.*"))
    assert subscriptions.matches_pattern("orders-1")
    assert not subscriptions.matches_pattern("my-orders-1")
    assert not subscriptions.matches_pattern("orders")


def test_partitions_that_stay_keep_their_positions() -> None:
    subscriptions = state_with(A, A1)
    subscriptions.state(A).seek_validated(FetchPosition(7))
    subscriptions.state(A).paused = True
    assert subscriptions.assign_from_user([A, B])
    assert subscriptions.position(A) == 7
    assert subscriptions.paused() == (A,)
    assert subscriptions.needs_position() == [B]
    assert not subscriptions.is_assigned(A1)


def test_the_same_assignment_again_is_no_change() -> None:
    subscriptions = state_with(A, B)
    before = subscriptions.assignment_id
    assert not subscriptions.assign_from_user([B, A])
    assert subscriptions.assignment_id == before


def test_partitions_of_a_topic_stand_side_by_side() -> None:
    assert state_with(A, B, A1).assigned() == (A, A1, B)


def test_a_partition_that_was_served_comes_last() -> None:
    subscriptions = state_with(A, A1, B)
    for partition in subscriptions.assigned():
        subscriptions.state(partition).seek_validated(FetchPosition(0))
    subscriptions.move_to_end(A)
    assert list(subscriptions.states()) == [A1, B, A]


def test_a_leader_follows_the_topics_of_its_group() -> None:
    subscriptions = SubscriptionState(RESET_EARLIEST)
    subscriptions.subscribe_topics(["a"])
    assert subscriptions.group_subscribe(["a", "b"])
    assert subscriptions.metadata_topics() == ("a", "b")
    assert subscriptions.subscription() == ("a",)
    subscriptions.reset_group_subscription()
    assert subscriptions.metadata_topics() == ("a",)


def test_assignments_outside_the_subscription_are_noticed() -> None:
    subscriptions = SubscriptionState(RESET_EARLIEST)
    subscriptions.subscribe_topics(["a"])
    assert subscriptions.matches_subscription([A, A1])
    assert not subscriptions.matches_subscription([A, B])


def test_a_partition_that_is_not_assigned_is_named_in_the_error() -> None:
    with pytest.raises(IllegalStateError, match="b-0 is not assigned"):
        state_with(A).state(B)


# Positions


def test_only_valid_positions_are_committed() -> None:
    subscriptions = state_with(A, A1, B)
    subscriptions.state(A).seek_validated(FetchPosition(3, 2, LEADER))
    subscriptions.state(A1).request_reset(RESET_LATEST)
    assert subscriptions.all_consumed() == {A: OffsetAndMetadata(3, "", 2)}


def test_a_seek_during_a_reset_wins() -> None:
    state = AssignedPartition()
    state.request_reset(RESET_EARLIEST)
    state.seek(FetchPosition(42))
    assert not state.complete_reset(RESET_EARLIEST, FetchPosition(0))
    assert state.position == FetchPosition(42)


def test_a_reset_during_a_reset_wins() -> None:
    state = AssignedPartition()
    state.request_reset(RESET_EARLIEST)
    state.request_reset(RESET_LATEST)
    assert not state.complete_reset(RESET_EARLIEST, FetchPosition(0))
    assert state.complete_reset(RESET_LATEST, FetchPosition(9))
    assert state.position == FetchPosition(9)


@pytest.mark.parametrize("blocked", ["paused", "pending_revocation"])
def test_what_blocks_a_partition_blocks_its_fetches(blocked: str) -> None:
    state = at(0)
    assert state.is_fetchable
    setattr(state, blocked, True)
    assert not state.is_fetchable


def test_a_new_leader_has_to_confirm_a_position_with_an_epoch() -> None:
    state = at(10, epoch=5)
    assert state.follow_leader(NEXT_LEADER)
    assert state.fetch_state is FetchState.AWAIT_VALIDATION
    assert not state.is_fetchable
    assert state.position == FetchPosition(10, 5, NEXT_LEADER)


def test_a_position_without_epoch_needs_no_confirmation() -> None:
    state = at(10)
    assert not state.follow_leader(NEXT_LEADER)
    assert state.is_fetchable
    assert state.position == FetchPosition(10, -1, NEXT_LEADER)


def test_no_leader_is_no_news() -> None:
    state = at(10, epoch=5)
    assert not state.follow_leader(LeaderAndEpoch())
    assert state.position == FetchPosition(10, 5, LEADER)
    assert state.is_fetchable


def unsure(offset: int, epoch: int) -> tuple[AssignedPartition, FetchPosition]:
    state = at(offset, epoch)
    state.follow_leader(NEXT_LEADER)
    assert state.position is not None
    return state, state.position


def test_a_position_that_the_leader_has_is_valid() -> None:
    state, asked = unsure(10, 5)
    assert state.complete_validation(asked, 5, 10, NONE) is None
    assert state.has_valid_position
    assert state.position == asked


def test_after_a_truncation_reading_goes_on_where_the_logs_part() -> None:
    state, asked = unsure(10, 5)
    assert state.complete_validation(asked, 4, 7, RESET_EARLIEST) is None
    assert state.position == FetchPosition(7, 4, NEXT_LEADER)
    assert state.has_valid_position


def test_a_truncation_without_reset_is_told() -> None:
    state, asked = unsure(10, 5)
    assert state.complete_validation(asked, 4, 7, NONE) == Truncation(asked, 7, 4)
    assert not state.has_valid_position


def test_an_epoch_that_nobody_knows_resets() -> None:
    state, asked = unsure(10, 5)
    assert state.complete_validation(asked, -1, -1, RESET_LATEST) is None
    assert state.fetch_state is FetchState.AWAIT_RESET
    assert state.reset == RESET_LATEST
    state, asked = unsure(10, 5)
    assert state.complete_validation(asked, -1, -1, NONE) == Truncation(asked, None)


def test_an_answer_about_an_old_position_is_ignored() -> None:
    state, asked = unsure(10, 5)
    state.seek(FetchPosition(3, 5, NEXT_LEADER))
    assert state.complete_validation(asked, 4, 1, RESET_EARLIEST) is None
    assert state.position == FetchPosition(3, 5, NEXT_LEADER)
    assert state.fetch_state is FetchState.AWAIT_VALIDATION


def test_resets_wait_for_their_time() -> None:
    subscriptions = state_with(A, B)
    for partition in subscriptions.needs_position():
        subscriptions.state(partition).request_reset(RESET_EARLIEST)
    subscriptions.retry_after([A], 100.0)
    assert subscriptions.needs_reset(50.0) == [B]
    assert subscriptions.needs_reset(100.0) == [A, B]


def test_a_duration_counts_back_from_now() -> None:
    reset = OffsetReset.parse("by_duration:PT1H")
    assert reset_timestamp_ms(reset, 4_000_000) == 400_000
    assert reset_timestamp_ms(reset, 1000) == 0
    assert reset_timestamp_ms(RESET_EARLIEST, 0) == -2
    assert reset_timestamp_ms(RESET_LATEST, 0) == -1


def test_the_lag_counts_to_what_the_consumer_may_see() -> None:
    state = at(10)
    assert state.lag(committed_only=False) is None
    state.high_watermark, state.last_stable_offset = 25, 20
    assert state.lag(committed_only=False) == 15
    assert state.lag(committed_only=True) == 10


def test_a_follower_is_read_until_the_advice_is_old() -> None:
    state = at(0)
    state.prefer_replica(3, 1000.0)
    assert state.replica_at(1000.0) == 3
    assert state.replica_at(1001.0) is None
    state.prefer_replica(3, 5000.0)
    assert state.forget_replica() == 3
    assert state.replica_at(0.0) is None


def test_a_new_leader_ends_the_advice_of_the_old_one() -> None:
    state = at(0)
    state.prefer_replica(3, 1000.0)
    state.follow_leader(NEXT_LEADER)
    assert state.replica_at(0.0) is None


# Iteration


def record(partition: TopicPartition, offset: int) -> ConsumerRecord:
    return ConsumerRecord(
        *partition, offset, 0, TimestampType.CREATE_TIME, None, None, (), 1, -1, -1
    )


def iteration_of(*partitions: TopicPartition, count: int) -> IterationQueue:
    return IterationQueue(
        ConsumerRecords({p: [record(p, n) for n in range(count)] for p in partitions})
    )


@given(st.integers(0, 12))
def test_records_that_iteration_has_not_handed_out_are_not_committed(handed_out: int) -> None:
    subscriptions = state_with(A, B)
    for partition in (A, B):
        subscriptions.state(partition).seek_validated(FetchPosition(6, 1, LEADER))
    subscriptions.iteration = iteration_of(A, B, count=6)
    for _ in range(handed_out):
        next(subscriptions.iteration.iterator)
    offsets = {p: o.offset for p, o in subscriptions.all_consumed().items()}
    assert offsets == {A: min(handed_out, 6), B: max(0, handed_out - 6)}
    assert subscriptions.position(A) == offsets[A]


def test_what_was_not_handed_out_is_read_again() -> None:
    subscriptions = state_with(A)
    subscriptions.state(A).seek_validated(FetchPosition(6, 1, LEADER))
    subscriptions.iteration = iteration_of(A, count=6)
    next(subscriptions.iteration.iterator)
    subscriptions.give_back([A])
    assert subscriptions.state(A).position == FetchPosition(1, -1, LEADER)
    assert list(subscriptions.iteration.iterator) == []


def test_what_was_not_handed_out_is_read_again_whoever_leads_now() -> None:
    subscriptions = state_with(A)
    subscriptions.state(A).seek_validated(FetchPosition(6, 1, LEADER))
    subscriptions.iteration = iteration_of(A, count=6)
    next(subscriptions.iteration.iterator)
    assert subscriptions.state(A).follow_leader(NEXT_LEADER), "it has to be validated"
    subscriptions.give_back([A])
    assert subscriptions.state(A).position == FetchPosition(1, -1, NEXT_LEADER)
    assert subscriptions.state(A).has_valid_position


def test_records_of_a_partition_that_went_are_not_handed_out() -> None:
    subscriptions = state_with(A, B)
    subscriptions.iteration = iteration_of(A, B, count=2)
    subscriptions.assign_from_user([B])
    assert [r.topic for r in subscriptions.iteration.iterator] == ["b", "b"]
