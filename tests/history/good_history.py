"""A small history in which nothing is wrong, to put anomalies into.

Producer P sends in three transactions: 1 is committed, 2 aborted, 3 has an unknown outcome and was committed. Copier C
copies what was committed, once with an abort in between. A reader sees all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

from tests.history.events import READ_COMMITTED, READ_UNCOMMITTED, Event

GROUP, SOURCE, TARGET = "group", "source", "copies"

# What each partition holds: offset, value; markers are at the offsets that are left out.
LOG: dict[tuple[str, int], list[tuple[int, str]]] = {
    (SOURCE, 0): [(0, "P.1.1"), (1, "P.1.3"), (3, "P.2.4"), (5, "P.3.6")],
    (SOURCE, 1): [(0, "P.1.2"), (2, "P.2.5"), (4, "P.3.7")],
    (TARGET, 0): [(0, "C.1.1<P.1.1"), (2, "C.2.2<P.1.1"), (3, "C.2.3<P.1.3"), (5, "C.3.5<P.3.6")],
    (TARGET, 1): [(0, "C.2.4<P.1.2"), (2, "C.3.6<P.3.7")],
}
ABORTED = {"P.2.4", "P.2.5", "C.1.1<P.1.1"}
END = {(SOURCE, 0): 7, (SOURCE, 1): 6, (TARGET, 0): 7, (TARGET, 1): 4}
COMMITTED = [[SOURCE, 0, 6], [SOURCE, 1, 5]]


def visible(place: tuple[str, int]) -> list[tuple[int, str]]:
    return [(offset, value) for offset, value in LOG[place] if value not in ABORTED]


def _where(value: str) -> tuple[str, int, int]:
    ((topic, partition, offset),) = [
        (*place, offset)
        for place, records in LOG.items()
        for offset, found in records
        if found == value
    ]
    return topic, partition, offset


def _transaction(worker: str, number: int, values: Iterable[str], *end: str) -> list[Event]:
    events: list[Event] = [{"worker": worker, "what": "begin", "txn": number, "id": f"id-{worker}"}]
    for value in values:
        topic, partition, offset = _where(value)
        about = {"worker": worker, "txn": number, "value": value}
        events.append({**about, "what": "send", "topic": topic, "partition": partition})
        events.append({**about, "what": "ack", "offset": offset})
    return events + [{"worker": worker, "what": what, "txn": number} for what in end]


def _reads(worker: str, isolation: str, *places: tuple[str, int]) -> list[Event]:
    events: list[Event] = []
    for topic, partition in places:
        records = visible((topic, partition))
        if isolation == READ_UNCOMMITTED:
            records = LOG[topic, partition]
        events.append(
            {"worker": worker, "what": "seek", "topic": topic, "partition": partition, "offset": 0}
        )
        events.append(
            {
                "worker": worker,
                "what": "poll",
                "isolation": isolation,
                "records": [[topic, partition, *record] for record in records],
            }
        )
    return events


def _offsets(worker: str, number: int, offsets: list[list[Any]]) -> Event:
    about = {"worker": worker, "txn": number, "group": GROUP}
    return {**about, "what": "offsets", "offsets": offsets}


def _position(worker: str, offsets: list[list[Any]]) -> Event:
    return {"worker": worker, "what": "position", "group": GROUP, "offsets": offsets}


def _copier() -> list[Event]:
    first = _transaction("C", 1, ["C.1.1<P.1.1"], "abort", "aborted")
    first.insert(-2, _offsets("C", 1, [[SOURCE, 0, 1]]))
    second = _transaction(
        "C", 2, ["C.2.2<P.1.1", "C.2.3<P.1.3", "C.2.4<P.1.2"], "commit", "committed"
    )
    second.insert(-2, _offsets("C", 2, [[SOURCE, 0, 2], [SOURCE, 1, 1]]))
    third = _transaction("C", 3, ["C.3.5<P.3.6", "C.3.6<P.3.7"], "commit")
    third.insert(-1, _offsets("C", 3, COMMITTED))
    never = [[SOURCE, 0, -1], [SOURCE, 1, -1]]
    return [
        _position("C", never),
        *first,
        _position("C", never),
        *second,
        _position("D", [[SOURCE, 0, 2], [SOURCE, 1, 1]]),
        *third,
        _position("D", COMMITTED),
    ]


def _final() -> list[Event]:
    events: list[Event] = []
    for place in LOG:
        where = {"worker": "round", "topic": place[0], "partition": place[1]}
        both = {"high_watermark": END[place], "last_stable_offset": END[place]}
        events.append({**where, "what": "final_offsets", **both})
        for isolation, records in (
            (READ_COMMITTED, visible(place)),
            (READ_UNCOMMITTED, LOG[place]),
        ):
            listed = [list(record) for record in records]
            final = {"what": "final_records", "isolation": isolation, "records": listed}
            events.append({**where, **final})
    about = {"worker": "round", "what": "final_committed", "group": GROUP}
    events.append({**about, "offsets": COMMITTED})
    states = {"id-P": "CompleteCommit", "id-C": "CompleteCommit"}
    events.append({"worker": "round", "what": "final_transactions", "states": states})
    return events


def good_history() -> list[Event]:
    """A new copy of it, with times."""
    copying = {"worker": "round", "what": "copying", "group": GROUP}
    history = [
        {**copying, "source": SOURCE, "target": TARGET},
        *_transaction("P", 1, ["P.1.1", "P.1.2", "P.1.3"], "commit", "committed"),
        *_transaction("P", 2, ["P.2.4", "P.2.5"], "abort", "aborted"),
        *_transaction("P", 3, ["P.3.6", "P.3.7"], "commit"),
        *_reads("R", READ_COMMITTED, *LOG),
        *_reads("U", READ_UNCOMMITTED, *LOG),
        *_copier(),
        *_final(),
    ]
    for number, event in enumerate(history):
        event["at"] = float(number)
        if event["what"] == "position":
            event["began"] = number - 0.5
    return deepcopy(history)


def only(history: list[Event], condition: Callable[[Event], bool]) -> Event:
    """The one event that a test changes."""
    (found,) = [event for event in history if condition(event)]
    return found
