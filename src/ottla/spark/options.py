"""The table of the options of `format("ottla")`: those of Spark's own Kafka source and sink, and a few of ours.

`given_options` reads what a query was given by it. An option that is not in the table is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from ottla.spark.option_parsers import choice, duration_ms, flag, names, text, whole_number

KAFKA_PREFIX: Final = "kafka."


class Use(Enum):
    """The kinds of queries."""

    BATCH_READ = "a batch query that reads"
    STREAM_READ = "a streaming query that reads"
    BATCH_WRITE = "a batch query that writes"
    STREAM_WRITE = "a streaming query that writes"


READS: Final = (Use.BATCH_READ, Use.STREAM_READ)
WRITES: Final = (Use.BATCH_WRITE, Use.STREAM_WRITE)
STREAMS: Final = (Use.STREAM_READ, Use.STREAM_WRITE)


@dataclass(frozen=True)
class SparkOption:
    """One option without the prefix `kafka.`."""

    name: str
    uses: tuple[Use, ...]
    parse: Callable[[str], Any]
    default: Any
    doc: str
    of_spark: bool = True
    """Whether Spark's own connector has it; otherwise it is ours."""

    @property
    def key(self) -> str:
        """The name as Spark passes it on."""
        return self.name.lower()


def _reading(name: str, parse: Callable[[str], Any], default: Any, doc: str) -> SparkOption:
    return SparkOption(name, READS, parse, default, doc)


def _streaming(name: str, parse: Callable[[str], Any], default: Any, doc: str) -> SparkOption:
    return SparkOption(name, (Use.STREAM_READ,), parse, default, doc)


def _ending(name: str, parse: Callable[[str], Any], doc: str) -> SparkOption:
    return SparkOption(name, (Use.BATCH_READ,), parse, None, doc)


_TIMESTAMP = whole_number(0)

OPTIONS: Final = (
    # Topics and offsets
    _reading("assign", text, None, 'Partitions: {"orders":[0,1]}.'),
    _reading("subscribe", text, None, "Topics, separated by commas."),
    _reading(
        "subscribePattern", text, None, "A regular expression that whole topic names have to match."
    ),
    # Where to start and end
    _reading("startingTimestamp", _TIMESTAMP, None, "Start at this time (ms) in all partitions."),
    _reading("startingOffsetsByTimestamp", text, None, "As startingTimestamp, by partition."),
    _reading("startingOffsets", text, None, 'earliest, latest or {"orders":{"0":23,"1":-2}}.'),
    _reading(
        "startingOffsetsByTimestampStrategy",
        choice("error", "latest"),
        "error",
        "What to do where no record is as young as the timestamp.",
    ),
    _ending("endingTimestamp", _TIMESTAMP, "End at this time (ms) in all partitions."),
    _ending("endingOffsetsByTimestamp", text, "As endingTimestamp, by partition."),
    _ending("endingOffsets", text, 'latest or {"orders":{"0":50,"1":-1}}.'),
    # How much in a micro-batch and in a task
    _streaming(
        "maxOffsetsPerTrigger", whole_number(1), None, "The maximum of offsets in a micro-batch."
    ),
    _streaming(
        "minOffsetsPerTrigger", whole_number(1), None, "Wait for at least this number of offsets."
    ),
    _streaming("maxTriggerDelay", duration_ms, 900_000, "How long minOffsetsPerTrigger waits."),
    _reading(
        "minPartitions",
        whole_number(1),
        None,
        "The minimum number of tasks: large partitions are split.",
    ),
    _reading("maxRecordsPerPartition", whole_number(1), None, "The maximum of offsets in a task."),
    # How to read
    _reading(
        "failOnDataLoss",
        flag,
        True,
        "Whether the query fails if records were deleted before it read them.",
    ),
    _reading(
        "kafkaConsumer.pollTimeoutMs",
        whole_number(1),
        120_000,
        "How long a task waits for records.",
    ),
    _reading(
        "fetchOffset.numRetries",
        whole_number(1),
        3,
        "How often to request offsets. After a timeout, only streaming queries that have reached the cluster before "
        "request them again.",
    ),
    _reading(
        "fetchOffset.retryIntervalMs", whole_number(0), 1000, "The pause between two attempts."
    ),
    _reading("groupIdPrefix", text, "spark-kafka-source", "The prefix of the names of consumers."),
    _reading("includeHeaders", flag, False, "Whether there is a column `headers`."),
    # Records to write
    SparkOption(
        "topic", WRITES, text, None, "The topic to write to; it overrides the column `topic`."
    ),
    SparkOption(
        "checkpointLocation",
        (Use.STREAM_WRITE,),
        text,
        None,
        "Where Spark keeps the query's progress.",
    ),
    SparkOption("queryName", (Use.STREAM_WRITE,), text, None, "The name of the query."),
    # Ours
    SparkOption(
        "pipeline",
        STREAMS,
        text,
        None,
        "The stable name of an exactly-once pipeline: the name of its group, and with a prefix its transactional id.",
        of_spark=False,
    ),
    SparkOption(
        "minRecordsPerPartition",
        READS,
        whole_number(1),
        None,
        "Partitions with fewer offsets to read share tasks of at least this number, and minPartitions splits into no "
        "smaller parts. Without it, each partition has a task.",
        of_spark=False,
    ),
    SparkOption(
        "commitOffsets",
        (Use.STREAM_READ,),
        flag,
        False,
        "Whether the source commits its offsets in kafka.group.id, for tools that show lag. For sinks other than "
        "ottla's, which commits them itself, in the transaction.",
        of_spark=False,
    ),
    SparkOption(
        "delivery",
        WRITES,
        choice("exactly-once", "at-least-once"),
        None,
        "exactly-once: each micro-batch, or a whole batch query, is one transaction. at-least-once: after a failure "
        "rows may be written again. The default is exactly-once for streaming and at-least-once for batch queries.",
        of_spark=False,
    ),
    SparkOption(
        "markerTopic",
        (Use.STREAM_WRITE,),
        text,
        None,
        "The topic under which an exactly-once sink stores its progress; the default is that of the option topic.",
        of_spark=False,
    ),
    SparkOption(
        "pinnedTopics",
        WRITES,
        names,
        None,
        "Topics that the column topic may name: all tasks of a micro-batch use the same partition counts for them, "
        "also while partitions are added.",
        of_spark=False,
    ),
    SparkOption(
        "failOnUnknownProgress",
        (Use.STREAM_WRITE,),
        flag,
        True,
        "Whether the query fails if the sink cannot tell whether a micro-batch was committed, for instance after seven "
        "days without running.",
        of_spark=False,
    ),
    SparkOption(
        "commitSourceOffsets",
        (Use.STREAM_WRITE,),
        flag,
        True,
        "Whether the offsets of an ottla source are committed with the output. The sink then has to read the "
        "checkpoint.",
        of_spark=False,
    ),
    SparkOption(
        "checkpointStorageOptions",
        (Use.STREAM_WRITE,),
        text,
        None,
        "How to open the checkpoint's store from Python, as JSON: endpoint_override, access_key and so on.",
        of_spark=False,
    ),
)

