"""Sequence numbers against a model of what a broker does with them: no loss, no duplicate, no wrong order."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.client.state.producing import KEY, World, make_batch, may_retry

from ottla.client.state.producer.producer_batch import NO_IDENTITY, ProducerIdentity
from ottla.client.state.producer.sequences import LAST_EPOCH, Sequences
from ottla.errors import ErrorCode
from ottla.records.record import INT32_MAX

ME = ProducerIdentity(7, 0)


def idempotent() -> Sequences:
    sequences = Sequences(is_transactional=False)
    sequences.set_identity(ME)
    return sequences


def test_nothing_is_sent_without_an_id() -> None:
    sequences = Sequences(is_transactional=False)
    batch = make_batch(0)
    assert not sequences.may_send(batch)
    sequences.set_identity(ME)
    assert sequences.may_send(batch)


def test_numbers_follow_each_other_and_wrap() -> None:
    sequences = idempotent()
    state = sequences.of(KEY)
    state.restart(ME)
    state.next_sequence = INT32_MAX - 1
    batches = [make_batch(order, records=3) for order in range(2)]
    for batch in batches:
        sequences.assign(batch)
    assert [batch.base_sequence for batch in batches] == [INT32_MAX - 1, 1]
    assert batches[0].last_sequence == 0
    sequences.acknowledged(batches[0], 0)
    assert state.is_next(1)
    sequences.acknowledged(batches[1], 3)
    assert state.is_next(4)


def test_retried_batch_goes_alone_and_first() -> None:
    sequences = idempotent()
    first, second, third = (make_batch(order) for order in range(3))
    for batch in (first, second):
        sequences.assign(batch)
    assert may_retry(sequences, first, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert may_retry(sequences, second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert sequences.may_send(first)
    assert not sequences.may_send(second)
    sequences.acknowledged(first, 0)
    assert sequences.may_send(second)
    assert sequences.may_send(third)


def test_new_epoch_waits_for_what_is_in_flight_with_the_old_one() -> None:
    sequences = idempotent()
    other = make_batch(0)
    sequences.assign(other)
    sequences.request_bump(KEY._replace(partition=1))
    assert not sequences.may_send(make_batch(1))
    assert sequences.bump()
    assert sequences.identity == ME._replace(epoch=1)
    assert other.identity == ME, "it keeps its numbers: it may have been written"
    assert not sequences.may_send(make_batch(1))
    sequences.acknowledged(other, 0)
    new = make_batch(1)
    assert sequences.may_send(new)
    sequences.assign(new)
    assert (new.identity.epoch, new.base_sequence) == (1, 0)


def test_gap_renumbers_what_is_in_flight() -> None:
    sequences = idempotent()
    batches = [make_batch(order, records=2) for order in range(3)]
    for batch in batches:
        sequences.assign(batch)
    assert may_retry(sequences, batches[0], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert sequences.needs_bump
    sequences.bump()
    assert [(b.identity.epoch, b.base_sequence) for b in batches] == [(1, 0), (1, 2), (1, 4)]
    # What the others are answered for their old numbers is no new gap.
    assert may_retry(sequences, batches[1], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert not sequences.needs_bump


def test_used_up_epochs_need_a_new_id() -> None:
    sequences = Sequences(is_transactional=False)
    sequences.set_identity(ProducerIdentity(7, LAST_EPOCH))
    batch = make_batch(0)
    sequences.assign(batch)
    sequences.request_bump(KEY)
    assert not sequences.bump()
    assert sequences.identity == NO_IDENTITY
    assert not sequences.may_send(batch)
    sequences.set_identity(ProducerIdentity(8, 0))
    assert (batch.identity, batch.base_sequence) == (ProducerIdentity(8, 0), 0)
    assert sequences.may_send(batch)


def test_batch_that_was_given_up_holds_new_ones_back_until_it_is_resolved() -> None:
    sequences = idempotent()
    lost, next_one = make_batch(0), make_batch(1)
    sequences.assign(lost)
    sequences.assign(next_one)
    sequences.gave_up(lost)
    assert not sequences.may_send(make_batch(2))
    assert not sequences.resolve()
    sequences.acknowledged(next_one, 1)
    assert not sequences.resolve(), "the broker took what followed, so it has the lost one"
    assert not sequences.needs_bump
    assert sequences.may_send(make_batch(2))


def test_batch_that_nobody_knows_of_costs_an_epoch() -> None:
    sequences = idempotent()
    lost = make_batch(0)
    sequences.assign(lost)
    sequences.gave_up(lost)
    assert sequences.resolve()
    assert sequences.needs_bump
    sequences.bump()
    new = make_batch(1)
    assert sequences.may_send(new)


def test_answer_that_comes_late_resolves() -> None:
    sequences = idempotent()
    lost = make_batch(0)
    sequences.assign(lost)
    sequences.gave_up(lost)
    sequences.acknowledged(lost, 0)
    assert not sequences.resolve()
    assert not sequences.needs_bump


@pytest.mark.parametrize("log_start_offset", [-1, 0, 10])
def test_idempotent_producers_retry_when_the_broker_knows_nothing_of_them(
    log_start_offset: int,
) -> None:
    sequences = idempotent()
    batch = make_batch(0)
    sequences.assign(batch)
    assert may_retry(sequences, batch, ErrorCode.UNKNOWN_PRODUCER_ID, log_start_offset)
    assert sequences.needs_bump is (log_start_offset >= 0)


def test_transactional_producers_retry_only_after_retention() -> None:
    sequences = Sequences(is_transactional=True)
    sequences.restart_all(ME)
    first, second = make_batch(0), make_batch(1)
    sequences.assign(first)
    sequences.acknowledged(first, 4)
    sequences.assign(second)
    assert not may_retry(sequences, second, ErrorCode.UNKNOWN_PRODUCER_ID, 4)
    assert may_retry(sequences, second, ErrorCode.UNKNOWN_PRODUCER_ID, 5)
    assert second.base_sequence == 0
    assert not sequences.needs_bump


def test_transactional_gap_is_not_retried() -> None:
    sequences = Sequences(is_transactional=True)
    sequences.restart_all(ME)
    batch = make_batch(0)
    sequences.assign(batch)
    assert not may_retry(sequences, batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0)


def test_transactional_refusal_moves_the_rest_up() -> None:
    sequences = Sequences(is_transactional=True)
    sequences.restart_all(ME)
    batches = [make_batch(order, records=2) for order in range(3)]
    for batch in batches:
        sequences.assign(batch)
    sequences.failed(batches[0], ErrorCode.INVALID_RECORD, True)
    assert [batch.base_sequence for batch in batches[1:]] == [0, 2]
    assert sequences.of(KEY).next_sequence == 4


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    trouble=st.sampled_from([0.0, 0.1, 0.3, 0.6]),
    refuses_strangers=st.booleans(),
    retries=st.sampled_from([0, 1, 2, 5, INT32_MAX]),
)
def test_whatever_happens_records_are_written_once_and_in_order(
    seed: int, trouble: float, refuses_strangers: bool, retries: int
) -> None:
    """A broker that dedupes as Kafka's, answers that get lost, state that is lost, batches that are given up."""
    world = World(random.Random(seed), trouble, refuses_strangers, retries)
    world.run(batch_count=25)
    world.check()


