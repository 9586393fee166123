"""kill -9 under idempotent load, again and again: nothing acknowledged is lost, damaged, doubled or reordered."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.broker.requests import eventually
from tests.faults.processes import BrokerProcess, fault_rng
from tests.faults.producers import LibrdkafkaProducer, Place, Promises, RawProducer
from tests.faults.raw_calls import RecordSeen, create_topic, read_partition

from ottla.client.raw import RawConnection

KILLS = 20
TOPICS = {"orders": 2, "payments": 1}
PLACES: list[Place] = [
    (topic, partition) for topic, count in TOPICS.items() for partition in range(count)
]
# What makes the test worth its name: less than this was no load.
LEAST_RECORDS = 5_000
LEAST_SEGMENTS = 2
LOAD_SECONDS = 60.0


def problems(seen: list[RecordSeen], name: str, promises: Promises) -> list[str]:
    """What the log does not keep of what one producer was promised on one partition."""
    found = []
    own = [record for record in seen if record.value.startswith(name.encode() + b" ")]
    values = [record.value for record in own]
    if len(set(values)) != len(values):
        found.append(f"{name}: {len(values) - len(set(values))} duplicates")
    rank = {value: number for number, value in enumerate(promises.sent)}
    order = [rank.get(value, -1) for value in values]
    if order != sorted(order):
        found.append(f"{name}: out of order")
    offsets = {record.value: record.offset for record in own}
    lost = [value for value in promises.offsets if value not in offsets]
    if lost:
        found.append(f"{name}: {len(lost)} acknowledged records lost, first {lost[0][:40]!r}")
    moved = [
        value for value, offset in promises.offsets.items() if offsets.get(value, offset) != offset
    ]
    if moved:
        found.append(f"{name}: {len(moved)} records elsewhere than was said")
    if any(value not in rank for value in values):
        found.append(f"{name}: records that were never sent")
    if len(promises.offsets) != len(promises.sent):
        found.append(
            f"{name}: {len(promises.sent)} sent, {len(promises.offsets)} acknowledged in the end"
        )
    return found


def fewest_segments(broker: BrokerProcess) -> int:
    return min(
        len(list((broker.data / f"{topic}-{partition}").glob("*.log")))
        for topic, partition in PLACES
    )


def was_under_load(
    broker: BrokerProcess, producers: Iterable[RawProducer | LibrdkafkaProducer]
) -> bool:
    acknowledged = sum(
        len(promises.offsets) for producer in producers for promises in producer.promises.values()
    )
    return acknowledged >= LEAST_RECORDS and fewest_segments(broker) >= LEAST_SEGMENTS


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"log_flush_interval_messages": 1}, id="every-append-synced"),
        pytest.param({"log_flush_offset_checkpoint_interval_ms": 500}, id="synced-now-and-then"),
    ],
)
def test_twenty_kills_under_idempotent_load_keep_every_promise(
    tmp_path: Path, options: dict[str, object]
) -> None:
    rng = fault_rng()
    broker = BrokerProcess(tmp_path, log_segment_bytes=200_000, **options)
    with broker:
        with RawConnection(broker.address) as connection:
            for topic, count in TOPICS.items():
                assert create_topic(connection, topic, count).error_code == 0
        # One with all of its five requests on one partition, where each may be a repetition.
        raw = [
            RawProducer("raw-one", broker.address, PLACES[:1]),
            RawProducer("raw-all", broker.address, PLACES),
        ]
        librdkafka = LibrdkafkaProducer("rdkafka", broker.address, PLACES)
        producers: list[RawProducer | LibrdkafkaProducer] = [*raw, librdkafka]
        for producer in producers:
            producer.start()
        try:
            for _ in range(KILLS):
                time.sleep(rng.uniform(0.02, 0.4))
                broker.kill()
                broker.start()
            # A slow machine gets less done; if it is too little even then, it is told below.
            eventually(lambda: was_under_load(broker, producers), LOAD_SECONDS)
        finally:
            for producer in producers:
                producer.send_no_more()
        for producer in producers:
            producer.finish()
        with RawConnection(broker.address) as connection:
            logs = {place: read_partition(connection, *place) for place in PLACES}
        found = [
            f"{place}: {problem}"
            for place in PLACES
            for producer in producers
            for problem in problems(
                logs[place], producer.name, producer.promises.get(place, Promises())
            )
        ]
        assert found == []
        total = sum(len(log) for log in logs.values())
        assert total == sum(
            len(promises.sent) for producer in producers for promises in producer.promises.values()
        )
        segments = fewest_segments(broker)
        resent = sum(producer.resent for producer in raw)
        print(f"{total} records, {resent} raw batches sent again, {segments} segments or more")
        assert total >= LEAST_RECORDS
        assert resent > 0
        assert segments >= LEAST_SEGMENTS
        assert broker.stop() == 0


def test_the_check_sees_what_it_is_for() -> None:
    """Losses, duplicates, reorderings, wrong offsets and inventions each are a problem."""
    values = [b"p %d" % number for number in range(4)]
    promises = Promises(values, {value: offset for offset, value in enumerate(values)})

    def found(*numbers: int) -> list[str]:
        log = [RecordSeen(offset, b"p %d" % number) for offset, number in enumerate(numbers)]
        return problems(log, "p", promises)

    assert found(0, 1, 2, 3) == []
    assert any("lost" in problem for problem in found(0, 1, 2))
    assert any("duplicates" in problem for problem in found(0, 1, 2, 3, 3))
    assert any("out of order" in problem for problem in found(0, 2, 1, 3))
    assert any("elsewhere" in problem for problem in found(1, 0, 2, 3))
    assert any("never sent" in problem for problem in found(0, 1, 2, 3, 4))
