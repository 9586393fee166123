"""Small groups that each show one rule, and what Kafka answers to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from ottla.core.assignors.server_side.model import Partitions, Subscriber

# Topics of one letter, in the order that the assignors use where everything else is equal.
TOPICS = {letter: UUID(int=number) for number, letter in enumerate("tuvw", 1)}


class WorkedExample(NamedTuple):
    rule: str
    assignor: str
    partition_counts: Mapping[UUID, int]
    members: Mapping[str, Subscriber]
    targets: Mapping[str, Partitions]


def counts(**topics: int) -> dict[UUID, int]:
    return {TOPICS[letter]: count for letter, count in topics.items()}


def partitions(text: str) -> Partitions:
    """`"t0 t1 u0"` is partitions 0 and 1 of t and partition 0 of u."""
    numbers: dict[UUID, frozenset[int]] = {}
    for word in text.split():
        topic_id = TOPICS[word[0]]
        numbers[topic_id] = numbers.get(topic_id, frozenset()) | {int(word[1:])}
    return numbers


def wants(
    letters: str, owned: str = "", instance_id: str | None = None, *, by_pattern: bool = False
) -> Subscriber:
    topic_ids = frozenset(TOPICS[letter] for letter in letters)
    return Subscriber(topic_ids, partitions(owned), instance_id, by_pattern)


def shares(**texts: str) -> dict[str, Partitions]:
    return {member_id: partitions(text) for member_id, text in texts.items()}


EXAMPLES = [
    WorkedExample(
        "uniform deals consecutive partitions to new members",
        "uniform",
        counts(t=5),
        {"a": wants("t"), "b": wants("t")},
        shares(a="t0 t1", b="t2 t3 t4"),
    ),
    WorkedExample(
        "uniform keeps what a member has up to its quota",
        "uniform",
        counts(t=3, u=3),
        {"a": wants("tu", "t0 t1 t2 u0"), "b": wants("tu", "u1 u2"), "c": wants("tu")},
        shares(a="t0 t1", b="u1 u2", c="t2 u0"),
    ),
    WorkedExample(
        "uniform lets a member keep one more if not all can have as many",
        "uniform",
        counts(t=4),
        {"a": wants("t"), "b": wants("t", "t0 t1 t2 t3"), "c": wants("t")},
        shares(a="t2", b="t0 t1", c="t3"),
    ),
    WorkedExample(
        "uniform takes away topics to which nobody subscribes any more",
        "uniform",
        counts(t=2),
        {"a": wants("t", "t0 u0"), "b": wants("t", "u1 t1")},
        shares(a="t0", b="t1"),
    ),
    WorkedExample(
        "uniform keeps the partitions that Java's hash set lists first",
        "uniform",
        counts(t=34),
        {
            "a": wants("t", " ".join(f"t{number}" for number in range(16, 34))),
            "b": wants("t", " ".join(f"t{number}" for number in range(16))),
        },
        shares(
            a=" ".join(f"t{number}" for number in (*range(16, 31), 32, 33)),
            b=" ".join(f"t{number}" for number in (*range(16), 31)),
        ),
    ),
    WorkedExample(
        "uniform deals one partition at a time if members subscribe to different topics",
        "uniform",
        counts(t=4, u=1),
        {"a": wants("t"), "b": wants("tu"), "c": wants("t")},
        shares(a="t0 t3", b="t1 u0", c="t2"),
    ),
    WorkedExample(
        "a group with patterns is one of different subscriptions",
        "uniform",
        counts(t=4),
        {"a": wants("t", by_pattern=True), "b": wants("t", by_pattern=True)},
        shares(a="t0 t2", b="t1 t3"),
    ),
    WorkedExample(
        "uniform moves the last partitions of those that have the most",
        "uniform",
        counts(t=4, u=4),
        {"a": wants("tu", "t0 t1 t2 t3 u0 u1 u2 u3"), "b": wants("u"), "c": wants("t")},
        # First t and then u are evened out, and then t once more.
        shares(a="t3 u0 u1", b="u2 u3", c="t0 t1 t2"),
    ),
    WorkedExample(
        "range deals consecutive partitions, and the first members have one more",
        "range",
        counts(t=5, u=2),
        {"b": wants("tu", "t0 t1 t2"), "a": wants("tu"), "c": wants("tu")},
        shares(a="t0 t1 u0", b="t2 t3 u1", c="t4"),
    ),
    WorkedExample(
        "range begins with static members, in the order of their instances",
        "range",
        counts(t=3),
        {"a": wants("t"), "b": wants("t", "", "2"), "c": wants("t", "", "1")},
        shares(a="t2", b="t1", c="t0"),
    ),
    WorkedExample(
        "range shares a topic among its subscribers only",
        "range",
        counts(t=2, u=2),
        {"a": wants("t"), "b": wants("tu"), "c": wants("u")},
        shares(a="t0", b="t1 u0", c="u1"),
    ),
]
