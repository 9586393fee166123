"""Transactions of the producer, in both versions: what readers see, what errors mean, what a call out of order does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.client.producer.meddler import Meddler, produce_error
from tests.client.producer.reading import (
    all_committed,
    headers_of,
    seen_by_confluent,
    values_of,
)

import ottla
from ottla.client.model import ConsumerGroupMetadata, OffsetAndMetadata
from ottla.client.raw import RawConnection
from ottla.errors import (
    AbortableError,
    CommitFailedError,
    ErrorCode,
    FatalError,
    IllegalStateError,
    TimedOutError,
)
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.wire.messages.end_txn import EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdResponse
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)

QUICK = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 20, "linger_ms": 0}
PARTITIONS = 2


def without_features(answer: Any) -> Any:
    answer.finalized_features = []
    return answer


@pytest.fixture(params=[1, 2], ids=["version-1", "version-2"])
def version(request: pytest.FixtureRequest, meddler: Meddler) -> int:
    """The transaction version; a cluster that has not finalized it speaks version 1."""
    number: int = request.param
    if number == 1:
        meddler.on("ApiVersions", edit=without_features, times=1000)
    return number


@pytest.fixture
def make(
    servers: str, ottla_topic_name: Callable[[], str]
) -> Iterator[Callable[..., ottla.Producer]]:
    """Makes producers that are closed at the end; all have one transactional id."""
    producers: list[ottla.Producer] = []
    transactional_id = ottla_topic_name()

    def made(**options: Any) -> ottla.Producer:
        given: dict[str, Any] = {"transactional_id": transactional_id, **QUICK, **options}
        producers.append(ottla.Producer(bootstrap_servers=servers, **given))
        return producers[-1]

    yield made
    for producer in producers:
        producer.close(5)


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
        assert time.monotonic() < deadline
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
    with pytest.raises(ZeroDivisionError), producer.transaction():
        producer.send(topic, b"no").result(10)
        _ = 1 / 0
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
    producer = make(max_block_ms=300)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"x").result(10)
    hold = threading.Event()
    meddler.on("EndTxn", hold=hold)
    with pytest.raises(TimedOutError, match="call it again"):
        producer.commit_transaction()
    with pytest.raises(IllegalStateError, match=r"commit_transaction\(\) timed out"):
        producer.abort_transaction()
    hold.set()
    producer.commit_transaction()
    with producer.transaction():
        producer.send(topic, b"y")
    assert len(meddler.seen("EndTxn")) == 2
    assert set(all_committed(servers, topic, PARTITIONS)) == {b"x", b"y"}


# Errors


def test_fenced_producer_is_told_so_for_ever(
    version: int, make: Callable[..., ottla.Producer], servers: str, topic: str
) -> None:
    old = make()
    old.init_transactions()
    old.begin_transaction()
    old.send(topic, b"old", partition=0).result(10)
    make().init_transactions()
    with pytest.raises(FatalError, match="PRODUCER_FENCED"):
        old.commit_transaction()
    for call in (old.begin_transaction, old.commit_transaction, old.abort_transaction):
        with pytest.raises(FatalError, match="A newer producer uses the same transactional id"):
            call()
    with pytest.raises(FatalError, match="A newer producer"):
        old.send(topic, b"x")
    assert all_committed(servers, topic, PARTITIONS) == []


def test_fence_seen_by_a_partition_shows_at_the_abort(
    version: int, make: Callable[..., ottla.Producer], topic: str
) -> None:
    """KIP-588: a partition's old epoch can be aborted; only the coordinator says that it is over."""
    old = make()
    old.init_transactions()
    with old.transaction():
        old.send(topic, b"x", partition=0)
    make().init_transactions()
    with pytest.raises(FatalError, match="PRODUCER_FENCED"), old.transaction():
        old.send(topic, b"y", partition=0)
        old.flush()


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    ],
)
def test_failed_batch_has_to_be_aborted_and_then_all_is_well(
    version: int,
    make: Callable[..., ottla.Producer],
    meddler: Meddler,
    servers: str,
    topic: str,
    code: ErrorCode,
) -> None:
    producer = make()
    producer.init_transactions()
    with producer.transaction():
        producer.send(topic, b"a", partition=0)
    producer.begin_transaction()
    producer.send(topic, b"b", partition=0).result(10)
    meddler.on("Produce", answer=produce_error(code, log_start_offset=0))
    with pytest.raises(AbortableError) as caught:
        producer.send(topic, b"c", partition=0).result(10)
    assert caught.value.code == code
    for call in (lambda: producer.send(topic, b"d", partition=0), producer.commit_transaction):
        with pytest.raises(AbortableError, match="has to be aborted") as again:
            call()
        assert again.value.code == code
    producer.abort_transaction()
    with producer.transaction():
        for value in (b"e", b"f"):
            producer.send(topic, value, partition=0).result(10)
    assert all_committed(servers, topic, PARTITIONS) == [b"a", b"e", b"f"]
    # Version 1 asks for a new epoch (KIP-360); in version 2 the abort brought it.
    assert len(meddler.seen("InitProducerId")) == (2 if version == 1 else 1)


