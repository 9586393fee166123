"""Interceptors: several, in order, and none can harm the others."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from ottla.client.model import (
    ConsumerRecord,
    ConsumerRecords,
    OffsetAndMetadata,
    ProducerRecord,
    RecordMetadata,
)
from ottla.client.plugins.interceptors import (
    ConsumerInterceptors,
    ProducerInterceptors,
    unwritten_metadata,
)
from ottla.model import TopicPartition
from ottla.records.record import TimestampType

RECORD = ProducerRecord("orders", value="tea", key="table 4")
WRITTEN = RecordMetadata("orders", 1, 7, 0, -1, 3)
PARTITION = TopicPartition("orders", 1)


class Appending:
    """Adds its letter to values, and notes what it is told."""

    def __init__(self, letter: str) -> None:
        self.letter = letter
        self.told: list[Any] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record._replace(value=record.value + self.letter)

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        self.told.append((metadata, error))

    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        changed = {
            partition: [r._replace(value=r.value + self.letter) for r in records.records(partition)]
            for partition in records.partitions()
        }
        return ConsumerRecords(changed, records.next_offsets)

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.told.append(offsets)

    def close(self) -> None:
        self.told.append("closed")


class Failing:
    """Raises whatever it is asked."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith(("on_", "close")):
            raise AttributeError(name)

        def fail(*arguments: object) -> None:
            raise ValueError(f"{name} failed on purpose")

        return fail


class Forgetful:
    """Does not return what it should."""

    def on_send(self, record: ProducerRecord) -> None:
        pass

    def on_consume(self, records: ConsumerRecords) -> None:
        pass


def polled() -> ConsumerRecords:
    record = ConsumerRecord(
        "orders", 1, 7, 0, TimestampType.CREATE_TIME, None, "tea", (), None, -1, 3
    )
    return ConsumerRecords({PARTITION: [record]}, {PARTITION: OffsetAndMetadata(8)})


def test_records_pass_interceptors_in_order() -> None:
    chain = ProducerInterceptors([Appending("a"), Appending("b")])
    assert chain.on_send(RECORD) == RECORD._replace(value="teaab")
    assert [
        r.value for r in ConsumerInterceptors([Appending("a"), Appending("b")]).on_consume(polled())
    ] == ["teaab"]


@pytest.mark.parametrize("bad", [Failing(), Forgetful()])
def test_after_one_that_fails_the_next_gets_the_last_good_record(
    bad: object, caplog: pytest.LogCaptureFixture
) -> None:
    chain = [Appending("a"), bad, Appending("b")]
    with caplog.at_level(logging.WARNING, "ottla"):
        assert ProducerInterceptors(chain).on_send(RECORD).value == "teaab"
        assert [r.value for r in ConsumerInterceptors(chain).on_consume(polled())] == ["teaab"]
    assert len(caplog.records) == 2
    assert all(record.exc_info for record in caplog.records)


def test_the_last_one_failing_keeps_the_record() -> None:
    assert ProducerInterceptors([Appending("a"), Failing()]).on_send(RECORD).value == "teaa"


def test_everybody_is_told_outcomes_and_the_end(caplog: pytest.LogCaptureFixture) -> None:
    first, last = Appending("a"), Appending("b")
    chain = ProducerInterceptors([first, Failing(), last])
    error = ValueError("lost")
    chain.on_acknowledgement(WRITTEN, None)
    chain.on_acknowledgement(unwritten_metadata("t", 1), error)
    chain.close()
    assert (
        first.told == last.told == [(WRITTEN, None), (unwritten_metadata("t", 1), error), "closed"]
    )
    assert len(caplog.records) == 3


def test_everybody_is_told_of_commits() -> None:
    first, last = Appending("a"), Appending("b")
    chain = ConsumerInterceptors([first, Failing(), last])
    chain.on_commit({PARTITION: OffsetAndMetadata(8)})
    chain.close()
    assert first.told == last.told == [{PARTITION: OffsetAndMetadata(8)}, "closed"]


@pytest.mark.parametrize(
    ("record", "chosen", "partition"),
    [(RECORD, None, -1), (RECORD, 2, 2), (RECORD._replace(partition=1), None, 1)],
)
def test_a_record_that_was_not_sent_is_acknowledged_with_its_error(
    record: ProducerRecord, chosen: int | None, partition: int
) -> None:
    watching = Appending("a")
    error = ValueError("too large")
    ProducerInterceptors([watching]).on_send_error(record, chosen, error)
    assert watching.told == [(RecordMetadata("orders", partition, -1, -1, -1, -1), error)]


def test_an_interceptor_may_lack_methods() -> None:
    class Watching:
        def on_acknowledgement(self, metadata: object, error: object) -> None:
            pass

    chain = ProducerInterceptors([Watching()])
    assert chain.on_send(RECORD) is RECORD
    assert chain
    assert chain.sees_acknowledgements
    assert not chain.sees_sends
    chain.close()


def test_no_interceptors_cost_nothing() -> None:
    assert not ProducerInterceptors()
    assert not ConsumerInterceptors()
    assert ProducerInterceptors().on_send(RECORD) is RECORD
    records = polled()
    assert ConsumerInterceptors().on_consume(records) is records


def test_ctrl_c_passes_through() -> None:
    class Interrupted:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ProducerInterceptors([Interrupted()]).on_send(RECORD)
