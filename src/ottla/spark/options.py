"""The options of `format("ottla")`: those of Spark's own Kafka source and sink, and a few of ours.

Spark lowers the names of options, so they are compared in lower case. An option that is not in the
tables is refused, and one that has no meaning for the query at hand says so.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from ottla.config.admin import AdminConfig
from ottla.config.client import ClientConfig
from ottla.config.consumer import ConsumerConfig
from ottla.config.options import options_of
from ottla.config.producer import ProducerConfig
from ottla.errors import ConfigError

KAFKA_PREFIX: Final = "kafka."


class Use(Enum):
    """What a query does with the data source."""

    BATCH_READ = "a batch query that reads"
    STREAM_READ = "a streaming query that reads"
    BATCH_WRITE = "a batch query that writes"
    STREAM_WRITE = "a streaming query that writes"


READS: Final = (Use.BATCH_READ, Use.STREAM_READ)
WRITES: Final = (Use.BATCH_WRITE, Use.STREAM_WRITE)
STREAMS: Final = (Use.STREAM_READ, Use.STREAM_WRITE)


@dataclass(frozen=True)
class SparkOption:
    """One option without the prefix `kafka.`: its name as documents write it, and how its text is read."""

    name: str
    uses: tuple[Use, ...]
    read: Callable[[str], Any]
    default: Any
    doc: str
    of_spark: bool = True
    """Whether Spark's guide has it; otherwise it is ours."""

    @property
    def key(self) -> str:
        """The name as it arrives."""
        return self.name.lower()


# How texts are read. A ValueError says what is wanted.

_DURATION: Final = re.compile(r"(\d+)\s*([a-z]*)")
_UNITS_MS: Final = MappingProxyType(
    {"us": 0.001, "": 1}
    | dict.fromkeys(("ms", "millisecond", "milliseconds"), 1)
    | dict.fromkeys(("s", "second", "seconds"), 1000)
    | dict.fromkeys(("m", "min", "minute", "minutes"), 60_000)
    | dict.fromkeys(("h", "hour", "hours"), 3_600_000)
    | dict.fromkeys(("d", "day", "days"), 86_400_000)
)


def text(given: str) -> str:
    """Any text but an empty one."""
    if not given.strip():
        raise ValueError("text that is not empty")
    return given.strip()


def names(given: str) -> tuple[str, ...]:
    """Names with commas between them, each once."""
    found = tuple(dict.fromkeys(each.strip() for each in given.split(",") if each.strip()))
    if not found:
        raise ValueError("names with commas between them")
    return found


def flag(given: str) -> bool:
    """true or false, in any case."""
    try:
        return {"true": True, "false": False}[given.strip().lower()]
    except KeyError:
        raise ValueError("true or false") from None


def whole_number(least: int) -> Callable[[str], int]:
    """A reader of whole numbers that are not below `least`."""

    def read(given: str) -> int:
        try:
            number = int(given)
        except ValueError:
            number = least - 1
        if not least <= number < 1 << 63:
            raise ValueError(f"a whole number of at least {least}")
        return number

    return read


def duration_ms(given: str) -> int:
    """A time as Spark writes it: 15m, 30s, 100ms; without a unit it is in milliseconds."""
    match = _DURATION.fullmatch(given.strip().lower())
    if match is None or match[2] not in _UNITS_MS:
        raise ValueError("a time with a unit (us, ms, s, m, min, h, d), as in 15m")
    return int(int(match[1]) * _UNITS_MS[match[2]])


def choice(*choices: str) -> Callable[[str], str]:
    """A reader of one of these words, in any case."""

    def read(given: str) -> str:
        word = given.strip().lower()
        if word not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return word

    return read


def _reading(name: str, read: Callable[[str], Any], default: Any, doc: str) -> SparkOption:
    return SparkOption(name, READS, read, default, doc)


def _streaming(name: str, read: Callable[[str], Any], default: Any, doc: str) -> SparkOption:
    return SparkOption(name, (Use.STREAM_READ,), read, default, doc)


def _ending(name: str, read: Callable[[str], Any], doc: str) -> SparkOption:
    return SparkOption(name, (Use.BATCH_READ,), read, None, doc)


_TIMESTAMP = whole_number(0)