def refused_partitions(code: int) -> Callable[[Any], AddPartitionsToTxnResponse]:
    def answer(request: Any) -> AddPartitionsToTxnResponse:
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(
                            partition_index=number, partition_error_code=code
                        )
                        for number in topic.partitions
                    ],
                )
                for topic in request.message.v3_and_below_topics
            ]
        )

    return answer


def test_forgotten_producer_id_is_replaced_after_an_abort(
    version: int, make: Callable[..., ottla.Producer], meddler: Meddler, servers: str, topic: str
) -> None:
    """A coordinator that has forgotten the id cannot end its transaction: a new epoch is asked for instead."""
    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    producer = make()
    producer.init_transactions()
    producer.begin_transaction()
    if version == 1:
        meddler.on("AddPartitionsToTxn", answer=refused_partitions(code))
    else:
        meddler.on("Produce", answer=produce_error(code))
    with pytest.raises(AbortableError) as caught:
        producer.send(topic, b"x", partition=0).result(10)
    assert caught.value.code == code
    producer.abort_transaction()
    assert meddler.seen("EndTxn") == []
    assert len(meddler.seen("InitProducerId")) == 2
    with producer.transaction():
        producer.send(topic, b"y", partition=0)
    assert all_committed(servers, topic, PARTITIONS) == [b"y"]


def test_abort_after_an_unknown_producer_id_is_asked_for_again(
    version: int, make: Callable[..., ottla.Producer], meddler: Meddler, servers: str, topic: str
) -> None:
    producer = make()
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"x", partition=0).result(10)
    unknown = EndTxnResponse(error_code=ErrorCode.UNKNOWN_PRODUCER_ID)
    meddler.on("EndTxn", answer=lambda _: unknown)
    with pytest.raises(AbortableError, match="UNKNOWN_PRODUCER_ID"):
        producer.commit_transaction()
    producer.abort_transaction()
    assert len(meddler.seen("InitProducerId")) == (2 if version == 1 else 1)
    with producer.transaction():
        producer.send(topic, b"y", partition=0)
    assert all_committed(servers, topic, PARTITIONS) == [b"y"]


