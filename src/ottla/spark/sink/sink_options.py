"""The settings of a sink, read from its options, and the columns that it accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    NullType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ottla.config.admin import AdminConfig
from ottla.config.producer import ProducerConfig
from ottla.errors import ConfigError
from ottla.records.compression import Codec
from ottla.spark.given_options import kafka_options, options_for, values
from ottla.spark.options import Use
from ottla.spark.sink.checkpoint_files import read_storage_options

EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"
MAX_BATCH_BYTES: Final = 1024 * 1024
# Spark lowers the names of options before they get here.
_ASYNC_PROGRESS: Final = "asyncProgressTracking"


@dataclass(frozen=True)
class SinkSettings:
    """The settings of one query's sink; pickled for the tasks."""

    # These may contain passwords.
    kafka: Mapping[str, str] = field(repr=False)
    topic: str | None
    delivery: str
    pipeline: str | None = None
    marker_topic: str | None = None
    location: str | None = None
    query_name: str | None = None
    storage: Mapping[str, Any] = field(default_factory=dict, repr=False)
    commits_source_offsets: bool = True
    fails_on_unknown: bool = True
    pinned_topics: tuple[str, ...] = ()
    """Further topics that rows may name, for which all tasks use the same partition counts."""

    @property
    def admin(self) -> dict[str, str]:
        """The options of an admin client."""
        return options_for(AdminConfig, self.kafka)

    @property
    def config(self) -> ProducerConfig:
        """The parsed options of the producer."""
        return ProducerConfig.read(dict(self.kafka))

    @property
    def codec(self) -> Codec:
        """The codec with which tasks compress."""
        return Codec[self.config.compression_type.upper()]

    @property
    def level(self) -> int | None:
        """The compression level; None for the codec's default."""
        config = self.config
        levels = {
            Codec.GZIP: config.compression_gzip_level,
            Codec.LZ4: config.compression_lz4_level,
            Codec.ZSTD: config.compression_zstd_level,
        }
        return levels.get(self.codec)

    @property
    def batch_size_bytes(self) -> int:
        """The maximum size of a task's record batches: batch.size if given, otherwise large: tasks do not linger."""
        config = self.config
        most = config.batch_size if "batch.size" in self.kafka else MAX_BATCH_BYTES
        return max(1, min(most, config.max_request_size))


def read_stream_settings(given: Mapping[str, str], schema: StructType) -> SinkSettings:
    """The settings of a streaming sink that gets these columns."""
    settings = _stream_settings(given)
    check_columns(schema, settings.topic)
    _check_delivery(settings)
    return settings


def stream_settings(given: Mapping[str, str]) -> SinkSettings:
    """The settings of a streaming sink whose columns are not known yet."""
    settings = _stream_settings(given)
    _check_delivery(settings)
    return settings


def _stream_settings(given: Mapping[str, str]) -> SinkSettings:
    _refuse_async_progress(given)
    found = values(given, Use.STREAM_WRITE)
    return SinkSettings(
        kafka_options(given, Use.STREAM_WRITE),
        found["topic"],
        found["delivery"] or EXACTLY_ONCE,
        found["pipeline"],
        found["markerTopic"] or found["topic"],
        found["checkpointLocation"],
        found["queryName"],
        read_storage_options(found["checkpointStorageOptions"]),
        found["commitSourceOffsets"],
        found["failOnUnknownProgress"],
        found["pinnedTopics"] or (),
    )


def _check_delivery(settings: SinkSettings) -> None:
    _check_acks(settings)
    if settings.delivery == EXACTLY_ONCE and settings.marker_topic is None:
        raise ConfigError(
            "markerTopic is missing: where rows name their topics, an exactly-once sink needs one topic of the "
            "cluster, always the same, under which it keeps its progress; or set topic, or delivery=at-least-once"
        )


def read_batch_settings(
    given: Mapping[str, str], schema: StructType, overwrite: bool
) -> SinkSettings:
    """The settings of a batch sink."""
    if overwrite:
        raise ConfigError("a topic cannot be overwritten: use mode('append')")
    found = values(given, Use.BATCH_WRITE)
    settings = SinkSettings(
        kafka_options(given, Use.BATCH_WRITE),
        found["topic"],
        # A batch may be larger than the driver's memory, which has to hold it for exactly-once.
        found["delivery"] or AT_LEAST_ONCE,
        pinned_topics=found["pinnedTopics"] or (),
    )
    check_columns(schema, settings.topic)
    _check_acks(settings)
    return settings


def _refuse_async_progress(given: Mapping[str, str]) -> None:
    for name, value in given.items():
        key = name.lower()
        if key.startswith(_ASYNC_PROGRESS.lower()) and value.strip().lower() != "false":
            raise ConfigError(
                f"{_ASYNC_PROGRESS}… is refused: with it Spark starts a micro-batch before it has recorded the "
                "previous one as done, and would repeat several after a failure; remove it"
            )


def _check_acks(settings: SinkSettings) -> None:
    if settings.delivery == EXACTLY_ONCE:
        # Conflicting options are refused now, not by the first commit.
        ProducerConfig.read({**settings.kafka, "transactional.id": "check"})


def _is_bytes(kind: DataType) -> bool:
    return isinstance(kind, StringType | BinaryType | NullType)


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    entry = kind.elementType
    return (
        entry.fieldNames() == ["key", "value"]
        and isinstance(entry["key"].dataType, StringType)
        and isinstance(entry["value"].dataType, BinaryType | StringType)
    )


_COLUMNS: Final[Mapping[str, tuple[Callable[[DataType], bool], str]]] = {
    "key": (_is_bytes, "string or binary"),
    "value": (_is_bytes, "string or binary"),
    "headers": (_is_headers, "array<struct<key:string,value:binary>>"),
    "topic": (lambda kind: isinstance(kind, StringType), "string"),
    "partition": (lambda kind: isinstance(kind, IntegerType | LongType), "int"),
    "timestamp": (
        lambda kind: isinstance(kind, TimestampType | TimestampNTZType | LongType),
        "timestamp, or bigint in milliseconds",
    ),
}


def check_columns(schema: StructType, topic: str | None) -> None:
    """Refuse columns that cannot be written."""
    names = schema.fieldNames()
    if "value" not in names:
        raise ConfigError(f"the sink needs a column 'value', and there are only {names}")
    if topic is None and "topic" not in names:
        raise ConfigError("the sink needs the option topic, or a column 'topic'")
    if unknown := [name for name in names if name not in _COLUMNS]:
        raise ConfigError(
            f"the sink does not write the columns {unknown}: drop them; it writes {', '.join(_COLUMNS)}"
        )
    for name in names:
        fits, wanted = _COLUMNS[name]
        if not fits(schema[name].dataType):
            raise ConfigError(
                f"column {name!r} has to be {wanted}, not {schema[name].dataType.simpleString()}"
            )
