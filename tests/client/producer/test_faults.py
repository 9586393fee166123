"""What the producer does when brokers fail, refuse or forget: order, duplicates, gaps, errors."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from tests.broker.requests import eventually
from tests.client.producer.meddler import Meddler, batches_sent, produce_error
from tests.client.producer.reading import has_its_memory_back, headers_of, records_of, values_of

import ottla
from ottla.errors import (
    AbortableError,
    ErrorCode,
    FatalError,
    RetriableError,
    TimedOutError,
)
from ottla.records.batch import read_header
from ottla.wire.messages.init_producer_id import InitProducerIdResponse
from ottla.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
)

QUICK: dict[str, Any] = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 20, "linger_ms": 0}


def sent_sequences(meddler: Meddler, topic: str) -> list[tuple[int, int]]:
    """Epoch and base sequence of each batch in the order of sending."""
    headers = [read_header(data, 0) for _, _, data in batches_sent(meddler)]
    return [(header.producer_epoch, header.base_sequence) for header in headers]


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("deed", [{"answer_is_lost": True}, {"is_lost": True}])
def test_lost_requests_and_answers_neither_duplicate_nor_reorder(
    meddler: Meddler, servers: str, topic: str, deed: dict[str, bool]
) -> None:
    with ottla.Producer(bootstrap_servers=servers, batch_size=200, **QUICK) as producer:
        producer.send(topic, b"first", partition=0).result(10)
        for _ in range(3):
            meddler.on("Produce", **deed)
        futures = [producer.send(topic, value, partition=0) for value in numbers(300)]
        offsets = [future.result(10).offset for future in futures]
    assert offsets == list(range(1, 301))
    assert values_of(servers, topic) == [b"first", *numbers(300)]


def test_retriable_error_is_retried_in_order_with_five_in_flight(
    meddler: Meddler, servers: str, topic: str
) -> None:
    with ottla.Producer(bootstrap_servers=servers, batch_size=200, **QUICK) as producer:
        producer.send(topic, b"first", partition=0).result(10)
        meddler.on("Produce", answer=produce_error(ErrorCode.NOT_ENOUGH_REPLICAS))
        futures = [producer.send(topic, value, partition=0) for value in numbers(300)]
        producer.flush()
        assert producer.metrics()["record-retry-total"] > 0
    assert [future.result(0).offset for future in futures] == list(range(1, 301))
    assert values_of(servers, topic)[1:] == numbers(300)


def test_without_idempotence_one_in_flight_keeps_the_order(
    meddler: Meddler, servers: str, topic: str
) -> None:
    with ottla.Producer(
        bootstrap_servers=servers,
        enable_idempotence=False,
        max_in_flight_requests_per_connection=1,
        batch_size=200,
        **QUICK,
    ) as producer:
        producer.send(topic, b"first", partition=0).result(10)
        for _ in range(3):
            meddler.on("Produce", answer=produce_error(ErrorCode.NOT_ENOUGH_REPLICAS))
        for value in numbers(300):
            producer.send(topic, value, partition=0)
    assert values_of(servers, topic)[1:] == numbers(300)


def test_retries_are_counted(meddler: Meddler, servers: str, topic: str) -> None:
    with ottla.Producer(bootstrap_servers=servers, retries=2, **QUICK) as producer:
        producer.send(topic, b"x").result(10)
        meddler.calm()
        meddler.on("Produce", answer=produce_error(ErrorCode.NOT_ENOUGH_REPLICAS), times=3)
        with pytest.raises(RetriableError) as caught:
            producer.send(topic, b"y", partition=0).result(10)
        assert caught.value.code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert caught.value.context["api"] == "Produce"
        assert caught.value.context["partition"] == f"{topic}-0"
        assert f"127.0.0.1:{meddler.port}" in str(caught.value.context["broker"])
        assert len(meddler.seen("Produce")) == 3


def test_error_that_cannot_pass_fails_only_its_batch(
    meddler: Meddler, servers: str, topic: str
) -> None:
    with ottla.Producer(bootstrap_servers=servers, **QUICK) as producer:
        producer.send(topic, b"x", partition=0).result(10)
        meddler.on("Produce", answer=produce_error(ErrorCode.INVALID_TIMESTAMP))
        with pytest.raises(AbortableError, match="INVALID_TIMESTAMP"):
            producer.send(topic, b"y", partition=0).result(10)
        assert producer.send(topic, b"z", partition=0).result(10).offset == 1
    assert values_of(servers, topic) == [b"x", b"z"]


def test_broker_may_blame_single_records(meddler: Meddler, servers: str, topic: str) -> None:
    with ottla.Producer(bootstrap_servers=servers, **{**QUICK, "linger_ms": 20_000}) as producer:
        producer.send(topic, b"x", partition=0)
        producer.flush(10)
        blamed = BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="it is odd")
        meddler.on(
            "Produce", answer=produce_error(ErrorCode.INVALID_RECORD, record_errors=[blamed])
        )
        good, bad = (producer.send(topic, value, partition=0) for value in (b"2", b"3"))
        producer.flush(10)
        error = bad.exception(10)
        other = good.exception(10)
        assert isinstance(error, AbortableError)
        assert error.message == "it is odd"
        assert isinstance(other, AbortableError)
        assert "in a batch with records that the broker refused" in other.message


def test_batch_that_is_too_large_for_the_broker_is_split(
    meddler: Meddler, servers: str, topic: str
) -> None:
    delivered: list[int] = []
    with ottla.Producer(
        bootstrap_servers=servers, batch_size=100_000, linger_ms=500, compression_type="gzip"
    ) as producer:
        producer.send(topic, b"first", partition=0)
        producer.flush()
        meddler.on("Produce", answer=produce_error(ErrorCode.MESSAGE_TOO_LARGE), times=2)
        futures = [
            producer.send(
                topic,
                value,
                partition=0,
                on_delivery=lambda metadata, _: delivered.append(
                    metadata.offset if metadata else -1
                ),
            )
            for value in numbers(100)
        ]
        producer.flush(10)
        assert [future.result(0).offset for future in futures] == list(range(1, 101))
        assert producer.metrics()["batch-split-total"] == 2
        assert eventually(lambda: has_its_memory_back(producer))
    assert delivered == list(range(1, 101))
    assert values_of(servers, topic)[1:] == numbers(100)


def test_split_batches_give_send_many_every_offset(
    meddler: Meddler, servers: str, topic: str
) -> None:
    with ottla.Producer(
        bootstrap_servers=servers, batch_size=100_000, compression_type="gzip"
    ) as producer:
        producer.send(topic, b"first", partition=0).result(10)
        meddler.on("Produce", answer=produce_error(ErrorCode.MESSAGE_TOO_LARGE), times=2)
        places = producer.send_many(topic, numbers(100), partition=0).result(10)
        assert [place.offset for place in places] == list(range(1, 101))
        meddler.on("Produce", answer=produce_error(ErrorCode.INVALID_RECORD))
        with pytest.raises(AbortableError, match="INVALID_RECORD"):
            producer.send_many(topic, numbers(100), partition=0).result(10)


def test_outcomes_of_send_many_are_told_batch_by_batch(
    meddler: Meddler, servers: str, topic: str
) -> None:
    told: list[tuple[int, Exception | None]] = []

    def tell(count: int, error: Exception | None) -> None:
        told.append((count, error))

    with ottla.Producer(
        bootstrap_servers=servers, batch_size=100_000, compression_type="gzip"
    ) as producer:
        producer.send(topic, b"first", partition=0).result(10)
        meddler.on("Produce", answer=produce_error(ErrorCode.MESSAGE_TOO_LARGE), times=2)
        sent = producer.send_many(topic, numbers(100), partition=0)
        sent.add_batch_callback(tell)
        sent.result(10)
        assert eventually(lambda: sum(count for count, _ in told) >= 100)
        assert len(told) > 1, "the batch was split"
        assert (sum(count for count, _ in told), {error for _, error in told}) == (100, {None})
        told.clear()
        sent.add_batch_callback(tell)
        assert sum(count for count, _ in told) == 100, "what is known already is told at once"
        told.clear()
        blamed = BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="it is odd")
        meddler.on(
            "Produce", answer=produce_error(ErrorCode.INVALID_RECORD, record_errors=[blamed])
        )
        sent = producer.send_many(topic, numbers(3), partition=0)
        sent.add_batch_callback(tell)
        assert sent[2].exception(10) is not None
        assert eventually(lambda: len(told) == 3)
        assert [count for count, _ in told] == [1, 1, 1]
        assert [isinstance(e, AbortableError) and e.message == "it is odd" for _, e in told] == [
            False,
            True,
            False,
        ]


def test_single_record_that_is_too_large_fails(meddler: Meddler, servers: str, topic: str) -> None:
    with ottla.Producer(bootstrap_servers=servers, **QUICK) as producer:
        producer.send(topic, b"x", partition=0).result(10)
        meddler.on("Produce", answer=produce_error(ErrorCode.MESSAGE_TOO_LARGE))
        with pytest.raises(AbortableError, match="MESSAGE_TOO_LARGE"):
            producer.send(topic, b"y", partition=0).result(10)
        assert producer.send(topic, b"z", partition=0).result(10).offset == 1


def test_duplicate_sequence_is_success_without_an_offset(
    meddler: Meddler, servers: str, topic: str
) -> None:
    with ottla.Producer(bootstrap_servers=servers, **QUICK) as producer:
        producer.send(topic, b"x", partition=0).result(10)
        deed = meddler.on("Produce", edit=lambda answer: _with_code(answer, 46))
        assert producer.send(topic, b"y", partition=0).result(10).offset == -1
        assert deed.done
        assert producer.send(topic, b"z", partition=0).result(10).offset == 2


def _with_code(answer: Any, code: int) -> Any:
    for topic in answer.responses:
        for partition in topic.partition_responses:
            partition.error_code = code
    return answer


@pytest.mark.parametrize(
    ("code", "log_start_offset"),
    [
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0),
        (ErrorCode.UNKNOWN_PRODUCER_ID, 0),
        (ErrorCode.UNKNOWN_PRODUCER_ID, 100),
    ],
)
def test_gap_in_the_sequence_is_closed_by_a_new_epoch(
    meddler: Meddler, servers: str, topic: str, code: ErrorCode, log_start_offset: int
) -> None:
    """KIP-360: the broker lost what it knew; epoch + 1 begins at 0, in the same order."""
    with ottla.Producer(bootstrap_servers=servers, batch_size=200, **QUICK) as producer:
        producer.send(topic, b"first", partition=0).result(10)
        meddler.calm()
        meddler.on("Produce", answer=produce_error(code, log_start_offset=log_start_offset))
        futures = [producer.send(topic, value, partition=0) for value in numbers(100)]
        assert [future.result(10).offset for future in futures] == list(range(1, 101))
        sequences = sent_sequences(meddler, topic)
        assert sequences[0] == (0, 1)
        assert (1, 0) in sequences
    assert values_of(servers, topic)[1:] == numbers(100)
    assert headers_of(servers, topic)[-1].header.producer_epoch == 1


def test_batch_that_failed_for_good_leaves_no_gap(
    meddler: Meddler, servers: str, topic: str
) -> None:
    with ottla.Producer(bootstrap_servers=servers, batch_size=200, **QUICK) as producer:
        producer.send(topic, b"first", partition=0).result(10)
        meddler.on("Produce", answer=produce_error(ErrorCode.INVALID_RECORD))
        futures = [producer.send(topic, value, partition=0) for value in numbers(100)]
        errors = [future.exception(10) for future in futures]
    failed = [number for number, error in enumerate(errors) if error is not None]
    assert failed == list(range(len(failed))), "the first batch, and no other"
    assert 0 < len(failed) < 100
    assert values_of(servers, topic)[1:] == numbers(100)[len(failed) :]


def test_delivery_timeout_fails_records_in_flight_and_the_next_ones_are_written_once(
    meddler: Meddler, servers: str, topic: str
) -> None:
    hold = threading.Event()
    with ottla.Producer(
        bootstrap_servers=servers, delivery_timeout_ms=2000, request_timeout_ms=1500, **QUICK
    ) as producer:
        producer.send(topic, b"first", partition=0).result(10)
        meddler.on("Produce", hold=hold, times=2)
        lost = producer.send(topic, b"slow", partition=0)
        started = time.monotonic()
        with pytest.raises(TimedOutError, match=r"delivery\.timeout\.ms"):
            lost.result(10)
        assert 1.5 < time.monotonic() - started < 8
        hold.set()
        for value in (b"a", b"b"):
            producer.send(topic, value, partition=0).result(10)
    values = values_of(servers, topic)
    assert values[0] == b"first"
    assert values[-2:] == [b"a", b"b"]
    assert len(values) == len(set(values))


def test_delivery_timeout_fails_records_that_were_never_sent(
    meddler: Meddler, servers: str, topic: str
) -> None:
    with ottla.Producer(
        bootstrap_servers=servers, delivery_timeout_ms=2000, request_timeout_ms=1000, **QUICK
    ) as producer:
        producer.send(topic, b"first", partition=0).result(10)
        meddler.on("Produce", is_lost=True, times=1000)
        future = producer.send(topic, b"x", partition=0)
        with pytest.raises(TimedOutError):
            future.result(10)
        assert eventually(lambda: has_its_memory_back(producer))


def test_request_timeout_retries(meddler: Meddler, servers: str, topic: str) -> None:
    hold = threading.Event()
    with ottla.Producer(bootstrap_servers=servers, request_timeout_ms=200, **QUICK) as producer:
        producer.send(topic, b"first", partition=0).result(10)
        meddler.on("Produce", hold=hold)
        assert producer.send(topic, b"x", partition=0).result(10).offset == 1
        hold.set()
    assert values_of(servers, topic) == [b"first", b"x"]


def test_not_leader_asks_for_metadata(meddler: Meddler, servers: str, topic: str) -> None:
    with ottla.Producer(bootstrap_servers=servers, **QUICK) as producer:
        producer.send(topic, b"first", partition=0).result(10)
        meddler.calm()
        meddler.on("Produce", answer=produce_error(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        producer.send(topic, b"x", partition=0).result(10)
        # The record does not wait for the answer, and may be acknowledged sooner.
        meddler.await_seen("Metadata")


def test_leader_hint_is_followed_without_a_pause(
    meddler: Meddler, servers: str, topic: str
) -> None:
    """KIP-951: the answer says who leads now, and the next attempt does not wait."""
    with ottla.Producer(
        bootstrap_servers=servers, retry_backoff_ms=5000, retry_backoff_max_ms=5000, linger_ms=0
    ) as producer:
        producer.send(topic, b"first", partition=0).result(10)
        hint = LeaderIdAndEpoch(leader_id=1, leader_epoch=1000)
        meddler.on(
            "Produce",
            answer=produce_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=hint),
        )
        started = time.monotonic()
        producer.send(topic, b"x", partition=0).result(10)
        assert time.monotonic() - started < 3


def test_fatal_error_is_named_by_every_later_call(
    meddler: Meddler, servers: str, topic: str
) -> None:
    refused = InitProducerIdResponse(
        error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, producer_epoch=-1
    )
    meddler.on("InitProducerId", answer=lambda _: refused)
    with ottla.Producer(bootstrap_servers=servers, **QUICK) as producer:
        with pytest.raises(FatalError, match="CLUSTER_AUTHORIZATION_FAILED"):
            producer.send(topic, b"x", partition=0).result(10)
        for _ in range(2):
            with pytest.raises(FatalError, match="Not authorized for this cluster") as caught:
                producer.send(topic, b"y", partition=0)
            assert caught.value.context["api"] == "InitProducerId"


def test_producer_id_is_asked_for_until_there_is_one(
    meddler: Meddler, servers: str, topic: str
) -> None:
    loading = InitProducerIdResponse(
        error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, producer_epoch=-1
    )
    meddler.on("InitProducerId", answer=lambda _: loading, times=2)
    with ottla.Producer(bootstrap_servers=servers, **QUICK) as producer:
        producer.send(topic, b"x", partition=0).result(10)
        assert len(meddler.seen("InitProducerId")) == 3


def test_used_up_epochs_are_followed_by_a_new_producer_id(
    meddler: Meddler, servers: str, topic: str
) -> None:
    last = InitProducerIdResponse(error_code=0, producer_id=10**9, producer_epoch=2**15 - 1)
    meddler.on("InitProducerId", answer=lambda _: last)
    with ottla.Producer(bootstrap_servers=servers, batch_size=200, **QUICK) as producer:
        producer.send(topic, b"first", partition=0).result(10)
        meddler.on("Produce", answer=produce_error(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))
        for value in numbers(100):
            producer.send(topic, value, partition=0)
        producer.flush(10)
    assert values_of(servers, topic)[1:] == numbers(100)
    assert headers_of(servers, topic)[-1].header.producer_id < 10**9
    assert len(records_of(servers, topic)) == 101


def refused_connection(answer: Any) -> Any:
    """What comes of a broker that does not take the client, at the first question on the connection."""
    answer.error_code = ErrorCode.SASL_AUTHENTICATION_FAILED
    return answer


RECONNECT: dict[str, Any] = {"reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 20}


@pytest.mark.parametrize("idempotence", [True, False])
def test_broker_that_refuses_a_connection_once_does_not_end_the_producer(
    meddler: Meddler, servers: str, topic: str, idempotence: bool
) -> None:
    options = {**QUICK, **RECONNECT, "enable_idempotence": idempotence}
    with ottla.Producer(bootstrap_servers=servers, **options) as producer:
        producer.send(topic, b"first", partition=0).result(10)
        refusal = meddler.on("ApiVersions", edit=refused_connection, times=3)
        meddler.cut_all()
        assert producer.send(topic, b"second", partition=0).result(10).offset == 1
        assert refusal.done == 3
        assert producer.send(topic, b"third", partition=0).result(10).offset == 2
    assert values_of(servers, topic) == [b"first", b"second", b"third"]


def test_record_for_a_broker_that_goes_on_refusing_fails_with_that_error(
    meddler: Meddler, servers: str, topic: str
) -> None:
    options = {**QUICK, **RECONNECT, "delivery_timeout_ms": 2000, "request_timeout_ms": 1000}
    with ottla.Producer(bootstrap_servers=servers, **options) as producer:
        producer.send(topic, b"first", partition=0).result(10)
        meddler.on("ApiVersions", edit=refused_connection, times=10_000)
        meddler.cut_all()
        lost = producer.send(topic, b"lost", partition=0)
        with pytest.raises(TimedOutError, match=r"cannot be reached.*SASL_AUTHENT") as caught:
            lost.result(10)
        assert getattr(caught.value.__cause__, "code", None) is (
            ErrorCode.SASL_AUTHENTICATION_FAILED
        )
        meddler.calm()
        assert producer.send(topic, b"second", partition=0).result(10).offset == 1


def test_producer_gets_its_id_from_a_broker_that_refused_the_first_connections(
    meddler: Meddler, servers: str, topic: str
) -> None:
    refusal = meddler.on("ApiVersions", edit=refused_connection, times=3)
    with ottla.Producer(bootstrap_servers=servers, **QUICK, **RECONNECT) as producer:
        while refusal.done < 3:
            time.sleep(0.005)
        sent = None
        while sent is None:
            try:
                sent = producer.send(topic, b"first", partition=0)
            except FatalError:  # until metadata are asked for again
                assert len(meddler.seen("ApiVersions")) < 20, "it has failed for good"
                time.sleep(0.02)
        assert sent.result(10).offset == 0
