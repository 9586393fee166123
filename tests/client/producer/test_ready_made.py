"""Batches that another process encoded: they are stamped when they are sent, and obey the rules of all others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.broker.requests import eventually
from tests.client.producer.meddler import Meddler
from tests.client.producer.reading import (
    all_committed,
    has_its_memory_back,
    headers_of,
    values_of,
)
from tests.client.producer.transactional import make, version

import ottla
import ottla.aio
from ottla.admin import NewTopic
from ottla.client.send.encoded_batches import copy_if_mutable
from ottla.errors import AbortableError, ErrorCode, IllegalStateError, KafkaError
from ottla.records.batch import BatchFlag, TimestampType, build_batch, read_batch
from ottla.records.compression import Codec
from ottla.records.record import Record

__all__ = ["make", "version"]  # fixtures

# Records of very different times would be in different segments.
NOW_MS = time.time_ns() // 1_000_000


def batch_of(*values: bytes, **fields: Any) -> bytes:
    """A batch as another process makes it: no producer id, epoch and sequence."""
    records = [Record(index, NOW_MS + index, b"k", value) for index, value in enumerate(values)]
    return build_batch(records, **fields)


def test_batches_become_part_of_the_transaction_in_order(
    version: int, make: Callable[..., ottla.Producer], servers: str, topic: str
) -> None:
    producer = make()
    producer.init_transactions()
    for outcome in ("commit", "abort", "commit"):
        producer.begin_transaction()
        name = outcome.encode()
        futures = [
            producer.send_encoded(topic, 0, batch_of(name + b"1", name + b"2")),
            producer.send(topic, name + b"3", partition=0),
            producer.send_encoded(topic, 0, batch_of(name + b"4", codec=Codec.GZIP)),
            producer.send_encoded(topic, 1, memoryview(batch_of(name + b"5"))),
        ]
        producer.flush()
        assert all(future.done() for future in futures)
        getattr(producer, f"{outcome}_transaction")()
    once = [b"commit1", b"commit2", b"commit3", b"commit4"]
    assert all_committed(servers, topic, 2) == [*once, *once, b"commit5", b"commit5"]
    assert b"abort2" in values_of(servers, topic)


def test_id_epoch_and_sequence_are_stamped_when_the_batch_is_sent(
    version: int, make: Callable[..., ottla.Producer], servers: str, topic: str
) -> None:
    encoded = batch_of(b"a", b"b", b"c", codec=Codec.GZIP)
    producer = make()
    producer.init_transactions()
    for _ in range(2):
        with producer.transaction():
            first = producer.send_encoded(topic, 0, encoded)
            second = producer.send_encoded(topic, 0, encoded)
            assert second.result(10).offset == first.result(10).offset + 3
            assert first.result(10).timestamp_ms == NOW_MS
    data = [batch for batch in headers_of(servers, topic) if not batch.header.is_control]
    assert all(batch.header.is_transactional for batch in data)
    assert all(batch.header.codec is Codec.GZIP for batch in data)
    assert [r.timestamp for r in data[0].records] == [NOW_MS, NOW_MS + 1, NOW_MS + 2]
    assert len({batch.header.producer_id for batch in data}) == 1
    sequences = [batch.header.base_sequence for batch in data]
    epochs = [batch.header.producer_epoch for batch in data]
    if version == 1:
        assert sequences == [0, 3, 6, 9]
        assert len(set(epochs)) == 1
    else:
        # Every transaction has an epoch of its own (KIP-890).
        assert sequences == [0, 3, 0, 3]
        assert epochs[0] == epochs[1] < epochs[2] == epochs[3]
    # What was given is as it was: it can be sent again by others.
    assert encoded == batch_of(b"a", b"b", b"c", codec=Codec.GZIP)


def test_what_changes_after_it_was_given_is_sent_as_it_was(
    make: Callable[..., ottla.Producer], servers: str, topic: str
) -> None:
    """And what cannot change is not copied before."""
    producer = make(linger_ms=60_000)
    producer.init_transactions()
    with producer.transaction():
        for kind in (bytearray, lambda data: memoryview(bytearray(data))):
            given = kind(batch_of(b"value"))
            producer.send_encoded(topic, 0, given)
            given[-2] ^= 0xFF
        shown = memoryview(batch_of(b"value"))
        assert copy_if_mutable(shown) is shown
        producer.send_encoded(topic, 0, shown)
    assert all_committed(servers, topic, 2) == 3 * [b"value"]


def test_a_batch_whose_answer_was_lost_is_written_once(
    version: int,
    make: Callable[..., ottla.Producer],
    meddler: Meddler,
    servers: str,
    topic: str,
) -> None:
    producer = make()
    producer.init_transactions()
    with producer.transaction():
        producer.send_encoded(topic, 0, batch_of(b"first")).result(10)
        meddler.on("Produce", answer_is_lost=True, times=2)
        producer.send_encoded(topic, 0, batch_of(b"a", b"b")).result(20)
    assert all_committed(servers, topic, 1) == [b"first", b"a", b"b"]


def test_a_fenced_producer_cannot_send_batches(
    version: int, make: Callable[..., ottla.Producer], servers: str, topic: str
) -> None:
    old = make()
    old.init_transactions()
    old.begin_transaction()
    old.send_encoded(topic, 0, batch_of(b"old")).result(10)
    new = make()
    new.init_transactions()
    with pytest.raises(KafkaError):
        old.send_encoded(topic, 0, batch_of(b"late")).result(10)
    with pytest.raises(KafkaError):
        old.commit_transaction()
    with new.transaction():
        new.send_encoded(topic, 0, batch_of(b"new"))
    assert all_committed(servers, topic, 1) == [b"new"]


def test_outside_a_transaction_a_transactional_producer_takes_no_batch(
    make: Callable[..., ottla.Producer], topic: str
) -> None:
    producer = make()
    producer.init_transactions()
    producer.partitions_for(topic)
    with pytest.raises(IllegalStateError):
        producer.send_encoded(topic, 0, batch_of(b"x"))


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_without_transactions_the_batch_is_stamped_as_others_are(
    is_idempotent: bool, servers: str, topic: str
) -> None:
    encoded = batch_of(b"a", b"b", flags=BatchFlag.TRANSACTIONAL)
    with ottla.Producer(bootstrap_servers=servers, enable_idempotence=is_idempotent) as producer:
        assert producer.send_encoded(topic, 0, encoded).result(10).offset == 0
        assert producer.send_encoded(topic, 0, encoded).result(10).offset == 2
    headers = [batch.header for batch in headers_of(servers, topic)]
    assert not any(header.is_transactional for header in headers)
    assert [header.base_sequence for header in headers] == ([0, 2] if is_idempotent else [-1, -1])
    assert values_of(servers, topic) == [b"a", b"b", b"a", b"b"]


def test_a_batch_that_the_broker_finds_too_large_is_split(
    make: Callable[..., ottla.Producer], servers: str, topic: str
) -> None:
    values = [b"%03d" % number * 300 for number in range(60)]
    with ottla.Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, 1, configs={"max.message.bytes": "20000"})])
    producer = make(batch_size=10_000)
    producer.init_transactions()
    with producer.transaction():
        producer.send_encoded(topic, 0, batch_of(*values))
        producer.send_encoded(topic, 0, batch_of(b"behind"))
    assert all_committed(servers, topic, 1) == [*values, b"behind"]


BAD: dict[str, tuple[bytes, str]] = {
    "flipped-bit": (batch_of(b"abc")[:-3] + b"X" + batch_of(b"abc")[-2:], "checksum"),
    "truncated": (batch_of(b"abc")[:-1], "bytes"),
    "two-batches": (batch_of(b"a") + batch_of(b"b"), "bytes"),
    "empty": (b"", "truncated"),
    "no-records": (build_batch([], last_offset=0), "0 records"),
    "hole": (build_batch([Record(0, 1, None, b"a"), Record(2, 1, None, b"b")]), "number 2"),
    "of-a-log": (build_batch([Record(7, 1, None, b"a")], base_offset=7), "begin at 7"),
    "marker": (batch_of(b"a", flags=BatchFlag.CONTROL | BatchFlag.TRANSACTIONAL), "marker"),
    "append-time": (batch_of(b"a", timestamp_type=TimestampType.LOG_APPEND_TIME), "time"),
    "of-another-producer": (batch_of(b"a", producer_id=5, producer_epoch=0), "producer 5"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_batch_to_send_fails_the_transaction_that_lacks_it(
    name: str, make: Callable[..., ottla.Producer], servers: str, topic: str
) -> None:
    encoded, why = BAD[name]
    producer = make()
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"good", partition=0)
    with pytest.raises(AbortableError, match=why) as caught:
        producer.send_encoded(topic, 0, encoded)
    assert caught.value.code is ErrorCode.INVALID_RECORD
    with pytest.raises(AbortableError):
        producer.commit_transaction()
    producer.abort_transaction()
    assert all_committed(servers, topic, 1) == []


def test_without_a_look_at_the_checksum_the_broker_refuses_a_wrong_one(
    make: Callable[..., ottla.Producer], servers: str, topic: str
) -> None:
    """The checksum is renewed without the records, so that a wrong one stays wrong. It is not tried again."""
    with ottla.Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, 1, configs={"max.message.bytes": "50000"})])
    producer = make()
    producer.init_transactions()
    # Of the larger one the broker looks at the size only: parts of it would have checksums of their own.
    for count in (1, 9):
        good = batch_of(*[bytes(10_000)] * count)
        torn = bytearray(good)
        torn[-5000] ^= 1
        producer.begin_transaction()
        producer.send_encoded(topic, 0, good, check_crc=False).result(20)
        refused = producer.send_encoded(topic, 0, bytes(torn), check_crc=False)
        with pytest.raises(AbortableError, match="damaged before it was sent") as caught:
            refused.result(20)
        assert caught.value.code is ErrorCode.INVALID_RECORD
        with pytest.raises(AbortableError):
            producer.commit_transaction()
        producer.abort_transaction()
    assert all_committed(servers, topic, 1) == []


def test_large_batches_are_sent_again_from_where_they_are(
    version: int, make: Callable[..., ottla.Producer], meddler: Meddler, servers: str, topic: str
) -> None:
    values = [b"%d" % number * 5000 for number in range(8)]
    producer = make()
    producer.init_transactions()
    with producer.transaction():
        producer.send_encoded(topic, 0, memoryview(batch_of(values[0]))).result(20)
        meddler.on("Produce", answer_is_lost=True, times=1)
        for value in values[1:]:
            producer.send_encoded(topic, 0, memoryview(batch_of(value)))
    assert all_committed(servers, topic, 1) == values


def test_a_batch_larger_than_max_request_size_is_refused(
    make: Callable[..., ottla.Producer], topic: str
) -> None:
    producer = make(max_request_size=1000, batch_size=500)
    producer.init_transactions()
    producer.begin_transaction()
    with pytest.raises(KafkaError, match=r"max\.request\.size is 1000") as caught:
        producer.send_encoded(topic, 0, batch_of(bytes(1000)))
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    with pytest.raises(AbortableError):
        producer.commit_transaction()


@pytest.mark.parametrize("acks", [0, 1])
def test_what_nobody_acknowledges_may_change_when_the_future_is_done(
    acks: int, servers: str, topic: str
) -> None:
    options: Any = {"bootstrap.servers": servers, "acks": acks, "enable.idempotence": False}
    given = batch_of(*[b"v" * 1000] * 900)
    shared = bytearray(given)
    with ottla.Producer(options) as producer:
        for _ in range(20):
            producer.send_encoded(topic, 0, memoryview(shared).toreadonly()).result(20)
            shared[:] = bytes(len(given))
            shared[:] = given
    # Nothing tells when the broker has written what it does not acknowledge.
    assert eventually(lambda: len(values_of(servers, topic)) == 20 * 900)


def test_memory_is_waited_for_and_given_back(
    make: Callable[..., ottla.Producer], servers: str, topic: str
) -> None:
    producer = make(buffer_memory=60_000, max_request_size=50_000, batch_size=1000)
    producer.init_transactions()
    encoded = batch_of(bytes(40_000))
    with producer.transaction():
        futures = [producer.send_encoded(topic, 0, encoded) for _ in range(5)]
    assert [future.result(0).offset for future in futures] == [0, 1, 2, 3, 4]
    assert eventually(lambda: has_its_memory_back(producer))


def test_asyncio_sends_batches_too(servers: str, topic: str) -> None:
    async def main() -> None:
        async with ottla.aio.Producer(bootstrap_servers=servers) as producer:
            future = await producer.send_encoded(topic, 0, batch_of(b"a", b"b"))
            assert (await future).offset == 0

    asyncio.run(main())
    assert values_of(servers, topic) == [b"a", b"b"]
    assert read_batch(batch_of(b"a"), 0)[0].value == b"a"
