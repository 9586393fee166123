"""The check finds each anomaly in a history that has just that one, and nothing in one that has none."""

from __future__ import annotations

import dataclasses

import pytest
from tests.groups import checker
from tests.groups.history import (
    ASSIGNED,
    COMMIT_FAILED,
    COMMITTED,
    DIED,
    KILLED,
    LEFT,
    LOST,
    PAUSED,
    RECORD,
    RESUMED,
    REVOKED,
    Event,
    History,
)

from ottla.model import TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
PRODUCED = {ZERO: {0: "a", 1: "b", 2: "c"}, ONE: {0: "x"}}


def event(
    moment: float, worker: str, kind: str, *partitions: TopicPartition, **fields: object
) -> Event:
    made = Event(moment, worker, kind, tuple(partitions), member_id=f"{worker}-id")
    return dataclasses.replace(made, **fields)  # type: ignore[arg-type]


def record(
    moment: float, worker: str, partition: TopicPartition, offset: int, generation: int
) -> Event:
    value = PRODUCED[partition].get(offset, "?")
    return event(
        moment, worker, RECORD, partition, offset=offset, value=value, generation=generation
    )


# "one" has both partitions until "two" joins.
GOOD = [
    event(1, "one", ASSIGNED, ZERO, ONE, generation=1),
    record(2, "one", ZERO, 0, 1),
    record(2, "one", ZERO, 1, 1),
    event(3, "one", COMMITTED, ZERO, offsets=(2,), generation=1, began=2.5),
    event(4, "one", REVOKED, ZERO, ONE, generation=1),
    event(5, "one", ASSIGNED, ONE, generation=2),
    event(5, "two", ASSIGNED, ZERO, generation=2),
    record(6, "one", ONE, 0, 2),
    record(6, "two", ZERO, 2, 2),
    event(7, "two", COMMITTED, ZERO, offsets=(3,), generation=2, began=6.5),
]


def found(events: list[Event]) -> list[str]:
    return sorted(
        {text.split(":")[0] for text in checker.problems_without_faults(events, PRODUCED)}
    )


def without(index: int) -> list[Event]:
    return GOOD[:index] + GOOD[index + 1 :]


def with_(index: int, *more: Event) -> list[Event]:
    return [*GOOD[:index], *more, *GOOD[index:]]


def test_a_good_history_has_no_problems() -> None:
    assert found(GOOD) == []
    assert found(with_(10, event(8, "one", LEFT), event(8.5, "two", ASSIGNED, ONE))) == []
    # It was closed while the group rebalanced.
    closed = [event(8, "one", LOST, ONE, generation=2), event(8.2, "one", LEFT)]
    assert found(with_(10, event(7.9, "two", LEFT), *closed)) == []


@pytest.mark.parametrize(
    ("name", "events"),
    [
        ("lost", without(8)),
        ("invented", with_(9, record(6.1, "two", ZERO, 3, 2))),
        (
            "invented",
            [*GOOD[:8], dataclasses.replace(GOOD[8], value="another"), *GOOD[9:]],
        ),
        ("repeated", [*GOOD[:7], record(5.5, "two", ZERO, 1, 2), *GOOD[7:]]),
        ("unowned", with_(4, event(3.5, "one", REVOKED, ONE), record(3.6, "one", ONE, 0, 1))),
        ("skipped", [GOOD[0], GOOD[1], record(2, "one", ZERO, 2, 1), GOOD[2], *GOOD[3:8]]),
        ("overlap", [*GOOD[:4], dataclasses.replace(GOOD[4], time=5.5), *GOOD[5:]]),
        ("overlap", [*GOOD[:4], event(4, "one", REVOKED, ONE), *GOOD[5:]]),
        (
            "shared",
            with_(
                10,
                event(8, "two", REVOKED, ZERO),
                event(9, "one", ASSIGNED, ZERO),
                record(9, "one", ZERO, 2, 2),
            ),
        ),
        (
            "stale",
            with_(10, event(8, "one", COMMITTED, ZERO, generation=1, began=7.5, offsets=(2,))),
        ),
        ("fault", with_(10, event(8, "one", LOST, ONE, generation=2))),
        ("fault", with_(10, event(8, "one", LOST, ONE), event(9, "one", LEFT))),
        (
            "fault",
            with_(
                10,
                event(8, "one", LOST, ONE, generation=2),
                event(8.5, "one", ASSIGNED, ONE, generation=3),
                event(9, "one", LEFT),
            ),
        ),
        ("fault", with_(10, event(8, "one", RESUMED), event(9, "one", LEFT))),
    ],
)
def test_each_anomaly_is_found(name: str, events: list[Event]) -> None:
    assert name in found(events)