BY_KEY: Final[Mapping[str, SparkOption]] = MappingProxyType({each.key: each for each in OPTIONS})

_BYTES = "keys and values are bytes: use DataFrame functions"
_GROUPLESS = "the source is in no group, Spark keeps its offsets: remove it"

# Options of Kafka's clients that cannot be set through `kafka.`, with what to do instead.
REFUSED_READING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "auto.offset.reset": "use startingOffsets to say where to begin",
        "key.deserializer": _BYTES,
        "value.deserializer": _BYTES,
        "key.deserializer.encoding": _BYTES,
        "value.deserializer.encoding": _BYTES,
        "deserializer.encoding": _BYTES,
        "enable.auto.commit": "use commitOffsets=true, which commits what was processed",
        "interceptor.classes": "interceptors could change records: use DataFrame functions",
        **dict.fromkeys(
            (
                "group.instance.id",
                "session.timeout.ms",
                "heartbeat.interval.ms",
                "max.poll.interval.ms",
                "partition.assignment.strategy",
                "auto.commit.interval.ms",
                "group.protocol",
                "group.remote.assignor",
            ),
            _GROUPLESS,
        ),
        "max.poll.records": "tasks read whole batches as columns: use maxOffsetsPerTrigger",
        "allow.auto.create.topics": "reading creates no topics: remove it",
    }
)
REFUSED_WRITING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "key.serializer": _BYTES,
        "value.serializer": _BYTES,
        "serializer.encoding": _BYTES,
        "key.serializer.encoding": _BYTES,
        "value.serializer.encoding": _BYTES,
        "interceptor.classes": "interceptors could change records: use DataFrame functions",
        "transactional.id": "use pipeline: the transactional id is derived from that name",
        "linger.ms": "tasks fill batches and do not linger: remove it",
        **dict.fromkeys(
            (
                "partitioner.class",
                "partitioner.ignore.keys",
                "partitioner.adaptive.partitioning.enable",
                "partitioner.availability.timeout.ms",
            ),
            "keys are partitioned as by Kafka's default partitioner: use a column partition for anything else",
        ),
    }
)
# Names that users may try, with what to do instead; a trailing dot stands for all names with that prefix.
REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "path": "remove it: subscribe and topic name what is read and written",
        "spark.": "it is a setting of the session, and of Spark's own connector: remove it",
    }
)
