"""The settings of a source, read from its options."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.config.admin import AdminConfig
from ottla.config.producer import ProducerConfig
from ottla.errors import ConfigError
from ottla.model import TopicPartition
from ottla.spark.given_options import (
    check_names,
    is_known_to,
    kafka_options,
    options_for,
    values,
)
from ottla.spark.options import KAFKA_PREFIX, READS, Use
from ottla.spark.source.limits import (
    EARLIEST,
    LATEST,
    Everywhere,
    Limit,
    check_batch,
    read_limit,
)
from ottla.spark.source.offset_ranges import TaskSizes
from ottla.spark.source.partition_maps import read_partitions


@dataclass(frozen=True)
class Subscription:
    """The partitions to read: of topics by name, of topics that match a pattern, or single ones."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()

    def includes(self, partition: TopicPartition) -> bool:
        """Whether a partition is subscribed to, if it exists."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, partition.topic) is not None
        return partition.topic in self.topics or partition in self.partitions

    def __str__(self) -> str:
        return self.pattern or ", ".join([*self.topics, *map(str, self.partitions)])


@dataclass(frozen=True)
class SourceOptions:
    """The settings of one query's source."""

    subscription: Subscription
    start: Limit
    end: Limit
    latest_without_match: bool
    fail_on_data_loss: bool
    poll_timeout_ms: int
    lookup_attempts: int
    timeout_attempts: int
    """How often to repeat a request that timed out."""
    lookup_pause_ms: int
    max_offsets: int | None
    min_offsets: int | None
    max_delay_ms: int
    task_sizes: TaskSizes
    include_headers: bool
    pipeline: str | None
    commit_group: str | None
    """The group in which offsets are committed, only for tools that show lag."""
    # These may contain passwords.
    consumer: Mapping[str, str] = field(repr=False)
    """The options of the consumers in tasks, by Kafka's names."""
    admin: Mapping[str, str] = field(repr=False)
    renewal: Mapping[str, str] = field(repr=False)
    """The options of the producer that renews an idle pipeline's progress."""

    @property
    def isolation_level(self) -> str:
        """read_committed by default."""
        return self.consumer["isolation.level"]


def read_batch_options(given: Mapping[str, str]) -> SourceOptions:
    """The settings of a batch query; by default it reads from the earliest to the latest offset."""
    found = values(given, Use.BATCH_READ)
    start = read_limit("starting", found, EARLIEST)
    end = read_limit("ending", found, LATEST)
    check_batch(start, end)
    return _options(given, Use.BATCH_READ, found, start, end)


def read_stream_options(given: Mapping[str, str]) -> SourceOptions:
    """The settings of a streaming query; by default it starts at the latest offset."""
    found = values(given, Use.STREAM_READ)
    least, most = found["minOffsetsPerTrigger"], found["maxOffsetsPerTrigger"]
    if least is not None and most is not None and least > most:
        raise ConfigError(
            f"minOffsetsPerTrigger ({least}) is above maxOffsetsPerTrigger ({most}): lower it or "
            "raise the other"
        )
    start = read_limit("starting", found, LATEST)
    return _options(given, Use.STREAM_READ, found, start, Everywhere(LATEST))


def check_for_any_query(given: Mapping[str, str]) -> None:
    """Refuse options that neither a streaming nor a batch query takes: it is not known yet which one this is."""
    check_names(given, *READS)
    refusals = []
    for use, read in {
        Use.STREAM_READ: read_stream_options,
        Use.BATCH_READ: read_batch_options,
    }.items():
        # An option of only one of them excludes the other.
        if all(is_known_to(name, use) for name in given):
            try:
                read(given)
                return
            except ConfigError as error:
                refusals.append(error)
    if refusals:
        raise refusals[0]


def includes_headers(given: Mapping[str, str]) -> bool:
    """Whether there is a column `headers`; for both kinds of queries."""
    mine = {name: value for name, value in given.items() if name.lower() == "includeheaders"}
    includes: bool = values(mine, Use.BATCH_READ)["includeHeaders"]
    return includes