def test_a_killed_or_paused_worker_holds_nothing() -> None:
    for kind in (KILLED, PAUSED):
        events = [
            *GOOD[:4],
            event(4, "one", kind),
            event(5, "two", ASSIGNED, ZERO, ONE, generation=2),
            record(6, "two", ZERO, 2, 2),
            record(6, "two", ONE, 0, 2),
        ]
        assert checker.problems(events, PRODUCED) == []


def test_a_paused_worker_may_process_what_it_had_in_its_old_generation() -> None:
    events = [
        *GOOD[:4],
        event(4, "one", PAUSED),
        event(5, "two", ASSIGNED, ZERO, ONE, generation=2),
        record(6, "two", ZERO, 2, 2),
        record(6, "two", ONE, 0, 2),
        event(7, "one", RESUMED),
        record(7, "one", ZERO, 2, 1),
        event(7, "one", COMMIT_FAILED, ZERO, generation=1, error="UNKNOWN_MEMBER_ID"),
        event(8, "one", LOST, ZERO, ONE),
    ]
    assert checker.problems(events, PRODUCED) == []
    taken = [*events, event(9, "one", COMMITTED, ZERO, generation=1, began=8.5, offsets=(3,))]
    assert any("stale" in text for text in checker.problems(taken, PRODUCED))
    wrong = [*events[:9], record(7, "one", ZERO, 2, 2)]
    assert any("shared" in text for text in checker.problems(wrong, PRODUCED))


def test_a_static_member_and_its_successor_are_one_member() -> None:
    events = [
        *GOOD[:9],
        event(7, "two", KILLED),
        event(8, "three", ASSIGNED, ZERO, generation=2),
        record(9, "three", ZERO, 2, 2),
    ]
    assert any("shared" in text for text in checker.problems(events, PRODUCED))
    static = [
        dataclasses.replace(one, instance_id="it") if one.worker != "one" else one for one in events
    ]
    assert checker.problems(static, PRODUCED) == []


@pytest.mark.parametrize(
    ("owners", "text"),
    [
        ({"one": {ZERO, ONE}}, None),
        ({"one": {ZERO}, "two": {ONE}}, None),
        ({"one": {ZERO}, "two": {ONE}, "three": set()}, None),
        ({"one": {ZERO}}, "nobody"),
        ({"one": {ZERO, ONE}, "two": {ONE}}, "['one', 'two']"),
        ({"one": {ZERO, ONE}, "two": set()}, "owns nothing"),
        ({"one": {ZERO, ONE, TopicPartition("u", 0)}}, "owns ["),
    ],
)
def test_an_assignment_is_complete_or_it_is_said_why_not(
    owners: dict[str, set[TopicPartition]], text: str | None
) -> None:
    said = checker.incomplete_assignment(owners, [ZERO, ONE])
    assert bool(said) == (text is not None)
    assert text is None or text in " ".join(said)


@pytest.mark.parametrize("kind", [LEFT, KILLED, PAUSED])
def test_who_is_gone_owns_nothing(kind: str) -> None:
    history = History()
    for one in GOOD:
        history.add(one)
    assert history.owners == {"one": {ONE}, "two": {ZERO}}
    history.note("one", kind)
    assert history.owners == {"two": {ZERO}}


def test_waiting_in_vain_tells_the_story() -> None:
    history = History()
    for one in GOOD:
        history.add(one)
    with pytest.raises(TimeoutError, match=r"(?s)not done.*1 x two committed in 2\nowners"):
        history.wait("done", lambda: False, 0.0)


def test_a_death_that_nobody_wanted_ends_the_waiting() -> None:
    history = History()
    history.note("one", DIED)
    with pytest.raises(AssertionError, match=r"\['one'\] died"):
        history.wait("done", lambda: False, 1000.0)
