"""kill -9 while logs are compacted under load: the last value of every key is always there."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest
from tests.broker.requests import eventually
from tests.faults.processes import BrokerProcess, fault_rng
from tests.faults.raw_calls import create_topic, new_producer_id, produce
from tests.waiting import in_time

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.records.batch import build_batch, crc_matches, read_batch, split_batches
from ottla.records.record import Record
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

KILLS = 12
TOPIC = "state"
KEYS = 40
BATCH_RECORDS = 8
FETCH_VERSION = 12
LEAST_BATCHES = 500
LOAD_SECONDS = 60.0
COMPACTION_SECONDS = 30.0
OPENING_SECONDS = 30.0


def fetched(connection: RawConnection, request: FetchRequest) -> PartitionData:
    """The answer about the only partition, as soon as the broker has opened it after its start."""
    deadline = time.monotonic() + OPENING_SECONDS
    while True:
        answer = connection.call(request, FetchResponse, FETCH_VERSION)
        data: PartitionData = answer.responses[0].partitions[0]
        if data.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return data
        in_time(deadline, "the partition was not opened")
        time.sleep(0.01)


def read_compacted(connection: RawConnection) -> dict[bytes, list[Record]]:
    """Every record by key, in the order of the log, in which there may be gaps."""
    seen: dict[bytes, list[Record]] = {}
    offset = 0
    while True:
        asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=[asked])]
        )
        data = fetched(connection, request)
        assert data.error_code == ErrorCode.NONE, ErrorCode(data.error_code).name
        if not data.records:
            assert offset == data.high_watermark
            return seen
        for position, header in split_batches(data.records):
            assert crc_matches(data.records, position, header)
            assert header.last_offset >= offset
            for record in read_batch(data.records, position):
                assert record.key is not None
                seen.setdefault(record.key, []).append(record)
            offset = header.last_offset + 1


class Writer(threading.Thread):
    """One idempotent producer, one request at a time, sent again until it is answered."""

    def __init__(self, address: str, rng: random.Random) -> None:
        super().__init__(daemon=True)
        self.batches = 0
        self.acknowledged: dict[bytes, tuple[int, bytes | None]] = {}
        # Whether these are in the log is not known yet.
        self.in_flight: list[Record] = []
        self.failure: BaseException | None = None
        self.ending = threading.Event()
        self._address = address
        self._rng = rng
        with RawConnection(address) as connection:
            self._producer_id = new_producer_id(connection)

    def run(self) -> None:
        batch = self._next()
        try:
            while not self.ending.is_set():
                try:
                    with RawConnection(self._address, timeout_seconds=20) as connection:
                        while not self.ending.is_set():
                            if self._send(connection, batch):
                                batch = self._next()
                except (ConnectionError, TimeoutError):
                    time.sleep(0.01)
        except BaseException as error:
            self.failure = error

    def _next(self) -> list[Record]:
        first = self.batches * BATCH_RECORDS
        now_ms = int(time.time() * 1000)
        records = []
        for number in range(BATCH_RECORDS):
            # Every key has a share of tombstones.
            value = None if self._rng.random() < 0.1 else b"%012d" % (first + number) + b"." * 90
            key = b"key-%d" % self._rng.randrange(KEYS)
            records.append(Record(number, now_ms, key, value))
        return records

    def _send(self, connection: RawConnection, records: list[Record]) -> bool:
        """Whether the records are acknowledged; not as long as the partition is being opened."""
        data = build_batch(
            records,
            producer_id=self._producer_id,
            producer_epoch=0,
            base_sequence=self.batches * BATCH_RECORDS,
        )
        self.in_flight = records
        error, base_offset = produce(connection, TOPIC, 0, data)
        if error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            time.sleep(0.01)
            return False
        assert error is ErrorCode.NONE, f"batch {self.batches}: {error.name}"
        self.batches += 1
        for record in records:
            assert record.key is not None
            self.acknowledged[record.key] = base_offset + record.offset, record.value
        self.in_flight = []
        return True


def check(
    connection: RawConnection, promised: dict[bytes, tuple[int, bytes | None]], writer: Writer
) -> int:
    """Compares the log with what was acknowledged before it is read; answers how many records it has."""
    seen = read_compacted(connection)
    # These may have been deleted, and their tombstones removed, while the log was read.
    changed = {record.key for record in writer.in_flight}
    changed |= {key for key, was in promised.items() if writer.acknowledged[key] != was}
    for key, (offset, value) in promised.items():
        found = seen.get(key, [])
        offsets = [record.offset for record in found]
        assert offsets == sorted(set(offsets))
        if found and found[-1].offset > offset:
            continue  # overwritten since
        if value is None:
            assert not found or found[-1].value is None, f"{key!r} rose from the dead"
        elif found or key not in changed:
            assert found, f"{key!r} is lost"
            assert (found[-1].offset, found[-1].value) == (offset, value)
    return sum(len(found) for found in seen.values())


@pytest.mark.long
@pytest.mark.timeout(400)
def test_kills_in_compaction_under_load_lose_no_key(tmp_path: Path) -> None:
    rng = fault_rng()
    broker = BrokerProcess(
        tmp_path,
        log_segment_bytes=16_000,
        log_cleaner_backoff_ms=1,
        log_cleaner_min_cleanable_ratio=0.01,
        log_cleaner_delete_retention_ms=50,
        log_segment_delete_delay_ms=10,
    )
    with broker:
        with RawConnection(broker.address) as connection:
            made = create_topic(connection, TOPIC, 1, {"cleanup.policy": "compact"})
            assert made.error_code == 0
        writer = Writer(broker.address, random.Random(rng.random()))
        writer.start()
        left_behind = 0
        try:
            for _ in range(KILLS):
                time.sleep(rng.uniform(0.05, 0.4))
                broker.kill()
                names = [path.name for path in (broker.data / f"{TOPIC}-0").iterdir()]
                left_behind += any(name.endswith((".cleaned", ".swap")) for name in names)
                promised = dict(writer.acknowledged)
                broker.start()
                with RawConnection(broker.address) as connection:
                    check(connection, promised, writer)
            # A slow machine gets less done.
            eventually(lambda: writer.batches > LEAST_BATCHES, LOAD_SECONDS)
        finally:
            writer.ending.set()
        writer.join(30)
        assert writer.failure is None, writer.failure
        assert writer.batches > LEAST_BATCHES
        deadline = time.monotonic() + COMPACTION_SECONDS
        with RawConnection(broker.address) as connection:
            # Of all these records hardly more is left in the end than the active segment and one for each key.
            while (count := check(connection, dict(writer.acknowledged), writer)) >= (
                writer.batches * BATCH_RECORDS / 4
            ):
                in_time(deadline, f"{count} records are left")
                time.sleep(0.2)
        print(f"{writer.batches} batches, {count} records left, {left_behind} kills in a swap")