def _options(
    given: Mapping[str, str], use: Use, found: Mapping[str, Any], start: Limit, end: Limit
) -> SourceOptions:
    assert use in READS
    kafka = kafka_options(given, use)
    pipeline = found.get("pipeline")
    consumer = {
        "isolation.level": "read_committed",
        # Between two tasks a consumer is idle, which is no stall. While a task reads, pollTimeoutMs is its limit.
        "stall.timeout.ms": "0",
        **kafka,
        # A task reads exactly the planned offsets, or fails.
        "auto.offset.reset": "none",
        "enable.auto.commit": "false",
        "allow.auto.create.topics": "false",
    }
    consumer.setdefault("group.id", _group_id(found["groupIdPrefix"], given))
    return SourceOptions(
        subscription=_subscription(found),
        start=start,
        end=end,
        latest_without_match=found["startingOffsetsByTimestampStrategy"] == "latest",
        fail_on_data_loss=found["failOnDataLoss"],
        poll_timeout_ms=found["kafkaConsumer.pollTimeoutMs"],
        lookup_attempts=found["fetchOffset.numRetries"],
        # A stream survives an outage; a batch query fails, because the user is waiting for its result.
        timeout_attempts=found["fetchOffset.numRetries"] if use is Use.STREAM_READ else 1,
        lookup_pause_ms=found["fetchOffset.retryIntervalMs"],
        max_offsets=found.get("maxOffsetsPerTrigger"),
        min_offsets=found.get("minOffsetsPerTrigger"),
        max_delay_ms=found.get("maxTriggerDelay", 0),
        task_sizes=_task_sizes(found),
        include_headers=found["includeHeaders"],
        pipeline=pipeline,
        commit_group=_commit_group(kafka, pipeline) if found.get("commitOffsets") else None,
        consumer=consumer,
        admin=options_for(AdminConfig, kafka),
        renewal=options_for(ProducerConfig, kafka),
    )


def _subscription(found: Mapping[str, Any]) -> Subscription:
    names = ("assign", "subscribe", "subscribePattern")
    chosen = [name for name in names if found[name] is not None]
    if len(chosen) != 1:
        what = f"{' and '.join(chosen)} are given" if chosen else "none is given"
        raise ConfigError(f"exactly one of {', '.join(names)} is needed, and {what}")
    if found["assign"] is not None:
        return Subscription(partitions=read_partitions("assign", found["assign"]))
    if found["subscribe"] is not None:
        topics = sorted({part.strip() for part in found["subscribe"].split(",")} - {""})
        if not topics:
            raise ConfigError(f"subscribe={found['subscribe']!r} names no topic")
        return Subscription(topics=tuple(topics))
    pattern = found["subscribePattern"]
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigError(
            f"subscribePattern={pattern!r} is no regular expression of Python: {error}"
        ) from error
    return Subscription(pattern=pattern)


def _task_sizes(found: Mapping[str, Any]) -> TaskSizes:
    least, most = found["minRecordsPerPartition"], found["maxRecordsPerPartition"]
    if least is not None and most is not None and least > most:
        raise ConfigError(
            f"minRecordsPerPartition ({least}) is above maxRecordsPerPartition ({most}): lower it or "
            "raise the other"
        )
    return TaskSizes(found["minPartitions"], least, most)


def _commit_group(kafka: Mapping[str, str], pipeline: str | None) -> str:
    if pipeline is not None:
        raise ConfigError(
            "commitOffsets=true and pipeline exclude each other: the sink of a pipeline commits "
            "offsets itself, in the transaction. Remove commitOffsets, or pipeline if the sink is "
            "another"
        )
    if "group.id" not in kafka:
        raise ConfigError(
            "commitOffsets=true needs a group: give kafka.group.id, under which tools will find the lag"
        )
    return kafka["group.id"]


def _group_id(prefix: str, given: Mapping[str, str]) -> str:
    """A name derived from the options, so that all processes of a query have the same and other queries another."""
    # Without the options of Kafka's clients, which may contain passwords.
    own = [name for name in sorted(given) if not name.lower().startswith(KAFKA_PREFIX)]
    text = "\n".join(f"{name.lower()}={given[name]}" for name in own)
    return f"{prefix}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
