"""`ottla perf consume`."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import admin_of, consumer_of
from ottla.cli.exit_codes import DONE, FAILED
from ottla.cli.perf.measures import MEGABYTE, finite, metrics_lines, topic_of
from ottla.cli.terminal.output import Output, say
from ottla.cli.topics.selection import no_such_topics
from ottla.client.aio.group.rebalance_listener import RebalanceListener
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.client.blocking.consumer import Consumer
    from ottla.client.model import ConsumerRecords

_POLL_SECONDS: Final = 0.1
_FIRST_JOIN_SECONDS: Final = 30.0
_RATES: Final = "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec"
_JOINING: Final = "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
_sizes: Final = attrgetter("serialized_key_size", "serialized_value_size")


class _Joining(RebalanceListener):
    """The time in which the consumer could not read because the group rebalanced."""

    def __init__(self) -> None:
        self.total_seconds = 0.0
        self._began = time.perf_counter()
        # No record can arrive before the first rebalance ends.
        self.ended = self._began + _FIRST_JOIN_SECONDS

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self._began = time.perf_counter()

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.ended = time.perf_counter()
        self.total_seconds += self.ended - self._began


class _Period:
    """The records that were read in a period of time."""

    def __init__(self, joined_seconds: float = 0.0) -> None:
        self.began_ms = time.time() * 1000
        self._began = time.perf_counter()
        self.seconds = 0.0
        self.record_count = 0
        self.byte_count = 0
        self._joined_before = joined_seconds
        self.joining_seconds = 0.0

    def take(self, records: ConsumerRecords) -> None:
        self.record_count += len(records)
        for key_bytes, value_bytes in map(_sizes, records):
            self.byte_count += max(key_bytes, 0) + max(value_bytes, 0)

    def end(self, joined_seconds: float) -> None:
        self.seconds = max(time.perf_counter() - self._began, 1e-6)
        self.joining_seconds = joined_seconds - self._joined_before

    @property
    def age_seconds(self) -> float:
        return time.perf_counter() - self._began

    @property
    def fetching_seconds(self) -> float:
        return max(self.seconds - self.joining_seconds, 0.0)

    def _while_fetching(self, amount: float) -> float:
        """An amount per second of fetching; 0 if joining took all the time, as in Kafka's tool."""
        return amount / self.fetching_seconds if self.fetching_seconds else 0.0

    def fields(self, records: int, byte_count: int) -> str:
        """The fields of Kafka's line after the times; the totals may be those of the whole run."""
        megabytes = self.byte_count / MEGABYTE
        return (
            f"{byte_count / MEGABYTE:.4f}, {megabytes / self.seconds:.4f}, {records}, "
            f"{self.record_count / self.seconds:.4f}, {round(self.joining_seconds * 1000)}, "
            f"{round(self.fetching_seconds * 1000)}, {self._while_fetching(megabytes):.4f}, "
            f"{self._while_fetching(self.record_count):.4f}"
        )

    def data(self) -> dict[str, object]:
        megabytes = self.byte_count / MEGABYTE
        return {
            "start_time_ms": int(self.began_ms),
            "end_time_ms": int(self.began_ms + self.seconds * 1000),
            "records": self.record_count,
            "bytes": self.byte_count,
            "seconds": round(self.seconds, 6),
            "records_per_second": round(self.record_count / self.seconds, 3),
            "megabytes_per_second": round(megabytes / self.seconds, 6),
            "rebalance_ms": round(self.joining_seconds * 1000, 3),
            "fetch_ms": round(self.fetching_seconds * 1000, 3),
            "fetch_records_per_second": round(self._while_fetching(self.record_count), 3),
            "fetch_megabytes_per_second": round(self._while_fetching(megabytes), 6),
        }


def consume(arguments: Arguments) -> int:
    """Read records as fast as possible, and report the rate."""
    topic = topic_of(arguments)
    output = Output(arguments.form)
    options: dict[str, object] = {
        "group_id": arguments.group or f"perf-consumer-{uuid.uuid4().hex[:8]}",
        # A misspelt topic must not be created.
        "allow_auto_create_topics": False,
        "auto_offset_reset": "latest" if arguments.from_latest else "earliest",
    }
    if arguments.fetch_size is not None:
        options["max_partition_fetch_bytes"] = arguments.fetch_size
    with consumer_of(arguments, **options) as consumer:
        if topic not in consumer.list_topics():
            with admin_of(arguments) as admin:
                raise no_such_topics(admin, [topic])
        if output.is_table and not arguments.hide_header:
            times = "time, threadId" if arguments.show_detailed_stats else "start.time, end.time"
            output.lines([f"{times}, {_RATES}, {_JOINING}"])
        run = _Run(consumer, arguments, output)
        try:
            run.read(topic)
        finally:
            run.show()
    return DONE if run.is_complete else FAILED


class _Run:
    def __init__(self, consumer: Consumer, arguments: Arguments, output: Output) -> None:
        self._consumer = consumer
        self._arguments = arguments
        self._output = output
        self._joining = _Joining()
        self._whole = _Period()
        self._interval = _Period()

    @property
    def is_complete(self) -> bool:
        return self._whole.record_count >= int(self._arguments.messages)

    def read(self, topic: str) -> None:
        arguments = self._arguments
        self._consumer.partitions_for(topic)
        self._consumer.subscribe([topic], self._joining)
        last_seen = time.perf_counter()
        while not self.is_complete:
            records = self._consumer.poll(_POLL_SECONDS)
            if len(records):
                last_seen = time.perf_counter()
                self._whole.take(records)
                self._interval.take(records)
            elif time.perf_counter() - max(last_seen, self._joining.ended) > arguments.idle:
                say(
                    f"ottla: no record came for {arguments.idle:g} s: "
                    "--idle SECONDS waits longer, --messages N asks for fewer"
                )
                return
            if self._interval.age_seconds * 1000 >= arguments.reporting_interval:
                self._print_interval()

    def _print_interval(self) -> None:
        """Print a line about an interval: as a result if asked for, else as progress."""
        self._interval.end(self._joining.total_seconds)
        whole = self._whole
        line = (
            f"{_moment(time.time() * 1000)}, 0, "
            f"{self._interval.fields(whole.record_count, whole.byte_count)}"
        )
        if self._arguments.show_detailed_stats and self._output.is_table:
            self._output.lines([line])
        else:
            say(line)
        self._interval = _Period(self._joining.total_seconds)

    def show(self) -> None:
        """Print the results of the whole run."""
        whole = self._whole
        whole.end(self._joining.total_seconds)
        metrics = self._consumer.metrics() if self._arguments.print_metrics else None
        if not self._output.is_table:
            more = {} if metrics is None else {"metrics": finite(metrics)}
            self._output.data({**whole.data(), **more})
            return
        lines = []
        if not self._arguments.show_detailed_stats:
            times = f"{_moment(whole.began_ms)}, {_moment(whole.began_ms + whole.seconds * 1000)}, "
            lines = [times + whole.fields(whole.record_count, whole.byte_count)]
        self._output.lines([*lines, *(metrics_lines(metrics) if metrics is not None else [])])


def _moment(timestamp_ms: float) -> str:
    """A time in the format of Kafka's tool."""
    moment = datetime.fromtimestamp(timestamp_ms / 1000)
    return f"{moment:%Y-%m-%d %H:%M:%S}:{moment.microsecond // 1000:03d}"