OPTIONS: Final = (
    # What is read
    _reading("assign", text, None, 'Partitions: {"orders":[0,1]}.'),
    _reading("subscribe", text, None, "Topics, with commas between them."),
    _reading("subscribePattern", text, None, "A regular expression; whole names of topics match."),
    # Where reading begins and ends
    _reading("startingTimestamp", _TIMESTAMP, None, "Begin at this time (ms) in all partitions."),
    _reading("startingOffsetsByTimestamp", text, None, "As startingTimestamp, by partition."),
    _reading("startingOffsets", text, None, 'earliest, latest or {"orders":{"0":23,"1":-2}}.'),
    _reading(
        "startingOffsetsByTimestampStrategy",
        choice("error", "latest"),
        "error",
        "What happens where no record is as young as the timestamp.",
    ),
    _ending("endingTimestamp", _TIMESTAMP, "End at this time (ms) in all partitions."),
    _ending("endingOffsetsByTimestamp", text, "As endingTimestamp, by partition."),
    _ending("endingOffsets", text, 'latest or {"orders":{"0":50,"1":-1}}.'),
    # How much at a time
    _streaming("maxOffsetsPerTrigger", whole_number(1), None, "Most offsets of a micro-batch."),
    _streaming("minOffsetsPerTrigger", whole_number(1), None, "Wait for so many offsets."),
    _streaming("maxTriggerDelay", duration_ms, 900_000, "How long minOffsetsPerTrigger waits."),
    _reading(
        "minPartitions", whole_number(1), None, "Split partitions until there are so many tasks."
    ),
    _reading("maxRecordsPerPartition", whole_number(1), None, "Most offsets of a task."),
    # How it is read
    _reading("failOnDataLoss", flag, True, "Whether records that are gone fail the query."),
    _reading("kafkaConsumer.pollTimeoutMs", whole_number(1), 120_000, "How long a task waits."),
    _reading(
        "fetchOffset.numRetries",
        whole_number(1),
        3,
        "How often offsets are asked for; after a timeout, by streaming queries that have reached the cluster.",
    ),
    _reading("fetchOffset.retryIntervalMs", whole_number(0), 1000, "The pause in between."),
    _reading("groupIdPrefix", text, "spark-kafka-source", "How names of consumers begin."),
    _reading("includeHeaders", flag, False, "Whether there is a column `headers`."),
    # What is written
    SparkOption("topic", WRITES, text, None, "Where rows are written, whatever their column says."),
    SparkOption(
        "checkpointLocation", (Use.STREAM_WRITE,), text, None, "Where Spark keeps progress."
    ),
    SparkOption("queryName", (Use.STREAM_WRITE,), text, None, "How Spark calls the query."),
    # Ours
    SparkOption(
        "pipeline",
        STREAMS,
        text,
        None,
        "The stable name of an exactly-once pipeline: its group, and with a prefix its transactional id.",
        of_spark=False,
    ),
    SparkOption(
        "minRecordsPerPartition",
        READS,
        whole_number(1),
        None,
        "Partitions with fewer offsets to read share tasks that have so many; minPartitions then splits into none that "
        "have fewer. Without it, each partition has a task.",
        of_spark=False,
    ),
    SparkOption(
        "commitOffsets",
        (Use.STREAM_READ,),
        flag,
        False,
        "Whether the source commits its offsets in kafka.group.id, for tools that show the lag. Only "
        "where the sink is not ours: ours commits them itself, in the transaction.",
        of_spark=False,
    ),
    SparkOption(
        "delivery",
        WRITES,
        choice("exactly-once", "at-least-once"),
        None,
        "Whether each micro-batch (default exactly-once) or a whole batch query (default at-least-once) is a "
        "transaction, or may be written again after a failure.",
        of_spark=False,
    ),
    SparkOption(
        "markerTopic",
        (Use.STREAM_WRITE,),
        text,
        None,
        "The topic under which an exactly-once sink keeps its progress; without it, that of the option topic.",
        of_spark=False,
    ),
    SparkOption(
        "pinnedTopics",
        WRITES,
        names,
        None,
        "Topics that the column topic may name: the tasks of one micro-batch agree on how many partitions these have, "
        "even while partitions are added.",
        of_spark=False,
    ),
    SparkOption(
        "failOnUnknownProgress",
        (Use.STREAM_WRITE,),
        flag,
        True,
        "Whether the query fails where nobody knows if a micro-batch was committed, after seven idle days say.",
        of_spark=False,
    ),
    SparkOption(
        "commitSourceOffsets",
        (Use.STREAM_WRITE,),
        flag,
        True,
        "Whether the offsets of an ottla source are committed with the output; it needs the checkpoint.",
        of_spark=False,
    ),
    SparkOption(
        "checkpointStorageOptions",
        (Use.STREAM_WRITE,),
        text,
        None,
        "What opens the checkpoint's store from Python, as JSON: endpoint_override, access_key and so on.",
        of_spark=False,
    ),
)

BY_KEY: Final[Mapping[str, SparkOption]] = MappingProxyType({each.key: each for each in OPTIONS})

_BYTES = "keys and values are bytes: use functions of DataFrames"
_GROUPLESS = "the source takes part in no group, Spark keeps its offsets: remove it"

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
        "interceptor.classes": "interceptors could change records: use functions of DataFrames",
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
        "interceptor.classes": "interceptors could change records: use functions of DataFrames",
        "transactional.id": "use pipeline, the stable name from which it follows",
        "linger.ms": "tasks make whole batches and nothing waits: remove it",
        **dict.fromkeys(
            (
                "partitioner.class",
                "partitioner.ignore.keys",
                "partitioner.adaptive.partitioning.enable",
                "partitioner.availability.timeout.ms",
            ),
            "keys decide as in Kafka's default partitioner: use a column partition for anything else",
        ),
    }
)
# Names that people may try, with what to do instead; one that ends with a dot stands for all that begin so.
REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "path": "remove it: what is read and written is named by subscribe and topic",
        "spark.": "it is a setting of the session, and of Spark's own connector: remove it",
    }
)


