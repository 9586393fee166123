"""The newest events are kept, with limits; what they refer to is made text only when it is asked for."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from ottla.broker.internals import event_ring
from ottla.broker.internals.event_ring import MAX_TEXT_CHARS, EventRing
from ottla.events import EventLog

LOGGER = "ottla.broker.tests.ring"
log = EventLog(LOGGER)


@pytest.fixture
def ring() -> Iterator[EventRing]:
    made = EventRing()
    logging.getLogger(LOGGER).setLevel(logging.INFO)
    made.attach([LOGGER])
    yield made
    made.detach()
    logging.getLogger(LOGGER).setLevel(logging.NOTSET)


def names_of(ring: EventRing, after: int = 0, limit: int = 10_000) -> list[object]:
    return [event.as_json()["name"] for event in ring.after(after, limit)]


def test_an_event_is_told_with_its_number_sentence_and_fields(ring: EventRing) -> None:
    log.info("topic_created", "topic %(topic)s has %(partitions)d", topic="orders", partitions=3)
    (event,) = ring.after(0, 10)
    told = event.as_json()
    at_ms = told.pop("at_ms")
    assert isinstance(at_ms, int)
    assert told == {
        "sequence": 1,
        "level": "info",
        "name": "topic_created",
        "sentence": "topic orders has 3",
        "fields": {"topic": "orders", "partitions": 3},
        "logger": LOGGER,
    }


def test_what_is_below_the_level_of_the_log_is_not_kept(ring: EventRing) -> None:
    log.debug("request", "one")
    assert ring.newest == 0
    assert ring.after(0, 10) == []


def test_a_reader_gets_the_newest_behind_its_number(ring: EventRing) -> None:
    for number in range(5):
        log.info(f"e{number}", "text")
    assert names_of(ring, after=2) == ["e2", "e3", "e4"]
    assert names_of(ring, after=0, limit=2) == ["e3", "e4"]
    assert names_of(ring, after=99) == []


def test_events_that_clients_cause_at_will_push_out_no_others(
    ring: EventRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_ring, "MAX_EVENTS", 20)
    monkeypatch.setattr(event_ring, "MAX_EVENTS_PER_NAME", 5)
    log.error("storage_failed", "once")
    for _ in range(1_000):
        log.warning("connection_refused", "often")
    assert names_of(ring) == ["storage_failed"] + 5 * ["connection_refused"]
    for number in range(1_000):
        log.info(f"rare{number}", "of many names")
    assert names_of(ring) == [f"rare{number}" for number in range(980, 1000)]
    assert len(ring._by_name) == 20


def test_long_texts_are_cut_and_odd_ones_told(ring: EventRing) -> None:
    log.info("long", "%(reason)s", reason="x" * 100_000, many={"a": [1]}, nothing=None)
    logging.getLogger(LOGGER).info("100% plain")
    logging.getLogger(LOGGER).info("%s and %s", "one", "other")
    broken = logging.LogRecord(LOGGER, logging.INFO, "", 0, "%d", ("no number",), None)
    ring.handle(broken)
    first, *others = (event.as_json() for event in ring.after(0, 10))
    assert len(str(first["sentence"])) == MAX_TEXT_CHARS
    assert isinstance(first["fields"], dict)
    assert len(first["fields"]["reason"]) == MAX_TEXT_CHARS
    assert first["fields"]["many"] == "{'a': [1]}"
    assert first["fields"]["nothing"] is None
    assert [each["sentence"] for each in others] == ["100% plain", "one and other", "%d"]
    assert {each["name"] for each in others} == {None}


def test_an_exception_is_kept_as_text_alone(ring: EventRing) -> None:
    class LargeError(Exception):
        pass

    try:
        raise LargeError("deep inside")
    except LargeError as error:
        log.bug("work_failed", "periodic work failed", error)
    (event,) = ring.after(0, 10)
    assert "deep inside" in str(event.as_json()["trace"])
    assert isinstance(event.trace, str)


def test_after_its_end_nothing_is_kept(ring: EventRing) -> None:
    ring.detach()
    log.info("late", "text")
    assert ring.newest == 0
