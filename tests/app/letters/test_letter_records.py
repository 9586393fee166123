"""Hops, dead letters and replays, as records."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.app.letters.raw_records import as_read, raw_record

from ottla.app.delivery.unit import OutgoingRecord
from ottla.app.errors import BatchItemError
from ottla.app.letters import (
    MAX_HISTORY_BYTES,
    dead_letter,
    hop,
    is_of_group,
    original_record,
    read_history,
    replay,
    replay_for_group,
)
from ottla.app.letters.header_names import big_integer, read_integer
from ottla.client.model import Headers

NOW_MS = 1_790_000_000_000
HEADERS = st.lists(
    st.tuples(
        st.text(max_size=20) | st.sampled_from(["kafka_exception-message", "retry_topic-attempts"]),
        st.none() | st.binary(max_size=20),
    ),
    max_size=6,
).map(tuple)


def a_hop(record: object = None, attempt: int = 1, now_ms: int = NOW_MS) -> OutgoingRecord:
    return hop(
        raw_record() if record is None else record,  # type: ignore[arg-type]
        ValueError("no card"),
        group="billing",
        listener="bill",
        attempt=attempt,
        due_ms=now_ms + 1000,
        now_ms=now_ms,
    )


def test_a_hop_keeps_key_value_and_headers_and_tells_the_history() -> None:
    record = raw_record()
    sent = a_hop(record)
    assert (sent.topic, sent.partition) == ("orders.billing.retry.1", 2)
    assert (sent.key, sent.value) == (b"t4", b"espresso")
    assert sent.headers[:2] == record.headers
    assert sent.timestamp_ms is None, "an old timestamp could make retention delete it"
    history = read_history(as_read(sent))
    assert history is not None
    assert (history.topic, history.partition, history.offset) == ("orders", 2, 41)
    assert (history.timestamp_ms, history.attempts) == (record.timestamp_ms, 1)
    assert (history.group, history.listener) == ("billing", "bill")
    assert (history.error, history.message) == ("ValueError", "no card")
    assert (history.first_failed_ms, history.last_failed_ms) == (NOW_MS, NOW_MS)
    assert history.due_ms == NOW_MS + 1000
    assert not history.is_dead_letter


def test_spring_reads_the_headers_by_name_and_encoding() -> None:
    hopped = dict(a_hop().headers)
    assert hopped["kafka_original-topic"] == b"orders"
    assert hopped["kafka_original-partition"] == struct.pack(">i", 2)
    assert hopped["kafka_original-offset"] == struct.pack(">q", 41)
    assert hopped["kafka_original-timestamp-type"] == b"CreateTime"
    assert hopped["kafka_exception-fqcn"] == b"ValueError"
    # BigInteger.toByteArray: 41 bits and a sign need six bytes. The attempt is the one to come.
    assert hopped["retry_topic-backoff-timestamp"] == (NOW_MS + 1000).to_bytes(6, "big")
    assert hopped["retry_topic-attempts"] == struct.pack(">i", 2)
    letter = dict(a_dead_letter().headers)
    assert letter["kafka_dlt-original-topic"] == b"orders"
    assert letter["kafka_dlt-original-consumer-group"] == b"billing"
    assert letter["kafka_dlt-exception-message"] == b"no card"
    assert not [name for name in letter if name.startswith(("kafka_original", "kafka_exception"))]
    assert "retry_topic-backoff-timestamp" not in letter


def a_dead_letter(record: object = None, attempt: int = 3) -> OutgoingRecord:
    return dead_letter(
        raw_record() if record is None else record,  # type: ignore[arg-type]
        ValueError("no card"),
        group="billing",
        listener="bill",
        attempt=attempt,
        now_ms=NOW_MS + 5000,
    )


def test_repeated_hops_replace_the_history_and_keep_its_beginning() -> None:
    first = a_hop()
    second = a_hop(as_read(first, offset=7), attempt=2, now_ms=NOW_MS + 2000)
    assert second.topic == "orders.billing.retry.2"
    assert [name for name, _ in second.headers] == [name for name, _ in first.headers]
    letter = a_dead_letter(as_read(second, offset=8))
    assert letter.topic == "orders.billing.dlt"
    history = read_history(as_read(letter))
    assert history is not None
    assert (history.topic, history.partition, history.offset) == ("orders", 2, 41)
    assert (history.first_failed_ms, history.last_failed_ms) == (NOW_MS, NOW_MS + 5000)
    assert (history.attempts, history.is_dead_letter) == (3, True)
    names = [name for name, _ in letter.headers]
    assert len(set(names)) == len(names) - 1, "only the user's header occurs twice"


def test_a_listener_of_dead_letters_begins_a_history_of_its_own() -> None:
    letter = as_read(a_dead_letter(), offset=3)
    sent = hop(
        letter,
        KeyError("x"),
        group="auditor",
        listener="audit",
        attempt=1,
        due_ms=NOW_MS,
        now_ms=NOW_MS,
    )
    assert sent.topic == "orders.billing.dlt.auditor.retry.1"
    history = read_history(as_read(sent))
    assert history is not None
    assert (history.topic, history.offset) == ("orders.billing.dlt", 3)
    assert history.group == "auditor"


@settings(max_examples=40)
@given(HEADERS, st.none() | st.binary(), st.none() | st.binary())
def test_a_replay_has_the_users_bytes(
    headers: Headers, key: bytes | None, value: bytes | None
) -> None:
    record = raw_record(key=key, value=value, headers=headers)
    again = replay(as_read(a_dead_letter(as_read(a_hop(record)))))
    assert (again.topic, again.partition) == ("orders", 2)
    assert (again.key, again.value) == (key, value)
    own = {"kafka_exception-message", "retry_topic-attempts"}
    assert again.headers == tuple(each for each in headers if each[0] not in own)


def test_a_retried_handler_sees_the_record_of_its_first_attempt() -> None:
    record = raw_record()
    seen = original_record(as_read(a_hop(record), offset=9))
    assert seen == record._replace(leader_epoch=None)
    assert original_record(record) is record


def test_a_replay_for_the_group_alone_starts_with_no_failed_attempt() -> None:
    letter = as_read(a_dead_letter())
    sent = replay_for_group(letter, group="billing", now_ms=NOW_MS)
    assert sent.topic == "orders.billing.retry.1"
    history = read_history(as_read(sent))
    assert history is not None
    assert (history.attempts, history.due_ms, history.offset) == (0, NOW_MS, 41)
    assert is_of_group(history, sent.topic, "billing")


def test_a_record_without_history_cannot_be_replayed() -> None:
    with pytest.raises(ValueError, match="orders-2 offset 41 is no dead letter"):
        replay(raw_record())


def test_groups_whose_topics_have_the_same_name_tell_their_records_apart() -> None:
    mine = hop(
        raw_record("a"),
        ValueError(),
        group="b.c",
        listener="l",
        attempt=1,
        due_ms=0,
        now_ms=0,
    )
    assert mine.topic == "a.b.c.retry.1"
    history = read_history(as_read(mine))
    assert history is not None
    assert is_of_group(history, mine.topic, "b.c")
    assert not is_of_group(history, mine.topic, "c")


def test_a_partition_that_the_topic_lacks_leaves_the_choice_to_the_key() -> None:
    letter = as_read(a_dead_letter())
    assert replay(letter, partition_count=3).partition == 2
    assert replay(letter, partition_count=2).partition is None


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("even this")


@pytest.mark.parametrize(
    "error", [ValueError("x" * 100_000), ValueError("€" * 50_000), UnspeakableError()]
)
def test_the_history_is_bounded_whatever_the_exception_says(error: Exception) -> None:
    try:
        try:
            raise error
        except Exception as inner:
            raise KeyError("é" * 100_000) from inner
    except KeyError as outer:
        raised = outer
    for each in (error, raised):
        sent = dead_letter(raw_record(), each, group="g", listener="l", attempt=1, now_ms=0)
        size = sum(len(name) + len(value or b"") + 10 for name, value in sent.headers)
        assert size < MAX_HISTORY_BYTES
        history = read_history(as_read(sent))
        assert history is not None
        assert history.message is not None
        assert history.traceback is not None


def test_the_error_of_a_batch_item_is_its_cause() -> None:
    sent = dead_letter(
        raw_record(),
        BatchItemError(3, LookupError("no such table")),
        group="g",
        listener="l",
        attempt=1,
        now_ms=0,
    )
    history = read_history(as_read(sent))
    assert history is not None
    assert (history.error, history.message) == ("LookupError", "no such table")


@settings(max_examples=40)
@given(HEADERS.flatmap(lambda more: st.permutations(more + a_hop().headers).map(tuple)), st.data())
def test_garbage_in_headers_is_no_error(headers: Headers, data: st.DataObject) -> None:
    garbled = tuple(
        (name, data.draw(st.none() | st.binary(max_size=12)) if data.draw(st.booleans()) else value)
        for name, value in headers
    )
    record = raw_record("orders.billing.retry.1", headers=garbled)
    read_history(record)
    original_record(record)
    a_dead_letter(record)


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_survive_javas_encodings(number: int) -> None:
    assert read_integer(big_integer(number)) == number
    shorter = len(big_integer(number)) - 1
    if shorter:
        with pytest.raises(OverflowError):
            number.to_bytes(shorter, "big", signed=True)