def test_new_batch_that_overtakes_renumbered_ones_costs_no_second_epoch() -> None:
    """Found by the seed: the second epoch had a batch written twice that was on its way with the first."""
    world = World(random.Random(11343), trouble=0.3, refuses_strangers=True)
    world.run(batch_count=25)
    world.check()


@pytest.mark.parametrize(("seed", "trouble", "retries"), [(401, 0.3, 2), (1189, 0.6, 2)])
def test_last_retry_of_a_forgotten_producer_leaves_the_rest_in_order(
    seed: int, trouble: float, retries: int
) -> None:
    """Found by the seeds: what was in flight behind such a batch was forgotten, and overtaken or written twice."""
    world = World(random.Random(seed), trouble, refuses_strangers=True, retries=retries)
    world.run(batch_count=25)
    world.check()


def test_forgotten_producer_numbers_what_is_in_flight_from_0() -> None:
    sequences = Sequences(is_transactional=True)
    sequences.restart_all(ME)
    first, *rest = (make_batch(order, records=2) for order in range(4))
    sequences.assign(first)
    sequences.acknowledged(first, 0)
    for batch in rest:
        sequences.assign(batch)
    sequences.failed(rest[0], ErrorCode.UNKNOWN_PRODUCER_ID, True)
    assert [batch.base_sequence for batch in rest[1:]] == [0, 2]
    assert not sequences.may_send(rest[2]), "it would overtake the one before it"
    assert sequences.of(KEY).next_sequence == 4


def test_batch_too_old_for_the_broker_to_know_costs_no_epoch() -> None:
    """Found by the seed: a new epoch had those in flight written again."""
    world = World(random.Random(1422), trouble=0.1, refuses_strangers=True, retries=3)
    world.run(batch_count=25)
    world.check()
