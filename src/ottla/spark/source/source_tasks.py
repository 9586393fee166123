"""The columns of the source, and its tasks: the ranges of offsets that each reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.errors import ConfigError
from ottla.model import TopicPartition
from ottla.records.arrow import SCHEMA, SCHEMA_WITHOUT_HEADERS
from ottla.spark.runtime.daemon import freeze_loaded_modules
from ottla.spark.source.offset_ranges import OffsetRange, ranges_by_task
from ottla.spark.source.range_reader import read_ranges
from ottla.spark.source.source_options import SourceOptions, includes_headers

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_COLUMNS: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)


def source_schema(given: Mapping[str, str]) -> StructType:
    """The columns of Spark's own Kafka source."""
    if includes_headers(given):
        return StructType([*_COLUMNS.fields, StructField("headers", ArrayType(_HEADER))])
    return _COLUMNS


def check_schema(given: Mapping[str, str], schema: StructType) -> None:
    if schema != source_schema(given):
        raise ConfigError(
            "The source has fixed columns: remove schema(…), and use DataFrame functions"
        )


class RangePartition(InputPartition):
    """The ranges that one task reads."""

    def __init__(self, wanted: Sequence[OffsetRange], topic_ids: Mapping[str, str]) -> None:
        # Plain tuples are small: Spark pickles them for each task.
        ranges = tuple((*each.partition, *each[1:]) for each in wanted)
        topics = dict.fromkeys(each.partition.topic for each in wanted)
        super().__init__((ranges, {name: topic_ids[name] for name in topics if name in topic_ids}))

    @property
    def wanted(self) -> list[OffsetRange]:
        """Ranges of offsets, at most one of each partition."""
        return [
            OffsetRange(TopicPartition(topic, number), start_offset, end_offset)
            for topic, number, start_offset, end_offset in self.value[0]
        ]

    @property
    def topic_ids(self) -> dict[str, str]:
        """The ids of the planned topics, where brokers have ids."""
        found: dict[str, str] = self.value[1]
        return found


def plan_tasks(
    ranges: list[OffsetRange], topic_ids: Mapping[str, str], options: SourceOptions
) -> list[InputPartition]:
    return [RangePartition(each, topic_ids) for each in ranges_by_task(ranges, options.task_sizes)]


def read_task(partition: InputPartition, options: SourceOptions) -> Iterator[Any]:
    # Without partitions to read, Spark makes one of its own.
    if isinstance(partition, RangePartition):
        schema = SCHEMA if options.include_headers else SCHEMA_WITHOUT_HEADERS
        yield from read_ranges(partition.wanted, partition.topic_ids, options, schema)
    freeze_loaded_modules()
