"""Which failures begin again, and what people are told of the others."""

from __future__ import annotations

import socket

import pytest

from ottla.errors import ErrorCode, exception_for
from ottla.spark.pipeline.failure_policy import (
    JAVA_IS_GONE,
    LONGEST_PAUSE_SECONDS,
    NextStep,
    Pauses,
    judge,
    judge_connection,
)

SPARK = "[STREAM_FAILED] Query [id = 1] terminated with exception: {} SQLSTATE: XXKST\n=== Streaming Query ===\n"
TRACEBACK = 'Traceback (most recent call last):\n  File "fraud.py", line 1, in main\n{}\n'


def failed(*lines: str) -> str:
    return SPARK.format("An exception was thrown: \n" + TRACEBACK.format("\n".join(lines)))


@pytest.mark.parametrize(
    ("lines", "following"),
    [
        (["ottla.spark.sink.progress.TakenOverError: Another instance took over"], NextStep.LEAVE),
        (["ottla.errors.RetriableError: NETWORK_EXCEPTION (13): gone"], NextStep.RESTART),
        (["ottla.errors.TimedOutError: REQUEST_TIMED_OUT (7): slow"], NextStep.RESTART),
        (["ottla.errors.AbortableError: INVALID_TXN_STATE (48): x"], NextStep.RESTART),
        (["ottla.errors.FatalError: TOPIC_AUTHORIZATION_FAILED (29): x"], NextStep.STOP),
        (["ottla.errors.ConfigError: remove it"], NextStep.STOP),
        (["ottla.spark.sink.progress.ProgressError: no marker"], NextStep.STOP),
        (["ottla.spark.source.stream_offsets.DataLossError: gone"], NextStep.STOP),
        (["ConnectionRefusedError: [Errno 111] Connection refused"], NextStep.RESTART),
        (["ValueError: of the user"], NextStep.STOP),
        (["org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"], NextStep.RESTART),
        (["ExecutorLostFailure (executor 1 exited)"], NextStep.RESTART),
    ],
)  # fmt: skip
def test_only_what_may_pass_begins_again(lines: list[str], following: NextStep) -> None:
    assert judge("StreamingQueryException", failed(*lines)).next is following


def test_an_error_of_ours_that_was_caused_by_another_counts_as_what_was_raised() -> None:
    text = failed(
        "ottla.errors.RetriableError: NETWORK_EXCEPTION (13): gone",
        "The above exception was the direct cause of the following exception:",
        "ottla.spark.sink.progress.ProgressError: no marker",
    )
    found = judge("StreamingQueryException", text)
    assert (found.next, found.reason) == (NextStep.STOP, "no marker")


def test_whoever_was_taken_over_does_not_come_back_whatever_else_failed() -> None:
    text = failed(
        "ottla.errors.FatalError: PRODUCER_FENCED (90): fenced",
        "ottla.spark.sink.progress.TakenOverError: Another instance took over pipeline 'fraud'",
        "ottla.errors.RetriableError: NETWORK_EXCEPTION (13): gone",
    )
    found = judge("StreamingQueryException", text)
    assert (found.next, found.reason) == (
        NextStep.LEAVE,
        "Another instance took over pipeline 'fraud'",
    )


def test_whoever_finds_another_driver_at_its_checkpoint_does_not_come_back() -> None:
    text = (
        "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected for 7.\n"
        "Please make sure only one streaming job runs on a specific checkpoint location at a time. SQLSTATE: 40000"
    )
    found = judge(
        "StreamingQueryException", failed(f"SparkConcurrentModificationException: {text}")
    )
    assert found.next is NextStep.LEAVE
    assert "writes to the checkpoint of this pipeline" in found.reason


def test_the_users_own_error_is_told_and_not_what_spark_wraps_around_it() -> None:
    text = failed(
        "KeyError: 'amount'",
        "org.apache.spark.SparkException: Job aborted due to stage failure",
        "pyspark.errors.exceptions.captured.PythonException: no",
    )
    reason = judge("StreamingQueryException", text).reason
    assert reason == "KeyError: 'amount' (fraud.py, line 1, in main)"


def test_an_error_of_java_is_told_by_its_message() -> None:
    text = "An error occurred while calling o8.start.\n: java.lang.IllegalStateException: in use\n\tat x.Y\n"
    assert judge("Py4JJavaError", text).reason == "IllegalStateException: in use"


def test_an_error_that_says_nothing_is_told_by_its_class() -> None:
    assert judge("AnalysisException", "").reason == "AnalysisException"
    assert (
        judge("AnalysisException", "\n no column x\nplan").reason
        == "AnalysisException: no column x"
    )


@pytest.mark.parametrize("text", ["Answer from Java side is empty", "Java side is down"])
def test_without_java_a_new_driver_is_needed(text: str) -> None:
    assert judge("Py4JError", text).next is NextStep.NEW_DRIVER
    assert judge("Py4JNetworkError", "").next is NextStep.NEW_DRIVER


