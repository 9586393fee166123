"""What errors mean for transactions: which are retried, which cost the transaction, which the producer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.client.producer.meddler import Meddler, produce_error
from tests.client.producer.reading import all_committed
from tests.client.producer.transactional import (
    PARTITIONS,
    make,
    max_block_ms,
    version,
    without_features,
)

import ottla
from ottla.errors import AbortableError, ErrorCode, FatalError, TimedOutError
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.wire.messages.end_txn import EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdResponse
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

__all__ = ["make", "version"]  # fixtures


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

    def use_it() -> None:
        with old.transaction():
            old.send(topic, b"y", partition=0)
            old.flush()

    with pytest.raises(FatalError, match="PRODUCER_FENCED"):
        use_it()


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


def test_abort_does_not_wait_for_partitions_that_cannot_be_added(
    make: Callable[..., ottla.Producer], meddler: Meddler, servers: str, topic: str
) -> None:
    """A topic that was deleted is refused for ever, with an error that may pass."""
    meddler.on("ApiVersions", edit=without_features, times=1000)
    producer = make(max_block_ms=5000)
    producer.init_transactions()
    with producer.transaction():
        producer.send(topic, b"x", partition=0)
    refused = refused_partitions(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    deleted = meddler.on("AddPartitionsToTxn", answer=refused, times=10**6)
    producer.begin_transaction()
    producer.send(topic, b"y", partition=0)
    producer.abort_transaction()
    deleted.times = 0
    with producer.transaction():
        producer.send(topic, b"z", partition=0)
    assert all_committed(servers, topic, PARTITIONS) == [b"x", b"z"]


def test_abort_does_not_wait_for_offsets_that_cannot_be_committed(
    version: int, make: Callable[..., ottla.Producer], meddler: Meddler, servers: str, topic: str
) -> None:
    def refused(request: Any) -> TxnOffsetCommitResponse:
        return TxnOffsetCommitResponse(
            topics=[
                TxnOffsetCommitResponseTopic(
                    name=each.name,
                    partitions=[
                        TxnOffsetCommitResponsePartition(
                            partition_index=one.partition_index,
                            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        )
                        for one in each.partitions
                    ],
                )
                for each in request.message.topics
            ]
        )

    producer = make(max_block_ms=10_000)
    producer.init_transactions()
    meddler.on("TxnOffsetCommit", answer=refused, times=10**6)
    producer.begin_transaction()
    producer.send(topic, b"x", partition=0).result(10)
    with max_block_ms(producer, 300), pytest.raises(TimedOutError):
        producer.send_offsets_to_transaction({(topic, 0): 3}, topic)
    producer.abort_transaction()
    meddler.calm()
    with producer.transaction():
        producer.send(topic, b"y", partition=0)
    assert all_committed(servers, topic, PARTITIONS) == [b"y"]


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
    producer = make(delivery_timeout_ms=2000, request_timeout_ms=1000)
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
