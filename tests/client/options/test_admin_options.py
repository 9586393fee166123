"""What the options of an admin client do, seen at a broker through a proxy."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from tests.client.producer.meddler import Meddler

import ottla
from ottla.errors import ErrorCode, KafkaError, TimedOutError
from ottla.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsResponse,
)

NOT_YET = ErrorCode.NOT_CONTROLLER


def refuse(request: Any) -> CreateTopicsResponse:
    """As a broker that is not, or not yet, the controller."""
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=each.name, error_code=NOT_YET, error_message=None)
            for each in request.message.topics
        ]
    )


def test_a_call_is_repeated_at_most_retries_times(
    meddler: Meddler, servers: str, topic: str
) -> None:
    for retries in (0, 2):
        meddler.calm()
        meddler.on("CreateTopics", answer=refuse, times=100)
        with (
            ottla.Admin(
                bootstrap_servers=servers,
                retries=retries,
                retry_backoff_ms=5,
                retry_backoff_max_ms=5,
            ) as admin,
            pytest.raises(KafkaError, match=f"retries is {retries}"),
        ):
            admin.create_topics([ottla.admin.NewTopic(topic, 1)])
        assert len(meddler.seen("CreateTopics")) == retries + 1


def test_a_call_without_a_timeout_ends_after_default_api_timeout_ms(
    meddler: Meddler, servers: str, topic: str
) -> None:
    hold = threading.Event()
    meddler.on("DescribeCluster", hold=hold, times=100)
    try:
        with ottla.Admin(
            bootstrap_servers=servers,
            default_api_timeout_ms=300,
            request_timeout_ms=100,
            retry_backoff_ms=1,
            retry_backoff_max_ms=1,
        ) as admin:
            started = time.monotonic()
            with pytest.raises(TimedOutError, match="within 300 ms"):
                admin.describe_cluster()
            assert 0.25 < time.monotonic() - started < 5
    finally:
        hold.set()


def test_a_request_without_an_answer_is_sent_again_after_request_timeout_ms(
    meddler: Meddler, servers: str
) -> None:
    hold = threading.Event()
    meddler.on("DescribeCluster", hold=hold, times=1)
    try:
        with ottla.Admin(bootstrap_servers=servers, request_timeout_ms=200) as admin:
            started = time.monotonic()
            assert admin.describe_cluster().nodes
            took = time.monotonic() - started
            assert 0.15 < took < 5
            # Each repetition has waited for the whole timeout: one of them, unless the machine is slow to answer it.
            repetitions = len(meddler.seen("DescribeCluster")) - 1
            assert 1 <= repetitions <= max(1, round(took / 0.2))
    finally:
        hold.set()