def check_names(given: Mapping[str, str], *uses: Use) -> None:
    """Refuse options that do not exist or have no meaning for any of these uses."""
    for name in given:
        if not any(means_something(name, use) for use in uses):
            raise ConfigError(_refusal(name, name.lower(), uses))


def means_something(name: str, use: Use) -> bool:
    """Whether there is an option of this name; what begins with kafka. is looked at elsewhere."""
    key = name.lower()
    return key.startswith(KAFKA_PREFIX) or (key in BY_KEY and use in BY_KEY[key].uses)


def _refusal(name: str, key: str, uses: Sequence[Use]) -> str:
    if key in BY_KEY:
        wanted = _any_of(BY_KEY[key].uses)
        return f"{BY_KEY[key].name} is for {wanted}, and this is {_any_of(uses)}: remove it"
    for refused, hint in REFUSED.items():
        if key == refused or (refused.endswith(".") and key.startswith(refused)):
            return f"{name} is not an option of format('ottla'): {hint}"
    served = [option.name for option in OPTIONS if set(uses) & set(option.uses)]
    kafka = [KAFKA_PREFIX + known for use in uses for known in options_of(_client_of(use))]
    lower = {option.lower(): option for option in (*served, *kafka)}
    nearest = difflib.get_close_matches(key, lower, n=1, cutoff=0.6)
    advice = f"did you mean {lower[nearest[0]]}?" if nearest else "remove it or check its spelling"
    return f"{name!r} is not an option of format('ottla'): {advice}"


def _any_of(uses: Iterable[Use]) -> str:
    return " or ".join(use.value for use in uses)


def values(given: Mapping[str, str], use: Use) -> dict[str, Any]:
    """The values of all options that mean something for this use, by their names as documents write them."""
    check_names(given, use)
    texts = {name.lower(): value for name, value in given.items()}
    found: dict[str, Any] = {}
    for option in OPTIONS:
        if use not in option.uses:
            continue
        if option.key not in texts:
            found[option.name] = option.default
            continue
        try:
            found[option.name] = option.read(texts[option.key])
        except ValueError as error:
            raise ConfigError(
                f"{option.name}={texts[option.key]!r} is not valid: it must be {error}"
            ) from None
    return found


def _client_of(use: Use) -> type[ClientConfig]:
    return ConsumerConfig if use in READS else ProducerConfig


# Buffers of sockets that grow as needed: with Kafka's 64 and 128 KB, who sends and who receives megabytes wait for
# each other again and again.
_GROWING_BUFFERS: Final = {"receive.buffer.bytes": "-1", "send.buffer.bytes": "-1"}


def kafka_options(given: Mapping[str, str], use: Use) -> dict[str, str]:
    """The options of Kafka's clients, without their prefix; each exists and may be set."""
    refused = REFUSED_READING if use in READS else REFUSED_WRITING
    found = dict(_GROWING_BUFFERS)
    for name, value in given.items():
        key = name.lower()
        if not key.startswith(KAFKA_PREFIX):
            continue
        bare = key.removeprefix(KAFKA_PREFIX)
        if bare in refused:
            raise ConfigError(f"{key} cannot be set: {refused[bare]}")
        found[bare] = value
    if "bootstrap.servers" not in found:
        raise ConfigError(
            "kafka.bootstrap.servers is missing: give the HOST:PORT of a broker or more"
        )
    try:
        _client_of(use).read(found)
    except ConfigError as error:
        raise ConfigError(f"An option that begins with {KAFKA_PREFIX}: {error}") from error
    return found


def shared_options(kafka: Mapping[str, str], use: Use) -> dict[str, str]:
    """Of options of several clients, without prefix, those that are not just for another one than this use's."""
    mine = options_of(_client_of(use))
    known = {*options_of(ConsumerConfig), *options_of(ProducerConfig)}
    for name in kafka:
        nearest = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.8)
        if nearest and name.lower() not in known:
            raise ConfigError(
                f"{name!r} is not an option of Kafka's clients: did you mean {nearest[0]}?"
            )
    # What nobody knows is for the client to refuse, which may have more to say.
    return {
        name: value
        for name, value in kafka.items()
        if name.lower() in mine or name.lower() not in known
    }


def admin_options(kafka: Mapping[str, str]) -> dict[str, str]:
    """Those options of a consumer or producer that an admin client has too."""
    known = options_of(AdminConfig)
    return {name: value for name, value in kafka.items() if name in known}


def producer_options(kafka: Mapping[str, str]) -> dict[str, str]:
    """Those options of a consumer that a producer has too."""
    known = options_of(ProducerConfig)
    return {name: value for name, value in kafka.items() if name in known}
