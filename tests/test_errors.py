from __future__ import annotations

import pickle
from typing import Any

import kafka.errors
import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from ottla.errors import (
    AbortableError,
    Action,
    CommitFailedError,
    ConfigError,
    DeserializationError,
    ErrorCode,
    FatalError,
    IllegalStateError,
    KafkaError,
    LogTruncationError,
    NoOffsetError,
    OffsetOutOfRangeError,
    OttlaError,
    PartialFailureError,
    RetriableError,
    TimedOutError,
    exception_for,
)
from ottla.model import TopicPartition

# kafka-python's older names, and one flag in which it differs from the Java client.
KAFKA_PYTHON_NAMES = {
    "NO_ERROR": "NONE",
    "UNKNOWN": "UNKNOWN_SERVER_ERROR",
    "NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER",
    "MESSAGE_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE",
    "INVALID_TOPIC": "INVALID_TOPIC_EXCEPTION",
    "INVALID_REPLICATION_ASSIGNMENT": "INVALID_REPLICA_ASSIGNMENT",
}
# Codes that Kafka 4.4 added.
NEWER_THAN_KIO = {
    (134, "GROUP_DELETION_FAILED", False),
    (135, "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", False),
    (136, "CONTROLLER_ID_NOT_REGISTERED", False),
}
KAFKA_PYTHON_RETRIABLE_DIFFERS = {"CORRUPT_MESSAGE"}


def kafka_python_errors() -> list[type]:
    return [
        found
        for found in vars(kafka.errors).values()
        if isinstance(found, type) and isinstance(getattr(found, "errno", None), int)
    ]


def test_every_code_of_kio_has_its_number_name_and_retriability() -> None:
    theirs = {(int(code), code.name.upper(), code.retriable) for code in KioErrorCode}
    assert {(int(code), code.name, code.retriable) for code in ErrorCode} == theirs | NEWER_THAN_KIO


def test_every_code_of_kafka_python_has_its_number_and_retriability() -> None:
    errors = kafka_python_errors()
    assert len(errors) > 100
    for error in errors:
        code = ErrorCode(error.errno)  # type: ignore[attr-defined]
        name = error.message  # type: ignore[attr-defined]
        assert code.name == KAFKA_PYTHON_NAMES.get(name, name)
        if code.name not in KAFKA_PYTHON_RETRIABLE_DIFFERS:
            assert code.retriable == error.retriable, code  # type: ignore[attr-defined]


def test_numbers_have_no_gaps() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, 137))


@pytest.mark.parametrize("code", list(ErrorCode))
def test_a_retriable_code_is_answered_by_a_retry(code: ErrorCode) -> None:
    retries = code.action in (Action.RETRY, Action.REFRESH_METADATA)
    # The Java client starts over at the bootstrap servers inside itself (KIP-1102).
    assert retries == code.retriable or code is ErrorCode.REBOOTSTRAP_REQUIRED
    assert code.text.endswith(".")


def test_an_unknown_number_keeps_its_number() -> None:
    code = ErrorCode(999)
    assert code == 999
    assert code.name == "UNKNOWN_ERROR_CODE_999"
    assert not code.retriable
    assert pickle.loads(pickle.dumps(code)) == 999
    error = exception_for(999, "from the future")
    assert (error.code, error.name) == (999, "UNKNOWN_ERROR_CODE_999")
    assert 999 not in list(ErrorCode)


@pytest.mark.parametrize("number", [1 << 15, -(1 << 15) - 1, "3", None])
def test_what_is_no_16_bit_number_is_no_code(number: Any) -> None:
    with pytest.raises(ValueError, match="is not a valid ErrorCode"):
        ErrorCode(number)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.REQUEST_TIMED_OUT, TimedOutError),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, RetriableError),
        (ErrorCode.TRANSACTION_ABORTABLE, AbortableError),
        (ErrorCode.REBALANCE_IN_PROGRESS, AbortableError),
        (ErrorCode.TOPIC_ALREADY_EXISTS, AbortableError),
        (ErrorCode.PRODUCER_FENCED, FatalError),
        (ErrorCode.FENCED_INSTANCE_ID, FatalError),
    ],
)
def test_a_code_becomes_the_exception_that_says_what_to_do(
    code: ErrorCode, expected: type[KafkaError]
) -> None:
    assert type(exception_for(code)) is expected


def test_the_text_names_code_message_and_context() -> None:
    error = exception_for(6, api="Produce", partition="orders-0")
    assert str(error) == (
        "NOT_LEADER_OR_FOLLOWER (6): The broker does not lead this partition. "
        "[api=Produce, partition=orders-0]"
    )
    assert str(exception_for(6, "moved")) == "NOT_LEADER_OR_FOLLOWER (6): moved"


def test_exceptions_survive_pickling() -> None:
    error = exception_for(90, "fenced", api="EndTxn")
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.context) == (FatalError, str(error), {"api": "EndTxn"})


@pytest.mark.parametrize(
    "error",
    [
        TimedOutError(message="late", context={"api": "Fetch"}),
        CommitFailedError(ErrorCode.ILLEGAL_GENERATION, "moved on", {"group": "g"}),
        NoOffsetError([TopicPartition("a", 1)]),
        OffsetOutOfRangeError({TopicPartition("a", 1): 7}),
        LogTruncationError({TopicPartition("a", 1): 7}, {TopicPartition("a", 1): 3}),
        DeserializationError("bad JSON", TopicPartition("a", 1), 7, b"{"),
    ],
)
def test_exceptions_with_more_fields_survive_pickling(error: Exception) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_a_timeout_is_pythons_timeout_too() -> None:
    error: Any = exception_for(ErrorCode.REQUEST_TIMED_OUT, api="Produce")
    assert isinstance(error, TimeoutError)
    assert isinstance(error, RetriableError)
    assert str(error) == "REQUEST_TIMED_OUT (7): The request timed out. [api=Produce]"
    assert (error.errno, error.filename) == (None, None)


def test_a_missing_offset_names_partitions_and_what_to_do() -> None:
    error = NoOffsetError([("a", 1), ("b", 0)])
    assert error.partitions == (("a", 1), ("b", 0))
    assert "a-1, b-0" in str(error)
    assert "auto.offset.reset" in str(error)


def test_a_deserialization_error_says_which_record() -> None:
    assert str(DeserializationError("bad", ("a", 1), 7)) == "bad [partition=a-1, offset=7]"
    assert str(DeserializationError("bad")) == "bad"


def test_all_exceptions_are_ottla_errors() -> None:
    for error in (KafkaError, ConfigError, IllegalStateError):
        assert issubclass(error, OttlaError)
    assert issubclass(ConfigError, ValueError)


def test_a_partial_failure_has_the_results_and_the_errors_and_survives_pickling() -> None:
    errors = {f"topic-{number}": exception_for(36, None, topic=number) for number in range(7)}
    error = PartialFailureError({"good": 1}, errors, "topics")
    assert isinstance(error, KafkaError)
    again = pickle.loads(pickle.dumps(error))
    for one in (error, again):
        assert one.results == {"good": 1}
        assert list(one.errors) == list(errors)
        assert one.code is ErrorCode.TOPIC_ALREADY_EXISTS
        assert str(one).startswith("7 of 8 topics failed: topic-0: TOPIC_ALREADY_EXISTS (36)")
        assert str(one).endswith("; and 2 more")
