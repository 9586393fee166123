"""Compaction in a running broker: its options, and that it lets others work."""

from __future__ import annotations

import time
from statistics import median

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import (
    BROKER,
    create,
    eventually,
    fetch,
    on_loop,
    produce,
    session_with,
    set_options,
)

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.records.batch import build_batch, read_batch, split_batches
from ottla.records.record import Record

EAGER = {"log_cleaner_backoff_ms": 5, "log_cleaner_min_cleanable_ratio": 0}
COMPACT = {"cleanup.policy": "compact", "segment.bytes": "2000"}


def write(connection: RawConnection, topic: str, count: int, key_count: int = 3) -> None:
    for number in range(count):
        record = Record(0, 1_700_000_000_000, b"%d" % (number % key_count), b"%d" % number * 20)
        assert produce(connection, topic, build_batch([record])).error_code == ErrorCode.NONE


def offsets_in(connection: RawConnection, topic: str) -> list[int]:
    found: list[int] = []
    offset = 0
    while data := fetch(connection, topic, offset).records:
        for position, header in split_batches(data):
            found += [record.offset for record in read_batch(data, position)]
            offset = header.last_offset + 1
    return found


def test_old_values_go_by_themselves(start: Starter, topic: str) -> None:
    with session_with(start(**EAGER)) as connection:
        create(connection, topic, config=COMPACT)
        write(connection, topic, 100)
        assert eventually(lambda: len(offsets_in(connection, topic)) < 30)
        assert offsets_in(connection, topic)[-3:] == [97, 98, 99]


def test_it_goes_on_after_a_restart(start: Starter, topic: str) -> None:
    broker = start(**EAGER)
    with session_with(broker) as connection:
        create(connection, topic, config=COMPACT)
        write(connection, topic, 100)
        assert eventually(lambda: len(offsets_in(connection, topic)) < 30)
        left = offsets_in(connection, topic)
    broker.stop()
    with session_with(start(log_cleaner_enable=False)) as connection:
        # It may have cleaned once more before the stop.
        assert set(offsets_in(connection, topic)) <= set(left)
        assert offsets_in(connection, topic)[-3:] == [97, 98, 99]


def test_it_can_be_switched_off(start: Starter, topic: str) -> None:
    with session_with(start(**EAGER, log_cleaner_enable=False)) as connection:
        create(connection, topic, config=COMPACT)
        write(connection, topic, 50)
        time.sleep(0.1)
        assert offsets_in(connection, topic) == list(range(50))


def test_the_pause_can_be_changed_while_it_runs(start: Starter, topic: str) -> None:
    broker = start(log_cleaner_backoff_ms=20, log_cleaner_min_cleanable_ratio=1)
    with session_with(broker) as connection:
        create(connection, topic, config=COMPACT)
        write(connection, topic, 50)
        ratio = {"log.cleaner.min.cleanable.ratio": "0", "log.cleaner.backoff.ms": "1"}
        assert len(offsets_in(connection, topic)) == 50
        assert set_options(connection, "", ratio, BROKER) == ErrorCode.NONE
        assert eventually(lambda: len(offsets_in(connection, topic)) < 30)


def test_it_is_as_slow_as_it_is_told_to_be(start: Starter, topic: str) -> None:
    broker = start(**EAGER, log_cleaner_io_max_bytes_per_second=200_000)
    with session_with(broker) as connection:
        create(connection, topic, config=COMPACT | {"segment.bytes": "200000"})
        value = b"x" * 1000
        began = time.monotonic()
        records = [Record(number, 1, b"%d" % number, value) for number in range(40)]
        for _ in range(2):
            produce(connection, topic, build_batch(records))
        roll(broker, topic)
        assert eventually(lambda: offsets_in(connection, topic) == list(range(40, 80)))
        # Some 200 kB are read and written.
        assert time.monotonic() - began > 0.8


def roll(broker: ottla.Broker, topic: str) -> None:
    on_loop(broker, lambda found: found.node.partitions.shard(topic, 0).roll())  # type: ignore[union-attr]


def test_requests_are_answered_while_a_large_log_is_cleaned(start: Starter, topic: str) -> None:
    # Slowed down, so that there is time to ask in the meantime however fast the machine is.
    broker = start(
        log_cleaner_backoff_ms=5,
        log_cleaner_min_cleanable_ratio=0,
        log_cleaner_io_max_bytes_per_second=20_000_000,
    )
    with session_with(broker) as connection:
        create(connection, topic, config=COMPACT | {"segment.bytes": "100000000"})
        records = [Record(n, 1, b"%d" % (n % 500), b"v" * 20) for n in range(5000)]
        batch = build_batch(records)
        for _ in range(100):
            produce(connection, topic, batch)
        roll(broker, topic)
        waits = []
        all_began = time.monotonic()
        while on_loop(broker, lambda found: cleaned(found.node.partitions.shard(topic, 0))) is None:
            began = time.monotonic()
            fetch(connection, topic, 500_000)
            waits.append(time.monotonic() - began)
        # A batch of 5000 records is one slice; that of the whole log would take a hundred times as long.
        assert len(waits) >= 5
        assert median(waits) < (time.monotonic() - all_began) / 10


def cleaned(shard: object) -> int | None:
    offset: int | None = shard.log.cleaned_offset  # type: ignore[attr-defined]
    return offset


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("log.cleaner.io.max.bytes.per.second", "0"),
        ("log.cleaner.backoff.ms", "-1"),
        ("log.cleaner.dedupe.buffer.size", "0"),
        ("log.cleaner.enable", "false"),
    ],
)
def test_what_cannot_be_is_refused(connection: RawConnection, name: str, value: str) -> None:
    """The last one is no value to refuse, but it cannot be altered while the broker runs."""
    assert set_options(connection, "", {name: value}, BROKER) == ErrorCode.INVALID_CONFIG
