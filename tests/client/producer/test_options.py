"""Every option of the producer has an effect that can be seen."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from tests.broker.requests import eventually
from tests.client.producer.meddler import Meddler, batches_sent, produce_error
from tests.client.producer.reading import has_its_memory_back, headers_of, values_of
from tests.clients.broker_side import create_topic
from tests.waiting import in_time

import ottla
from ottla.client.raw import RawConnection
from ottla.config.option_types import AcksWord
from ottla.errors import AbortableError, ErrorCode, TimedOutError
from ottla.records.batch import read_header
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.init_producer_id import InitProducerIdResponse


def batch_counts(servers: str, topic: str) -> list[int]:
    return [batch.header.record_count for batch in headers_of(servers, topic)]


def send_all(servers: str, topic: str, values: list[bytes], **options: Any) -> None:
    with ottla.Producer(bootstrap_servers=servers, **options) as producer:
        producer.partitions_for(topic)
        for value in values:
            producer.send(topic, value, partition=0)


def test_batch_size_0_gives_every_record_its_batch(servers: str, topic: str) -> None:
    send_all(servers, topic, [b"x"] * 5, batch_size=0, linger_ms=1000)
    assert batch_counts(servers, topic) == [1] * 5


def test_record_larger_than_batch_size_gets_its_own_batch(servers: str, topic: str) -> None:
    send_all(servers, topic, [b"x", b"y" * 2000, b"z", b"z"], batch_size=500, linger_ms=20_000)
    assert batch_counts(servers, topic) == [1, 1, 2]


def test_batch_size_bounds_batches(servers: str, topic: str) -> None:
    send_all(servers, topic, [b"x" * 100] * 100, batch_size=1000, linger_ms=20_000)
    sizes = [batch.header.size_bytes for batch in headers_of(servers, topic)]
    assert max(sizes) <= 1000
    assert len(sizes) == 13


def test_batches_of_what_compresses_well_hold_more(servers: str, topic: str) -> None:
    with ottla.Producer(
        bootstrap_servers=servers, batch_size=2000, linger_ms=0, compression_type="gzip"
    ) as producer:
        for _ in range(120):
            producer.send(topic, b"x" * 1000, partition=0).result(10)
        producer.send_many(topic, [b"x" * 100] * 200, partition=0).result(10)
    assert max(batch_counts(servers, topic)) > 25, "17 fit without compression"


def send_seconds(producer: ottla.Producer, topic: str) -> float:
    started = time.monotonic()
    producer.send(topic, b"x").result(10)
    return time.monotonic() - started


def test_linger_holds_a_batch_back(servers: str, topic: str) -> None:
    with ottla.Producer(bootstrap_servers=servers, linger_ms=150) as producer:
        producer.partitions_for(topic)
        assert send_seconds(producer, topic) > 0.14
    with ottla.Producer(bootstrap_servers=servers, linger_ms=0) as producer:
        # Some may be slow on a busy machine, but not all.
        assert any(send_seconds(producer, topic) < 0.14 for _ in range(20))


def test_full_batch_does_not_linger(servers: str, topic: str) -> None:
    with ottla.Producer(bootstrap_servers=servers, linger_ms=20_000, batch_size=300) as producer:
        producer.partitions_for(topic)
        futures = [producer.send(topic, b"x" * 100, partition=0) for _ in range(4)]
        assert futures[0].result(5).offset == 0
        producer.close(5)


def test_flush_does_not_wait_for_the_linger(servers: str, topic: str) -> None:
    with ottla.Producer(bootstrap_servers=servers, linger_ms=20_000) as producer:
        future = producer.send(topic, b"x")
        producer.flush(5)
        assert future.done()


def test_full_memory_blocks_for_max_block_ms(meddler: Meddler, servers: str, topic: str) -> None:
    with ottla.Producer(
        bootstrap_servers=servers, buffer_memory=20_000, max_block_ms=1500, linger_ms=0
    ) as producer:
        producer.send(topic, b"first", partition=0).result(10)
        hold = threading.Event()
        meddler.on("Produce", hold=hold)
        first = producer.send(topic, b"x" * 10_000, partition=0)
        started = time.monotonic()
        with pytest.raises(TimedOutError, match=r"buffer\.memory"):
            producer.send(topic, b"y" * 10_000, partition=0)
        assert 1.4 < time.monotonic() - started < 8
        threading.Timer(0.05, hold.set).start()
        assert producer.send(topic, b"z" * 10_000, partition=0).result(10).offset == 2
        assert first.result(0).offset == 1
        assert producer.metrics()["record-error-total"] == 1


def test_batches_that_linger_go_when_memory_is_short(servers: str, topic: str) -> None:
    with ottla.Producer(
        bootstrap_servers=servers, buffer_memory=40_000, linger_ms=20_000
    ) as producer:
        for partition in (0, 1, 0, 1):
            future = producer.send(topic, b"x" * 12_000, partition=partition)
        producer.flush()
        assert future.done()


def test_unknown_topic_is_waited_for(ottla_topic: str) -> None:
    with ottla.Broker(auto_create_topics_enable=False) as broker:
        servers = broker.bootstrap_servers
        with ottla.Producer(bootstrap_servers=servers, max_block_ms=1500) as producer:
            with pytest.raises(TimedOutError, match="UNKNOWN_TOPIC_OR_PARTITION") as caught:
                producer.send(ottla_topic, b"x")
            assert ottla_topic in str(caught.value)
            with pytest.raises(TimedOutError):
                producer.partitions_for(ottla_topic)
        with ottla.Producer(bootstrap_servers=servers, max_block_ms=10_000) as producer:
            creating = threading.Timer(0.2, create_topic, (servers, ottla_topic, 1, {}))
            creating.start()
            assert producer.send(ottla_topic, b"x").result(10).offset == 0


def test_partition_that_does_not_exist_yet_is_waited_for(servers: str, topic: str) -> None:
    with ottla.Producer(bootstrap_servers=servers, max_block_ms=1500) as producer:
        producer.send(topic, b"x", partition=0).result(10)
        with pytest.raises(TimedOutError, match="Partition 2 of topic"):
            producer.send(topic, b"x", partition=2)
        with pytest.raises(ValueError, match="from 0 on"):
            producer.send(topic, b"x", partition=-1)
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic, count=3, assignments=None)],
            timeout_ms=1000,
            validate_only=False,
        )
        with RawConnection(servers) as connection:
            connection.call(request, CreatePartitionsResponse, 1)
        assert producer.send(topic, b"x", partition=2).result(10).partition == 2


def test_max_request_size_bounds_records_and_requests(
    meddler: Meddler, servers: str, topic: str
) -> None:
    with ottla.Producer(
        bootstrap_servers=servers, max_request_size=1000, batch_size=600, linger_ms=1000
    ) as producer:
        producer.partitions_for(topic)
        with pytest.raises(AbortableError, match=r"max\.request\.size is 1000") as caught:
            producer.send(topic, b"x" * 1000)
        assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
        with pytest.raises(AbortableError, match=r"max\.request\.size"):
            producer.send_many(topic, [b"x", b"x" * 1000])
        for partition in (0, 1):
            producer.send(topic, b"x" * 500, partition=partition)
        producer.flush()
    assert [len(r.message.topic_data[0].partition_data) for r in meddler.seen("Produce")] == [1, 1]


@pytest.mark.parametrize("most", [1, 3])
def test_requests_in_flight_are_bounded(
    meddler: Meddler, servers: str, topic: str, most: int
) -> None:
    with ottla.Producer(
        bootstrap_servers=servers,
        max_in_flight_requests_per_connection=most,
        batch_size=0,
        linger_ms=0,
    ) as producer:
        producer.send(topic, b"first", partition=0).result(10)
        meddler.calm()
        hold = threading.Event()
        meddler.on("Produce", hold=hold, times=1)
        for _ in range(10):
            producer.send(topic, b"x", partition=0)
        deadline = time.monotonic() + 5
        while len(meddler.seen("Produce")) < most and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(0.03)
        assert len(meddler.seen("Produce")) == most
        assert producer.metrics()["requests-in-flight"] == most
        hold.set()


@pytest.mark.parametrize(("acks", "number"), [("0", 0), ("1", 1), ("all", -1), ("-1", -1)])
def test_acks(meddler: Meddler, servers: str, topic: str, acks: AcksWord, number: int) -> None:
    with ottla.Producer(bootstrap_servers=servers, acks=acks, linger_ms=0) as producer:
        place = producer.send(topic, b"x", partition=0).result(10)
        assert place.offset == (-1 if number == 0 else 0)
    deadline = time.monotonic() + 5
    while values_of(servers, topic) != [b"x"]:
        in_time(deadline)
        time.sleep(0.01)
    assert {r.message.acks for r in meddler.seen("Produce")} == {number}


def test_idempotence_numbers_batches(servers: str, topic: str) -> None:
    for idempotent in (False, True):
        send_all(servers, topic, [b"x"], enable_idempotence=idempotent)
    plain, numbered = (batch.header for batch in headers_of(servers, topic))
    assert (plain.producer_id, plain.base_sequence) == (-1, -1)
    assert numbered.producer_id >= 0
    assert (numbered.producer_epoch, numbered.base_sequence) == (0, 0)


@pytest.mark.parametrize(
    ("codec", "low", "high"), [("gzip", 1, 9), ("zstd", -5, 19), ("lz4", 9, 12)]
)
def test_compression_levels(
    meddler: Meddler, servers: str, topic: str, codec: str, low: int, high: int
) -> None:
    value = b" ".join(b"%d" % (number * number) for number in range(3000))
    for level in (low, high):
        options = {"compression_type": codec, f"compression_{codec}_level": level}
        send_all(servers, topic, [value], batch_size=100_000, **options)
    lazy, eager = (len(data) for _, _, data in batches_sent(meddler))
    assert eager < lazy < len(value)


def test_retry_backoff_separates_attempts(meddler: Meddler, servers: str, topic: str) -> None:
    with ottla.Producer(
        bootstrap_servers=servers, retry_backoff_ms=200, retry_backoff_max_ms=200, linger_ms=0
    ) as producer:
        producer.send(topic, b"first", partition=0).result(10)
        meddler.on("Produce", answer=produce_error(ErrorCode.NOT_ENOUGH_REPLICAS))
        started = time.monotonic()
        producer.send(topic, b"x", partition=0).result(10)
        assert 0.15 < time.monotonic() - started < 5


def test_topics_that_are_not_used_are_forgotten(meddler: Meddler, servers: str, topic: str) -> None:
    with ottla.Producer(
        bootstrap_servers=servers, metadata_max_idle_ms=5000, metadata_max_age_ms=100
    ) as producer:
        producer.send(topic, b"x").result(10)
        metadata = producer._client._parts.network.metadata

        def wanted() -> tuple[str, ...]:
            return metadata.wanted

        assert wanted() == (topic,)
        # As if the time had passed.
        metadata._wanted[topic] -= 6000
        deadline = time.monotonic() + 5
        while wanted() or topic in producer._parts.writer._topics:
            in_time(deadline)
            time.sleep(0.01)
        producer.send(topic, b"y").result(10)
        assert wanted() == (topic,)


def test_keys_can_be_ignored(servers: str, topic: str) -> None:
    with ottla.Producer(
        bootstrap_servers=servers, partitioner_ignore_keys=True, batch_size=0, linger_ms=0
    ) as producer:
        used = {producer.send(topic, b"x", b"key").result(10).partition for _ in range(40)}
    assert used == {0, 1}


@pytest.mark.parametrize("adaptive", [True, False])
def test_records_without_a_key_prefer_partitions_with_short_queues(
    meddler: Meddler, servers: str, topic: str, adaptive: bool
) -> None:
    """KIP-794: what a broker is slow to take is not sent to it more than necessary."""
    with ottla.Producer(
        bootstrap_servers=servers,
        batch_size=0,
        linger_ms=0,
        partitioner_adaptive_partitioning_enable=adaptive,
    ) as producer:
        for partition in (0, 1):
            producer.send(topic, b"x", partition=partition).result(10)
        hold = threading.Event()
        meddler.on("Produce", hold=hold, times=1)
        for _ in range(300):
            producer.send(topic, b"x", partition=0)
        futures = [producer.send(topic, b"y") for _ in range(100)]
        hold.set()
        used = [future.result(10).partition for future in futures]
    assert (used.count(1) > 80) is adaptive


def test_records_without_a_key_avoid_brokers_that_take_nothing(ottla_topic: str) -> None:
    """partitioner.availability.timeout.ms: a leader that cannot be reached gets no more of them for a while."""
    with (
        ottla.Broker(nodes=2, num_partitions=2) as broker,
        ottla.Producer(
            bootstrap_servers=broker.bootstrap_servers,
            batch_size=0,
            linger_ms=0,
            partitioner_availability_timeout_ms=1,
            max_in_flight_requests_per_connection=1,
        ) as producer,
    ):
        for partition in (0, 1):
            producer.send(ottla_topic, b"x", partition=partition).result(10)
        producer.send(ottla_topic, b"x").result(10)
        slow = broker.leader_of(ottla_topic, 0)
        assert broker.leader_of(ottla_topic, 1) != slow
        connection = producer._client._parts.network.connection_now(slow)
        assert connection is not None
        # As if the broker had asked for a pause (KIP-219).
        connection.throttled_until = time.monotonic() + 3.0
        deadline = time.monotonic() + 10
        while not producer._parts.sender.dispatcher._sticky._is_slow(slow):
            in_time(deadline, "the producer does not notice")
            producer.send(ottla_topic, b"x", partition=0)
            time.sleep(0.01)
        futures = [producer.send(ottla_topic, b"y") for _ in range(20)]
        assert [future.result(10).partition for future in futures] == [1] * 20


def test_client_id_names_the_producer(meddler: Meddler, servers: str, topic: str) -> None:
    send_all(servers, topic, [b"x"], client_id="till-3")
    assert {request.client_id for request in meddler.seen("Produce")} == {"till-3"}


def test_producer_id_is_that_of_the_coordinator(meddler: Meddler, servers: str, topic: str) -> None:
    mine = InitProducerIdResponse(error_code=0, producer_id=4711, producer_epoch=3)
    meddler.on("InitProducerId", answer=lambda _: mine)
    send_all(servers, topic, [b"x"])
    header = read_header(batches_sent(meddler)[0][2], 0)
    assert (header.producer_id, header.producer_epoch) == (4711, 3)


def test_metrics_have_kafkas_names(servers: str, topic: str) -> None:
    with ottla.Producer(bootstrap_servers=servers) as producer:
        producer.send(topic, b"x" * 100).result(10)
        assert eventually(lambda: has_its_memory_back(producer))
        metrics = producer.metrics()
    for name in (
        *("record-send-total", "record-send-rate", "record-error-total", "record-retry-total"),
        *("batch-size-avg", "batch-size-max", "request-latency-avg", "record-queue-time-avg"),
        *("compression-rate-avg", "records-per-request-avg", "batch-split-total"),
        *("buffer-total-bytes", "buffer-available-bytes", "waiting-threads"),
        *("requests-in-flight", f"record-send-total{{topic={topic}}}"),
    ):
        assert name in metrics
    assert metrics["record-send-total"] == 1
    assert metrics["batch-size-avg"] > 100


def test_what_gave_way_is_said_once(
    servers: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "ottla.client"):
        send_all(servers, topic, [b"x"], acks="1")
    said = [record for record in caplog.records if "enable.idempotence" in record.message]
    assert len(said) == 1


def test_closing_does_not_lose_what_nobody_answers(ottla_broker: ottla.Broker, topic: str) -> None:
    """With acks=0 a record is done when it is written to the connection; that has to be sent all the same."""
    servers = ottla_broker.bootstrap_servers
    with ottla.Producer(bootstrap_servers=servers, acks=0, batch_size=100_000) as producer:
        producer.partitions_for(topic)
        for _ in range(300):
            producer.send(topic, b"x" * 50_000, partition=0)
    deadline = time.monotonic() + 10
    while len(values_of(servers, topic)) < 300:
        in_time(deadline)
        time.sleep(0.05)
