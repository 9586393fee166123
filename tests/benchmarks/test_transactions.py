"""The benchmarks of transactions count what was committed, and notice what was not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from benchmarks.bench_commit_latency import Reader, commit_once
from benchmarks.comparison import Results, Row
from benchmarks.frames import RefusedError, create_wide_topic
from benchmarks.measure import Measurement, Memory
from benchmarks.peers import Peer
from benchmarks.report import Report
from benchmarks.transactions import (
    VERSION_1,
    VERSION_2,
    Producer,
    Protocol,
    await_stable,
    commit_for,
)
from benchmarks.writers import (
    IdempotentWriter,
    Shape,
    TransactionalWriter,
    Writer,
    write_for,
)
from tests.benchmarks.test_groups import Embedded

import ottla
from benchmarks import (
    bench_commit_latency,
    bench_transactional_produce,
    bench_transactions,
    transactions,
)
from ottla.errors import ErrorCode

SECONDS = 0.05
PROTOCOLS = pytest.mark.parametrize("protocol", [VERSION_1, VERSION_2], ids=lambda each: each.name)


@pytest.fixture
def peer() -> Iterator[Peer]:
    with ottla.Broker() as broker:
        yield Embedded(broker)


@pytest.fixture
def until_end() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@PROTOCOLS
def test_every_transaction_that_is_counted_is_in_the_log(
    peer: Peer, until_end: ExitStack, protocol: Protocol
) -> None:
    create_wide_topic(peer.bootstrap_server, "t", 2)
    producers = [
        until_end.enter_context(closing(Producer(peer.bootstrap_server, protocol, "t", [0, 1])))
        for _ in range(3)
    ]
    assert commit_for(producers, SECONDS) >= SECONDS
    committed = sum(producer.committed for producer in producers)
    assert min(producer.committed for producer in producers) > 0
    assert await_stable(peer.bootstrap_server, "t", 2) == [2 * committed] * 2


@PROTOCOLS
def test_a_producer_that_is_fenced_is_noticed(
    peer: Peer, until_end: ExitStack, protocol: Protocol
) -> None:
    create_wide_topic(peer.bootstrap_server, "t", 1)
    first, _ = (
        until_end.enter_context(
            closing(Producer(peer.bootstrap_server, protocol, "t", [0], transactional_id="same"))
        )
        for _ in range(2)
    )
    with pytest.raises(RefusedError, match=r"PRODUCER_FENCED|INVALID_PRODUCER_EPOCH"):
        first.run(first.transaction())


def test_a_transaction_that_stays_open_is_noticed(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "VISIBLE_SECONDS", 0.0)
    create_wide_topic(peer.bootstrap_server, "t", 1)
    with closing(Producer(peer.bootstrap_server, VERSION_2, "t", [0])) as producer:
        producer.run(producer.write())
        with pytest.raises(RefusedError, match=r"stable up to \[0\] and ends at \[1\]"):
            await_stable(peer.bootstrap_server, "t", 1)
        monkeypatch.undo()
        producer.run(producer.end())
        assert await_stable(peer.bootstrap_server, "t", 1) == [2]


@pytest.mark.parametrize("kind", [Writer, IdempotentWriter, TransactionalWriter])
def test_writers_count_what_the_broker_has(
    peer: Peer, until_end: ExitStack, kind: type[Writer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.writers.COMMIT_SECONDS", SECONDS / 4)
    create_wide_topic(peer.bootstrap_server, "t", 2)
    shape = Shape("t", 2, 10, 100)
    writers = [
        until_end.enter_context(closing(kind(peer.bootstrap_server, shape))) for _ in range(2)
    ]
    write_for(writers, SECONDS)
    records = [10 * sum(writer.batches_of(index) for writer in writers) for index in range(2)]
    markers = sum(writer.markers for writer in writers)
    assert min(records) > 0
    assert (markers > 0) == (kind is TransactionalWriter)
    assert await_stable(peer.bootstrap_server, "t", 2) == [each + markers for each in records]


def test_a_writer_that_is_put_off_sends_its_batches_again(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_wide_topic(peer.bootstrap_server, "t", 1)
    with closing(TransactionalWriter(peer.bootstrap_server, Shape("t", 1, 10, 100))) as writer:
        frame = writer.lanes[0].frame
        said = frame.error
        left = iter([ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS])

        def error(answer: bytes) -> ErrorCode:
            """The second answer is not what the broker said: it has the batch, and has to notice that."""
            found = said(answer)
            return next(left, found)

        monkeypatch.setattr(frame, "error", error)
        write_for([writer], SECONDS)
        assert next(left, None) is None
        expected = writer.acknowledged * 10 + writer.markers
    assert await_stable(peer.bootstrap_server, "t", 1) == [expected]


@PROTOCOLS
def test_a_commit_is_answered_and_visible(
    peer: Peer, until_end: ExitStack, protocol: Protocol
) -> None:
    create_wide_topic(peer.bootstrap_server, "t", 1)
    producer = until_end.enter_context(closing(Producer(peer.bootstrap_server, protocol, "t", [0])))
    reader = Reader(peer.bootstrap_server, "t", 0)
    until_end.enter_context(reader.connection)
    for _ in range(2):
        answered, visible = commit_once(producer, reader)
        assert answered > 0
        assert visible > 0
    assert reader.offset == 4


ROWS = [
    *bench_transactions.ROWS,
    *bench_transactional_produce.ROWS,
    *bench_commit_latency.ROWS,
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.driver}-{row.title}")
def test_rows_measure(peer: Peer, row: Row) -> None:
    measurement = row.run(peer, SECONDS)
    assert measurement.throughput > 0 or measurement.latency_ms["p50"] > 0


def test_a_row_is_compared_with_another_of_the_same_broker() -> None:
    plain = Row("produce", "raw", "plain", "records/s", bench_transactions.ROWS[0].run)
    other = Row("produce", "raw", "other", "records/s", plain.run, "plain")
    results = Results()
    for throughput in (100.0, 200.0, 300.0):
        results.add(plain, "ottla", Measurement(throughput=throughput, cpu_ms_per_mb=2.0))
        results.add(other, "ottla", Measurement(throughput=throughput / 2, cpu_ms_per_mb=3.0))
    versions = {"ottla": "1"}
    memory = dict.fromkeys(versions, Memory(30.0, 20.0))
    report = Report(3, 1.0, 0.0, versions, {}, results, {"ottla": [0.25]}, memory, memory)
    assert "| produce, other | plain | 0.50 | 1.5 |" in report.markdown()
