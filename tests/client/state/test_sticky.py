"""Records without a key fill one batch after another, and queues get what they can take."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.state.metadata import ClusterMetadata, PartitionState, Topic
from ottla.client.state.producer.sticky import Sticky
from ottla.model import NO_LEADER, NO_TOPIC_ID

BATCH = 1000


def cluster(*leaders: int) -> ClusterMetadata:
    """One topic whose partitions have these leaders."""
    states = tuple(PartitionState(i, node, 0, (), (), (), 0) for i, node in enumerate(leaders))
    return ClusterMetadata(topics=MappingProxyType({"t": Topic("t", NO_TOPIC_ID, False, states)}))


def in_turn(*numbers: int) -> Callable[[int], int]:
    """A source of random numbers that gives these, and fails when there are no more."""
    rest = iter(numbers)

    def draw(below: int) -> int:
        number = next(rest)
        assert 0 <= number < below
        return number

    return draw


def sticky(random_below: Callable[[int], int], availability_timeout_ms: float = 0) -> Sticky:
    return Sticky(
        batch_size_bytes=BATCH,
        random_below=random_below,
        availability_timeout_ms=availability_timeout_ms,
    )


def test_a_partition_is_kept_until_it_got_a_full_batch() -> None:
    known = cluster(1, 1, 1)
    chosen = sticky(in_turn(2, 0))
    assert chosen.current("t", known) == 2
    chosen.produced("t", 600, known)
    assert chosen.current("t", known) == 2
    chosen.produced("t", 399, known)
    assert chosen.current("t", known) == 2
    chosen.produced("t", 1, known)
    assert chosen.current("t", known) == 0


def test_without_batching_every_record_may_go_elsewhere() -> None:
    known = cluster(1, 1)
    chosen = Sticky(batch_size_bytes=0, random_below=in_turn(0, 1, 0))
    assert chosen.current("t", known) == 0
    chosen.produced("t", 10, known)
    assert chosen.current("t", known) == 1
    chosen.produced("t", 10, known)
    assert chosen.current("t", known) == 0


def test_partitions_without_a_leader_are_chosen_only_if_none_has_one() -> None:
    known = cluster(NO_LEADER, 1, NO_LEADER, 1)
    chosen = sticky(random.Random(1).randrange)
    seen = set()
    for _ in range(50):
        seen.add(chosen.current("t", known))
        chosen.produced("t", BATCH, known)
    assert seen == {1, 3}
    none = sticky(in_turn(3))
    assert none.current("t", cluster(*[NO_LEADER] * 4)) == 3


def test_queues_get_shares_by_how_short_they_are() -> None:
    known = cluster(1, 1, 1)
    # Queues of 0, 3 and 1 give weights 4, 1 and 3.
    chosen = sticky(in_turn(0, *range(8)))
    chosen.current("t", known)
    chosen.update_loads("t", {0: 0, 1: 3, 2: 1}, known)
    seen = []
    for _ in range(8):
        chosen.produced("t", BATCH, known)
        seen.append(chosen.current("t", known))
    assert seen == [0, 0, 0, 0, 1, 2, 2, 2]


@given(
    lengths=st.lists(st.integers(0, 20), min_size=1, max_size=6),
    with_leader=st.lists(st.booleans(), min_size=6, max_size=6),
    seed=st.integers(0, 100),
)
def test_a_choice_is_always_a_partition_and_has_a_leader_if_any_has(
    lengths: list[int], with_leader: list[bool], seed: int
) -> None:
    leaders = [1 if with_leader[i] else NO_LEADER for i in range(len(lengths))]
    known = cluster(*leaders)
    chosen = sticky(random.Random(seed).randrange)
    chosen.current("t", known)
    chosen.update_loads("t", dict(enumerate(lengths)), known)
    counts: Counter[int] = Counter()
    for _ in range(60):
        chosen.produced("t", BATCH, known)
        counts[chosen.current("t", known)] += 1
    usable = {i for i, node in enumerate(leaders) if node != NO_LEADER}
    assert set(counts) <= (usable or set(range(len(lengths))))


def test_loads_do_not_count_before_every_partition_had_a_batch() -> None:
    known = cluster(1, 1, 1)
    chosen = sticky(in_turn(0, 2))
    chosen.current("t", known)
    chosen.update_loads("t", {0: 5, 1: 0}, known)
    chosen.produced("t", BATCH, known)
    # With weights, the 2 would have been drawn from 7.
    assert chosen.current("t", known) == 2


def test_equal_loads_leave_all_partitions_alike() -> None:
    known = cluster(1, 1)
    chosen = sticky(in_turn(0, 1))
    chosen.current("t", known)
    chosen.update_loads("t", {0: 0, 1: 9}, known)
    chosen.update_loads("t", {0: 4, 1: 4}, known)
    chosen.produced("t", BATCH, known)
    assert chosen.current("t", known) == 1


def test_loads_are_of_no_interest_if_not_adaptive() -> None:
    known = cluster(1, 1)
    chosen = Sticky(batch_size_bytes=BATCH, random_below=in_turn(0, 1), is_adaptive=False)
    chosen.current("t", known)
    chosen.update_loads("t", {0: 0, 1: 9}, known)
    chosen.produced("t", BATCH, known)
    assert chosen.current("t", known) == 1


@pytest.mark.parametrize(("timeout_ms", "expected"), [(0, {0, 1}), (100, {0}), (300, {0, 1})])
def test_partitions_of_a_node_that_takes_nothing_for_too_long_are_left_out(
    timeout_ms: float, expected: set[int]
) -> None:
    known = cluster(1, 2)
    chosen = sticky(random.Random(3).randrange, timeout_ms)
    chosen.current("t", known)
    chosen.node_drained(2, 1000)
    chosen.node_not_ready(2, 1250)
    chosen.node_drained(1, 1250)

    def seen() -> set[int]:
        chosen.update_loads("t", {0: 1, 1: 1}, known)
        found = set()
        for _ in range(40):
            chosen.produced("t", BATCH, known)
            found.add(chosen.current("t", known))
        return found

    assert seen() == expected
    chosen.node_drained(2, 1300)
    assert seen() == {0, 1}


def test_a_slow_node_that_nothing_waits_for_gets_another_chance() -> None:
    known = cluster(1, 2)
    chosen = sticky(random.Random(3).randrange, 100)
    chosen.current("t", known)
    chosen.node_drained(2, 1000)
    chosen.node_not_ready(2, 1250)
    chosen.update_loads("t", {0: 1, 1: 0}, known)
    found = set()
    for _ in range(40):
        chosen.produced("t", BATCH, known)
        found.add(chosen.current("t", known))
    assert found == {0, 1}


def test_the_first_choice_knows_the_loads_too() -> None:
    known = cluster(1, 2)
    for seed in range(10):
        chosen = sticky(random.Random(seed).randrange, 100)
        chosen.node_drained(1, 1000)
        chosen.node_not_ready(1, 1250)
        chosen.update_loads("t", {0: 1, 1: 0}, known)
        assert chosen.current("t", known) == 1


def test_topics_stick_by_themselves() -> None:
    states = cluster(1, 1).topics["t"]
    known = ClusterMetadata(topics=MappingProxyType({"t": states, "u": states._replace(name="u")}))
    chosen = sticky(in_turn(0, 1, 1))
    assert (chosen.current("t", known), chosen.current("u", known)) == (0, 1)
    chosen.produced("t", BATCH, known)
    assert (chosen.current("t", known), chosen.current("u", known)) == (1, 1)