def test_pauses_grow_to_a_limit_and_begin_anew_after_a_success() -> None:
    pauses = Pauses()
    taken = [pauses.take() for _ in range(10)]
    assert taken[:3] == [1.0, 2.0, 4.0]
    assert max(taken) == taken[-1] == LONGEST_PAUSE_SECONDS
    pauses.reset()
    assert pauses.take() == 1.0


@pytest.mark.parametrize(
    ("codes", "following"),
    [
        (("REQUEST_TIMED_OUT (7)", "NOT_LEADER_OR_FOLLOWER (6)"), NextStep.RESTART),
        (("REQUEST_TIMED_OUT (7)", "TOPIC_AUTHORIZATION_FAILED (29)"), NextStep.STOP),
        ((), NextStep.STOP),
    ],
)
def test_an_error_about_several_partitions_is_judged_by_all_its_codes(
    codes: tuple[str, ...], following: NextStep
) -> None:
    reason = "; ".join(f"orders-{at}: {code}: gone" for at, code in enumerate(codes))
    failure = judge("StreamingQueryException", f"ottla.errors.PartialFailureError: {reason}")
    assert failure.next is following
    assert failure.reason == reason or not codes


@pytest.mark.parametrize(
    "line",
    [
        "ottla.spark.sink.query_checkpoint.StoreError: no answer",
        "Caused by: java.net.ConnectException: Connection refused",
        "Caused by: org.apache.hadoop.fs.s3a.AWSStatus500Exception: busy",
    ],
)
def test_a_store_that_is_away_is_waited_for(line: str) -> None:
    assert judge("StreamingQueryException", f"the query failed\n{line}\n").next is NextStep.RESTART


def test_a_connection_to_java_that_broke_needs_a_new_driver() -> None:
    py4j = pytest.importorskip("py4j.clientserver")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    places = py4j.JavaParameters(port=port), py4j.PythonParameters(port=0)
    server = py4j.ClientServer(*places)
    with pytest.raises(ConnectionError) as caught:
        py4j.ClientServerConnection(*places, server.gateway_property, None).connect_to_java_server()
    server.shutdown()
    assert judge_connection(caught.value) == JAVA_IS_GONE


def test_a_connection_of_the_users_code_that_broke_may_work_again() -> None:
    def transform() -> None:
        raise ConnectionResetError("the registry is away")

    with pytest.raises(ConnectionError) as caught:
        transform()
    found = judge_connection(caught.value)
    assert (found.next, found.reason) == (NextStep.RESTART, "the registry is away")


@pytest.mark.parametrize(
    ("code", "following"),
    [
        ("MESSAGE_TOO_LARGE", NextStep.STOP),
        ("TOPIC_AUTHORIZATION_FAILED", NextStep.STOP),
        ("INVALID_TIMESTAMP", NextStep.STOP),
        ("POLICY_VIOLATION", NextStep.STOP),
        ("CORRUPT_MESSAGE", NextStep.STOP),
        ("NOT_ENOUGH_REPLICAS", NextStep.RESTART),
        ("COORDINATOR_NOT_AVAILABLE", NextStep.RESTART),
        ("INVALID_PRODUCER_EPOCH", NextStep.RESTART),
    ],
)
def test_what_only_people_can_mend_does_not_begin_again(code: str, following: NextStep) -> None:
    error = exception_for(ErrorCode[code])
    text = f"Traceback\nottla.errors.{type(error).__name__}: {error}\n"
    assert judge("StreamingQueryException", text).next is following


def test_a_micro_batch_that_is_too_large_says_what_to_set() -> None:
    text = (
        "org.apache.spark.SparkException: Job aborted due to stage failure: Total size of serialized results of 2 "
        "tasks (2.0 MiB) is bigger than spark.driver.maxResultSize (1024.0 KiB)"
    )
    failure = judge("StreamingQueryException", text)
    assert failure.next is NextStep.STOP
    assert "maxOffsetsPerTrigger" in failure.reason


def test_a_checkpoint_that_another_driver_writes_to_is_a_takeover_in_older_words_too() -> None:
    text = "exception: Multiple streaming queries are concurrently using file:/c/offsets. SQLSTATE: XXKST"
    assert judge("StreamingQueryException", text).next is NextStep.LEAVE


def test_a_record_that_cannot_be_read_is_told_in_its_own_words() -> None:
    words = "topic t partition 0 offset 235: the value is not JSON. Give the pipeline a dead_letter topic"
    text = (
        "[STREAM_FAILED] Query [id = 6, runId = 5] terminated with exception: [USER_RAISED_EXCEPTION] "
        f"{words} SQLSTATE: P0001 SQLSTATE: XXKST\n\tat org.apache.spark.sql"
    )
    failure = judge("StreamingQueryException", text)
    assert (failure.next, failure.reason) == (NextStep.STOP, words)
