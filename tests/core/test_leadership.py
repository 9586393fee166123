"""Who leads what: shares, moves, losses and returns."""

from __future__ import annotations

import uuid
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.catalog import Topic
from ottla.core.leadership import Leadership
from ottla.model import NO_LEADER


def topic_of(name: str = "orders", partitions: int = 12, replicas: int = 1) -> Topic:
    return Topic(name, uuid.uuid5(uuid.NAMESPACE_DNS, name), partitions, replicas)


def nodes_of(count: int) -> Leadership:
    made = Leadership()
    for node_id in range(1, count + 1):
        made.add(node_id, ())
    return made


def leaders(leadership: Leadership, topic: Topic) -> list[int]:
    return [leadership.leader_of(topic, number) for number in range(topic.partition_count)]


def replicas_of(leadership: Leadership, topic: Topic, partition: int) -> tuple[int, ...]:
    leader, replicas = leadership.place(topic, partition)
    assert leader == leadership.leader_of(topic, partition)
    return replicas


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_the_partitions_of_a_topic_are_shared_equally(count: int) -> None:
    shares = Counter(leaders(nodes_of(count), topic_of(partitions=60)))
    assert shares == dict.fromkeys(range(1, count + 1), 60 // count)


def test_first_partitions_of_many_topics_are_shared_too() -> None:
    leadership = nodes_of(3)
    shares = Counter(leadership.leader_of(topic_of(f"topic-{n}"), 0) for n in range(300))
    assert set(shares) == {1, 2, 3}
    assert min(shares.values()) > 60


def test_shares_do_not_depend_on_the_order_in_which_nodes_come() -> None:
    other = Leadership()
    for node_id in (3, 1, 2):
        other.add(node_id, ())
    assert leaders(other, topic_of()) == leaders(nodes_of(3), topic_of())
    assert list(other.live) == [1, 2, 3]


@pytest.mark.parametrize("count", [3, 4])
def test_what_a_lost_node_led_is_spread_over_the_rest_and_nothing_else_moves(count: int) -> None:
    leadership, topic = nodes_of(count), topic_of(partitions=60)
    before = leaders(leadership, topic)
    leadership.remove(1)
    after = leaders(leadership, topic)
    assert [new for old, new in zip(before, after, strict=True) if old != 1] == [
        old for old in before if old != 1
    ]
    inherited = Counter(new for old, new in zip(before, after, strict=True) if old == 1)
    assert inherited == dict.fromkeys(range(2, count + 1), 60 // count // (count - 1))


def test_a_node_that_is_back_takes_nothing_until_it_is_elected() -> None:
    leadership, topic = nodes_of(3), topic_of()
    before = leaders(leadership, topic)
    leadership.remove(2)
    without = leaders(leadership, topic)
    leadership.add(2, [topic])
    assert leaders(leadership, topic) == without
    for partition in range(topic.partition_count):
        leadership.move(topic, partition, leadership.preferred_leader_of(topic, partition))
    assert leaders(leadership, topic) == before


def test_a_topic_made_while_a_node_was_away_stays_where_it_is_when_it_is_back() -> None:
    leadership = nodes_of(3)
    leadership.remove(3)
    new = topic_of("made-meanwhile")
    led = leaders(leadership, new)
    leadership.add(3, [new])
    assert 3 not in led
    assert leaders(leadership, new) == led


def test_replicas_of_new_partitions_are_live_while_there_are_enough() -> None:
    leadership = nodes_of(3)
    old = topic_of("old", partitions=6, replicas=2)
    leadership.remove(3)
    new = topic_of("new", partitions=6, replicas=2)
    leadership.place_new(new, 0)
    assert any(3 in replicas_of(leadership, old, number) for number in range(6))
    grown = topic_of("old", partitions=12, replicas=2)
    leadership.place_new(grown, 6)
    leadership.add(3, [old, new])
    for number in range(6):
        assert sorted(replicas_of(leadership, new, number)) == [1, 2]
        assert sorted(replicas_of(leadership, grown, number + 6)) == [1, 2]
    leadership.forget(new.topic_id)
    assert any(3 in replicas_of(leadership, new, number) for number in range(6))


def test_chosen_replicas_lead_in_their_order() -> None:
    leadership = nodes_of(4)
    topic = Topic("chosen", uuid.UUID(int=1), 3, 2, {}, [[4, 2], [], [9, 3]])
    assert leadership.order_of(topic, 0)[:2] == replicas_of(leadership, topic, 0) == (4, 2)
    assert leadership.order_of(topic, 1) == leadership.order_of(topic_of("chosen"), 1)
    assert leadership.order_of(topic, 2)[0] == 3, "a node that is not there any more"
    leadership.remove(4)
    assert leadership.leader_of(topic, 0) == 2


def test_a_moved_partition_stays_there_until_that_node_is_lost() -> None:
    leadership, topic = nodes_of(3), topic_of()
    at_first = leadership.leader_of(topic, 0)
    there = at_first % 3 + 1
    bystander = ({1, 2, 3} - {at_first, there}).pop()
    leadership.move(topic, 0, there)
    assert leadership.leader_of(topic, 0) == there
    leadership.remove(bystander)
    assert leadership.leader_of(topic, 0) == there
    leadership.remove(there)
    assert leadership.leader_of(topic, 0) == at_first


def test_a_new_topic_of_the_same_name_is_where_it_belongs() -> None:
    leadership, topic = nodes_of(3), topic_of()
    at_first = leadership.leader_of(topic, 0)
    leadership.move(topic, 0, at_first % 3 + 1)
    leadership.forget(topic.topic_id)
    assert leadership.leader_of(topic, 0) == at_first


def test_without_live_nodes_there_is_no_leader() -> None:
    leadership, topic = nodes_of(2), topic_of()
    leadership.remove(1)
    leadership.remove(2)
    assert set(leaders(leadership, topic)) == {NO_LEADER}
    leadership.add(2, [topic])
    assert set(leaders(leadership, topic)) == {2}


@pytest.mark.parametrize("replicas", [1, 2, 3, 7])
def test_replicas_are_as_many_as_wanted_or_as_there_are_nodes(replicas: int) -> None:
    leadership, topic = nodes_of(3), topic_of(replicas=replicas)
    for partition in range(topic.partition_count):
        found = replicas_of(leadership, topic, partition)
        assert len(set(found)) == len(found) == min(replicas, 3)
        assert found[0] == leadership.leader_of(topic, partition)
    leadership.remove(1)
    for partition in range(topic.partition_count):
        found = replicas_of(leadership, topic, partition)
        assert len(set(found)) == len(found) == min(replicas, 3)
        assert leadership.leader_of(topic, partition) in found


Step = tuple[str, int, int]


@given(
    st.integers(1, 4),
    st.lists(
        st.tuples(st.sampled_from(["lose", "back", "move"]), st.integers(1, 4), st.integers(0, 7)),
        max_size=30,
    ),
)
def test_leaders_are_always_live_and_change_only_for_a_reason(
    count: int, steps: list[Step]
) -> None:
    leadership, topic = nodes_of(count), topic_of(partitions=8, replicas=2)
    for what, node_id, partition in steps:
        if node_id > count:
            continue
        before = leaders(leadership, topic)
        may_change = set()
        if what == "lose" and node_id in leadership.live:
            may_change = {number for number, leader in enumerate(before) if leader == node_id}
            leadership.remove(node_id)
        elif what == "back" and node_id not in leadership.live:
            may_change = {number for number, leader in enumerate(before) if leader == NO_LEADER}
            leadership.add(node_id, [topic])
        elif what == "move" and node_id in leadership.live:
            may_change = {partition}
            leadership.move(topic, partition, node_id)
            assert leadership.leader_of(topic, partition) == node_id
        after = leaders(leadership, topic)
        changed = {number for number in range(8) if before[number] != after[number]}
        assert changed <= may_change
        assert all(leader in leadership.live for leader in after) or not leadership.live
        for number, leader in enumerate(after):
            assert leader in (NO_LEADER, *replicas_of(leadership, topic, number))
