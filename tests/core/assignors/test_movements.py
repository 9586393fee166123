from __future__ import annotations

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
