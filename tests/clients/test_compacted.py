"""Any client reads a compacted log: with gaps, batches without records, tombstones and their horizons."""

from __future__ import annotations

import time

from tests.clients.broker_side import Batch, batches_of
from tests.clients.conftest import MakeDriver
from tests.faults.raw_calls import create_topic, new_producer_id, produce
from tests.waiting import in_time

from ottla import Broker
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.records.batch import build_batch
from ottla.records.compression import Codec
from ottla.records.record import Record

TOPIC = "state"
WAIT_SECONDS = 10
START_MS = 1_700_000_000_000


def write(connection: RawConnection) -> None:
    """Batches of which compaction leaves some whole, some in part, one without records, and none of others."""
    producer_id = new_producer_id(connection)
    contents: list[list[tuple[bytes, bytes | None]]] = [
        [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")],
        [(b"a", b"2")],
        [(b"d", None), (b"b", b"2")],
    ]
    sequence = 0
    for number, pairs in enumerate(contents * 5 + [[(b"e", b"emptied")]]):
        records = [Record(at, START_MS, key, value) for at, (key, value) in enumerate(pairs)]
        data = build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            codec=list(Codec)[number % len(Codec)],
        )
        assert produce(connection, TOPIC, 0, data)[0] is ErrorCode.NONE
        sequence += len(records)
    for value in (b"x" * 500, b"last" * 200):
        record = Record(0, START_MS, b"e", value)
        assert produce(connection, TOPIC, 0, build_batch([record]))[0] is ErrorCode.NONE


def all_batches(bootstrap_servers: str) -> list[Batch]:
    """A fetch ends where a segment ends."""
    found: list[Batch] = []
    while more := batches_of(
        bootstrap_servers, TOPIC, offset=found[-1].header.last_offset + 1 if found else 0
    ):
        found += more
    return found


def test_what_compaction_left_is_read_as_it_was_written(make_client: MakeDriver) -> None:
    options = {"log.cleaner.backoff.ms": 5, "log.cleaner.min.cleanable.ratio": 0}
    with Broker(options) as broker:
        with RawConnection(broker.bootstrap_servers) as connection:
            config = {"cleanup.policy": "compact", "segment.bytes": "1000"}
            assert create_topic(connection, TOPIC, 1, config).error_code == 0
            write(connection)
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            batches = all_batches(broker.bootstrap_servers)
            left = [record for batch in batches for record in batch.records]
            if len({record.key for record in left[:-1]}) == len(left) - 1:
                break
            in_time(deadline, left)
            time.sleep(0.01)
        assert any(not batch.records for batch in batches), "one is kept for its sequence only"
        assert any(batch.header.has_delete_horizon for batch in batches)
        received = make_client(broker.bootstrap_servers).read(TOPIC, len(left), 0)
        assert [(one.offset, one.content.key, one.content.value) for one in received] == [
            (record.offset, record.key, record.value) for record in left
        ]
