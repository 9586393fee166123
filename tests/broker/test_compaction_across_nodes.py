"""The cleaners of several nodes work on one log in turns: what each key had last is there, whoever leads."""

from __future__ import annotations

from tests.broker.conftest import Starter
from tests.broker.nodes import nodes_of
from tests.broker.requests import create, eventually, fetch, produce
from tests.broker.test_compaction_running import COMPACT

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.records.batch import build_batch, crc_matches, read_batch, split_batches
from ottla.records.record import Record

EAGER = {"log_cleaner_backoff_ms": 1, "log_cleaner_min_cleanable_ratio": 0}
KEY_COUNT = 5
WRITE_COUNT = 600


def records_of(connection: RawConnection, topic: str) -> list[Record]:
    found: list[Record] = []
    offset = 0
    while True:
        answer = fetch(connection, topic, offset)
        assert answer.error_code == ErrorCode.NONE
        data = bytes(answer.records or b"")
        if not data:
            return found
        for position, header in split_batches(data):
            assert crc_matches(data, position, header)
            found += read_batch(data, position)
            offset = header.last_offset + 1


def last_values(records: list[Record]) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in records}


def test_last_values_survive_cleaning_and_moving_at_once(start: Starter, topic: str) -> None:
    broker = start(nodes=3, **EAGER)
    expected: dict[bytes | None, bytes | None] = {}
    with nodes_of(broker) as nodes:
        create(nodes.any, topic, config=COMPACT)
        for number in range(WRITE_COUNT):
            key, value = b"%d" % (number % KEY_COUNT), b"%d " % number * 20
            batch = build_batch([Record(0, 1_700_000_000_000, key, value)])
            assert produce(nodes.leader(topic), topic, batch).base_offset == number
            expected[key] = value
            if number % 7 == 0:
                nodes.move(topic)
            if number % 150 == 149:
                victim = broker.leader_of(topic, 0)
                nodes.kill(victim)
                broker.start_node(victim)
        found = records_of(nodes.leader(topic), topic)
        assert last_values(found) == expected
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        # The last leader stays, and comes to clean.
        assert eventually(lambda: len(records_of(nodes.leader(topic), topic)) < 100, 30)
    broker.stop()
    with nodes_of(start(nodes=2)) as nodes:
        assert last_values(records_of(nodes.leader(topic), topic)) == expected
