"""The log of requests is bounded, and costs little however much a request names."""

from __future__ import annotations

import time
import tracemalloc

from ottla.testing import request_log
from ottla.testing.request_log import LoggedRequest, RequestLog
from ottla.testing.subjects import Named, Names
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)


def names(topics: int, partitions: int, prefix: str = "topic") -> Names:
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name=f"{prefix}-{topic}",
                partitions=[
                    ListOffsetsPartition(partition_index=n, timestamp=-1) for n in range(partitions)
                ],
            )
            for topic in range(topics)
        ],
    )
    return Names("ListOffsets", request, lambda topic_id: None)


def add(log: RequestLog, named: Names, client_id: str = "c") -> LoggedRequest:
    return log.add(
        at_ms=0, node_id=1, api="ListOffsets", version=7, client_id=client_id, names=named
    )


def test_a_request_with_half_a_million_names_is_logged_at_once() -> None:
    log = RequestLog()
    named = names(500, 1000)
    began = time.thread_time()
    entry = add(log, named)
    assert time.thread_time() - began < 0.02
    assert entry.named_count == 500_000
    assert entry.named[:2] == (Named("topic-0", 0), Named("topic-0", 1))
    assert entry.names("topic-0")
    assert entry.names("topic-499")
    assert not entry.names("topic-500")
    assert "topic-0-3 and 499996 more" in str(entry)


def test_the_log_forgets_the_oldest_requests() -> None:
    log = RequestLog()
    for _ in range(request_log.MAX_REQUESTS + 5):
        add(log, names(1, 1))
    assert len(log) == request_log.MAX_REQUESTS
    assert log.count == request_log.MAX_REQUESTS + 5
    assert next(iter(log)).number == 6
    assert len(log.since(log.count - 3)) == 3


def test_the_memory_of_the_log_is_bounded_whatever_requests_name() -> None:
    log = RequestLog()
    named = [names(5_000, 1, f"{number}-" + "x" * 1000) for number in range(2)]
    tracemalloc.start()
    try:
        for _ in range(15):
            for each in named:
                add(log, each, "c" * 30_000)
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 1 <= len(log) < 20
    assert kept_bytes < 100 << 20
    log.clear()
    assert len(log) == 0
    add(log, names(1, 1))
    assert len(log) == 1
