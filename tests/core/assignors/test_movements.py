from __future__ import annotations

from tests.core.assignors.notation import assign, claims, cluster

from ottla.core.assignors.movements import Movements
from ottla.model import TopicPartition

T0, T1, T2, U0 = (TopicPartition(*pair) for pair in [("t", 0), ("t", 1), ("t", 2), ("u", 0)])


def test_a_partition_that_came_the_other_way_moves_instead() -> None:
    movements = Movements()
    movements.add(T0, "a", "b")
    assert movements.instead_of(T1, "b", "a") == T0
    assert movements.instead_of(T1, "a", "b") == T1
    assert movements.instead_of(U0, "b", "a") == U0


def test_what_moved_on_counts_from_where_it_began() -> None:
    movements = Movements()
    movements.add(T0, "a", "b")
    movements.add(T0, "b", "c")
    assert movements.instead_of(T1, "b", "a") == T1
    assert movements.instead_of(T1, "c", "a") == T0
    # T2 went from c to b: on its way from b to a, one goes back that went from a to c.
    movements.add(T2, "c", "b")
    assert movements.instead_of(T2, "b", "a") == T0


def test_what_moved_back_is_forgotten() -> None:
    movements = Movements()
    movements.add(T0, "a", "b")
    movements.add(T0, "b", "a")
    assert movements.instead_of(T1, "b", "a") == T1


def test_two_members_do_not_exchange_partitions_of_one_topic() -> None:
    """When c0 gets one of t0 back from c2 it is one of its own, t0-2, and not t0-0."""
    group = {
        "c0": claims("sticky", "t0 t1", "t0-1 t0-2 t0-4 t1-0 t1-1 t1-2"),
        "c1": claims("sticky", "t1", "t0-0 t0-3"),
        "c2": claims("sticky", "t0", ""),
    }
    assert assign("sticky", cluster(t0=5, t1=3), group) == {
        "c0": "t0-4 t1-2 t0-2",
        "c1": "t1-0 t1-1",
        "c2": "t0-0 t0-3 t0-1",
    }