def test_partition_that_may_not_be_added_has_to_be_aborted(
    make: Callable[..., ottla.Producer], meddler: Meddler, servers: str, topic: str
) -> None:
    meddler.on("ApiVersions", edit=without_features, times=1000)
    producer = make()
    producer.init_transactions()
    producer.begin_transaction()
    refused = refused_partitions(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    meddler.on("AddPartitionsToTxn", answer=refused)
    with pytest.raises(AbortableError, match="TOPIC_AUTHORIZATION_FAILED") as caught:
        producer.send(topic, b"x", partition=0).result(10)
    assert caught.value.context["partition"] == f"{topic}-0"
    producer.abort_transaction()
    assert meddler.seen("Produce") == []


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    ],
)
def test_coordinators_that_are_not_ready_are_asked_again(
    make: Callable[..., ottla.Producer],
    meddler: Meddler,
    servers: str,
    topic: str,
    code: ErrorCode,
) -> None:
    meddler.on("ApiVersions", edit=without_features, times=1000)
    producer = make()
    again = InitProducerIdResponse(error_code=code, producer_epoch=-1)
    meddler.on("InitProducerId", answer=lambda _: again)
    meddler.on("AddOffsetsToTxn", answer=lambda _: AddOffsetsToTxnResponse(error_code=code))
    meddler.on("EndTxn", answer=lambda _: EndTxnResponse(error_code=code))
    producer.init_transactions()
    with producer.transaction():
        producer.send(topic, b"x")
        producer.send_offsets_to_transaction({(topic, 0): 3}, topic)
    looked_up = len(meddler.seen("FindCoordinator"))
    assert all_committed(servers, topic, PARTITIONS) == [b"x"]
    for name in ("InitProducerId", "AddOffsetsToTxn", "EndTxn"):
        assert len(meddler.seen(name)) == 2
    is_lost = code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
    assert looked_up == (5 if is_lost else 2)


@pytest.mark.parametrize("name", ["InitProducerId", "EndTxn", "TxnOffsetCommit"])
def test_lost_answers_of_coordinators_are_asked_for_again(
    version: int,
    make: Callable[..., ottla.Producer],
    meddler: Meddler,
    servers: str,
    topic: str,
    name: str,
) -> None:
    producer = make()
    meddler.on(name, answer_is_lost=True)
    producer.init_transactions()
    for value in (b"x", b"y"):
        with producer.transaction():
            producer.send(topic, value, partition=0)
            producer.send_offsets_to_transaction({(topic, 0): 3}, topic)
    assert all_committed(servers, topic, PARTITIONS) == [b"x", b"y"]


def test_invalid_state_of_the_coordinator_is_fatal(
    make: Callable[..., ottla.Producer], meddler: Meddler, topic: str
) -> None:
    producer = make()
    producer.init_transactions()
    refused = EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE)
    meddler.on("EndTxn", answer=lambda _: refused)
    with pytest.raises(FatalError, match="INVALID_TXN_STATE"), producer.transaction():
        producer.send(topic, b"x")
    with pytest.raises(FatalError, match="does not fit the transaction"):
        producer.begin_transaction()


def test_refused_id_can_be_initialized_later(
    make: Callable[..., ottla.Producer], meddler: Meddler, servers: str, topic: str
) -> None:
    refused = InitProducerIdResponse(
        error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, producer_epoch=-1
    )
    meddler.on("InitProducerId", answer=lambda _: refused)
    producer = make()
    with pytest.raises(FatalError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        producer.init_transactions()
    producer.init_transactions()
    with producer.transaction():
        producer.send(topic, b"x")
    assert all_committed(servers, topic, PARTITIONS) == [b"x"]


def test_record_that_is_refused_at_once_keeps_the_transaction_from_committing(
    make: Callable[..., ottla.Producer], topic: str
) -> None:
    producer = make(max_request_size=1000)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"x")
    with pytest.raises(AbortableError, match=r"max\.request\.size"):
        producer.send(topic, b"x" * 2000)
    with pytest.raises(AbortableError, match="has to be aborted"):
        producer.commit_transaction()
    producer.abort_transaction()


def test_records_that_time_out_are_not_committed(
    version: int, make: Callable[..., ottla.Producer], meddler: Meddler, servers: str, topic: str
) -> None:
    producer = make(delivery_timeout_ms=300, request_timeout_ms=250)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"a", partition=0).result(10)
    deed = meddler.on("Produce", is_lost=True, times=1000)
    lost = producer.send(topic, b"b", partition=0)
    assert isinstance(lost.exception(10), TimedOutError)
    deed.times = 0
    with pytest.raises(AbortableError):
        producer.commit_transaction()
    producer.abort_transaction()
    with producer.transaction():
        producer.send(topic, b"c", partition=0)
    assert all_committed(servers, topic, PARTITIONS) == [b"c"]


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
