"""Retention by time and by size, on segments."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import (
    batch_of,
    create,
    eventually,
    fetch,
    fill,
    now_ms,
    on_loop,
    produce,
    session_with,
    set_options,
    values_in,
)

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.records.batch import build_batch
from ottla.records.record import Record

CHECKS_OFTEN = {"log_retention_check_interval_ms": 20}
BATCH_BYTES = len(batch_of(b"x" * 100))


def append_at(connection: RawConnection, topic: str, timestamp_ms: int) -> None:
    batch = build_batch([Record(0, timestamp_ms, b"k", b"x" * 100)])
    assert produce(connection, topic, batch).error_code == ErrorCode.NONE


def test_old_segments_go_and_young_ones_stay(start: Starter, topic: str) -> None:
    with session_with(start(**CHECKS_OFTEN)) as connection:
        create(
            connection,
            topic,
            config={"segment.bytes": str(2 * BATCH_BYTES), "retention.ms": "-1"},
        )
        now = now_ms()
        for age_hours in (5, 5, 4, 4, 0, 0, 0):
            append_at(connection, topic, now - age_hours * 3_600_000)
        # Only now, or a check between two appends would roll the segments otherwise.
        assert set_options(connection, topic, {"retention.ms": "3600000"}) == ErrorCode.NONE
        assert eventually(lambda: fetch(connection, topic, 4).log_start_offset == 4)
        assert fetch(connection, topic, 3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert len(values_in(fetch(connection, topic, 4))) >= 2
        assert fill(connection, topic, b"next") == [7]


def test_a_segment_goes_when_all_of_it_is_old_even_the_last_one(start: Starter, topic: str) -> None:
    broker = start(**CHECKS_OFTEN)
    with session_with(broker) as connection:
        create(connection, topic, config={"retention.ms": "3600000"})
        append_at(connection, topic, now_ms() - 7_200_000)
        append_at(connection, topic, now_ms() - 7_200_000)
        assert eventually(lambda: fetch(connection, topic, 2).log_start_offset == 2, seconds=5)
        assert fill(connection, topic, b"next") == [2]
    broker.stop()
    with session_with(start()) as connection:
        assert values_in(fetch(connection, topic, 2)) == [b"next"]


def test_one_young_record_protects_its_segment(start: Starter, topic: str) -> None:
    broker = start(**CHECKS_OFTEN)
    with session_with(broker) as connection:
        create(connection, topic)
        append_at(connection, topic, now_ms() - 10 * 3_600_000)
        append_at(connection, topic, now_ms())
        # Not before both are there: the old one alone would go.
        set_options(connection, topic, {"retention.ms": "3600000"})
        other = f"{topic}-old"
        create(connection, other, config={"retention.ms": "3600000"})
        append_at(connection, other, now_ms() - 10 * 3_600_000)
        # When the other topic has been dealt with, so has this one.
        assert eventually(lambda: fetch(connection, other, 1).log_start_offset == 1)
        assert fetch(connection, topic, 0).log_start_offset == 0


def test_by_size_the_log_stays_above_the_limit_by_less_than_a_segment(
    start: Starter, topic: str
) -> None:
    with session_with(start(**CHECKS_OFTEN)) as connection:
        limit = 6 * BATCH_BYTES
        create(
            connection,
            topic,
            config={"segment.bytes": str(2 * BATCH_BYTES), "retention.bytes": str(limit)},
        )
        fill(connection, topic, *[b"x" * 100] * 20)
        assert eventually(lambda: fetch(connection, topic, 19).log_start_offset == 14)
        assert fetch(connection, topic, 13).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    "config",
    [
        {"retention.ms": "-1", "retention.bytes": "-1"},
        {"cleanup.policy": "compact", "retention.ms": "1", "retention.bytes": "1"},
    ],
)
def test_without_a_limit_everything_stays(
    start: Starter, topic: str, config: dict[str, str]
) -> None:
    with session_with(start(**CHECKS_OFTEN)) as connection:
        create(connection, topic, config={"segment.bytes": str(2 * BATCH_BYTES), **config})
        for _ in range(5):
            append_at(connection, topic, 1)
        other = f"{topic}-old"
        create(connection, other, config={"retention.ms": "1000"})
        append_at(connection, other, 1)
        assert eventually(lambda: fetch(connection, other, 1).log_start_offset == 1)
        assert fetch(connection, topic, 0).log_start_offset == 0


def test_a_shorter_retention_has_effect_at_once(start: Starter, topic: str) -> None:
    with session_with(start(**CHECKS_OFTEN)) as connection:
        create(connection, topic, config={"segment.bytes": str(2 * BATCH_BYTES)})
        for _ in range(5):
            append_at(connection, topic, now_ms() - 60_000)
        assert fetch(connection, topic, 0).log_start_offset == 0
        assert set_options(connection, topic, {"retention.ms": "30000"}) == ErrorCode.NONE
        assert eventually(lambda: fetch(connection, topic, 5).log_start_offset == 5)


def test_a_reader_that_waits_is_not_lost_when_its_past_is_deleted(
    start: Starter, topic: str
) -> None:
    with session_with(start(**CHECKS_OFTEN)) as connection:
        create(connection, topic, config={"retention.ms": "1000"})
        append_at(connection, topic, 1)
        assert eventually(lambda: fetch(connection, topic, 1).log_start_offset == 1)
        found = fetch(connection, topic, 1, max_wait_ms=50)
        assert (found.error_code, found.high_watermark) == (ErrorCode.NONE, 1)


def test_records_without_a_timestamp_age_from_when_their_file_was_written(
    start: Starter, topic: str
) -> None:
    broker = start(**CHECKS_OFTEN)
    with session_with(broker) as connection:
        create(connection, topic, config={"retention.ms": "3600000"})
        other = f"{topic}-young"
        create(connection, other, config={"retention.ms": "3600000"})
        for name in (topic, other):
            append_at(connection, name, -1)
            append_at(connection, name, -1)
        path = Path(broker.data_dir) / f"{topic}-0" / f"{0:020d}.log"
        an_hour_ago = time.time() - 3601
        os.utime(path, (an_hour_ago, an_hour_ago))
        assert eventually(lambda: fetch(connection, topic, 2).log_start_offset == 2)
        assert fetch(connection, other, 0).log_start_offset == 0


def test_a_topic_that_may_hold_no_bytes_holds_none(start: Starter, topic: str) -> None:
    broker = start(**CHECKS_OFTEN)
    with session_with(broker) as connection:
        create(connection, topic, config={"retention.bytes": "0"})
        fill(connection, topic, b"a", b"b")
        assert eventually(lambda: fetch(connection, topic, 2).log_start_offset == 2)
        assert fill(connection, topic, b"next") == [2]
        assert eventually(lambda: fetch(connection, topic, 3).log_start_offset == 3)


def claimed(broker: ottla.Broker) -> set[str]:
    return on_loop(
        broker,
        lambda running: {shard.log.ref.topic for shard in running.node.partitions.open_shards()},
    )


def test_what_nobody_uses_is_claimed_only_if_something_of_it_is_due(
    start: Starter, topic: str
) -> None:
    old, young, small, large = (f"{topic}-{name}" for name in ("old", "young", "small", "large"))
    broker = start()
    with session_with(broker) as connection:
        for name in (old, young, small, large):
            size = {small: "100000", large: "1000"}.get(name, "-1")
            create(
                connection,
                name,
                config={
                    "segment.bytes": "500",
                    "retention.ms": "3600000",
                    "retention.bytes": size,
                },
            )
            for _ in range(10):
                append_at(connection, name, now_ms() - (7_200_000 if name == old else 0))
        # Nobody has ever written to these.
        create(connection, f"{topic}-empty", 1000)
    broker.stop()
    broker = start(**CHECKS_OFTEN)
    assert eventually(lambda: {old, large} <= claimed(broker))
    with session_with(broker) as connection:
        # All of them have been looked at: the next round has dealt with what was added since.
        append_at(connection, old, now_ms() - 7_200_000)
        assert eventually(lambda: fetch(connection, old, 11).log_start_offset == 11)
        assert claimed(broker) == {old, large}
        assert 0 < fetch(connection, large, 9).log_start_offset < 10
        assert fetch(connection, small, 0).log_start_offset == 0
        assert fetch(connection, young, 0).log_start_offset == 0
