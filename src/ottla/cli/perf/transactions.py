"""`ottla perf transactions`."""

from __future__ import annotations

import threading
import time
import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import producer_of
from ottla.cli.exit_codes import DONE
from ottla.cli.perf.measures import (
    Latencies,
    Payloads,
    SendRate,
    Tally,
    interval_line,
    rates,
    topic_of,
)
from ottla.cli.terminal.output import Output, say

if TYPE_CHECKING:
    from ottla.client.blocking.producer import Producer

_DEFAULT_SIZE: Final = 100
_LOOK_SECONDS: Final = 0.2


class _Writer(threading.Thread):
    """A thread with a producer that writes one transaction after the other."""

    def __init__(self, producer: Producer, topic: str, arguments: Arguments, share: int) -> None:
        super().__init__(name=f"writer of {topic}", daemon=True)
        self._producer = producer
        self._topic = topic
        self._payloads = Payloads(arguments)
        self._limit_seconds = (arguments.transaction_duration_ms or 0) / 1000
        self._limit_count = arguments.transaction_size
        if not self._limit_count and not self._limit_seconds:
            self._limit_count = _DEFAULT_SIZE
        self._throughput = arguments.throughput / arguments.producers
        self._share = share
        self._warmup = -(-arguments.warmup // arguments.producers)
        self.commits = Tally()
        self.transactions = Latencies()  # from begin to the end of the commit
        self.record_count = 0
        self.error: Exception | None = None
        self.is_stopped = False
        self.ended: float | None = None
        # After Ctrl-C during join() Python takes a running thread for ended.
        self.is_done = threading.Event()

    def warm_up(self) -> None:
        """Write records that are not measured; afterwards the coordinator is known."""
        self._producer.init_transactions()
        self._write(self._warmup, SendRate(-1))
        self.transactions, self.record_count = Latencies(), 0

    def run(self) -> None:
        try:
            self._write(self._share, SendRate(self._throughput))
        except Exception as error:
            self.error = error
        self.ended = time.perf_counter()
        self.is_done.set()

    def _write(self, count: int, pace: SendRate) -> None:
        """Send in chunks; a transaction ends when it reaches its size or age."""
        values: list[bytes] = []
        chunks = self._payloads.chunks(count)
        left = count
        while left and not self.is_stopped:
            self._producer.begin_transaction()
            began = time.perf_counter()
            in_transaction = byte_count = 0
            while left and not self._is_full(in_transaction, began):
                values = values or next(chunks)
                room = self._limit_count - in_transaction if self._limit_count else len(values)
                some, values = values[:room], values[room:]
                pace.keep(len(some))
                self._producer.send_many(self._topic, some)
                in_transaction += len(some)
                byte_count += sum(map(len, some))
                left -= len(some)
            ending = time.perf_counter()
            self._producer.commit_transaction()
            now = time.perf_counter()
            self.commits.note((now - ending) * 1000, 1, byte_count)
            self.transactions.add((now - began) * 1000)
            self.record_count += in_transaction

    def _is_full(self, count: int, began: float) -> bool:
        if (count and self.is_stopped) or (self._limit_count and count >= self._limit_count):
            return True
        age = time.perf_counter() - began
        return bool(count and self._limit_seconds and age >= self._limit_seconds)


def transactions(arguments: Arguments) -> int:
    """Commit transactions as fast as possible, and report the rate."""
    topic = topic_of(arguments)
    output = Output(arguments.form)
    prefix = arguments.transactional_id or f"performance-producer-{uuid.uuid4()}"
    share, rest = divmod(arguments.num_records, arguments.producers)
    with ExitStack() as stack:
        writers = []
        for number in range(arguments.producers):
            producer = stack.enter_context(
                producer_of(arguments, transactional_id=f"{prefix}-{number}")
            )
            writer = _Writer(producer, topic, arguments, share + (number < rest))
            writer.warm_up()
            writers.append(writer)
        commits = Tally()
        try:
            _run(writers, commits)
        finally:
            for writer in writers:
                writer.is_stopped = True
            try:
                for writer in writers:
                    if writer.ident is not None:
                        writer.is_done.wait()
            finally:
                # A second Ctrl-C does not wait.
                now = time.perf_counter()
                ended = max(writer.ended or now for writer in writers)
                _print(output, writers, commits, ended - commits.began)
    for writer in writers:
        if writer.error is not None:
            raise writer.error
    return DONE


def _run(writers: list[_Writer], commits: Tally) -> None:
    """Run until all writers are done, or one has failed."""
    for writer in writers:
        writer.commits = commits
        writer.start()
    while not all(writer.is_done.is_set() for writer in writers):
        for writer in writers:
            writer.is_done.wait(_LOOK_SECONDS / len(writers))
        if any(writer.error is not None for writer in writers):
            return
        line = interval_line(commits, "transactions committed", "transactions", "commit latency")
        if line is not None:
            say(line)


def _print(output: Output, writers: list[_Writer], tally: Tally, elapsed_seconds: float) -> None:
    commits, byte_count, whole = tally.latencies, tally.byte_count, Latencies()
    for writer in writers:
        whole.include(writer.transactions)
    records = sum(writer.record_count for writer in writers)
    per_second, _ = rates(commits.count, 0, elapsed_seconds)
    records_per_second, megabytes = rates(records, byte_count, elapsed_seconds)
    if not output.is_table:
        output.data(
            {
                "transactions": commits.count,
                "records": records,
                "bytes": byte_count,
                "producers": len(writers),
                "seconds": round(elapsed_seconds, 6),
                "transactions_per_second": round(per_second, 3),
                "records_per_second": round(records_per_second, 3),
                "megabytes_per_second": round(megabytes, 6),
                "commit_latency_ms": commits.data(),
                "transaction_latency_ms": whole.data(),
            }
        )
        return
    shares = [commits.percentile(share) for share in (0.5, 0.95, 0.99, 0.999)]
    output.lines(
        [
            f"{commits.count} transactions committed, {per_second:.1f} transactions/sec, "
            f"{records} records sent, {records_per_second:.1f} records/sec ({megabytes:.2f} MB/sec), "
            f"{commits.average_ms:.2f} ms avg commit latency, {commits.max_ms:.2f} ms max commit latency, "
            f"{shares[0]:.1f} ms 50th, {shares[1]:.1f} ms 95th, {shares[2]:.1f} ms 99th, "
            f"{shares[3]:.1f} ms 99.9th."
        ]
    )
