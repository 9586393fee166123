"""`ottla perf produce`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import producer_of
from ottla.cli.errors import line_of
from ottla.cli.exit_codes import DONE, FAILED
from ottla.cli.perf.measures import (
    Payloads,
    SendRate,
    Tally,
    finite,
    interval_line,
    metrics_lines,
    rates,
    topic_of,
)
from ottla.cli.terminal.output import Output, say

if TYPE_CHECKING:
    from ottla.client.blocking.producer import Producer


def produce(arguments: Arguments) -> int:
    """Send records as fast as possible, or at a limited rate, and report the rate."""
    topic = topic_of(arguments)
    payloads = Payloads(arguments)
    output = Output(arguments.form)
    with producer_of(arguments) as producer:
        producer.partitions_for(topic)
        if arguments.warmup:
            _send(producer, topic, payloads, arguments.warmup, SendRate(-1), Tally())
        tally = Tally()
        try:
            _send(
                producer,
                topic,
                payloads,
                arguments.num_records,
                SendRate(arguments.throughput),
                tally,
            )
        finally:
            _print(output, tally, time.perf_counter() - tally.began, producer, arguments)
    if tally.first_error is not None:
        say(
            f"ottla: records that were not written: {tally.failed_count}: {line_of(tally.first_error)}"
        )
        return FAILED
    return DONE


def _send(
    producer: Producer, topic: str, payloads: Payloads, count: int, pace: SendRate, tally: Tally
) -> None:
    for values in payloads.chunks(count):
        pace.keep(len(values))
        began = time.perf_counter()
        sent = producer.send_many(topic, values)
        sent.add_batch_callback(
            _outcome_callback(tally, began, sum(map(len, values)) / len(values))
        )
        line = interval_line(tally, "records sent", "records", "latency")
        if line is not None:
            say(line)
    producer.flush()


def _outcome_callback(
    tally: Tally, began: float, value_bytes: float
) -> Callable[[int, Exception | None], None]:
    """The callback for outcomes, which runs on the producer's thread."""

    def take(count: int, error: Exception | None) -> None:
        if error is None:
            latency_ms = (time.perf_counter() - began) * 1000
            tally.note(latency_ms, count, round(count * value_bytes))
        else:
            tally.note_failure(count, error)

    return take


def _print(
    output: Output,
    tally: Tally,
    elapsed_seconds: float,
    producer: Producer,
    arguments: Arguments,
) -> None:
    latencies = tally.latencies
    per_second, megabytes = rates(latencies.count, tally.byte_count, elapsed_seconds)
    if output.is_table:
        lines = [summary(tally, elapsed_seconds)]
        if arguments.print_metrics:
            lines += metrics_lines(producer.metrics())
        output.lines(lines)
        return
    found = {
        "records": latencies.count,
        "failed": tally.failed_count,
        "bytes": tally.byte_count,
        "seconds": round(elapsed_seconds, 6),
        "records_per_second": round(per_second, 3),
        "megabytes_per_second": round(megabytes, 6),
        "latency_ms": latencies.data(),
    }
    output.data(
        found | ({"metrics": finite(producer.metrics())} if arguments.print_metrics else {})
    )


def summary(tally: Tally, elapsed_seconds: float) -> str:
    """The line of kafka-producer-perf-test."""
    latencies = tally.latencies
    per_second, megabytes = rates(latencies.count, tally.byte_count, elapsed_seconds)
    shares = [int(latencies.percentile(share)) for share in (0.5, 0.95, 0.99, 0.999)]
    return (
        f"{latencies.count} records sent, {per_second:.1f} records/sec ({megabytes:.2f} MB/sec), "
        f"{latencies.average_ms:.2f} ms avg latency, {latencies.max_ms:.2f} ms max latency, "
        f"{shares[0]} ms 50th, {shares[1]} ms 95th, {shares[2]} ms 99th, {shares[3]} ms 99.9th."
    )
