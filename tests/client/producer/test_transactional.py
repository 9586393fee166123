"""Transactions of the producer, in both versions: what readers see, what errors mean, what a call out of order does."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable

import pytest
from tests.client.producer.meddler import Meddler
from tests.client.producer.reading import (
    all_committed,
    headers_of,
    seen_by_confluent,
    values_of,
)
from tests.client.producer.transactional import (
    PARTITIONS,
    make,
    max_block_ms,
    version,
    without_features,
)
from tests.waiting import in_time

import ottla
from ottla.client.model import ConsumerGroupMetadata, OffsetAndMetadata
from ottla.client.raw import RawConnection
from ottla.errors import (
    AbortableError,
    CommitFailedError,
    IllegalStateError,
    TimedOutError,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)

__all__ = ["make", "version"]  # fixtures


def committed_offset(servers: str, group: str, topic: str) -> int:
    request = OffsetFetchRequest(
        group_id=group, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
    )
    with RawConnection(servers) as connection:
        answer = connection.call(request, OffsetFetchResponse, 5)
    offset: int = answer.topics[0].partitions[0].committed_offset
    return offset


# What readers see


def test_commit_shows_everything_and_abort_nothing(
    version: int, make: Callable[..., ottla.Producer], servers: str, topic: str
) -> None:
    producer = make()
    producer.init_transactions()
    for outcome in ("commit", "abort", "commit"):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            for number in range(10):
                producer.send(topic, b"%s%d" % (outcome.encode(), number), partition=partition)
        producer.flush()
        if outcome == "commit":
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    expected = sorted([b"commit%d" % number for number in range(10)] * 2 * PARTITIONS)
    assert sorted(seen_by_confluent(servers, topic, PARTITIONS)) == expected
    assert sorted(v or b"" for v in all_committed(servers, topic, PARTITIONS)) == expected
    assert b"abort0" in values_of(servers, topic)


def test_commit_sends_what_lingers(
    version: int, make: Callable[..., ottla.Producer], servers: str, topic: str
) -> None:
    producer = make(linger_ms=20_000)
    producer.init_transactions()
    with producer.transaction():
        futures = [producer.send(topic, b"%d" % number) for number in range(10)]
    assert all(future.done() for future in futures)
    assert len(all_committed(servers, topic, PARTITIONS)) == 10


def test_abort_drops_what_was_not_sent(
    version: int, make: Callable[..., ottla.Producer], servers: str, topic: str
) -> None:
    producer = make(linger_ms=20_000)
    producer.init_transactions()
    producer.begin_transaction()
    future = producer.send(topic, b"never", partition=0)
    producer.abort_transaction()
    with pytest.raises(AbortableError, match="its transaction was aborted"):
        future.result(0)
    with producer.transaction():
        producer.send(topic, b"next", partition=0)
    assert all_committed(servers, topic, PARTITIONS) == [b"next"]


def test_abort_waits_for_what_is_on_its_way(
    version: int, make: Callable[..., ottla.Producer], meddler: Meddler, servers: str, topic: str
) -> None:
    producer = make()
    producer.init_transactions()
    hold = threading.Event()
    producer.begin_transaction()
    producer.send(topic, b"warm", partition=0).result(10)
    meddler.on("Produce", hold=hold)
    future = producer.send(topic, b"on its way", partition=0)
    _wait_for(lambda: any(b"on its way" in d for d in _produced(meddler)))
    threading.Timer(0.2, hold.set).start()
    producer.abort_transaction()
    assert future.done()
    ends = [r.name for r in meddler.requests if r.name in ("EndTxn", "Produce")]
    assert ends[-1] == "EndTxn"
    assert all_committed(servers, topic, PARTITIONS) == []


def _produced(meddler: Meddler) -> list[bytes]:
    return [
        bytes(each.records)
        for request in meddler.seen("Produce")
        for topic in request.message.topic_data
        for each in topic.partition_data
    ]


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        in_time(deadline)
        time.sleep(0.005)


def test_empty_transactions_ask_nobody(
    make: Callable[..., ottla.Producer], meddler: Meddler
) -> None:
    producer = make()
    producer.init_transactions()
    with producer.transaction():
        pass
    producer.begin_transaction()
    producer.abort_transaction()
    assert meddler.seen("EndTxn") == []


def test_context_manager_aborts_and_lets_the_exception_through(
    version: int, make: Callable[..., ottla.Producer], servers: str, topic: str
) -> None:
    producer = make()
    producer.init_transactions()

    def fail() -> None:
        with producer.transaction():
            producer.send(topic, b"no").result(10)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with producer.transaction():
        producer.send(topic, b"yes")
    assert all_committed(servers, topic, PARTITIONS) == [b"yes"]


# What is asked of whom


def test_version_1_adds_partitions_and_groups_once(
    make: Callable[..., ottla.Producer], meddler: Meddler, servers: str, topic: str
) -> None:
    meddler.on("ApiVersions", edit=without_features, times=1000)
    producer = make()
    producer.init_transactions()
    group = f"{topic}-group"
    with producer.transaction():
        for _ in range(3):
            producer.send(topic, b"x", partition=0).result(10)
            producer.send_offsets_to_transaction({(topic, 0): 7}, group)
    added = [
        (each.name, each.partitions)
        for request in meddler.seen("AddPartitionsToTxn")
        for each in request.message.v3_and_below_topics
    ]
    assert added == [(topic, [0])]
    assert len(meddler.seen("AddOffsetsToTxn")) == 1
    assert len(meddler.seen("TxnOffsetCommit")) == 3
    assert {r.version for r in meddler.seen("Produce")} == {11}
    assert {r.version for r in meddler.seen("EndTxn")} == {4}
    assert {r.version for r in meddler.seen("TxnOffsetCommit")} == {4}
    assert committed_offset(servers, group, topic) == 7


def test_version_2_adds_nothing_and_gets_an_epoch_for_each_transaction(
    make: Callable[..., ottla.Producer], meddler: Meddler, servers: str, topic: str
) -> None:
    producer = make()
    producer.init_transactions()
    group = f"{topic}-group"
    for _ in range(3):
        with producer.transaction():
            producer.send(topic, b"x", partition=0)
            producer.send_offsets_to_transaction({(topic, 0): OffsetAndMetadata(8, "m")}, group)
    assert meddler.seen("AddPartitionsToTxn") == []
    assert meddler.seen("AddOffsetsToTxn") == []
    assert {r.version for r in meddler.seen("EndTxn")} == {5}
    assert {r.version for r in meddler.seen("TxnOffsetCommit")} == {5}
    assert all(r.version >= 12 for r in meddler.seen("Produce"))
    assert len(meddler.seen("InitProducerId")) == 1
    batches = [batch.header for batch in headers_of(servers, topic)]
    data = [header.producer_epoch for header in batches if not header.is_control]
    assert data == [0, 1, 2]
    assert committed_offset(servers, group, topic) == 8


def test_group_metadata_of_a_stranger_is_refused(
    version: int, make: Callable[..., ottla.Producer], servers: str, topic: str
) -> None:
    producer = make()
    producer.init_transactions()
    group = ConsumerGroupMetadata(f"{topic}-group", 5, "nobody")
    producer.begin_transaction()
    producer.send(topic, b"x")
    with pytest.raises(CommitFailedError, match="has moved on"):
        producer.send_offsets_to_transaction({(topic, 0): 1}, group)
    with pytest.raises(AbortableError, match="has to be aborted"):
        producer.commit_transaction()
    producer.abort_transaction()
    with producer.transaction():
        producer.send(topic, b"y")
    assert all_committed(servers, topic, PARTITIONS) == [b"y"]


def test_timeout_of_transactions_is_told_to_the_coordinator(
    make: Callable[..., ottla.Producer], meddler: Meddler
) -> None:
    make(transaction_timeout_ms=12_345).init_transactions()
    assert meddler.seen("InitProducerId")[0].message.transaction_timeout_ms == 12_345


# Order of calls


def test_calls_out_of_order_are_refused(
    make: Callable[..., ottla.Producer], servers: str, topic: str
) -> None:
    producer = make()
    with pytest.raises(IllegalStateError, match="init_transactions"):
        producer.begin_transaction()
    with pytest.raises(IllegalStateError, match="init_transactions"):
        producer.send(topic, b"x")
    producer.init_transactions()
    for call in (producer.commit_transaction, producer.abort_transaction):
        with pytest.raises(IllegalStateError, match="begin_transaction"):
            call()
    with pytest.raises(IllegalStateError, match="begin_transaction"):
        producer.send(topic, b"x")
    with pytest.raises(IllegalStateError, match="begin_transaction"):
        producer.send_offsets_to_transaction({(topic, 0): 1}, "g")
    with pytest.raises(IllegalStateError):
        producer.init_transactions()
    producer.begin_transaction()
    with pytest.raises(IllegalStateError, match="commit or abort it first"):
        producer.begin_transaction()
    producer.abort_transaction()
    with ottla.Producer(bootstrap_servers=servers) as plain:
        for call in (plain.init_transactions, plain.begin_transaction, plain.commit_transaction):
            with pytest.raises(IllegalStateError, match=r"transactional\.id"):
                call()


def test_commit_that_timed_out_goes_on_when_called_again(
    version: int, make: Callable[..., ottla.Producer], meddler: Meddler, servers: str, topic: str
) -> None:
    producer = make()
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"x").result(10)
    hold = threading.Event()
    meddler.on("EndTxn", hold=hold)
    with max_block_ms(producer, 300), pytest.raises(TimedOutError, match="call it again"):
        producer.commit_transaction()
    with pytest.raises(IllegalStateError, match=r"commit_transaction\(\) timed out"):
        producer.abort_transaction()
    hold.set()
    producer.commit_transaction()
    producer.begin_transaction()
    producer.send(topic, b"y").result(10)
    producer.commit_transaction()
    assert len(meddler.seen("EndTxn")) == 2
    assert set(all_committed(servers, topic, PARTITIONS)) == {b"x", b"y"}


# The end


def test_close_aborts_an_open_transaction(
    version: int, make: Callable[..., ottla.Producer], meddler: Meddler, servers: str, topic: str
) -> None:
    producer = make(linger_ms=20_000)
    producer.init_transactions()
    producer.begin_transaction()
    future = producer.send(topic, b"x", partition=0)
    producer.close(10)
    assert future.result(0).offset == 0
    assert meddler.seen("EndTxn")[-1].message.committed is False
    assert all_committed(servers, topic, PARTITIONS) == []
    with pytest.raises(IllegalStateError, match="is closed"):
        producer.commit_transaction()


def test_close_ends_in_time_whatever_the_coordinator_does(
    make: Callable[..., ottla.Producer], meddler: Meddler, topic: str
) -> None:
    producer = make()
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"x").result(10)
    hold = threading.Event()
    meddler.on("EndTxn", hold=hold)
    started = time.monotonic()
    producer.close(0.3)
    assert time.monotonic() - started < 3
    hold.set()


def test_close_without_a_limit_ends_when_the_coordinator_gives_the_transaction_up(
    make: Callable[..., ottla.Producer], meddler: Meddler, topic: str
) -> None:
    producer = make(transaction_timeout_ms=400)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"x").result(10)
    meddler.on("EndTxn", is_lost=True, times=10_000)
    started = time.monotonic()
    producer.close()
    assert 0.3 < time.monotonic() - started < 10


def test_end_of_with_does_not_wait_for_ever_for_a_coordinator_that_is_away(
    make: Callable[..., ottla.Producer],
    meddler: Meddler,
    topic: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    started = 0.0
    with make(delivery_timeout_ms=2000, request_timeout_ms=1000) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"x").result(10)
        meddler.on("EndTxn", is_lost=True, times=10_000)
        started = time.monotonic()
    assert 2.5 < time.monotonic() - started < 10
    told = [message for message in caplog.messages if "was not aborted" in message]
    assert len(told) == 1
    assert f"the transaction of {producer._config.transactional_id}" in told[0]
    assert "aborts it after transaction.timeout.ms = 60000" in told[0]
    assert "NETWORK_EXCEPTION" in told[0]


def test_abort_gives_up_offsets_that_cannot_be_committed(
    version: int, make: Callable[..., ottla.Producer], meddler: Meddler, servers: str, topic: str
) -> None:
    """Nobody has such a topic; a coordinator is asked again for as long as it may yet come."""
    producer = make(max_block_ms=10_000)
    producer.init_transactions()
    producer.begin_transaction()
    unknown = pytest.raises(TimedOutError, match="UNKNOWN_TOPIC_OR_PARTITION")
    with max_block_ms(producer, 2000), unknown as caught:
        producer.send_offsets_to_transaction({("no-such-topic", 0): 3}, topic)
    assert "partition=no-such-topic-0" in str(caught.value)
    producer.abort_transaction()
    assert meddler.seen("EndTxn")[-1].message.committed is False
    with producer.transaction():
        producer.send(topic, b"x", partition=0)
    assert values_of(servers, topic)[0] == b"x"


def test_begin_transaction_of_aio_can_still_be_awaited(
    servers: str, ottla_topic: str, ottla_topic_name: Callable[[], str]
) -> None:
    async def main() -> None:
        name = ottla_topic_name()
        async with ottla.aio.Producer(bootstrap_servers=servers, transactional_id=name) as producer:
            await producer.init_transactions()
            with pytest.warns(DeprecationWarning, match=r"begin_transaction\(\) does not wait"):
                await producer.begin_transaction()  # type: ignore[misc]
            await producer.send(ottla_topic, b"x")
            await producer.commit_transaction()

    asyncio.run(main())


def test_a_cancelled_call_leaves_no_error_that_nobody_retrieves(
    servers: str, ottla_topic: str, ottla_topic_name: Callable[[], str]
) -> None:
    problems: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: problems.append(context["message"]))
        name = ottla_topic_name()
        async with ottla.aio.Producer(bootstrap_servers=servers, transactional_id=name) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await producer.send(ottla_topic, b"x")
            stranger = ottla.ConsumerGroupMetadata(name, 5, "a member that the group does not have")
            call = asyncio.create_task(
                producer.send_offsets_to_transaction({(ottla_topic, 0): 1}, stranger)
            )
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            # Ends after the task that was left alone: there is one request at a time.
            await producer.abort_transaction()
        gc.collect()

    asyncio.run(main())
    gc.collect()
    assert problems == []
