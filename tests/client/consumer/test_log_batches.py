"""The headers of batches, as tools read them from a partition."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ottla
from ottla.client.aio.consumer.inspecting_consumer import InspectingConsumer
from ottla.client.aio.consumer.log_batches import read_log_batches
from ottla.errors import KafkaError, TimedOutError
from ottla.model import TopicPartition
from ottla.records.batch import build_batch
from ottla.records.control import MarkerType
from ottla.records.errors import CorruptRecordsError
from ottla.records.record import Record

T = TypeVar("T")
PLACE = TopicPartition("batches", 0)


def inspected(broker: ottla.Broker, ask: Callable[[InspectingConsumer], Awaitable[T]]) -> T:
    async def run() -> T:
        options: dict[str, object] = {
            "bootstrap.servers": broker.bootstrap_servers,
            "default.api.timeout.ms": 2000,
            "allow.auto.create.topics": False,
        }
        consumer = InspectingConsumer(options, shows_control=True, shows_aborted=True)
        async with consumer:
            return await ask(consumer)

    return asyncio.run(run())


@pytest.fixture
def broker() -> Iterator[ottla.Broker]:
    """A topic with a batch of three, a committed and an aborted transaction, and an open one."""
    with ottla.Broker() as broker:
        servers = broker.bootstrap_servers
        with ottla.Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([ottla.admin.NewTopic(PLACE.topic, num_partitions=1)])
        with ottla.Producer(
            bootstrap_servers=servers, linger_ms=1000, enable_idempotence=False
        ) as plain:
            for value in (b"a", b"b", b"c"):
                plain.send(PLACE.topic, value)
        producer = ottla.Producer(bootstrap_servers=servers, transactional_id="batches")
        producer.init_transactions()
        for end in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            producer.send(PLACE.topic, b"in transaction").result()
            end()
        producer.begin_transaction()
        producer.send(PLACE.topic, b"open").result()
        yield broker
        producer.close(0)


def test_batches_have_offsets_producers_and_markers(broker: ottla.Broker) -> None:
    found = inspected(broker, lambda consumer: consumer.batches(PLACE, 0, max_bytes=1 << 20))
    offsets = [(each.header.base_offset, each.header.last_offset) for each in found.batches]
    assert offsets == [(0, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7)]
    assert [each.marker for each in found.batches] == [
        None,
        None,
        MarkerType.COMMIT,
        None,
        MarkerType.ABORT,
        None,
    ]
    assert found.batches[0].header.producer_id == -1
    ids = {each.header.producer_id for each in found.batches[1:]}
    assert len(ids) == 1
    assert all(each.header.is_transactional for each in found.batches[1:])
    assert (found.start_offset, found.last_stable_offset, found.end_offset) == (0, 7, 8)


def test_the_batch_around_an_offset_is_whole_however_small_the_limit(broker: ottla.Broker) -> None:
    found = inspected(broker, lambda consumer: consumer.batches(PLACE, 1, max_bytes=1))
    (only,) = found.batches
    assert (only.header.base_offset, only.header.record_count) == (0, 3)


def test_the_end_has_no_batches_and_what_lies_behind_it_is_refused(broker: ottla.Broker) -> None:
    found = inspected(broker, lambda consumer: consumer.batches(PLACE, 8, max_bytes=100))
    assert found.batches == []
    with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
        inspected(broker, lambda consumer: consumer.batches(PLACE, 99, max_bytes=100))


def test_what_does_not_exist_is_named(broker: ottla.Broker) -> None:
    async def ask(consumer: InspectingConsumer) -> None:
        for missing in (TopicPartition("nowhere", 0), TopicPartition(PLACE.topic, 9)):
            with pytest.raises(TimedOutError, match=missing.topic):
                await consumer.batches(missing, 0, max_bytes=100)

    inspected(broker, ask)


def test_a_batch_that_was_cut_off_is_left_out() -> None:
    batches = [build_batch([Record(at, 0, None, b"x" * 50)], base_offset=at) for at in range(3)]
    data = b"".join(batches)
    for missing_bytes in range(1, len(batches[-1])):
        found = read_log_batches(data[:-missing_bytes])
        assert [each.header.base_offset for each in found] == [0, 1]


@given(st.binary(max_size=300))
def test_garbage_has_no_batches_or_is_refused(data: bytes) -> None:
    try:
        found = read_log_batches(data)
    except CorruptRecordsError:
        return
    assert sum(each.header.size_bytes for each in found) <= len(data)
