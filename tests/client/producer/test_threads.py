"""Threads that share a producer each get the outcome of their own records."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.client.producer.reading import records_of

import ottla
from ottla import RecordMetadata

RECORDS = 1500


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("hasty")
def test_threads_that_share_a_producer_learn_of_their_own_records(servers: str, topic: str) -> None:
    told: dict[bytes, list[int]] = {}
    futures: dict[bytes, int] = {}

    with ottla.Producer(bootstrap_servers=servers, batch_size=2000, linger_ms=1) as producer:

        def send_singly(name: int) -> None:
            for number in range(RECORDS):
                value = b"%d/%d" % (name, number)

                def on_delivery(
                    metadata: RecordMetadata | None,
                    error: BaseException | None,
                    value: bytes = value,
                ) -> None:
                    assert error is None
                    assert metadata is not None
                    told.setdefault(value, []).append(metadata.offset)

                future = producer.send(topic, value, partition=0, on_delivery=on_delivery)
                if number % 100 == 0:
                    futures[value] = future.result(30).offset

        def send_many(name: int) -> None:
            for start in range(0, RECORDS, 30):
                values = [b"%d/%d" % (name, number) for number in range(start, start + 30)]
                # A record before: the next ones go into a batch that is open.
                producer.send(topic, b"%d/extra %d" % (name, start), partition=0)
                sent = producer.send_many(topic, values, partition=0)
                if start % 300 == 0:
                    offsets = [metadata.offset for metadata in sent.result(30)]
                    futures.update(zip(values, offsets, strict=True))

        with ThreadPoolExecutor(4) as pool:
            for running in [
                *(pool.submit(send_singly, name) for name in (0, 1)),
                *(pool.submit(send_many, name) for name in (2, 3)),
            ]:
                running.result(60)
        producer.flush(30)

    written = records_of(servers, topic)
    places = {record.value: record.offset for record in written}
    assert len(written) == len(places) == 4 * RECORDS + 2 * RECORDS // 30
    assert futures == {value: places[value] for value in futures}
    assert len(told) == 2 * RECORDS
    assert told == {value: [places[value]] for value in told}
    for name in range(4):
        mine = [places[b"%d/%d" % (name, number)] for number in range(RECORDS)]
        assert mine == sorted(mine), "each thread's records are in its order"
